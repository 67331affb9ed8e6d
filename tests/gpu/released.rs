//! Released numerics on the model of appendix E: the criteria of section 13.5, and the printed ids.

use super::support::appendix_e;
use super::*;
use flash890::blocks::context::Context;
use flash890::numerics::ops::{argmax, top_k};

const VOCAB: usize = 128;

fn model() -> (Reference, GpuModel) {
    let spec = appendix_e::spec_with_vision();
    let checkpoint = appendix_e::checkpoint(&spec);
    let released = Precision::Released;
    let reference = appendix_e::load(&checkpoint, Context::new(&spec.config, released, released));
    (reference, load(gpu(), &checkpoint, released, released))
}

/// At most 2 % of the logits' range away, and the same best token where the margin is above 0.1.
#[track_caller]
fn assert_accepted(actual: &[f32], expected: &[f32]) {
    assert_eq!(actual.len(), expected.len());
    for (row, (a, e)) in actual.chunks(VOCAB).zip(expected.chunks(VOCAB)).enumerate() {
        let range = e.iter().copied().fold(f32::MIN, f32::max) - e.iter().copied().fold(f32::MAX, f32::min);
        let worst = a.iter().zip(e).map(|(a, e)| (a - e).abs()).fold(0.0, f32::max);
        assert!(worst <= 0.02 * range, "row {row}: {worst} off in a range of {range}");
        let best = top_k(e, 2);
        assert!(e[best[0]] - e[best[1]] <= 0.1 || argmax(a) == best[0], "row {row}: another best token");
    }
}

#[test]
fn logits_of_the_prompt() {
    let (reference, model) = model();
    for prompt in [Prompt::text(appendix_e::prompt()), appendix_e::image_prompt()] {
        let (actual, _) = all_logits(&model, &prompt, 64);
        assert_accepted(&actual, &reference_logits(&reference, &prompt));
    }
}

/// The continuation of E.2, with the printed logits of the last prompt token.
#[test]
fn greedy_ids() {
    let (_, model) = model();
    let mut state = model.state().unwrap();
    let prompt = Prompt::text(appendix_e::prompt());
    let mut logits = prefill(&model, &mut state, &prompt, Prefill::default()).logits;
    for (id, printed) in [(114, 3.37111), (1, 2.89759), (96, 2.55814), (38, 2.53157), (19, 2.39693)] {
        let range = 0.02 * 2.0 * 3.37111;
        assert!((logits[id] - printed).abs() <= range, "logit of {id}: {}, printed {printed}", logits[id]);
    }
    let mut ids = vec![argmax(&logits) as u32];
    while ids.len() < 13 {
        logits = block_on(model.decode(&mut state, ids[ids.len() - 1])).unwrap();
        ids.push(argmax(&logits) as u32);
    }
    assert_eq!(ids, [114, 116, 116, 83, 24, 125, 126, 60, 118, 31, 17, 18, 97]);
}

/// In released numerics too, chunks change nothing that the criteria would see; and a picture may be cut anywhere.
#[test]
fn chunks_of_a_picture() {
    let (_, model) = model();
    let prompt = appendix_e::image_prompt();
    let (whole, _) = all_logits(&model, &prompt, 64);
    for chunk in [1, 7] {
        assert_accepted(&all_logits(&model, &prompt, chunk).0, &whole);
    }
}
