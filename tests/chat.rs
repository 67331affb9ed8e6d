//! The same requests give the same tokens on every host: `tests/conformance/chat.json` has them, with nano's greedy answers. The command line is
//! asked in `tests/cli/chat.rs`, the page in `tests/web/engine-chat.test.mjs`.

use flash890::chat::{Conversation, Request, reply::Done};
use flash890::model::Reference;
use flash890::numerics::precision::Precision;
use flash890::text::Tokenizer;
use flash890::weights::Checkpoint;
use pollster::block_on;
use serde_json::{Value, json};
use std::sync::Arc;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/chat.json");
const NANO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/web/nano");

fn nano() -> Conversation {
    let checkpoint = Arc::new(block_on(Checkpoint::open_dir(NANO)).unwrap());
    let tokenizer = Tokenizer::from_json(checkpoint.tokenizer_json().unwrap()).unwrap();
    let mut silent = |_: usize, _: usize, _: &str| {};
    let model = block_on(Reference::load(checkpoint, Precision::F32, Precision::Released, &mut silent)).unwrap();
    Conversation::new(Arc::new(model), Arc::new(tokenizer), Box::new(|| 0.0)).unwrap()
}

fn answer(conversation: &mut Conversation, request: &Value) -> (String, Done) {
    let request = Request::from_json(&request.to_string()).unwrap();
    block_on(conversation.begin(&request)).unwrap();
    let mut text = String::new();
    loop {
        let step = block_on(conversation.next()).unwrap();
        text += &step.text;
        if let Some(done) = step.done {
            return (text, done);
        }
    }
}

fn record(conversation: &mut Conversation, request: &Value) -> Value {
    let (text, done) = answer(conversation, request);
    json!({ "text": text, "ids": done.ids, "finish_reason": done.finish_reason })
}

/// One conversation answers all of them, and reuses what they have in common; a second one drafts nothing. Neither changes a token.
#[test]
fn nano_answers_as_recorded() {
    let mut document: Value = serde_json::from_slice(&std::fs::read(FILE).unwrap()).unwrap();
    let (mut reusing, mut plain) = (nano(), nano());
    plain.speculate(None);
    let cases = document["cases"].as_array_mut().unwrap();
    if std::env::var_os("FLASH890_REGENERATE").is_some() {
        for case in cases.iter_mut() {
            case["answer"] = record(&mut plain, &case["request"]);
        }
        std::fs::write(FILE, format!("{document:#}\n")).unwrap();
        return;
    }
    for case in cases {
        let name = case["name"].as_str().unwrap();
        assert_eq!(record(&mut plain, &case["request"]), case["answer"], "{name}, without drafts");
        assert_eq!(record(&mut reusing, &case["request"]), case["answer"], "{name}");
    }
    assert!(reusing.session().usage().reused_tokens > 0 && reusing.session().usage().drafted_tokens > 0);
}
