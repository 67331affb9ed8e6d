//! The CPU reference against the golden checkpoints, with the limits of `tests/golden/README.md`.

use flash890::lab::golden::GoldenFile;
use flash890::lab::parity::{self, Report};
use flash890::model::Reference;
use flash890::numerics::precision::Precision;
use flash890::weights::Checkpoint;
use std::path::PathBuf;
use std::sync::Arc;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn report(name: &str) -> Report {
    let checkpoint = Arc::new(pollster::block_on(Checkpoint::open_dir(&folder(name))).unwrap());
    let mut silent = |_: usize, _: usize, _: &str| {};
    let load = Reference::load(checkpoint, Precision::F32, Precision::Released, &mut silent);
    let mut model = pollster::block_on(load).unwrap();
    let bytes = std::fs::read(folder(name).join("golden.safetensors")).unwrap();
    let golden = GoldenFile::parse("golden.safetensors", &bytes).unwrap();
    pollster::block_on(parity::run(&mut model, &golden, &[])).unwrap()
}

fn passes(name: &str, judged_at_least: usize) {
    let report = report(name);
    for check in report.checks.iter().filter(|check| !check.passed()) {
        eprintln!("{check:?}");
    }
    let (judged, failed) = report.counts();
    assert_eq!(failed, 0, "{failed} of {judged} comparisons failed");
    assert!(judged >= judged_at_least, "only {judged} comparisons were judged");
}

#[test]
fn t12() {
    passes("t12", 200);
}

#[test]
fn t40() {
    passes("t40", 40);
}

#[test]
fn kv890() {
    passes("kv890", 40);
}
