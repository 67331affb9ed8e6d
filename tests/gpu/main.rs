//! The GPU engine against the CPU reference: at every tap, in every numerics, however a sequence is cut; and what it does when things go wrong.

#[path = "../support/mod.rs"]
mod support;

mod cache;
mod faults;
mod invariance;
mod parity;
mod released;
mod sessions;
mod slots;
mod tail;
mod taps;
mod transfer;

use flash890::blocks::b1a_input::Prompt;
use flash890::blocks::tap::Silent;
use flash890::gpu::{Choice, Gpu};
use flash890::image::TokenType;
use flash890::lab::golden::GoldenFile;
use flash890::model::gpu::{GpuModel, GpuState};
use flash890::model::{Output, Prefill, Reference};
use flash890::numerics::hash::Stream;
use flash890::numerics::ops::nmse;
use flash890::numerics::precision::Precision;
use flash890::weights::{Checkpoint, tiny};
use pollster::block_on;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn golden_checkpoint(name: &str) -> Arc<Checkpoint> {
    Arc::new(block_on(Checkpoint::open_dir(folder(name))).unwrap())
}

static T12: LazyLock<Arc<Checkpoint>> = LazyLock::new(|| golden_checkpoint("t12"));
static LAB: LazyLock<Arc<Checkpoint>> = LazyLock::new(|| Arc::new(block_on(tiny::lab()).unwrap()));

fn gpu() -> Gpu {
    block_on(Gpu::open(&Choice::default())).expect("GPU tests need an adapter; a software one will do")
}

fn emulated() -> Gpu {
    let choice = Choice { emulate_webgpu_defaults: true, ..Choice::default() };
    block_on(Gpu::open(&choice)).expect("GPU tests need an adapter; a software one will do")
}

fn load(gpu: Gpu, checkpoint: &Arc<Checkpoint>, numerics: Precision, kv: Precision) -> GpuModel {
    block_on(GpuModel::load(gpu, checkpoint.clone(), numerics, kv, &mut |_, _, _| {})).unwrap()
}

fn reference(checkpoint: &Arc<Checkpoint>, numerics: Precision, kv: Precision) -> Reference {
    block_on(Reference::load(checkpoint.clone(), numerics, kv, &mut |_, _, _| {})).unwrap()
}

/// `n` ids that no rule orders.
fn text(vocab: usize, n: usize, name: &str) -> Prompt {
    let stream = Stream::new(name);
    Prompt::text((0..n as u64).map(|i| (stream.at(i) % vocab as u64) as u32).collect())
}

/// A golden case's prompt, with its picture if it has one.
fn golden_prompt(name: &str, case: &str) -> Prompt {
    let bytes = std::fs::read(folder(name).join("golden.safetensors")).unwrap();
    let golden = GoldenFile::parse("golden.safetensors", &bytes).unwrap();
    let mut prompt = Prompt::text(golden.need(&format!("{case}.input_ids")).unwrap().ids());
    if let Some(types) = golden.get(&format!("{case}.types")) {
        prompt.types = types.i64.iter().map(|&code| TokenType::from_code(code as i32).unwrap()).collect();
        prompt.image_rows = golden.need(&format!("{case}.aligned")).unwrap().f32.clone();
    }
    prompt
}

fn prefill(model: &GpuModel, state: &mut GpuState, prompt: &Prompt, how: Prefill) -> Output {
    block_on(model.prefill(state, prompt, how)).unwrap()
}

/// Logits of every row, fed in chunks of `chunk`.
fn all_logits(model: &GpuModel, prompt: &Prompt, chunk: usize) -> (Vec<f32>, GpuState) {
    let mut state = model.state().unwrap();
    let how = Prefill { chunk, all_logits: true, ..Prefill::default() };
    (prefill(model, &mut state, prompt, how).logits, state)
}

/// Logits of every row of the reference.
fn reference_logits(model: &Reference, prompt: &Prompt) -> Vec<f32> {
    let how = Prefill { all_logits: true, ..Prefill::default() };
    block_on(model.prefill(&mut model.state(), prompt, how, &mut Silent)).unwrap().logits
}

/// The limit of this file's comparisons with f32 caches.
const F32_KV: f64 = 1e-8;

/// Fails where a row's NMSE is beyond `limit`.
#[track_caller]
fn assert_rows_close(actual: &[f32], expected: &[f32], vocab: usize, limit: f64, what: &str) {
    assert_eq!(actual.len(), expected.len(), "{what}");
    for (row, (a, e)) in actual.chunks(vocab).zip(expected.chunks(vocab)).enumerate() {
        let error = nmse(a, e);
        assert!(error <= limit, "{what}: row {row} is off by {error:e}");
    }
}
