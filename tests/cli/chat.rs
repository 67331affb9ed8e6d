//! `flash890 chat` with lines from a pipe, and nano as the model that comes along.

use super::{Run, flash890, golden, text};
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

/// What a conversation of these lines gives.
fn chat(lines: &[&str], args: &[&str]) -> Run {
    let mut command = flash890(&[&["chat", "--backend", "cpu"], args].concat());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A conversation that ended early does not read the rest.
    let _ = child.stdin.take().unwrap().write_all((lines.join("\n") + "\n").as_bytes());
    Run::from(child.wait_with_output().unwrap())
}

fn answers(run: &Run) -> Vec<Value> {
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn cases() -> Vec<Value> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance/chat.json");
    let document: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    document["cases"].as_array().unwrap().clone()
}

/// The command line gives the tokens of the conformance file.
#[test]
fn requests_are_answered_as_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let file = text(&folder.path().join("request.json"));
    for case in cases() {
        std::fs::write(&file, case["request"].to_string()).unwrap();
        let answer = &answers(&Run::of(&["chat", "--backend", "cpu", "--request", &file]))[0];
        for what in ["ids", "text", "finish_reason"] {
            assert_eq!(answer[what], case["answer"][what], "{}: {what}", case["name"]);
        }
        assert_eq!(answer["usage"]["completion_tokens"], case["answer"]["ids"].as_array().unwrap().len());
    }
    std::fs::write(&file, r#"{ "messages": [], "temperature": 0 }"#).unwrap();
    let run = Run::of(&["chat", "--backend", "cpu", "--request", &file]);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""));
    assert!(run.stderr.contains("error: messages: needed"), "{}", run.stderr);
}

/// `generate --chat` without a model is nano, too; one question gives one answer.
#[test]
fn generate_uses_the_same_model() {
    let case = &cases()[0];
    let question = case["request"]["messages"][0]["content"].as_str().unwrap();
    let report = Run::of(&["generate", "--chat", "--prompt", question, "--max-tokens", "64", "--json"]).json();
    assert_eq!((&report["ids"], &report["settings"]["model"]), (&case["answer"]["ids"], &"nano".into()));
}

/// Turns follow each other, are read once, and go on from a file as if nothing had happened.
#[test]
fn a_conversation_and_its_file() {
    let (t12, folder) = (golden("t12"), tempfile::tempdir().unwrap());
    let file = text(&folder.path().join("talk.json"));
    let args = ["--model", &t12, "--max-tokens", "5", "--json"];
    let save = format!("/save {file}");
    let whole = answers(&chat(&["One", "Two", &save, "Three"], &args));
    assert_eq!(whole.len(), 3);
    let cached = |answer: &Value| answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert_eq!(cached(&whole[0]), 0);
    assert!(cached(&whole[2]) > cached(&whole[1]) && cached(&whole[1]) >= 4);
    let saved: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(saved["messages"].as_array().unwrap().len(), 4);
    assert_eq!(saved["messages"][1]["content"], whole[0]["text"]);
    let load = format!("/load {file}");
    assert_eq!(answers(&chat(&[&load, "Three"], &args))[0]["ids"], whole[2]["ids"]);
    // After a reset the first question is the first question.
    assert_eq!(answers(&chat(&["Two", "/reset", "One"], &args))[1]["ids"], whole[0]["ids"]);

    let run = chat(&["One", "", "/quit", "Two"], &["--model", &t12, "--max-tokens", "5"]);
    assert_eq!((run.code, run.stdout), (0, format!("{}\n", whole[0]["text"].as_str().unwrap())));
    assert!(run.stderr.contains("prompt ") && run.stderr.contains("answer 5 tokens"), "{}", run.stderr);
}

/// A line that cannot be done is said so, and the rest is done.
#[test]
fn mistakes_do_not_end_the_conversation() {
    let t12 = golden("t12");
    let lines = ["/nonsense", "/save", "/load /no/such/file", "/image /no/such/file", "One", "/help"];
    let run = chat(&lines, &["--model", &t12, "--max-tokens", "3", "--json"]);
    assert_eq!((run.code, run.stdout.lines().count()), (1, 1), "{}", run.stderr);
    assert_eq!(run.stderr.lines().filter(|line| line.starts_with("error: ")).count(), 4, "{}", run.stderr);
    assert!(run.stderr.contains("/image FILE"), "{}", run.stderr);
    assert_eq!(chat(&[], &["--temperature", "-1"]).code, 2);
}

#[test]
fn pictures_go_with_the_next_turn() {
    let (t12, image) = (golden("t12"), golden("image/rgba.png"));
    let lines = ["What?", "/reset", &format!("/image {image}"), "What?", "What?"];
    let given = answers(&chat(&lines, &["--model", &t12, "--max-tokens", "3", "--json"]));
    let tokens: Vec<u64> = given.iter().map(|answer| answer["usage"]["prompt_tokens"].as_u64().unwrap()).collect();
    assert!(tokens[1] > tokens[0] + 4 && tokens[2] > tokens[1], "{tokens:?}");
    assert!(given[2]["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64() >= Some(tokens[1]));
}
