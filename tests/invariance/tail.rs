//! The decoder's tail (section 4.5): which rows at the end of a prompt run through the decoder.

use super::*;
use flash890::blocks::b6a_kv_cache::{Format, Ring};
use flash890::numerics::ops::argmax;
use proptest::prelude::*;

fn last_logits(model: &Reference, prompt: &Prompt, tail: DecoderTail) -> (Vec<f32>, State) {
    let mut state = model.state();
    let how = Prefill { tail, ..Prefill::default() };
    let output = feed(model, &mut state, prompt, how);
    assert_eq!(output.first_row + 1, state.position);
    (output.logits, state)
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// The numbers of section 4.5, with the appendix's formula for a prompt continued to 33 ids: 15 rows are exact, 14 are off by 0.037, one window
/// of 8 by 0.16.
#[test]
fn exact_length_of_the_appendix() {
    let model = &TINY[1];
    assert_eq!(model.config().exact_tail(), 15);
    let prompt = Prompt::text((0..33).map(|i| (5 * i * i + 11 * i + 1) % 128).collect());
    let (all, _) = last_logits(model, &prompt, DecoderTail::All);
    for exact in [15, 16, 20] {
        assert!(last_logits(model, &prompt, DecoderTail::Last(exact)).0 == all, "tail of {exact}");
    }
    for (tail, printed) in [(14, 0.037), (8, 0.16)] {
        let difference = largest_difference(&last_logits(model, &prompt, DecoderTail::Last(tail)).0, &all);
        assert!((difference - printed).abs() < 1e-3, "tail of {tail}: {difference}, printed {printed}");
    }
}

/// With the exact length, everything that decoding looks at is as after full execution: rings, drafts, and the tokens that follow.
#[test]
fn exact_tail_decodes_like_all() {
    for model in models() {
        let exact = model.config().exact_tail();
        let prompt = text(model, exact + 12);
        let (all, mut full) = last_logits(model, &prompt, DecoderTail::All);
        let (logits, mut short) = last_logits(model, &prompt, DecoderTail::Last(exact));
        assert!(logits == all);
        let mut id = argmax(&logits) as u32;
        assert_eq!(model.draft(&short, id), model.draft(&full, id));
        for (short, full) in
            short.windows.iter().zip(&full.windows).chain(short.draft_windows.iter().zip(&full.draft_windows))
        {
            assert_eq!(short.positions(), full.positions());
            assert!(short.read(short.positions()) == full.read(full.positions()));
        }
        for _ in 0..4 {
            let [a, b] = [&mut short, &mut full].map(|state| block_on(model.decode(state, id, &mut Silent)).unwrap());
            assert!(a == b);
            id = argmax(&a) as u32;
        }
    }
}

/// Prompts no longer than the tail are not shortened: logits and state are those of full execution.
#[test]
fn short_prompts_run_in_full() {
    for model in models() {
        for n in [1, 2, 7, 8] {
            let prompt = text(model, n);
            assert!(last_logits(model, &prompt, DecoderTail::Last(8)) == last_logits(model, &prompt, DecoderTail::All));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// Chunks do not show in a shortened run either, whether they are longer or shorter than the tail; nor does a picture at its edge.
    #[test]
    fn any_chunk_size_with_a_tail(chunk in 1..40usize, n in 1..40usize, tail in 1..20usize) {
        for model in TINY.iter() {
            for prompt in [text(model, n), with_picture(model)] {
                let (mut cut, mut whole) = (model.state(), model.state());
                let how = |chunk| how(chunk, DecoderTail::Last(tail));
                let in_chunks = feed(model, &mut cut, &prompt, how(chunk));
                let at_once = feed(model, &mut whole, &prompt, how(prompt.len()));
                prop_assert!(in_chunks == at_once && cut == whole);
                prop_assert_eq!(at_once.first_row, prompt.len().saturating_sub(tail));
            }
        }
    }

    /// A conversation continued with a tail long enough for its new part equals one that always ran in full.
    #[test]
    fn continued_within_the_tail(first in 1..20usize, second in 1..16usize) {
        for model in TINY.iter() {
            let prompt = text(model, first + second);
            let mut state = model.state();
            feed(model, &mut state, &piece(model, &prompt, 0..first), how(first, DecoderTail::All));
            let output = feed(model, &mut state, &piece(model, &prompt, first..first + second), how(5, DecoderTail::Last(16)));
            let (one, one_state) = one_piece(model, &prompt);
            prop_assert!(output.logits == one.logits[first * model.config().vocab_size..] && state == one_state);
        }
    }
}

/// The same state with empty rings in the decoder layers after the last KV source, and in the drafter.
fn without_decoder_rings(model: &Reference, state: &State) -> State {
    let mut state = state.clone();
    let config = model.config();
    let format = if model.context.kv == Precision::F32 { Format::F32 } else { Format::Fp8 };
    let split = config.last_kv_source().unwrap();
    let empty = || Ring::new(format, config.head_dim, config.window_size);
    state.windows[split + 1..].fill_with(empty);
    state.draft_windows.fill_with(empty);
    state
}

/// A second turn longer than its tail leaves a gap in the decoder's rings; nothing from before the gap may be seen after it. A second turn
/// within its tail leaves none, and sees the rows of the first.
#[test]
fn rings_forget_what_lies_before_a_gap() {
    for model in models() {
        let first = text(model, 21);
        let mut state = model.state();
        feed(model, &mut state, &first, how(6, DecoderTail::Last(8)));
        let end = model.config().n_layers - 1;
        assert_eq!(state.windows[end].positions(), 13..21);
        for (turn, gap) in [(12, true), (4, false), (3, false)] {
            let second = Prompt::text(ids(model, turn, "second turn"));
            let (mut kept, mut forgot) = (state.clone(), without_decoder_rings(model, &state));
            let [a, b] =
                [&mut kept, &mut forgot].map(|state| feed(model, state, &second, how(5, DecoderTail::Last(4))));
            assert_eq!(a.logits == b.logits, gap, "second turn of {turn}");
            let window = model.config().window_size;
            let from = if gap { 21 + turn - 4 } else { (21 + turn - window).max(13) };
            assert_eq!(kept.windows[end].positions(), from..21 + turn);
            assert_eq!(kept.draft_windows[0].positions(), from..21 + turn);
            assert_eq!(model.draft(&kept, 3) == model.draft(&forgot, 3), gap);
            let [a, b] = [&mut kept, &mut forgot].map(|state| block_on(model.decode(state, 3, &mut Silent)).unwrap());
            assert_eq!(a == b, gap);
        }
    }
}

/// The encoder, and the last KV source's own caches, never have gaps: they are the same with any tail.
#[test]
fn encoder_does_not_know_the_tail() {
    for model in models() {
        let split = model.config().last_kv_source().unwrap();
        let prompt = text(model, 25);
        let (_, full) = one_piece(model, &prompt);
        let mut state = model.state();
        feed(model, &mut state, &piece(model, &prompt, 0..14), how(6, DecoderTail::Last(3)));
        feed(model, &mut state, &piece(model, &prompt, 14..25), how(6, DecoderTail::Last(3)));
        assert!(state.windows[..=split] == full.windows[..=split]);
        assert!(state.sources == full.sources && state.engram_history == full.engram_history);
    }
}
