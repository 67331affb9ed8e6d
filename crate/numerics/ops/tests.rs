use super::*;
use proptest::prelude::*;

/// Distance relative to the expected value.
fn close(actual: f32, expected: f64) -> bool {
    (f64::from(actual) - expected).abs() <= 1e-7 * expected.abs()
}

#[test]
fn rms_norm_of_a_row() {
    let mut out = [0.0; 4];
    rms_norm(&[1.0, -1.0, 3.0, -5.0], &[1.0, 2.0, 1.0, 0.5], 1e-20, &mut out);
    for (value, expected) in out.into_iter().zip([1.0 / 3.0, -2.0 / 3.0, 1.0, -5.0 / 6.0]) {
        assert!(close(value, expected), "{value} instead of {expected}");
    }
}

#[test]
fn rms_norm_epsilon_counts() {
    let mut out = [0.0; 2];
    rms_norm(&[1e-10, -1e-10], &[1.0, 1.0], 1e-20, &mut out);
    assert!(close(out[0], 0.5f64.sqrt()) && close(out[1], -(0.5f64.sqrt())), "{out:?}");
    rms_norm(&[0.0, 0.0], &[1.0, 1.0], 1e-20, &mut out);
    assert_eq!(out, [0.0, 0.0]);
}

/// Reference values to 15 digits from an independent implementation.
#[test]
fn activations() {
    for (x, expected) in [(0.0, 0.5), (1.0, 0.731_058_578_630_005), (-20.0, 2.061_153_618_190_204e-9)] {
        assert!(close(sigmoid(x), expected), "sigmoid({x})");
    }
    for (x, expected) in [(0.0, 0.0), (1.0, 0.731_058_578_630_005), (-20.0, -4.122_307_236_380_407e-8)] {
        assert!(close(silu(x), expected), "silu({x})");
    }
    for (x, expected) in
        [(0.0, std::f64::consts::LN_2), (1.0, 1.313_261_687_518_223), (-20.0, 2.061_153_620_314_381e-9), (21.0, 21.0)]
    {
        assert!(close(softplus(x), expected), "softplus({x})");
    }
    for (x, expected) in
        [(0.0, 0.0), (1.0, 0.841_344_746_068_543), (-1.0, -0.158_655_253_931_457), (-5.0, -1.433_257_859_399_6e-6)]
    {
        assert!(close(gelu(x), expected), "gelu({x})");
    }
}

#[test]
fn activations_far_out() {
    assert_eq!([sigmoid(-1e4), sigmoid(1e4)], [0.0, 1.0]);
    assert_eq!([silu(-1e4), silu(1e4)], [0.0, 1e4]);
    assert_eq!([softplus(-1e4), softplus(1e4)], [0.0, 1e4]);
    assert_eq!([gelu(-1e4), gelu(1e4)], [0.0, 1e4]);
}

#[test]
fn softmax_masks_and_survives_large_scores() {
    let mut x = [1000.0, 1000.0 + std::f32::consts::LN_2, f32::NEG_INFINITY];
    softmax(&mut x);
    assert!((x[0] - 1.0 / 3.0).abs() < 1e-5 && (x[1] - 2.0 / 3.0).abs() < 1e-5);
    assert_eq!(x[2], 0.0);
    let mut masked = [f32::NEG_INFINITY; 3];
    softmax(&mut masked);
    assert_eq!(masked, [0.0; 3]);
}

#[test]
fn argmax_takes_the_first() {
    assert_eq!(argmax(&[1.0, 3.0, 3.0, 2.0]), 1);
    assert_eq!(argmax(&[f32::NAN, -1.0, f32::NAN]), 1);
    assert_eq!(argmax(&[]), 0);
}

#[test]
fn top_k_order_and_ties() {
    assert_eq!(top_k(&[0.5, 2.0, 2.0, -1.0, 2.0], 3), [1, 2, 4]);
    assert_eq!(top_k(&[0.0, -0.0, 0.0], 2), [0, 1], "both zeros are one score");
    assert_eq!(top_k(&[f32::NEG_INFINITY, 1.0, f32::NAN], 3), [1]);
    assert_eq!(top_k(&[1.0, 2.0], 0), [0usize; 0]);
    assert_eq!(top_k(&[], 4), [0usize; 0]);
}

#[test]
fn nmse_values() {
    assert_eq!(nmse(&[1.0, 2.0], &[1.0, 2.0]), 0.0);
    assert_eq!(nmse(&[3.0, 5.0], &[3.0, 4.0]), 0.04);
    assert_eq!(nmse(&[1.0], &[0.0]), f64::INFINITY);
    assert_eq!(nmse(&[1.0], &[1.0, 2.0]), f64::INFINITY);
    assert!(nmse(&[f32::NAN], &[1.0]).is_nan());
}

proptest! {
    #[test]
    fn top_k_is_the_front_of_a_stable_sort(scores in prop::collection::vec(-4i8..4, 0..300), k in 0usize..300) {
        let scores: Vec<f32> = scores.into_iter().map(f32::from).collect();
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
        order.truncate(k);
        prop_assert_eq!(top_k(&scores, k), order);
    }
}
