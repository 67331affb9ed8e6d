//! Sessions on the lab model.

use super::*;
use crate::blocks::b1a_input::Prompt;
use crate::blocks::tap::Silent;
use crate::image::Rgb;
use crate::model::{Prefill, Reference};
use crate::numerics::ops::argmax;
use crate::numerics::precision::Precision;
use crate::text::Tokenizer;
use crate::text::prompt::Piece;
use crate::weights::tiny;
use crate::{Error, Result};
use pollster::block_on;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

static LAB: LazyLock<(Arc<Reference>, Arc<Tokenizer>)> = LazyLock::new(|| {
    let checkpoint = Arc::new(block_on(tiny::lab()).unwrap());
    let tokenizer = Tokenizer::from_json(checkpoint.tokenizer_json().unwrap()).unwrap();
    let mut silent = |_: usize, _: usize, _: &str| {};
    let model = block_on(Reference::load(checkpoint, Precision::F32, Precision::Released, &mut silent));
    (Arc::new(model.unwrap()), Arc::new(tokenizer))
});

/// The lab model with something changed.
fn session_with(change: impl FnOnce(&mut Reference)) -> Session {
    let mut model = LAB.0.as_ref().clone();
    change(&mut model);
    Session::new(Arc::new(model), LAB.1.clone()).unwrap()
}

fn session() -> Session {
    Session::new(LAB.0.clone(), LAB.1.clone()).unwrap()
}

fn prompt(text: &str) -> Vec<Piece> {
    prompt::plain(text, 0, &LAB.1, LAB.0.config()).unwrap()
}

fn feed(session: &mut Session, text: &str) -> Result<()> {
    block_on(session.feed(&prompt(text), &[], Prefill::default(), &|| 0.0))
}

/// A greedy answer and the pieces in which its text came.
fn answer(session: &mut Session, max_tokens: usize, stop: &[&str]) -> Result<(Answer, Vec<String>)> {
    let limits = Limits { max_tokens, stop: stop.iter().map(|stop| stop.to_string()).collect() };
    let mut pieces = Vec::new();
    let sampler = Sampler::new(Sampling::GREEDY)?;
    let answer = block_on(session.generate(&sampler, &limits, &|| 0.0, &mut |text| {
        pieces.push(text.to_string());
        ControlFlow::Continue(())
    }))?;
    Ok((answer, pieces))
}

/// Six greedy tokens after "The token", by the model alone.
static EXPECTED: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let model = &LAB.0;
    let mut state = model.state();
    let ids = [vec![0], LAB.1.encode("The token")].concat();
    let mut logits =
        block_on(model.prefill(&mut state, &Prompt::text(ids), Prefill::default(), &mut Silent)).unwrap().logits;
    let mut chosen = Vec::new();
    for _ in 0..6 {
        chosen.push(argmax(&logits) as u32);
        logits = block_on(model.decode(&mut state, chosen[chosen.len() - 1], &mut Silent)).unwrap();
    }
    chosen
});

#[test]
fn greedy_tokens_are_the_models_own() {
    let mut session = session();
    feed(&mut session, "The token").unwrap();
    let (answer, pieces) = answer(&mut session, 6, &[]).unwrap();
    assert_eq!(answer.ids, *EXPECTED);
    assert_eq!(answer.finish, Finish::MaxTokens);
    assert_eq!(answer.text, LAB.1.decode(&EXPECTED));
    assert_eq!(pieces.concat(), answer.text);
    let usage = session.usage();
    assert_eq!(
        (usage.prompt_tokens, usage.generated_tokens, usage.decode_steps),
        (1 + LAB.1.encode("The token").len(), 6, 5)
    );
}

/// Three tokens and three more are six at once; a token that waits goes in front of the next prompt.
#[test]
fn an_answer_goes_on_where_it_ended() {
    let mut session = session();
    feed(&mut session, "The token").unwrap();
    let first = answer(&mut session, 3, &[]).unwrap().0.ids;
    let second = answer(&mut session, 3, &[]).unwrap().0.ids;
    assert_eq!([first, second].concat(), *EXPECTED);

    let position = session.state().position();
    let ids = vec![EXPECTED[0], EXPECTED[1]];
    block_on(session.feed(&[Piece::Ids(ids.clone())], &[], Prefill::default(), &|| 0.0)).unwrap();
    assert_eq!(session.state().position(), position + 3);
    let mut whole = self::session();
    let all = [vec![0], LAB.1.encode("The token"), EXPECTED.clone(), ids].concat();
    block_on(whole.feed(&[Piece::Ids(all)], &[], Prefill::default(), &|| 0.0)).unwrap();
    assert_eq!(answer(&mut session, 2, &[]).unwrap().0.ids, answer(&mut whole, 2, &[]).unwrap().0.ids);
}

