use super::*;
use crate::numerics::bf16;
use proptest::prelude::*;

/// 0.1, -0.2, 0.3 .. -1.6 in bf16, then zeros: the worked row of N.4 and N.5.
fn worked_row(len: usize) -> Vec<f32> {
    let mut x = vec![0.0; len];
    for (i, value) in x.iter_mut().take(16).enumerate() {
        let magnitude = (i + 1) as f32 / 10.0;
        *value = bf16::round(if i % 2 == 0 { magnitude } else { -magnitude });
    }
    x
}

#[test]
fn fp8_worked_group() {
    let mut x = [0.0; FP8_GROUP];
    x[..7].copy_from_slice(&[0.5, -1.0, 3.0, -7.0, 0.001, 100.0, -0.3]);
    bf16::round_all(&mut x);
    let (mut codes, mut scales) = ([0; 32], [0; 1]);
    quantise_fp8(&x, &mut codes, &mut scales);
    assert_eq!(scales, [0x7D]);
    assert_eq!(codes[..7], [0x40, 0xC8, 0x54, 0xDE, 0x02, 0x7C, 0xBA]);
    assert_eq!(codes[7..], [0; 25]);
    fake_fp8(&mut x);
    assert_eq!(x[..7], [0.5, -1.0, 3.0, -7.0, 0.000_976_562_5, 96.0, -0.3125]);
}

#[test]
fn kv4_scale_table() {
    for (amax, byte, scale) in [
        (6.0, 0x38, 1.0),
        (3.0, 0x30, 0.5),
        (2688.0, 0x7E, 448.0),
        (3000.0, 0x7E, 448.0),
        (1.0, 0x23, 0.171_875),
        (0.01, 0x01, 0.001_953_125),
        (0.0, 0x01, 0.001_953_125f32),
    ] {
        let mut x = [0.0; KV4_GROUP];
        x[5] = amax;
        let (mut codes, mut scales) = ([0; 8], [0; 1]);
        quantise_kv4(&x, &mut codes, &mut scales);
        assert_eq!(scales, [byte], "largest magnitude {amax}");
        assert_eq!(e4m3::decode(byte), scale);
        if amax >= 2688.0 {
            assert_eq!(codes[2], 0x70, "clamped to code 7 in the odd nibble");
        }
    }
}

#[test]
fn kv4_worked_group() {
    let mut x = worked_row(KV4_GROUP);
    let (mut codes, mut scales) = ([0; 8], [0; 1]);
    quantise_kv4(&x, &mut codes, &mut scales);
    assert_eq!(scales, [0x29]);
    assert_eq!(codes, [0x91, 0xb2, 0xc4, 0xd4, 0xe5, 0xe6, 0xe6, 0xf7]);
    fake_kv4(&mut x);
    let expected = [
        0.140625, -0.140625, 0.28125, -0.421875, 0.5625, -0.5625, 0.5625, -0.84375, 0.84375, -1.125, 1.125, -1.125,
        1.125, -1.125, 1.6875, -1.6875,
    ];
    assert_eq!(x, expected);
}

#[test]
fn idx4_worked_group() {
    let mut x = worked_row(IDX4_GROUP);
    let (mut codes, mut scales) = ([0; 16], [0; 1]);
    quantise_idx4(&x, &mut codes, &mut scales);
    assert_eq!(scales, [0x7E]);
    assert_eq!(codes[..8], [0x90, 0xa1, 0xa2, 0xb3, 0xc4, 0xc4, 0xd5, 0xd5]);
    assert_eq!(codes[8..], [0; 8]);
    fake_idx4(&mut x);
    let expected = [0.0, -0.25, 0.25, -0.5, 0.5, -0.5, 0.75, -0.75, 1.0, -1.0, 1.0, -1.0, 1.5, -1.5, 1.5, -1.5];
    assert_eq!(x[..16], expected);
    assert_eq!(x[16..], [0.0; 16]);
}

#[test]
fn a_group_of_zeros() {
    let mut scales = [0; 1];
    quantise_fp8(&[0.0; 32], &mut [0; 32], &mut scales);
    assert_eq!(scales, [0x69]);
    quantise_idx4(&[0.0; 32], &mut [0; 16], &mut scales);
    assert_eq!(scales, [0x01]);
}

#[test]
#[should_panic(expected = "code bytes of a row")]
fn wrong_lengths_are_refused() {
    quantise_kv4(&[0.0; 16], &mut [0; 16], &mut [0; 1]);
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|value| value.to_bits()).collect()
}

/// Rows of 64 whose magnitudes span many powers of two.
fn rows() -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec((-1f32..1.0, -20i32..10), 64)
        .prop_map(|row| row.into_iter().map(|(x, e)| bf16::round(x * 2f32.powi(e))).collect())
}

/// A quantiser under test: code bytes and scale bytes of a row of 64, its three functions.
struct Quantiser {
    codes: usize,
    scales: usize,
    quantise: fn(&[f32], &mut [u8], &mut [u8]),
    dequantise: fn(&[u8], &[u8], &mut [f32]),
    fake: fn(&mut [f32]),
}

const ALL: [Quantiser; 3] = [
    Quantiser { codes: 64, scales: 2, quantise: quantise_fp8, dequantise: dequantise_fp8, fake: fake_fp8 },
    Quantiser { codes: 32, scales: 4, quantise: quantise_kv4, dequantise: dequantise_kv4, fake: fake_kv4 },
    Quantiser { codes: 32, scales: 2, quantise: quantise_idx4, dequantise: dequantise_idx4, fake: fake_idx4 },
];

proptest! {
    #[test]
    fn fake_is_quantise_then_dequantise(x in rows()) {
        for Quantiser { codes, scales, quantise, dequantise, fake } in ALL {
            let (mut codes, mut scales, mut there_and_back) = (vec![0; codes], vec![0; scales], vec![0.0; 64]);
            quantise(&x, &mut codes, &mut scales);
            dequantise(&codes, &scales, &mut there_and_back);
            let mut faked = x.clone();
            fake(&mut faked);
            prop_assert_eq!(bits(&faked), bits(&there_and_back));
            let mut rounded = faked.clone();
            bf16::round_all(&mut rounded);
            prop_assert_eq!(bits(&rounded), bits(&faked), "dequantised values are bf16 already");
        }
    }

    /// With a power-of-two scale the values of a second pass are those of the first: the scale can only shrink, and then exactly.
    #[test]
    fn power_of_two_scales_are_idempotent(x in rows()) {
        for fake in [fake_fp8, fake_idx4] {
            let mut once = x.clone();
            fake(&mut once);
            let mut twice = once.clone();
            fake(&mut twice);
            prop_assert_eq!(bits(&twice), bits(&once));
        }
    }

    /// Where the largest element of a `kv4` group has code 7 its scale is found again, and with it every code.
    #[test]
    fn kv4_codes_survive_where_the_largest_is_seven(mut codes in prop::collection::vec(0u8..=255, 8), scale in 1u8..=0x7E) {
        codes[3] |= 0x07;
        let mut x = [0.0; 16];
        dequantise_kv4(&codes, &[scale], &mut x);
        let (mut codes_again, mut scale_again) = (vec![0; 8], [0]);
        quantise_kv4(&x, &mut codes_again, &mut scale_again);
        prop_assert_eq!(scale_again, [scale]);
        prop_assert_eq!(codes_again, codes);
    }
}
