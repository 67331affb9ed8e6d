use super::*;

/// Base 10,000 (5.4), window-only layers.
const PLAIN: [f32; 32] = [
    1.0,
    0.7498942,
    0.56234133,
    0.4216965,
    0.31622776,
    0.23713739,
    0.17782794,
    0.13335215,
    0.1,
    0.074989416,
    0.05623413,
    0.04216965,
    0.03162278,
    0.023713736,
    0.017782794,
    0.013335215,
    0.01,
    0.0074989423,
    0.0056234132,
    0.004216965,
    0.0031622779,
    0.0023713738,
    0.0017782794,
    0.0013335214,
    0.001,
    7.498942e-4,
    5.623413e-4,
    4.2169655e-4,
    3.162278e-4,
    2.3713738e-4,
    1.7782794e-4,
    1.3335215e-4,
];

/// Base 160,000 (5.4) before YaRN.
const COMPRESSED_BASE: [f32; 32] = [
    1.0,
    0.68765604,
    0.4728708,
    0.32517242,
    0.2236068,
    0.15376456,
    0.105737135,
    0.072710775,
    0.05,
    0.0343828,
    0.023643538,
    0.016258623,
    0.01118034,
    0.007688228,
    0.005286856,
    0.0036355385,
    0.0025,
    0.0017191401,
    0.001182177,
    8.1293116e-4,
    5.59017e-4,
    3.844114e-4,
    2.6434282e-4,
    1.8177692e-4,
    1.25e-4,
    8.5957e-5,
    5.9108854e-5,
    4.0646555e-5,
    2.7950848e-5,
    1.922057e-5,
    1.3217141e-5,
    9.088847e-6,
];

/// Base 160,000 with YaRN, as the layers with a compression ratio use it (5.4).
const COMPRESSED: [f32; 32] = [
    1.0,
    0.68765604,
    0.4728708,
    0.32517242,
    0.2236068,
    0.15376456,
    0.105737135,
    0.072710775,
    0.05,
    0.0343828,
    0.023643538,
    0.016258623,
    0.01118034,
    0.007688228,
    0.005286856,
    0.0036355385,
    0.002265625,
    0.0013968013,
    8.496897e-4,
    5.08082e-4,
    2.9697779e-4,
    1.6817998e-4,
    9.086784e-5,
    4.5444227e-5,
    1.9531253e-5,
    5.3723124e-6,
    3.6943034e-6,
    2.5404097e-6,
    1.746928e-6,
    1.2012856e-6,
    8.260713e-7,
    5.6805294e-7,
];

/// Base 10,000, one axis of a vision head of 64 (1.5).
const VISION: [f32; 16] = [
    1.0,
    0.56234133,
    0.31622776,
    0.17782794,
    0.1,
    0.05623413,
    0.03162278,
    0.017782794,
    0.01,
    0.0056234132,
    0.0031622779,
    0.0017782794,
    1e-3,
    5.623413e-4,
    3.162278e-4,
    1.7782794e-4,
];

/// Largest distance in units of the last place. The printed tables come from an f32 power function that is itself off by up to one unit; the
/// reciprocal doubles that where it falls just above a power of two. Hence two, and not zero.
fn ulps(actual: &[f32], expected: &[f32]) -> u32 {
    assert_eq!(actual.len(), expected.len());
    actual.iter().zip(expected).map(|(a, e)| a.to_bits().abs_diff(e.to_bits())).max().unwrap_or(0)
}

#[test]
fn plain_tables() {
    assert!(ulps(Rope::plain(64, 10_000.0).frequencies(), &PLAIN) <= 2);
    assert!(ulps(Rope::plain(64, 160_000.0).frequencies(), &COMPRESSED_BASE) <= 2);
}

#[test]
fn yarn_table() {
    let rope = Rope::yarn(64, 160_000.0, 16.0, 65_536, 32.0, 1.0);
    assert!(ulps(rope.frequencies(), &COMPRESSED) <= 2);
}

#[test]
fn vision_table() {
    assert_eq!(vision_frequencies(64, 10_000.0), VISION);
}

/// The tiny model (E.1): 16 dims, base 40,000, original length 32. The ramp runs from pair 0 to pair 2.
#[test]
fn yarn_of_a_short_context() {
    let base = Rope::plain(16, 40_000.0);
    let rope = Rope::yarn(16, 40_000.0, 4.0, 32, 32.0, 1.0);
    let (base, used) = (base.frequencies(), rope.frequencies());
    assert_eq!(used[0], base[0]);
    assert_eq!(used[1], base[1] / 4.0 * 0.5 + base[1] * 0.5);
    for i in 2..8 {
        assert_eq!(used[i], base[i] / 4.0);
    }
}

/// With one and the same beta the ramp has no length: a step, and no division by zero.
#[test]
fn yarn_without_a_ramp() {
    // pair_of(beta) = 64 ln(65536 / (2 pi beta)) / (2 ln 160000) is exactly 16 for this beta, up to rounding.
    let beta = 65_536.0 / TAU / 160_000f64.powf(0.5);
    let rope = Rope::yarn(64, 160_000.0, 16.0, 65_536, beta, beta);
    assert!(rope.frequencies().iter().all(|f| f.is_finite() && *f > 0.0));
    assert_eq!(rope.frequencies()[15], Rope::plain(64, 160_000.0).frequencies()[15]);
    assert_eq!(rope.frequencies()[18], Rope::plain(64, 160_000.0).frequencies()[18] / 16.0);
}

/// The angle is rounded to f32 before cosine and sine, which shows at large positions.
#[test]
fn angles_are_f32_products() {
    let rope = Rope::plain(64, 10_000.0);
    let angles = rope.angles(1_000_003);
    let angle = 1_000_003f32 * rope.frequencies()[3];
    assert_eq!(angles[3], (f64::from(angle).cos() as f32, f64::from(angle).sin() as f32));
    let unrounded = 1_000_003.0 * f64::from(rope.frequencies()[3]);
    assert!((f64::from(angles[3].0) - unrounded.cos()).abs() > 1e-4);
    assert_eq!(rope.angles(0), vec![(1.0, 0.0); 32]);
}

#[test]
fn rotation_of_adjacent_pairs() {
    let quarter_and_none = [(0.0, 1.0), (1.0, 0.0)];
    let mut x = [1.0, 2.0, 3.0, 4.0];
    rotate(&mut x, &quarter_and_none);
    assert_eq!(x, [-2.0, 1.0, 3.0, 4.0]);
    rotate_back(&mut x, &quarter_and_none);
    assert_eq!(x, [1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn back_undoes_forth() {
    let angles = Rope::yarn(64, 160_000.0, 16.0, 65_536, 32.0, 1.0).angles(12_345);
    let original: Vec<f32> = (0..64).map(|i| (i as f32 * 0.7).sin()).collect();
    let mut x = original.clone();
    rotate(&mut x, &angles);
    assert!(x.iter().zip(&original).any(|(a, b)| (a - b).abs() > 0.1));
    rotate_back(&mut x, &angles);
    assert!(x.iter().zip(&original).all(|(a, b)| (a - b).abs() < 1e-6));
}
