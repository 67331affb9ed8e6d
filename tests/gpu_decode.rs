//! Decoding on the GPU: choice of the token, one submit per token, draft; against the CPU reference.

use flash890::blocks::b1a_input::Prompt;
use flash890::blocks::b3a_encoder_decoder::DecoderTail;
use flash890::blocks::tap::Silent;
use flash890::gpu::kernel::Pipelines;
use flash890::gpu::{Choice, Element, Gpu, Planner, Tensor, Uniform, readback};
use flash890::kernels::call::Call;
use flash890::kernels::head::argmax;
use flash890::kernels::head::choose::{self, Draw, NOT_FINITE, PIECE};
use flash890::lab::golden::GoldenFile;
use flash890::model::gpu::GpuModel;
use flash890::model::{Prefill, Reference};
use flash890::numerics::gumbel;
use flash890::numerics::hash::Stream;
use flash890::numerics::ops::{self, nmse};
use flash890::numerics::precision::Precision;
use flash890::weights::Checkpoint;
use pollster::block_on;
use std::path::PathBuf;
use std::sync::Arc;

fn gpu() -> Gpu {
    block_on(Gpu::open(&Choice::default())).expect("GPU tests need an adapter; a software one will do")
}

/// The choice on the GPU from given logits: its buffers and plan.
struct Chooser {
    gpu: Gpu,
    plan: flash890::gpu::Plan,
    call: Tensor,
    draw: Tensor,
    chosen: Tensor,
}

impl Chooser {
    fn new(logits: &[f32]) -> Self {
        let gpu = gpu();
        let pieces = logits.len().div_ceil(PIECE);
        let row = Tensor::f32(&gpu, "logits", &[1, logits.len()], logits).unwrap();
        let values = Tensor::zeros(&gpu, "values", Element::F32, &[pieces]).unwrap();
        let ids = Tensor::zeros(&gpu, "ids", Element::U32, &[pieces]).unwrap();
        let chosen = Tensor::zeros(&gpu, "chosen", Element::U32, &[1]).unwrap();
        let (call, draw) = (Call::buffer(&gpu).unwrap(), Tensor::uniform(&gpu, "draw", 4).unwrap());
        let mut pipelines = Pipelines::default();
        let mut planner = Planner::new(&gpu, &mut pipelines);
        choose::record(&mut planner, [&row, &values, &ids], [&call, &draw], 0).unwrap();
        argmax::record(&mut planner, [&values, &ids, &chosen], 0).unwrap();
        let plan = planner.finish();
        Chooser { gpu, plan, call, draw, chosen }
    }

    fn choose(&self, temperature: f32, seed: u64, position: usize) -> u32 {
        Call::new(position - 1, 1, 0).write(&self.gpu, &self.call);
        let inverse_temperature = if temperature == 0.0 { 0.0 } else { 1.0 / temperature };
        let draw = Draw { inverse_temperature, seed_low: seed as u32, seed_high: (seed >> 32) as u32 };
        self.gpu.queue.write_buffer(&self.draw.buffer, 0, bytemuck::cast_slice(&draw.words()));
        self.plan.run(&self.gpu);
        block_on(readback::u32s(&self.gpu, &self.chosen)).unwrap()[0]
    }
}

/// 99.9 % of correct samplers stay below 16.3 with 3 degrees of freedom; the ids are those of the CPU.
#[test]
fn draws_follow_the_softmax_and_agree_with_the_cpu() {
    let probabilities = [0.2f32, 0.4, 0.1, 0.3];
    let logits = probabilities.map(f32::ln);
    let chooser = Chooser::new(&logits);
    let (n, seed) = (2000, 0x1234_5678_9abc_def0);
    let mut counts = [0usize; 4];
    for position in 1..=n {
        let id = chooser.choose(1.0, seed, position);
        assert_eq!(id, gumbel::choose(&logits, 1.0, seed, position as u32), "position {position}");
        counts[id as usize] += 1;
    }
    let term =
        |(&count, &p): (&usize, &f32)| (count as f64 - f64::from(p) * n as f64).powi(2) / (f64::from(p) * n as f64);
    let statistic: f64 = counts.iter().zip(&probabilities).map(term).sum();
    assert!(statistic < 16.3, "{counts:?}: {statistic}");
    let again: Vec<u32> = (1..20).map(|position| chooser.choose(1.0, seed, position)).collect();
    assert_eq!(again, (1..20).map(|position| chooser.choose(1.0, seed, position)).collect::<Vec<_>>());
    assert_ne!(again, (1..20).map(|position| chooser.choose(1.0, seed + 1, position)).collect::<Vec<_>>());
}

