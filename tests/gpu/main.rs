//! The GPU engine against the CPU reference, at every tap that both show.

use flash890::blocks::b1a_input::Prompt;
use flash890::blocks::tap::{Recorder, Tap};
use flash890::gpu::{Choice, Gpu};
use flash890::lab::golden::GoldenFile;
use flash890::model::gpu::{GpuModel, Trace};
use flash890::model::{Prefill, Reference};
use flash890::numerics::ops::nmse;
use flash890::numerics::precision::Precision;
use flash890::weights::Checkpoint;
use std::path::PathBuf;
use std::sync::Arc;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn gpu() -> Gpu {
    pollster::block_on(Gpu::open(&Choice::default())).expect("GPU tests need an adapter; a software one will do")
}

fn compare(name: &str, case: &str, numerics: Precision, kv: Precision, limit: f64) {
    let checkpoint = Arc::new(pollster::block_on(Checkpoint::open_dir(folder(name))).unwrap());
    let golden = std::fs::read(folder(name).join("golden.safetensors")).unwrap();
    let golden = GoldenFile::parse("golden.safetensors", &golden).unwrap();
    let prompt = Prompt::text(golden.need(&format!("{case}.input_ids")).unwrap().ids());
    let mut silent = |_: usize, _: usize, _: &str| {};
    let reference = pollster::block_on(Reference::load(checkpoint.clone(), numerics, kv, &mut silent)).unwrap();
    let model = pollster::block_on(GpuModel::load(gpu(), checkpoint, numerics, kv, &mut silent)).unwrap();

    let how = Prefill { all_logits: true, chunk: 64, ..Prefill::default() };
    let shown = [Tap::AttnInput, Tap::Query, Tap::Latent, Tap::Heads, Tap::AttnOut, Tap::FfnOut, Tap::Streams];
    let mut recorder = Recorder::new(|tap, _| shown.contains(&tap));
    let expected = pollster::block_on(reference.prefill(&mut reference.state(), &prompt, how, &mut recorder)).unwrap();
    let names: Vec<&str> = shown.iter().map(|tap| tap.name()).collect();
    let mut trace = Trace::default();
    let mut state = model.state().unwrap();
    let actual = pollster::block_on(model.prefill_traced(&mut state, &prompt, how, &names, &mut trace)).unwrap();

    let mut first = None;
    for (name, layer, _, values) in &trace.tensors {
        let tap = shown.iter().find(|tap| tap.name() == *name).unwrap();
        let own = &recorder.get(*tap, *layer).unwrap().f32;
        let n = own.len().min(values.len());
        let error = nmse(&values[..n], &own[..n]);
        if prompt.len() <= 64 && error.partial_cmp(&limit) != Some(std::cmp::Ordering::Less) {
            first.get_or_insert(format!("{name} of layer {layer}: {error:e}"));
        }
    }
    assert_eq!(first, None, "first tap that differs");
    let vocab = model.config().vocab_size;
    for (row, (a, b)) in actual.logits.chunks(vocab).zip(expected.logits.chunks(vocab)).enumerate() {
        let error = nmse(a, b);
        assert!(error <= limit, "logits of row {row}: {error:e}");
    }
    assert_eq!(actual.logits.len(), expected.logits.len());
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
