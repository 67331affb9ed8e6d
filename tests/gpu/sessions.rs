//! What a sequence on the GPU can do besides going forward: back, two ways, onto another device, into a file and out of it.

use super::*;
use flash890::blocks::b3a_encoder_decoder::DecoderTail;
use flash890::generate::snapshot::Form;
use flash890::generate::{Limits, Sampler, Sampling, Session, Speculation};
use flash890::model::Engine;
use flash890::text::Tokenizer;
use flash890::text::prompt::Piece;
use std::ops::ControlFlow;

/// Random programs of appending, speculating, keeping fewer, going back: the bytes are those of feeding what survived.
#[test]
fn programs_end_where_plain_feeding_does() {
    let checkpoint = support::appendix_e::checkpoint(&support::appendix_e::spec());
    let model = load(gpu(), &checkpoint, Precision::Released, Precision::Released);
    let vocab = model.config().vocab_size as u32;
    let sequence = text(vocab as usize, 90, "programs");
    let dim = model.config().dim;
    let mut plain = model.state().unwrap();
    let mut states = vec![block_on(model.download(&plain)).unwrap()];
    for position in 0..90 {
        prefill(&model, &mut plain, &sequence.piece(position..position + 1, dim), Prefill::default());
        states.push(block_on(model.download(&plain)).unwrap());
    }
    let mut state = model.state().unwrap();
    for program in 0..48 {
        let stream = Stream::new(&format!("program {program}"));
        let draw = |i: u64, below: usize| (stream.at(i) % below as u64) as usize;
        let (begin, right) = (state.position, draw(0, 7).min(90 - state.position));
        let wrong = draw(1, 4).min(90 - begin - right);
        let mut prompt = sequence.piece(begin..begin + right, dim);
        prompt.push_text(&(0..wrong).map(|i| (sequence.ids[begin + right + i] + 1) % vocab).collect::<Vec<_>>());
        if begin > 0 {
            block_on(model.propose(&mut state, 3, 0.0, 0)).unwrap();
        }
        if !prompt.is_empty() {
            prefill(&model, &mut state, &prompt, Prefill { chunk: 1 + draw(2, 8), ..Prefill::default() });
        }
        let keep = begin + draw(3, right + 1);
        model.settle(&mut state, keep).unwrap();
        if program % 5 == 4 {
            // Mostly a few tokens back, which costs nothing; sometimes further than the rings reach.
            let position = if program % 2 == 0 { keep / 4 } else { keep.saturating_sub(draw(4, 6)) };
            block_on(model.rewind(&mut state, &sequence, position)).unwrap();
        }
        let own = block_on(model.download(&state)).unwrap();
        assert!(own == states[state.position], "program {program}, from {begin} to {}", state.position);
    }
}

/// Far back, into the middle of a long sequence and of a call: by a replay, whose bytes are those of plain feeding.
#[test]
fn replays_are_exact() {
    let checkpoint = support::appendix_e::checkpoint(&support::appendix_e::spec());
    let model = load(gpu(), &checkpoint, Precision::F32, Precision::Released);
    let sequence = text(model.config().vocab_size, 200, "replay");
    let mut state = model.state().unwrap();
    prefill(&model, &mut state, &sequence, Prefill { tail: DecoderTail::Last(40), ..Prefill::default() });
    for position in [131, 90, 7, 0] {
        block_on(model.rewind(&mut state, &sequence, position)).unwrap();
        let mut plain = model.state().unwrap();
        if position > 0 {
            let piece = sequence.piece(0..position, model.config().dim);
            prefill(&model, &mut plain, &piece, Prefill::default());
        }
        let [own, plain] = [&state, &plain].map(|state| block_on(model.download(state)).unwrap());
        assert!(own == plain, "back to {position}");
    }
    assert!(model.settle(&mut state, 1).is_err(), "nothing there");
    assert!(block_on(model.rewind(&mut state, &sequence, 5)).is_err(), "not that far");
}

#[test]
fn forks_go_their_own_ways() {
    let model = load(gpu(), &T12, Precision::F32, Precision::Released);
    let vocab = model.config().vocab_size;
    let mut state = model.state().unwrap();
    prefill(
        &model,
        &mut state,
        &text(vocab, 141, "fork"),
        Prefill { tail: DecoderTail::Last(20), ..Prefill::default() },
    );
    let mut fork = block_on(model.fork(&state)).unwrap();
    let next = text(vocab, 9, "next");
    let expected = prefill(&model, &mut fork, &next, Prefill::default()).logits;
    prefill(&model, &mut fork, &text(vocab, 30, "away"), Prefill::default());
    assert!(prefill(&model, &mut state, &next, Prefill::default()).logits == expected);
}