#[test]
fn choices_across_pieces() {
    let stream = Stream::new("logits");
    let mut logits: Vec<f32> = (0..3000).map(|i| 4.0 * stream.unit(i)).collect();
    let chooser = Chooser::new(&logits);
    for position in 1..100 {
        assert_eq!(chooser.choose(0.8, 3, position), gumbel::choose(&logits, 0.8, 3, position as u32));
    }
    assert_eq!(chooser.choose(0.0, 3, 1), ops::argmax(&logits) as u32);
    // Of equals the lower id, within a piece and across pieces.
    (logits[2900], logits[1500], logits[1563]) = (9.0, 9.0, 9.0);
    assert_eq!(Chooser::new(&logits).choose(0.0, 0, 1), 1500);
    for (place, bad) in [(7, f32::NAN), (2999, f32::INFINITY), (2048, f32::NEG_INFINITY)] {
        let mut logits = logits.clone();
        logits[place] = bad;
        let chooser = Chooser::new(&logits);
        assert_eq!([chooser.choose(0.0, 0, 1), chooser.choose(1.0, 0, 1)], [NOT_FINITE; 2]);
    }
}

/// A golden checkpoint on both backends, and its prompt.
fn both(name: &str, case: &str, numerics: Precision, kv: Precision) -> (Reference, GpuModel, Vec<u32>) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let checkpoint = Arc::new(block_on(Checkpoint::open_dir(&folder)).unwrap());
    let golden = std::fs::read(folder.join("golden.safetensors")).unwrap();
    let golden = GoldenFile::parse("golden.safetensors", &golden).unwrap();
    let ids = golden.need(&format!("{case}.input_ids")).unwrap().ids();
    let mut silent = |_: usize, _: usize, _: &str| {};
    let reference = block_on(Reference::load(checkpoint.clone(), numerics, kv, &mut silent)).unwrap();
    let model = block_on(GpuModel::load(gpu(), checkpoint, numerics, kv, &mut silent)).unwrap();
    (reference, model, ids)
}

#[test]
fn greedy_tokens_are_those_of_the_reference() {
    let (reference, model, ids) = both("t12", "short", Precision::F32, Precision::Released);
    let prompt = Prompt::text(ids);
    let (mut own, mut expected) = (model.state().unwrap(), reference.state());
    let logits = block_on(model.prefill(&mut own, &prompt, Prefill::default())).unwrap().logits;
    let wanted = block_on(reference.prefill(&mut expected, &prompt, Prefill::default(), &mut Silent)).unwrap().logits;
    assert!(nmse(&logits, &wanted) < 1e-8);
    let mut id = ops::argmax(&wanted) as u32;
    for step in 0..12 {
        let wanted = block_on(reference.decode(&mut expected, id, &mut Silent)).unwrap();
        let chosen = block_on(model.decode_greedy(&mut own, id)).unwrap();
        assert_eq!(chosen, ops::argmax(&wanted) as u32, "step {step}");
        assert_eq!(own.position, expected.position);
        id = chosen;
    }
}

/// One submit and the token's id for a token; a draft and its verification take one each and 64 bytes.
#[test]
fn little_goes_over_the_bus() {
    let (_, model, ids) = both("t12", "short", Precision::F32, Precision::Released);
    let mut state = model.state().unwrap();
    block_on(model.prefill(&mut state, &Prompt::text(ids), Prefill::default())).unwrap();
    let mut counted = |what: &mut dyn FnMut(&mut _)| {
        // Buffers are made and plans recorded by the first of each.
        what(&mut state);
        let before = model.gpu.traffic();
        what(&mut state);
        let after = model.gpu.traffic();
        [after.submits - before.submits, after.bytes_read_back - before.bytes_read_back]
    };
    let decoded = counted(&mut |state| assert!(block_on(model.decode_greedy(state, 5)).is_ok()));
    let drawn = counted(&mut |state| assert!(block_on(model.decode_sampled(state, 5, 0.7, 99)).is_ok()));
    assert_eq!([decoded, drawn], [[1, 4]; 2]);
    let drafted = counted(&mut |state| assert!(block_on(model.propose(state, 5, 0.0, 0)).unwrap().is_some()));
    let verified = counted(&mut |state| assert!(block_on(model.verify(state, &[5, 6, 7, 8, 9, 10], 0.0, 0)).is_ok()));
    assert_eq!([drafted[0], verified[0]], [1, 1]);
    assert!(drafted[1] + verified[1] <= 64, "{drafted:?} {verified:?}");
}

