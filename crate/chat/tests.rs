//! Conversations with the lab model.

use super::*;
use crate::generate::snapshot::Form;
use crate::generate::{Limits, Sampler, Sampling, Session};
use crate::image::Rgb;
use crate::model::{Prefill, Reference};
use crate::numerics::precision::Precision;
use crate::text::Tokenizer;
use crate::text::prompt::{Message, Mode, Role, SpecialIds, render};
use crate::weights::tiny;
use pollster::block_on;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

static LAB: LazyLock<(Arc<Reference>, Arc<Tokenizer>)> = LazyLock::new(|| {
    let checkpoint = Arc::new(block_on(tiny::lab()).unwrap());
    let tokenizer = Tokenizer::from_json(checkpoint.tokenizer_json().unwrap()).unwrap();
    let mut silent = |_: usize, _: usize, _: &str| {};
    let model = block_on(Reference::load(checkpoint, Precision::F32, Precision::Released, &mut silent));
    (Arc::new(model.unwrap()), Arc::new(tokenizer))
});

fn conversation() -> Conversation {
    Conversation::new(LAB.0.clone(), LAB.1.clone(), Box::new(|| 0.0)).unwrap()
}

fn request(body: Value) -> Request {
    Request::from_json(&body.to_string()).unwrap()
}

fn ask(text: &str, most: usize) -> Value {
    json!({ "messages": [{ "role": "user", "content": text }], "max_tokens": most })
}

/// Everything that a request gives.
struct Whole {
    begun: Begun,
    text: String,
    pieces: Vec<String>,
    logprobs: Vec<Token>,
    done: reply::Done,
}

fn whole(conversation: &mut Conversation, body: &Value) -> Whole {
    let begun = block_on(conversation.begin(&request(body.clone()))).unwrap();
    let (mut pieces, mut logprobs) = (Vec::new(), Vec::new());
    loop {
        let step = block_on(conversation.next()).unwrap();
        assert!(step.reading.is_none() || step.text.is_empty());
        logprobs.extend(step.logprobs);
        pieces.push(step.text);
        if let Some(done) = step.done {
            return Whole { begun, text: pieces.concat(), pieces, logprobs, done };
        }
    }
}

/// What the session alone writes after the same prompt, without drafts.
fn expected(turns: &[(Role, &str)], most: usize) -> Vec<u32> {
    let messages: Vec<Message> = turns.iter().map(|(role, text)| Message::text(*role, *text)).collect();
    let pieces = render(&messages, Mode::Chat, &SpecialIds::find(&LAB.1), &LAB.1).unwrap();
    let mut session = Session::new(LAB.0.clone(), LAB.1.clone()).unwrap();
    session.speculate(None);
    block_on(session.feed(&pieces, &[], Prefill::default(), &|| 0.0)).unwrap();
    let limits = Limits { max_tokens: most, stop: Vec::new() };
    let sampler = Sampler::new(Sampling::GREEDY).unwrap();
    block_on(session.generate(&sampler, &limits, &|| 0.0, &mut |_| ControlFlow::Continue(()))).unwrap().ids
}

#[test]
fn an_answer_is_the_sessions_own() {
    let found = whole(&mut conversation(), &ask("What is a token?", 12));
    assert_eq!(found.done.ids, expected(&[(Role::User, "What is a token?")], 12));
    assert_eq!((found.done.finish_reason, found.text.as_str()), (Finish::Length, &*LAB.1.decode(&found.done.ids)));
    let usage = found.done.usage;
    assert_eq!((usage.completion_tokens, usage.total_tokens), (12, usage.prompt_tokens + 12));
    assert_eq!((usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens), (found.begun.prompt_tokens, 0));
    assert!(usage.flash890.rounds > 0);
}

/// Drafts change how much a step brings, never the tokens; a seed fixes a draw.
#[test]
fn drafts_and_seeds() {
    let body =
        json!({ "messages": [{ "role": "user", "content": "Và" }], "max_tokens": 16, "temperature": 1.2, "seed": 7 });
    let mut plain = conversation();
    plain.speculate(None);
    let mut eager = conversation();
    eager.speculate(Some(crate::generate::Speculation { confidence: 0.0 }));
    let (one, many) = (whole(&mut plain, &body), whole(&mut eager, &body));
    assert_eq!(one.done.ids, many.done.ids);
    assert_eq!((one.done.usage.flash890.drafted, many.done.usage.flash890.drafted > 0), (0, true));
    let mut other = body.clone();
    other["seed"] = 8.into();
    assert_ne!(whole(&mut plain, &other).done.ids, one.done.ids);
}

