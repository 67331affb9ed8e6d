//! Cutting a sequence into chunks, calls and decode steps (sections 5.3 and 6.8).

use super::*;
use proptest::prelude::*;

/// Feeds the prompt in calls of these lengths; logits of every row, and the state.
fn in_calls(model: &Reference, prompt: &Prompt, lengths: &[usize]) -> (Output, State) {
    assert_eq!(lengths.iter().sum::<usize>(), prompt.len());
    let mut state = model.state();
    let mut all = Output { logits: Vec::new(), first_row: 0 };
    for &n in lengths {
        let from = state.position;
        let output = feed(model, &mut state, &piece(model, prompt, from..from + n), how(n, DecoderTail::All));
        assert_eq!(output.first_row, from);
        all.logits.extend(output.logits);
    }
    (all, state)
}

fn random_calls(total: usize) -> impl Strategy<Value = Vec<usize>> {
    let cuts = prop::collection::btree_set(1..total, 0..8);
    cuts.prop_map(move |cuts| {
        let ends = cuts.into_iter().chain([total]);
        let lengths = ends.scan(0, |start, end| Some(end - std::mem::replace(start, end)));
        lengths.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_calls_equal_one_piece(lengths in random_calls(33)) {
        for model in TINY.iter() {
            let prompt = text(model, 33);
            prop_assert!(in_calls(model, &prompt, &lengths) == one_piece(model, &prompt));
        }
    }

    #[test]
    fn any_chunk_size_equals_one_piece(chunk in 1..40usize, n in 1..40usize) {
        for model in TINY.iter() {
            let prompt = text(model, n);
            let mut state = model.state();
            let output = feed(model, &mut state, &prompt, how(chunk, DecoderTail::All));
            prop_assert!((output, state) == one_piece(model, &prompt));
        }
    }

    /// Pictures too may be cut anywhere, between rows and inside them.
    #[test]
    fn any_calls_through_a_picture_equal_one_piece(lengths in random_calls(21)) {
        for model in TINY.iter() {
            let prompt = with_picture(model);
            prop_assert!(in_calls(model, &prompt, &lengths) == one_piece(model, &prompt));
        }
    }

    #[test]
    fn any_calls_equal_one_piece_in_twelve_layers(lengths in random_calls(27)) {
        for model in TWELVE.iter() {
            let prompt = text(model, 27);
            prop_assert!(in_calls(model, &prompt, &lengths) == one_piece(model, &prompt));
        }
    }
}

/// The split of E.2, and the greedy continuation there: 21 tokens and 12 decode steps against all 33 at once.
#[test]
fn split_of_the_appendix() {
    let continuation = [114, 116, 116, 83, 24, 125, 126, 60, 118, 31, 17, 18];
    let prompt = Prompt::text([appendix_e::prompt(), continuation.to_vec()].concat());
    for model in TINY.iter() {
        let one = one_piece(model, &prompt);
        assert!(in_calls(model, &prompt, &[7, 5, 9, 12]) == one);
        let mut steps = vec![21];
        steps.extend([1; 12]);
        assert!(in_calls(model, &prompt, &steps) == one);
    }
}

/// A picture cut in two at every place, chunk by chunk and call by call.
#[test]
fn a_picture_over_two_chunks() {
    for model in TINY.iter() {
        let prompt = with_picture(model);
        let one = one_piece(model, &prompt);
        for cut in 1..prompt.len() {
            assert!(in_calls(model, &prompt, &[cut, prompt.len() - cut]) == one, "cut at {cut}");
            let mut state = model.state();
            assert!((feed(model, &mut state, &prompt, how(cut, DecoderTail::All)), state) == one, "chunks of {cut}");
        }
    }
}

/// `decode` is a prefill of one token, and the prompt may have one token or an odd number of them.
#[test]
fn decoding_continues_a_prompt_of_any_length() {
    for model in models() {
        let prompt = text(model, 15);
        let (whole, state) = one_piece(model, &prompt);
        let vocab = model.config().vocab_size;
        for first in [1, 2, 7, 14] {
            let mut decoded = model.state();
            feed(model, &mut decoded, &piece(model, &prompt, 0..first), how(first, DecoderTail::All));
            for position in first..prompt.len() {
                let logits = block_on(model.decode(&mut decoded, prompt.ids[position], &mut Silent)).unwrap();
                assert!(logits == whole.logits[position * vocab..][..vocab], "position {position} after {first}");
            }
            assert!(decoded == state, "after a prompt of {first}");
        }
    }
}

/// A row's result does not depend on the rows computed beside it: other later rows leave it alone.
#[test]
fn rows_are_independent() {
    for model in models() {
        let (shared, vocab) = (ids(model, 9, "shared"), model.config().vocab_size);
        let first = one_piece(model, &Prompt::text([shared.clone(), ids(model, 8, "one end")].concat())).0;
        let second = one_piece(model, &Prompt::text([shared.clone(), ids(model, 5, "other end")].concat())).0;
        let alone = one_piece(model, &Prompt::text(shared)).0;
        assert!(first.logits[..9 * vocab] == alone.logits[..] && second.logits[..9 * vocab] == alone.logits[..]);
        assert!(first.logits[9 * vocab..10 * vocab] != second.logits[9 * vocab..10 * vocab]);
    }
}

/// Drafting only reads (section 10.10), and works from the last tap of a prompt of any length.
#[test]
fn drafting_changes_no_state() {
    for model in models() {
        assert_eq!(model.draft(&model.state(), 1), None, "there is nothing to draft from before the first token");
        for n in [1, 2, 9, 20] {
            let (_, state) = one_piece(model, &text(model, n));
            let before = state.clone();
            let draft = model.draft(&state, 3).unwrap();
            assert_eq!(draft.ids.len(), model.config().dspark_block_size);
            assert_eq!(model.draft(&state, 3).unwrap(), draft);
            assert!(state == before);
        }
    }
}