#[test]
fn end_of_sequence_ends_the_answer() {
    let mut session = session_with(|model| model.context.config.eos_token_id = EXPECTED[2]);
    feed(&mut session, "The token").unwrap();
    let (answer, pieces) = answer(&mut session, 6, &[]).unwrap();
    let first = EXPECTED.iter().position(|&id| id == EXPECTED[2]).unwrap();
    assert_eq!((answer.ids, answer.finish), (EXPECTED[..=first].to_vec(), Finish::Eos));
    assert_eq!(answer.text, LAB.1.decode(&EXPECTED[..first]));
    assert_eq!(pieces.concat(), answer.text);
}

#[test]
fn stop_strings_end_the_answer_and_stay_out_of_it() {
    let whole = LAB.1.decode(&EXPECTED);
    let stop: String = whole.chars().skip(2).take(2).collect();
    let mut session = session();
    feed(&mut session, "The token").unwrap();
    let (answer, pieces) = answer(&mut session, 6, &[&stop]).unwrap();
    assert_eq!(answer.finish, Finish::Stop);
    assert_eq!(answer.text, whole[..whole.find(&stop).unwrap()]);
    assert_eq!(pieces.concat(), answer.text);
}

#[test]
fn the_callback_can_stop() {
    let mut session = session();
    feed(&mut session, "The token").unwrap();
    let limits = Limits { max_tokens: 6, stop: Vec::new() };
    let sampler = Sampler::new(Sampling::GREEDY).unwrap();
    let answer = block_on(session.generate(&sampler, &limits, &|| 0.0, &mut |_| ControlFlow::Break(()))).unwrap();
    assert_eq!((answer.ids, answer.finish), (EXPECTED[..1].to_vec(), Finish::Cancelled));
}

#[test]
fn positions_run_out() {
    let tokens = 1 + LAB.1.encode("The token").len();
    let limited = |limit| session_with(|model| model.context.config.max_position_embeddings = limit);
    let mut session = limited(tokens + 2);
    feed(&mut session, "The token").unwrap();
    let (first, _) = answer(&mut session, 6, &[]).unwrap();
    assert_eq!((first.ids, first.finish), (EXPECTED[..3].to_vec(), Finish::PositionLimit));
    // What would be an empty answer is an error.
    assert!(matches!(answer(&mut session, 6, &[]), Err(Error::Prompt(_))));

    let mut session = limited(tokens - 1);
    let error = feed(&mut session, "The token").unwrap_err().to_string();
    assert_eq!(error, format!("prompt: {tokens} positions with what is already there; the model has {}", tokens - 1));
    feed(&mut session, "T").unwrap();
}

#[test]
fn errors_are_never_empty_answers() {
    let mut session = session();
    assert!(matches!(answer(&mut session, 3, &[]), Err(Error::Prompt(_))));
    assert!(matches!(block_on(session.feed(&[], &[], Prefill::default(), &|| 0.0)), Err(Error::Prompt(_))));
    let picture = block_on(session.feed(&[Piece::Image(0)], &[], Prefill::default(), &|| 0.0));
    assert!(matches!(picture, Err(Error::Prompt(_))));
    // An id that does not exist, in the second chunk: the first has not been fed either.
    let alien = [Piece::Ids(vec![1, 2, 3, u32::MAX])];
    let how = Prefill { chunk: 2, ..Prefill::default() };
    assert!(matches!(block_on(session.feed(&alien, &[], how, &|| 0.0)), Err(Error::Prompt(_))));
    assert!(session.ids().is_empty());
    feed(&mut session, "a").unwrap();
    assert!(matches!(answer(&mut session, 0, &[]), Err(Error::Usage(_))));
    assert!(matches!(answer(&mut session, 1, &[""]), Err(Error::Prompt(_))));
    assert_eq!(answer(&mut session, 1, &[]).unwrap().0.ids.len(), 1);

    assert!(matches!(prompt::plain("", 0, &LAB.1, LAB.0.config()), Err(Error::Prompt(_))));
    assert!(matches!(prompt::plain("<｜deepseek_image｜>", 0, &LAB.1, LAB.0.config()), Err(Error::Prompt(_))));
}

