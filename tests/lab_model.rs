//! The lab model is the checkpoint that everyone meets first. It must be well conditioned, so that two correct engines agree on it to the end,
//! and every block must matter, so that an engine that leaves one out does not.

use flash890::blocks::b1a_input::Prompt;
use flash890::blocks::tap::Silent;
use flash890::model::{Prefill, Reference};
use flash890::numerics::hash::Stream;
use flash890::numerics::linear::Matrix;
use flash890::numerics::ops::{argmax, nmse};
use flash890::numerics::precision::Precision;
use flash890::weights::tiny;
use pollster::block_on;
use std::sync::{Arc, LazyLock};

const TOKENS: usize = 60;

/// The lab model with f32 caches.
static LAB: LazyLock<Reference> = LazyLock::new(|| {
    let checkpoint = Arc::new(block_on(tiny::lab()).unwrap());
    block_on(Reference::load(checkpoint, Precision::F32, Precision::F32, &mut |_, _, _| {})).unwrap()
});

/// Logits of every position `[TOKENS][vocab]`.
fn logits(model: &Reference) -> Vec<Vec<f32>> {
    let (stream, vocab) = (Stream::new("lab prompt"), model.config().vocab_size);
    let prompt = Prompt::text((0..TOKENS as u64).map(|i| (stream.at(i) % vocab as u64) as u32).collect());
    let how = Prefill { all_logits: true, ..Prefill::default() };
    let output = block_on(model.prefill(&mut model.state(), &prompt, how, &mut Silent)).unwrap();
    output.logits.chunks_exact(vocab).map(<[f32]>::to_vec).collect()
}

/// The model with embedding rows off by a relative 1e-6 at most: larger than what sums in another order do.
fn perturbed(model: &Reference) -> Reference {
    let mut model = model.clone();
    let stream = Stream::new("perturbation");
    let mut rows = model.input.embed.to_f32();
    rows.iter_mut().zip(0..).for_each(|(v, i)| *v *= 1.0 + 1e-6 * stream.unit(i));
    model.input.embed = Matrix::f32(model.input.embed.rows(), model.input.embed.cols(), rows).unwrap();
    model
}

/// Largest NMSE over the positions, and positions whose best token differs.
fn compare(a: &[Vec<f32>], b: &[Vec<f32>]) -> (f64, usize) {
    let worst = a.iter().zip(b).map(|(a, b)| nmse(a, b)).fold(0.0, f64::max);
    (worst, a.iter().zip(b).filter(|(a, b)| argmax(a) != argmax(b)).count())
}

#[test]
fn a_small_error_stays_small() {
    let (worst, changed) = compare(&logits(&perturbed(&LAB)), &logits(&LAB));
    println!("f32 caches: NMSE {worst:e}, {changed} of {TOKENS} best tokens differ");
    assert!(worst > 0.0 && worst < 1e-9 && changed == 0, "NMSE {worst:e}, {changed} of {TOKENS} best tokens differ");
}

/// With quantised caches an error on a rounding boundary turns a 4-bit code, and forty layers carry that on: the same 1e-6 moves a typical
/// position by an NMSE near 0.01. That is still far below what quantising itself changes, but too much to judge an engine end to end by; so
/// engines are compared with f32 caches, or layer by layer.
#[test]
fn quantised_caches_turn_single_codes() {
    let mut model = LAB.clone();
    model.context.kv = Precision::Released;
    let (moved, quantised) = (logits(&perturbed(&model)), logits(&model));
    let (worst, changed) = compare(&moved, &quantised);
    let mut sorted: Vec<f64> = moved.iter().zip(&quantised).map(|(a, b)| nmse(a, b)).collect();
    sorted.sort_by(f64::total_cmp);
    println!("quantised caches: NMSE {:e} in the median", sorted[TOKENS / 2]);
    println!("quantised caches: NMSE {worst:e}, {changed} of {TOKENS} best tokens differ");
    let (cost, turned) = compare(&logits(&model), &logits(&LAB));
    println!("quantised against f32 caches: NMSE {cost:e}, {turned} of {TOKENS} best tokens differ");
    assert!(sorted[TOKENS / 2] < 0.03 && changed < turned);
    assert!(worst < cost, "an error of 1e-6 costs {worst:e}, quantising itself {cost:e}");
}

fn zeros(matrix: &mut Matrix) {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    *matrix = Matrix::f32(rows, cols, vec![0.0; rows * cols]).unwrap();
}

/// Without a block the logits are clearly others: by more than a tenth of a percent of their power for each.
#[test]
fn every_block_matters() {
    let with = logits(&LAB);
    type Removal = (&'static str, fn(&mut Reference));
    let removals: [Removal; 6] = [
        ("n-gram memory", |m| m.layers.iter_mut().flat_map(|b| &mut b.engram).for_each(|(_, w)| zeros(&mut w.wkv))),
        ("attention", |m| m.layers.iter_mut().for_each(|b| zeros(&mut b.layer.attention.wo_b))),
        ("global KV", |m| m.layers.iter_mut().flat_map(|b| &mut b.compressor).for_each(|w| w.norm.fill(0.0))),
        ("routed experts", |m| {
            m.layers.iter_mut().flat_map(|b| &mut b.layer.experts.experts).for_each(|e| zeros(&mut e.w2));
        }),
        ("shared expert", |m| m.layers.iter_mut().for_each(|b| zeros(&mut b.layer.experts.shared.w2))),
        ("mixing of the streams", |m| {
            m.layers.iter_mut().for_each(|b| {
                zeros(&mut b.layer.hc_attn.projection);
                zeros(&mut b.layer.hc_ffn.projection);
            });
        }),
    ];
    for (name, remove) in removals {
        let mut model = LAB.clone();
        remove(&mut model);
        let without = logits(&model);
        let mean = without.iter().zip(&with).map(|(a, b)| nmse(a, b)).sum::<f64>() / TOKENS as f64;
        println!("without {name}: mean NMSE {mean:e}");
        assert!(mean > 1e-3, "without {name}: mean NMSE {mean:e}");
    }
}