/// A conversation that grows is not read again; one that is edited is read from the edit on. The answers are those of a fresh conversation.
#[test]
fn what_was_said_before_is_reused() {
    let mut talk = conversation();
    let first = whole(&mut talk, &ask("One", 6));
    let turns = |last: &str| {
        json!({ "max_tokens": 6, "messages": [
            { "role": "user", "content": "One" },
            { "role": "assistant", "content": first.text },
            { "role": "user", "content": last },
        ] })
    };
    let second = whole(&mut talk, &turns("Two"));
    assert!(second.begun.cached_tokens >= first.begun.prompt_tokens, "{:?}", second.begun);
    assert_eq!(second.done.usage.prompt_tokens_details.cached_tokens, second.begun.cached_tokens);
    assert_eq!(second.done.ids, whole(&mut conversation(), &turns("Two")).done.ids);
    let edited = whole(&mut talk, &turns("Three"));
    assert!(edited.begun.cached_tokens >= second.begun.cached_tokens);
    assert_eq!(edited.done.ids, whole(&mut conversation(), &turns("Three")).done.ids);
}

/// Stopped after every number of steps, in the prompt and in the answer: the same request then gives the whole answer, and reads less.
#[test]
fn a_stopped_answer_leaves_its_beginning() {
    let long = "a b c d e f g h ".repeat(20);
    let body = ask(&long, 9);
    let expected = whole(&mut conversation(), &body);
    for steps in [1, 2, 4] {
        let mut talk = conversation();
        // One token a step: the answer has not ended before it is stopped.
        talk.speculate(None);
        block_on(talk.begin(&request(body.clone()))).unwrap();
        let mut read = 0;
        for _ in 0..steps {
            let step = block_on(talk.next()).unwrap();
            read = step.reading.map_or(read, |(done, _)| done);
            if step.done.is_some() {
                break;
            }
        }
        talk.stop();
        assert!(matches!(block_on(talk.next()), Err(crate::Error::Usage(_))));
        let again = whole(&mut talk, &body);
        assert_eq!(again.done.ids, expected.done.ids);
        assert_eq!(again.begun.cached_tokens, read.min(again.begun.prompt_tokens - 1));
    }
}

#[test]
fn stop_strings_stay_out_of_text_and_logprobs() {
    let plain = whole(&mut conversation(), &ask("The token", 16));
    let characters: Vec<char> = plain.text.chars().collect();
    // From the middle of the answer, over several tokens.
    let stop: String = characters[characters.len() / 2..].iter().take(3).collect();
    let mut body = ask("The token", 16);
    body["stop"] = json!([stop]);
    body["logprobs"] = true.into();
    let stopped = whole(&mut conversation(), &body);
    assert_eq!(
        (stopped.done.finish_reason, stopped.text.as_str()),
        (Finish::Stop, &plain.text[..plain.text.find(&stop).unwrap()])
    );
    let bytes: Vec<u8> = stopped.logprobs.iter().flat_map(|token| token.bytes.clone()).collect();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.starts_with(stopped.text.as_str()), "{text:?} {:?}", stopped.text);
    assert!(stopped.logprobs.len() <= stopped.done.ids.len());
}

/// The lab model writes bytes that are no text: what comes in pieces is what decoding all at once gives.
#[test]
fn no_piece_holds_half_a_character() {
    for (seed, question) in ["🌍", "Xin chào", "你好"].iter().enumerate() {
        let body = json!({
            "messages": [{ "role": "user", "content": question }],
            "max_tokens": 24, "temperature": 2, "seed": seed, "logprobs": true, "top_logprobs": 2,
        });
        let found = whole(&mut conversation(), &body);
        let ids: Vec<u32> = found.done.ids.iter().copied().filter(|&id| id != LAB.0.config().eos_token_id).collect();
        assert_eq!(found.text, LAB.1.decode(&ids));
        let bytes: Vec<u8> = found.logprobs.iter().flat_map(|token| token.bytes.clone()).collect();
        assert_eq!(String::from_utf8_lossy(&bytes), found.text);
        assert_eq!(found.logprobs.len(), ids.len());
        for token in &found.logprobs {
            let top = token.top_logprobs.as_ref().unwrap();
            assert!(token.logprob <= top[0].logprob && top[0].logprob <= 0.0 && top[1].logprob <= top[0].logprob);
        }
        assert!(found.pieces.iter().filter(|piece| !piece.is_empty()).count() > 5);
    }
}

fn picture() -> String {
    let rgb = Rgb::new(84, 60, (0..84 * 60 * 3).map(|i| (i * 7 % 256) as u8).collect()).unwrap();
    let mut file = std::io::Cursor::new(Vec::new());
    let image = ::image::RgbImage::from_raw(84, 60, rgb.data).unwrap();
    image.write_to(&mut file, ::image::ImageFormat::Png).unwrap();
    format!("data:image/png;base64,{}", crate::text::base64::encode(&file.into_inner()))
}

