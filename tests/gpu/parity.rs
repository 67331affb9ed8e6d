//! The GPU against the golden files, with the limits of the reference: layer by layer on golden input, the draft on golden taps, end to end.

use super::*;
use flash890::error::Error;
use flash890::lab::parity::{self, Report};
use flash890::model::gpu::{Given, Trace};

fn golden(name: &str) -> GoldenFile {
    GoldenFile::parse("golden.safetensors", &std::fs::read(folder(name).join("golden.safetensors")).unwrap()).unwrap()
}

fn report(gpu: Gpu, name: &str, cases: &[&str]) -> Report {
    let mut model = load(gpu, &golden_checkpoint(name), Precision::F32, Precision::Released);
    let cases: Vec<String> = cases.iter().map(|case| case.to_string()).collect();
    block_on(parity::run_gpu(&mut model, &golden(name), &cases)).unwrap()
}

/// Every comparison passes, and these taps were judged in a layer, or in the draft.
#[track_caller]
fn assert_passes(report: &Report, taps: &[&str]) {
    let failed: Vec<_> = report.checks.iter().filter(|check| !check.passed()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    for tap in taps {
        let judged = report.checks.iter().filter(|check| check.limit.is_some() && check.tap == *tap);
        assert!(judged.count() > 0, "{tap} was not judged");
    }
}

const LAYER: [&str; 9] = [
    "6a.compressed_kv",
    "6a.index_keys",
    "3c.topk_ids",
    "2a.attn_comb",
    "4a.out",
    "5a.expert_ids",
    "5a.expert_weights",
    "5a.out",
    "2a.streams",
];

const DRAFT: [&str; 4] = ["6b.draft_base_logits", "6b.draft_logits", "6b.draft_ids", "6b.proposed_ids"];

/// The quantised cases, several calls long.
#[test]
fn layers_of_t12() {
    assert_passes(&report(gpu(), "t12", &["short", "long"]), &LAYER);
}

#[test]
fn layers_of_t40() {
    assert_passes(&report(gpu(), "t40", &["short"]), &LAYER[..7]);
}

#[test]
fn layers_of_kv890() {
    assert_passes(&report(gpu(), "kv890", &["short"]), &LAYER[..7]);
}

#[test]
fn drafts() {
    for name in ["t12", "t40", "kv890"] {
        assert_passes(&report(gpu(), name, &["dspark"]), &DRAFT);
    }
}

#[test]
fn within_the_limits_of_a_browser() {
    let report = report(emulated(), "t12", &["short", "dspark", "greedy"]);
    assert_passes(&report, &[&LAYER[..], &DRAFT, &["ids"]].concat());
}

/// What a layer reads must be given, and taps must have the width of the drafter's.
#[test]
fn what_is_missing_is_named() {
    let model = load(gpu(), &T12, Precision::F32, Precision::Released);
    let prompt = text(model.config().vocab_size, 5, "alone");
    let (nothing, mut trace) = (Given::default(), Trace::default());
    let error = block_on(model.layers_alone(&prompt, &nothing, &[], &mut trace)).unwrap_err();
    assert!(error.to_string().contains("no entries of layer 2 given"), "{error}");
    assert!(matches!(block_on(model.drafter_alone(&[0.0; 7])), Err(Error::Usage(_))));
}