fn session(engine: Engine) -> Session {
    let tokenizer = Tokenizer::from_json(engine.checkpoint().tokenizer_json().unwrap()).unwrap();
    let mut session = Session::new(engine, Arc::new(tokenizer)).unwrap();
    session.speculate(Some(Speculation { confidence: 0.0 }));
    session
}

fn feed(session: &mut Session, ids: &[u32]) {
    block_on(session.feed(&[Piece::Ids(ids.to_vec())], &[], Prefill::default(), &|| 0.0)).unwrap();
}

/// Writes tokens; `each` is called after each.
fn write(session: &mut Session, n: usize, each: &mut dyn FnMut()) -> Vec<u32> {
    let (sampler, limits) = (Sampler::new(Sampling::GREEDY).unwrap(), Limits { max_tokens: n, stop: Vec::new() });
    let emit = &mut |_: &str| {
        each();
        ControlFlow::Continue(())
    };
    block_on(session.generate(&sampler, &limits, &|| 0.0, emit)).unwrap().ids
}

/// Warming up compiles what reading and writing need, and leaves no trace in the conversation or its usage.
#[test]
fn warming_up_leaves_no_trace() {
    let mut session = session(load(gpu(), &T12, Precision::F32, Precision::Released).into());
    block_on(session.warm_up()).unwrap();
    assert_eq!((session.usage(), session.ids().len()), (flash890::generate::Usage::default(), 0));
    let pipelines = |session: &Session| match session.engine() {
        Engine::Gpu(model) => model.pipelines(),
        Engine::Cpu(_) => panic!("a GPU session"),
    };
    let made = pipelines(&session);
    feed(&mut session, &text(200, 30, "warm").ids);
    let written = write(&mut session, 6, &mut || {});
    assert_eq!((pipelines(&session), written.len()), (made, 6));
}

/// The device goes in the middle of an answer, and between two prompts: the session opens it again and goes on.
#[test]
fn answers_survive_a_lost_device() {
    let new = || session(load(gpu(), &T12, Precision::F32, Precision::Released).into());
    let ids = text(200, 30, "lost").ids;
    let mut undisturbed = new();
    feed(&mut undisturbed, &ids);
    let expected = write(&mut undisturbed, 8, &mut || {});
    let device = |session: &Session| match session.engine() {
        Engine::Gpu(model) => model.gpu.device.clone(),
        Engine::Cpu(_) => panic!("a GPU session"),
    };
    let mut session = new();
    feed(&mut session, &ids[..20]);
    device(&session).destroy();
    feed(&mut session, &ids[20..]);
    let (lost, mut written) = (device(&session), 0);
    let mut each = || {
        written += 1;
        if written == 3 {
            lost.destroy();
        }
    };
    assert_eq!(write(&mut session, 8, &mut each), expected);
    assert_eq!(session.ids(), undisturbed.ids());
}

/// Saved on one engine and opened on the other, in both directions and both forms; no token is read again.
#[test]
fn snapshots_cross_engines() {
    let f32 = Precision::F32;
    let on_gpu: Engine = load(gpu(), &T12, f32, f32).into();
    let on_cpu: Engine = Arc::new(reference(&T12, f32, f32)).into();
    let ids = text(200, 141, "snapshot").ids;
    for (from, to) in [(&on_gpu, &on_cpu), (&on_cpu, &on_gpu), (&on_gpu, &on_gpu)] {
        let mut own = session(from.clone());
        feed(&mut own, &ids);
        write(&mut own, 4, &mut || {});
        let files = [Form::Full, Form::Compact].map(|form| block_on(own.save(form)).unwrap());
        let expected = write(&mut own, 6, &mut || {});
        for file in &files {
            let tokenizer = Tokenizer::from_json(T12.tokenizer_json().unwrap()).unwrap();
            let mut again = block_on(Session::load(to.clone(), Arc::new(tokenizer), file)).unwrap();
            assert_eq!(write(&mut again, 6, &mut || {}), expected, "{} to {}", from.name(), to.name());
            assert_eq!(again.usage().prompt_tokens, 0);
            assert_eq!(again.ids(), own.ids());
        }
    }
}