#[test]
fn a_broken_session_says_so() {
    let mut session = session_with(|model| model.head.norm[0] = f32::NAN);
    assert!(matches!(feed(&mut session, "a"), Err(Error::NotFiniteActivation { .. })));
    assert!(matches!(feed(&mut session, "a"), Err(Error::Usage(_))));
    assert!(matches!(answer(&mut session, 1, &[]), Err(Error::Usage(_))));
}

#[test]
fn pictures_take_their_places() {
    let config = LAB.0.config();
    let rgb = Rgb::new(84, 60, (0..84 * 60 * 3).map(|i| (i * 7 % 256) as u8).collect()).unwrap();
    let picture = Picture::new(&rgb, config.vision.as_ref().unwrap()).unwrap();
    let pieces = prompt::plain("What is this?", 1, &LAB.1, config).unwrap();
    assert_eq!(pieces[..2], [Piece::Ids(vec![config.bos_token_id]), Piece::Image(0)]);
    let mut session = session();
    block_on(session.feed(&pieces, std::slice::from_ref(&picture), Prefill::default(), &|| 0.0)).unwrap();
    let usage = session.usage();
    assert_eq!(usage.image_tokens, picture.types.len());
    assert_eq!(usage.prompt_tokens, picture.types.len() + 1 + LAB.1.encode("What is this?").len());

    // The rows are the vision tower's: the model alone gives the same token.
    let mut prompt = Prompt::text(vec![config.bos_token_id]);
    prompt.push_image(config.image_token_id, &picture.types, &LAB.0.image_rows(&picture.patches).unwrap());
    prompt.push_text(&LAB.1.encode("What is this?"));
    let logits = block_on(LAB.0.prefill(&mut LAB.0.state(), &prompt, Prefill::default(), &mut Silent)).unwrap().logits;
    assert_eq!(answer(&mut session, 1, &[]).unwrap().0.ids, [argmax(&logits) as u32]);
}

/// A clock that moves one second whenever it is asked: reading and writing are measured apart, between two questions each.
#[test]
fn seconds() {
    let now = Cell::new(0.0);
    let clock = || now.replace(now.get() + 1.0);
    let mut session = session();
    block_on(session.feed(&prompt("The token"), &[], Prefill::default(), &clock)).unwrap();
    let sampler = Sampler::new(Sampling::GREEDY).unwrap();
    let limits = Limits { max_tokens: 3, stop: Vec::new() };
    block_on(session.generate(&sampler, &limits, &clock, &mut |_| ControlFlow::Continue(()))).unwrap();
    let usage = session.usage();
    assert_eq!((usage.prefill_seconds, usage.decode_seconds), (1.0, 3.0));
    assert_eq!(usage.decode_rate(), Some(2.0 / 3.0));
    assert_eq!(usage.prefill_rate(), Some(usage.prompt_tokens as f64));
    assert_eq!(Usage::default().decode_rate(), None);
}

/// What a session writes after a prompt, greedily.
fn written(session: &mut Session, n: usize) -> Vec<u32> {
    answer(session, n, &[]).unwrap().0.ids
}

/// A fresh session that reads these ids in one piece.
fn fresh(ids: &[u32]) -> Session {
    let mut session = session();
    block_on(session.feed(&[Piece::Ids(ids.to_vec())], &[], Prefill::default(), &|| 0.0)).unwrap();
    session
}

/// A conversation that comes back longer, edited, or shorter: what is common stays, the answer is that of a fresh session.
#[test]
fn conversations_are_resumed() {
    let text = |text: &str| [vec![0], LAB.1.encode(text)].concat();
    let mut session = session();
    let resume = |session: &mut Session, ids: &[u32]| {
        block_on(session.resume(&[Piece::Ids(ids.to_vec())], &[], Prefill::default(), &|| 0.0)).unwrap()
    };
    let first = text("The token and its neighbours");
    assert_eq!(resume(&mut session, &first), 0);
    let answered = written(&mut session, 5);
    // The last token of the answer has not run yet.
    let second = [first.clone(), answered.clone(), LAB.1.encode(" and more")].concat();
    assert_eq!(resume(&mut session, &second), first.len() + 4);
    assert_eq!(written(&mut session, 4), written(&mut fresh(&second), 4));
    let edited = [&first[..6], &[9, 8, 7][..]].concat();
    assert_eq!(resume(&mut session, &edited), 6);
    assert_eq!(session.ids(), edited);
    assert_eq!(written(&mut session, 4), written(&mut fresh(&edited), 4));
    // The same again: the last token is fed for its logits.
    assert_eq!(resume(&mut session, &edited), edited.len() - 1);
    assert_eq!(written(&mut session, 4), written(&mut fresh(&edited), 4));
    assert_eq!(session.usage().reused_tokens, first.len() + 4 + 6 + edited.len() - 1);
    let other = text("Nothing");
    assert_eq!(resume(&mut session, &other), 1);
    assert_eq!(written(&mut session, 3), written(&mut fresh(&other), 3));
}