#[test]
fn pictures_are_read_and_reused() {
    let with = |url: &str| {
        json!({ "max_tokens": 3, "messages": [{ "role": "user", "content": [
            { "type": "image_url", "image_url": { "url": url } }, { "type": "text", "text": "What?" },
        ] }] })
    };
    let mut talk = conversation();
    let seen = whole(&mut talk, &with(&picture()));
    assert!(seen.begun.prompt_tokens > whole(&mut conversation(), &ask("What?", 3)).begun.prompt_tokens + 4);
    assert_eq!(whole(&mut talk, &with(&picture())).begun.cached_tokens, seen.begun.prompt_tokens - 1);
    let error = block_on(talk.begin(&request(with("data:image/png;base64,Zm9v")))).unwrap_err();
    assert_eq!(error.kind(), "picture");
    assert!(error.to_string().contains("messages[0]"), "{error}");
    // The conversation can still be used.
    assert_eq!(whole(&mut talk, &with(&picture())).done.ids, seen.done.ids);
}

#[test]
fn a_prompt_that_is_too_long_is_refused() {
    let mut model = LAB.0.as_ref().clone();
    model.context.config.max_position_embeddings = 24;
    let mut talk = Conversation::new(Arc::new(model), LAB.1.clone(), Box::new(|| 0.0)).unwrap();
    let error = block_on(talk.begin(&request(ask(&"a b ".repeat(40), 3)))).unwrap_err();
    assert_eq!(error.kind(), "prompt");
    // Without a limit the answer ends where the positions do.
    let mut short = ask("a", 1);
    short.as_object_mut().unwrap().remove("max_tokens");
    let found = whole(&mut talk, &short);
    assert!(found.done.usage.total_tokens <= 25);
}

/// An error of the model ends the session, not the conversation.
#[test]
fn an_error_does_not_end_the_conversation() {
    let mut model = LAB.0.as_ref().clone();
    model.head.norm[0] = f32::NAN;
    let mut talk = Conversation::new(Arc::new(model), LAB.1.clone(), Box::new(|| 0.0)).unwrap();
    for _ in 0..2 {
        block_on(talk.begin(&request(ask("a", 3)))).unwrap();
        assert!(matches!(block_on(talk.next()), Err(crate::Error::NotFiniteActivation { .. })));
    }
}

#[test]
fn a_step_as_json() {
    let mut talk = conversation();
    let mut body = ask("a", 1);
    body["logprobs"] = true.into();
    body["top_logprobs"] = 1.into();
    block_on(talk.begin(&request(body))).unwrap();
    let reading = serde_json::to_value(block_on(talk.next()).unwrap()).unwrap();
    assert_eq!(reading["reading"][0], reading["reading"][1]);
    let step = serde_json::to_value(block_on(talk.next()).unwrap()).unwrap();
    assert_eq!(step["done"]["finish_reason"], "length");
    assert_eq!(step["done"]["usage"]["completion_tokens"], 1);
    assert!(
        step["done"]["usage"]["flash890"]["rounds"].is_u64()
            && step["done"]["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    );
    assert_eq!(step["logprobs"][0]["token"], step["logprobs"][0]["top_logprobs"][0]["token"]);
    assert!(step["logprobs"][0]["top_logprobs"][0].get("top_logprobs").is_none());
}

/// A conversation in a file goes on as the one that wrote it, with drafts and without, and a request without messages goes on where it stands.
#[test]
fn a_conversation_moves() {
    let mut talk = conversation();
    let empty = block_on(talk.begin(&request(json!({ "continue": true })))).and(block_on(talk.next()));
    assert_eq!(empty.unwrap_err().kind(), "prompt");
    let all = whole(&mut conversation(), &ask("What is a token?", 12)).done.ids;
    assert_eq!(whole(&mut talk, &ask("What is a token?", 5)).done.ids, all[..5]);
    let files = [Form::Full, Form::Compact].map(|form| block_on(talk.save(form)).unwrap());
    for (file, dspark) in [(&files[0], true), (&files[0], false), (&files[1], true)] {
        let mut again = conversation();
        assert_eq!(block_on(again.load(file)).unwrap(), talk.session().ids().len());
        let found = whole(&mut again, &json!({ "continue": true, "max_tokens": 7, "dspark": dspark }));
        assert_eq!((&found.done.ids[..], found.begun.cached_tokens), (&all[5..], found.begun.prompt_tokens));
        assert!(dspark || found.done.usage.flash890.drafted == 0);
    }
    // What is refused changes nothing, not even an answer that is on its way.
    block_on(talk.begin(&request(json!({ "continue": true, "max_tokens": 7 })))).unwrap();
    assert_eq!(block_on(talk.load(&files[0][1..])).unwrap_err().kind(), "integrity");
    let mut rest = 5;
    while block_on(talk.next()).unwrap().done.is_none() {
        rest += 1;
        assert!(rest < 12);
    }
    assert_eq!(talk.session().ids().len(), block_on(conversation().load(&files[0])).unwrap() + 7);
}
