//! Every tap that both engines show.

use super::*;
use flash890::blocks::tap::{Recorded, Recorder, Tap};
use flash890::config::Config;
use flash890::model::gpu::Trace;
use std::collections::BTreeSet;

/// What the reference alone shows: the GPU computes with the same rows as stored, weights stay in workgroup memory, the rest belongs to the head.
const NOT_ON_THE_GPU: [Tap; 7] =
    [Tap::Rows, Tap::WindowKv, Tap::CompressedKv, Tap::IndexKeys, Tap::AttnWeights, Tap::FinalNorm, Tap::Logits];

/// Taps that this model does not have.
fn optional(config: &Config) -> Vec<Tap> {
    Tap::ALL.into_iter().filter(|tap| *tap == Tap::TargetHidden && config.dspark_target_layer_ids.is_empty()).collect()
}

/// Real numbers: shape, where nothing is visible, and the error of the rest.
fn differs(own: &Recorded, theirs: &Recorded, limit: f64) -> Option<String> {
    if own.shape != theirs.shape {
        return Some(format!("shape {:?}, the reference has {:?}", own.shape, theirs.shape));
    }
    let finite = |values: &[f32]| values.iter().map(|v| v.is_finite()).collect::<Vec<_>>();
    if finite(&own.f32) != finite(&theirs.f32) {
        return Some("other places are masked".into());
    }
    let kept = |values: &[f32]| values.iter().copied().filter(|v| v.is_finite()).collect::<Vec<f32>>();
    let error = nmse(&kept(&own.f32), &kept(&theirs.f32));
    (error.partial_cmp(&limit) != Some(std::cmp::Ordering::Less)).then(|| format!("{error:e}"))
}

/// Choices, compared as sets row by row.
fn chooses(own: &Recorded, theirs: &Recorded) -> Option<String> {
    let width: usize = own.shape[1..].iter().product();
    let sets =
        |all: &Recorded| all.i64.chunks(width).map(|row| row.iter().copied().collect()).collect::<Vec<BTreeSet<i64>>>();
    let (own, theirs) = (sets(own), sets(theirs));
    let row = (0..own.len().max(theirs.len())).find(|&row| own.get(row) != theirs.get(row))?;
    Some(format!("row {row} chooses {:?}, the reference {:?}", own.get(row), theirs.get(row)))
}

fn compare(name: &str, case: &str, numerics: Precision, kv: Precision, limit: f64) {
    let (checkpoint, prompt) = (golden_checkpoint(name), golden_prompt(name, case));
    let (reference, model) = (reference(&checkpoint, numerics, kv), load(gpu(), &checkpoint, numerics, kv));

    let how = Prefill { all_logits: true, chunk: 64, ..Prefill::default() };
    let mut expected_taps = Recorder::new(|_, _| true);
    let expected = block_on(reference.prefill(&mut reference.state(), &prompt, how, &mut expected_taps)).unwrap();
    let names: Vec<&str> = Tap::ALL.iter().map(|tap| tap.name()).collect();
    let mut trace = Trace::default();
    let mut state = model.state().unwrap();
    let actual = block_on(model.prefill_traced(&mut state, &prompt, how, &names, &mut trace)).unwrap();
    let mut taps = Recorder::new(|_, _| true);
    trace.replay(model.config(), &mut taps);

    // Traced once and for all kinds of numbers: a tap that is never shown would be judged right.
    let shown: BTreeSet<Tap> = taps.tensors.keys().map(|(tap, _)| *tap).collect();
    let missing: Vec<Tap> =
        Tap::ALL.into_iter().filter(|tap| !shown.contains(tap) && !NOT_ON_THE_GPU.contains(tap)).collect();
    assert_eq!(missing, optional(model.config()), "taps that are not traced");

    let mut first = None;
    // Behind a different rounding of the caches, everything later may differ.
    for tap in Tap::ALL.into_iter().filter(|_| prompt.len() <= 64) {
        for ((_, layer), own) in taps.tensors.iter().filter(|((of, _), _)| *of == tap) {
            let Some(theirs) = expected_taps.get(tap, *layer) else { continue };
            let problem = if own.i64.is_empty() { differs(own, theirs, limit) } else { chooses(own, theirs) };
            if let Some(problem) = problem {
                first.get_or_insert(format!("{} of layer {layer}: {problem}", tap.name()));
            }
        }
    }
    assert_eq!(first, None, "first tap that differs");
    assert_rows_close(&actual.logits, &expected.logits, model.config().vocab_size, limit, "logits");
}

/// The picture's rows are the golden ones, so that only the text model is judged.
#[test]
fn t12_image_f32kv() {
    assert!(golden_prompt("t12", "image").types.iter().filter(|t| t.is_image()).count() > 6);
    compare("t12", "image", Precision::F32, Precision::F32, 1e-8);
}

#[test]
fn t12_short_f32kv() {
    compare("t12", "short", Precision::F32, Precision::F32, 1e-8);
}

#[test]
fn t12_short() {
    compare("t12", "short", Precision::F32, Precision::Released, 1e-8);
}

#[test]
fn t12_long_f32kv() {
    compare("t12", "long", Precision::F32, Precision::F32, 1e-8);
}

#[test]
fn kv890_short_f32kv() {
    compare("kv890", "short", Precision::F32, Precision::F32, 1e-8);
}

#[test]
fn t40_long_f32kv() {
    compare("t40", "long", Precision::F32, Precision::F32, 1e-8);
}