#[test]
fn pictures_are_compared_by_what_they_show() {
    let config = LAB.0.config();
    let picture = |factor: usize| {
        let rgb = Rgb::new(84, 60, (0..84 * 60 * 3).map(|i| (i * factor % 256) as u8).collect()).unwrap();
        Picture::new(&rgb, config.vision.as_ref().unwrap()).unwrap()
    };
    let pieces = prompt::plain("What is this?", 1, &LAB.1, config).unwrap();
    let mut session = session();
    let mut resume = |picture: &Picture| {
        block_on(session.resume(&pieces, std::slice::from_ref(picture), Prefill::default(), &|| 0.0)).unwrap()
    };
    let (one, other) = (picture(7), picture(11));
    assert_eq!(resume(&one), 0);
    let all = 1 + one.types.len() + LAB.1.encode("What is this?").len();
    assert_eq!(resume(&one), all - 1);
    // BOS and START, and then the first cell differs.
    assert_eq!(resume(&other), 2);
}

#[test]
fn forks_go_their_own_ways() {
    let mut session = session();
    feed(&mut session, "The token").unwrap();
    written(&mut session, 2);
    let mut fork = block_on(session.fork()).unwrap();
    assert_eq!(fork.usage(), Usage::default());
    assert_eq!(written(&mut fork, 4), EXPECTED[2..]);
    feed(&mut session, " or").unwrap();
    written(&mut session, 3);
    assert_eq!(fork.ids(), [&[0], &LAB.1.encode("The token")[..], &EXPECTED[..5]].concat());
}

/// Stopped after each token, in a prompt or in an answer: what is there is the beginning, and goes on as if nothing had happened.
#[test]
fn stopping_leaves_the_beginning() {
    let ids = [vec![0], LAB.1.encode("The token and its neighbours")].concat();
    let whole = written(&mut fresh(&ids), 6);
    let how = Prefill { chunk: 3, ..Prefill::default() };
    for stop in 1..=ids.len().div_ceil(3) {
        let mut session = session();
        let mut chunks = 0;
        let mut proceed = |_| {
            chunks += 1;
            if chunks == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let pieces = [Piece::Ids(ids.clone())];
        let read = block_on(session.feed_while(&pieces, &[], how, &|| 0.0, &mut proceed)).unwrap();
        let end = (3 * stop).min(ids.len());
        assert_eq!((session.ids(), read), (&ids[..end], end == ids.len()));
        if !read {
            block_on(session.feed(&[Piece::Ids(ids[end..].to_vec())], &[], how, &|| 0.0)).unwrap();
        }
        assert_eq!(written(&mut session, 6), whole);
    }
    for stop in 1..6 {
        let (mut session, mut tokens) = (fresh(&ids), 0);
        let limits = Limits { max_tokens: 6, stop: Vec::new() };
        let sampler = Sampler::new(Sampling::GREEDY).unwrap();
        let first = block_on(session.generate(&sampler, &limits, &|| 0.0, &mut |_| {
            tokens += 1;
            if tokens == stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }));
        let first = first.unwrap().ids;
        assert_eq!([first, written(&mut session, 6 - stop)].concat(), whole);
    }
}

/// A call that is dropped in its middle leaves a session that makes its state again.
#[test]
fn a_dropped_call_is_made_good() {
    let mut session = session();
    feed(&mut session, "The token").unwrap();
    written(&mut session, 2);
    session.in_flight = true;
    session.state = session.model.state().unwrap();
    assert_eq!(written(&mut session, 4), EXPECTED[2..]);
}

/// A hundred turns of a conversation whose beginning stays: the state grows by what is new, and nothing else does.
#[test]
fn memory_is_steady_over_turns() {
    let mut session = session();
    let start = [vec![0], LAB.1.encode("The token")].concat();
    let mut bytes = Vec::new();
    for turn in 0..100u32 {
        let ids = [start.clone(), vec![5 + turn % 7, 6]].concat();
        block_on(session.resume(&[Piece::Ids(ids.clone())], &[], Prefill::default(), &|| 0.0)).unwrap();
        written(&mut session, 2);
        bytes.push((session.state().kv_bytes(), session.state().ring_bytes(), session.ids().len()));
    }
    assert!(bytes.windows(2).all(|pair| pair[0] == pair[1]), "{bytes:?}");
}
