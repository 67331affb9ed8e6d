//! Lost devices, requests that cannot be served, memory over many turns.

use super::*;
use flash890::blocks::b3a_encoder_decoder::DecoderTail;
use flash890::error::Error;

fn model() -> GpuModel {
    load(gpu(), &T12, Precision::F32, Precision::Released)
}

/// The device goes in the middle of a sequence: the error says so; on a new device the same tokens give the same answer.
#[test]
fn a_lost_device_is_named_and_replaced() {
    let model = model();
    let prompt = text(model.config().vocab_size, 30, "lost");
    let answer = |model: &GpuModel, state: &mut GpuState| {
        let mut logits = prefill(model, state, &prompt, Prefill::default()).logits;
        for id in [1, 2] {
            logits = block_on(model.decode(state, id)).unwrap();
        }
        logits
    };
    let mut state = model.state().unwrap();
    let before = answer(&model, &mut state);
    assert_eq!(model.lost(), None);

    model.gpu.device.destroy();
    for _ in 0..2 {
        let error = block_on(model.decode(&mut state, 3)).unwrap_err();
        assert!(matches!(error, Error::Gpu(_)), "{error:?}");
        assert!(error.to_string().contains("was lost"), "{error}");
    }
    assert!(model.lost().is_some());

    let again = block_on(model.reload()).unwrap();
    assert_eq!((again.lost(), &again.gpu.adapter.name), (None, &model.gpu.adapter.name));
    let mut state = again.state().unwrap();
    assert!(answer(&again, &mut state) == before);
}

/// Refused prompts leave no trace: what follows is as if they had never been.
#[test]
fn refused_prompts_leave_the_state_alone() {
    let model = model();
    let vocab = model.config().vocab_size;
    let prompt = text(vocab, 5, "refused");
    let run = |bad: &[Prompt]| {
        let mut state = model.state().unwrap();
        prefill(&model, &mut state, &prompt, Prefill::default());
        let before = (5, state.kv_bytes());
        for bad in bad {
            for tail in [DecoderTail::All, DecoderTail::Last(2)] {
                let how = Prefill { tail, ..Prefill::default() };
                let error = block_on(model.prefill(&mut state, bad, how)).unwrap_err();
                assert!(matches!(error, Error::Prompt(_)), "{error:?}");
                assert_eq!((state.position, state.kv_bytes()), before);
            }
        }
        block_on(model.decode(&mut state, 4)).unwrap()
    };
    let long = Prompt::text(vec![1; model.config().max_position_embeddings]);
    let alien = Prompt::text(vec![1, 2, 3, vocab as u32]);
    let untyped = Prompt { types: Vec::new(), ..Prompt::text(vec![1, 2]) };
    let mut bare = golden_prompt("t12", "image");
    bare.image_rows.pop();
    assert!(run(&[Prompt::default(), long, alien, untyped, bare]) == run(&[]));
}

/// A sequence that no binding holds is refused with numbers, and the one that is there goes on.
#[test]
fn a_cache_that_does_not_fit_is_refused() {
    let model = load(emulated(), &T12, Precision::F32, Precision::F32);
    let prompt = text(model.config().vocab_size, 9, "fits");
    let run = |tokens: Option<usize>| {
        let mut state = model.state().unwrap();
        prefill(&model, &mut state, &prompt, Prefill::default());
        if let Some(tokens) = tokens {
            let error = block_on(state.reserve(&model.gpu, tokens)).unwrap_err();
            assert!(matches!(error, Error::DoesNotFit { .. }), "{error:?}");
        }
        block_on(model.decode(&mut state, 4)).unwrap()
    };
    assert!(run(Some(1 << 20)) == run(None));
}

/// Bytes that the device has allocated.
fn allocated(model: &GpuModel) -> u64 {
    model.gpu.device.generate_allocator_report().expect("the backend counts its memory").total_allocated_bytes
}

/// A hundred turns of prompt and answer on one state, plans and growth included: after the first ones nothing is added.
#[test]
fn memory_is_steady_over_turns() {
    let model = model();
    let vocab = model.config().vocab_size;
    let mut state = model.state().unwrap();
    block_on(state.reserve(&model.gpu, 700)).unwrap();
    let mut seen = Vec::new();
    for turn in 0..100 {
        let how = Prefill { tail: DecoderTail::Last(if turn % 2 == 0 { 2 } else { 100 }), ..Prefill::default() };
        prefill(&model, &mut state, &text(vocab, 5, &format!("turn {turn}")), how);
        block_on(model.decode(&mut state, turn)).unwrap();
        seen.push(allocated(&model));
    }
    assert_eq!(state.position, 600);
    let (early, late) = (seen[5..15].iter().max().unwrap(), seen[90..].iter().max().unwrap());
    assert!(late <= early, "{early} bytes after ten turns, {late} after a hundred");
}