#[test]
fn sampled_tokens_are_those_of_the_cpu() {
    let (_, model, ids) = both("t12", "short", Precision::F32, Precision::F32);
    let (mut a, mut b) = (model.state().unwrap(), model.state().unwrap());
    for state in [&mut a, &mut b] {
        block_on(model.prefill(state, &Prompt::text(ids.clone()), Prefill::default())).unwrap();
    }
    let mut id = 5;
    for _ in 0..8 {
        let logits = block_on(model.decode(&mut a, id)).unwrap();
        let chosen = block_on(model.decode_sampled(&mut b, id, 0.7, 99)).unwrap();
        assert_eq!(chosen, gumbel::choose(&logits, 0.7, 99, b.position as u32));
        id = chosen;
    }
    let error = block_on(model.decode_sampled(&mut b, id, f32::NAN, 1)).unwrap_err();
    assert!(matches!(error, flash890::Error::Usage(_)), "{error}");
}

/// What a token costs in dispatches. Released numerics, which quantise activations.
#[test]
fn dispatches_per_layer() {
    let (_, model, _) = both("kv890", "short", Precision::Released, Precision::Released);
    let (layers, all) = block_on(model.dispatches()).unwrap();
    let config = model.config();
    for (layer, &count) in layers.iter().enumerate() {
        let is = |layers: &[usize]| layers.contains(&layer);
        println!("layer {layer}: {count} dispatches");
        let mut most = 17;
        most += if is(&config.kv_source_layers) { 4 } else { 0 };
        most += if is(&config.index_source_layers) { 3 } else { 0 };
        most += usize::from(layer == config.candidate_source_layer);
        most += if is(&config.engram_layer_ids) { 3 } else { 0 };
        most += usize::from(is(&config.dspark_target_layer_ids));
        assert!(count <= most, "layer {layer}: {count} dispatches, {most} at most");
    }
    println!("one token: {all} dispatches");
    let beyond = 1 + 3 + config.n_mtp_layers * 2 + 4;
    assert!(all <= layers.iter().sum::<usize>() + beyond, "{all}");
}

fn drafts(name: &str, case: &str, kv: Precision, tail: DecoderTail) {
    let (reference, model, ids) = both(name, case, Precision::F32, kv);
    let (mut own, mut expected) = (model.state().unwrap(), reference.state());
    assert!(block_on(model.draft(&mut own, 1)).unwrap().is_none(), "nothing to draft from");
    let mut undisturbed = model.state().unwrap();
    let (prompt, how) = (Prompt::text(ids), Prefill { tail, ..Prefill::default() });
    for state in [&mut own, &mut undisturbed] {
        block_on(model.prefill(state, &prompt, how)).unwrap();
    }
    let logits = block_on(reference.prefill(&mut expected, &prompt, how, &mut Silent)).unwrap().logits;
    let mut id = ops::argmax(&logits) as u32;
    for step in 0..4 {
        let wanted = reference.draft(&expected, id).unwrap();
        let draft = block_on(model.draft(&mut own, id)).unwrap().unwrap();
        let error = nmse(&draft.base_logits, &wanted.base_logits);
        assert!(error < 1e-8, "{name}, step {step}: {error:e}");
        assert_eq!(draft.ids, wanted.ids, "{name}, step {step}");
        // The correction on the GPU proposes the same, and is as sure of it.
        let proposal = block_on(model.propose(&mut own, id, 0.0, 0)).unwrap().unwrap();
        assert_eq!(proposal.ids, wanted.ids, "{name}, step {step}");
        assert!(nmse(&proposal.confidence, &wanted.confidence) < 1e-8, "{name}, step {step}");
        assert!(nmse(&draft.confidence, &wanted.confidence) < 1e-8, "{name}, step {step}");
        // Drafting changes nothing that the next call sees: the same bits with and without.
        let logits = block_on(model.decode(&mut own, id)).unwrap();
        assert_eq!(logits, block_on(model.decode(&mut undisturbed, id)).unwrap());
        let wanted = block_on(reference.decode(&mut expected, id, &mut Silent)).unwrap();
        id = ops::argmax(&wanted) as u32;
    }
    assert!(block_on(model.draft(&mut own, u32::MAX)).unwrap().is_none(), "no such anchor");
}

#[test]
fn drafts_of_t12() {
    drafts("t12", "short", Precision::F32, DecoderTail::All);
    drafts("t12", "short", Precision::Released, DecoderTail::All);
}

/// Rows that the decoder left out are in no ring, and a draft does not look for them.
#[test]
fn drafts_after_a_tail() {
    drafts("t12", "short", Precision::F32, DecoderTail::Last(3));
}

#[test]
fn drafts_of_t40() {
    drafts("t40", "long", Precision::F32, DecoderTail::All);
}

/// With its cache in f32: at 4 bits a last bit decides about a code here and there, and 1e-8 is out of reach for any two summation orders.
#[test]
fn drafts_of_kv890() {
    drafts("kv890", "short", Precision::F32, DecoderTail::All);
}
