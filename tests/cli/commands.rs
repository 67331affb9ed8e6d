//! What the commands do when all is well.

use super::{Copy, Run, flash890, golden, text};
use flash890::blocks::b1a_input::Prompt;
use flash890::blocks::tap::Silent;
use flash890::model::{Prefill, Reference};
use flash890::numerics::ops::argmax;
use flash890::numerics::precision::Precision;
use flash890::text::Tokenizer;
use flash890::weights::Checkpoint;
use pollster::block_on;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

const PROMPT: &str = "The quick brown fox";

/// Greedy tokens after BOS and `text`, by the library's model alone.
fn greedy(folder: &str, text: &str, count: usize) -> Vec<u32> {
    let checkpoint = Arc::new(block_on(Checkpoint::open_dir(folder)).unwrap());
    let tokenizer = Tokenizer::from_json(checkpoint.tokenizer_json().unwrap()).unwrap();
    let mut silent = |_: usize, _: usize, _: &str| {};
    let model = block_on(Reference::load(checkpoint, Precision::F32, Precision::Released, &mut silent)).unwrap();
    let ids = [vec![model.config().bos_token_id], tokenizer.encode(text)].concat();
    let mut state = model.state();
    let prompt = Prompt::text(ids);
    let mut logits = block_on(model.prefill(&mut state, &prompt, Prefill::default(), &mut Silent)).unwrap().logits;
    let mut chosen = Vec::new();
    while chosen.len() < count && chosen.last() != Some(&model.config().eos_token_id) {
        chosen.push(argmax(&logits) as u32);
        logits = block_on(model.decode(&mut state, chosen[chosen.len() - 1], &mut Silent)).unwrap();
    }
    chosen
}

fn ids(report: &Value) -> Vec<u32> {
    serde_json::from_value(report["ids"].clone()).unwrap()
}

#[test]
fn greedy_is_the_librarys_greedy() {
    let t12 = golden("t12");
    let args = ["generate", "--model", &t12, "--prompt", PROMPT, "--max-tokens", "12"];
    let report = Run::of(&[&args[..], &["--json"]].concat()).json();
    assert_eq!(ids(&report), greedy(&t12, PROMPT, 12));
    assert_eq!(report["usage"]["generated_tokens"], ids(&report).len());
    assert_eq!(report["settings"]["temperature"], 0.0);
    // The streamed text is the same, and nothing else is on standard output.
    let run = Run::of(&args);
    assert_eq!((run.code, run.stdout), (0, format!("{}\n", report["text"].as_str().unwrap())));
    assert!(run.stderr.contains("answer: 12 tokens") && run.stderr.contains("KV cache: "), "{}", run.stderr);
    // Without a terminal no bar is drawn.
    assert!(!run.stderr.contains('\u{1b}') && !run.stderr.contains('\r'), "{}", run.stderr);
}

#[test]
fn a_seed_gives_the_same_answer() {
    let draw = |seed: &str| {
        let args =
            ["generate", "--prompt", PROMPT, "--max-tokens", "8", "--temperature", "1.5", "--top-p", "0.95", "--json"];
        ids(&Run::of(&[&args[..], &["--seed", seed]].concat()).json())
    };
    assert_eq!(draw("7"), draw("7"));
    assert_ne!(draw("7"), draw("8"));
}

#[test]
fn prompts_from_standard_input() {
    let mut command = flash890(&["generate", "--prompt", "-", "--max-tokens", "4", "--json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{PROMPT}\n").as_bytes()).unwrap();
    let piped = Run::from(child.wait_with_output().unwrap()).json();
    let given = Run::of(&["generate", "--prompt", PROMPT, "--max-tokens", "4", "--json"]).json();
    assert_eq!((ids(&piped), &piped["usage"]["prompt_tokens"]), (ids(&given), &given["usage"]["prompt_tokens"]));
}

#[test]
fn chat_pictures_and_stop_strings() {
    let image = golden("image/rgba.png");
    let plain = ["generate", "--prompt", "What is it?", "--max-tokens", "6", "--json"];
    let tokens =
        |more: &[&str]| Run::of(&[&plain[..], more].concat()).json()["usage"]["prompt_tokens"].as_u64().unwrap();
    let alone = tokens(&[]);
    // <｜User｜>, <｜Assistant｜> and </think> around the text. The chat form has another model unless one is named.
    let nano = text(&Path::new(env!("CARGO_MANIFEST_DIR")).join("web/nano"));
    let chat = tokens(&["--chat"]);
    assert_eq!(chat, tokens(&["--model", &nano]) + 3);
    let seen = Run::of(&[&plain[..], &["--image", &image]].concat()).json();
    let pictures = seen["usage"]["image_tokens"].as_u64().unwrap();
    assert!(pictures > 0);
    assert_eq!(seen["usage"]["prompt_tokens"].as_u64().unwrap(), alone + pictures);
    assert!(tokens(&["--chat", "--thinking"]) > chat + 20, "the effort line is missing");
    assert!(tokens(&["--chat", "--system", "Be brief."]) > chat);

    let text = Run::of(&plain).json()["text"].as_str().unwrap().to_string();
    let stop: String = text.chars().skip(1).take(1).collect();
    let stopped = Run::of(&[&plain[..], &["--stop", &stop]].concat()).json();
    assert_eq!(stopped["finish"], "stop");
    assert_eq!(stopped["text"], text[..text.find(&stop).unwrap()]);
}

/// The approximate tail reads fewer rows and still answers; a tail that holds the whole prompt changes nothing.
#[test]
fn decoder_tail_numerics_and_kv() {
    let args = ["generate", "--prompt", PROMPT, "--max-tokens", "4", "--json"];
    let exact = Run::of(&args).json();
    let tail = Run::of(&[&args[..], &["--decoder-tail", "1000"]].concat()).json();
    assert_eq!(ids(&exact), ids(&tail));
    let f32 = Run::of(&[&args[..], &["--kv", "f32", "--numerics", "released"]].concat()).json();
    assert!(f32["kv_bytes"].as_u64() > exact["kv_bytes"].as_u64());
    assert_eq!((&f32["settings"]["kv"], &f32["settings"]["numerics"]), (&"f32".into(), &"released".into()));
}

/// Drafts change the time, never the answer.
#[test]
fn answers_with_drafts_and_without() {
    let t12 = golden("t12");
    for drawn in [&[][..], &["--temperature", "1.2", "--seed", "3"]] {
        let args = [&["generate", "--model", &t12, "--prompt", PROMPT, "--max-tokens", "12", "--json"], drawn].concat();
        let plain = Run::of(&[&args[..], &["--no-dspark"]].concat()).json();
        let all = Run::of(&[&args[..], &["--dspark-confidence", "0"]].concat()).json();
        assert_eq!(ids(&plain), ids(&all));
        assert_eq!(plain["usage"]["drafted_tokens"], 0);
        assert!(all["usage"]["drafted_tokens"].as_u64() > Some(0));
    }
    let run = Run::of(&["generate", "--prompt", PROMPT, "--max-tokens", "12", "--dspark-confidence", "0"]);
    assert!(run.stderr.contains("tokens drafted") || run.stderr.contains("token, nhận"), "{}", run.stderr);
}

/// A conversation that is saved and opened goes on as it would have, with a new prompt and without.
#[test]
fn conversations_go_on_from_a_file() {
    let (t12, folder) = (golden("t12"), tempfile::tempdir().unwrap());
    let [full, compact] = ["full", "compact"].map(|name| text(&folder.path().join(name)));
    let args = ["generate", "--model", &t12, "--json", "--max-tokens"];
    let whole = ids(&Run::of(&[&args[..], &["9", "--prompt", PROMPT]].concat()).json());
    let begin = [&args[..], &["4", "--prompt", PROMPT, "--save"]].concat();
    assert_eq!(ids(&Run::of(&[&begin[..], &[&full]].concat()).json()), whole[..4]);
    Run::of(&[&begin[..], &[&compact, "--save-compact"]].concat()).json();
    let sizes = [&full, &compact].map(|path| std::fs::metadata(path).unwrap().len());
    assert!(sizes[1] < sizes[0], "{sizes:?}");
    for file in [&full, &compact] {
        let rest = Run::of(&[&args[..], &["5", "--load", file]].concat()).json();
        assert_eq!((ids(&rest), &rest["usage"]["prompt_tokens"]), (whole[4..].to_vec(), &Value::from(0)));
    }
    let more = [&full, &compact]
        .map(|file| Run::of(&[&args[..], &["3", "--load", file, "--prompt", " and then"]].concat()).json());
    assert_eq!(ids(&more[0]), ids(&more[1]));
    let run = Run::of(&[&args[..], &["3", "--load", &full, "--kv", "f32"]].concat());
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("caches in released"), "{}", run.stderr);
    std::fs::write(&full, b"flash890 and then nothing").unwrap();
    let run = Run::of(&[&args[..], &["3", "--load", &full]].concat());
    assert_eq!(run.code, 4, "{}", run.stderr);
}

#[test]
fn a_closed_standard_output_ends_quietly() {
    for more in [&[][..], &["--json"]] {
        let args = [&["generate", "--prompt", "-", "--max-tokens", "200"], more].concat();
        let mut child =
            flash890(&args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        child.stdin.take().unwrap().write_all(PROMPT.as_bytes()).unwrap();
        let run = Run::from(child.wait_with_output().unwrap());
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(!run.stderr.contains("error") && !run.stderr.contains("answer: "), "{}", run.stderr);
    }
}

#[test]
fn inspect() {
    let t12 = golden("t12");
    let run = Run::of(&["inspect", &t12]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    for words in ["Window 0-1, Full 2, Reuse 3", "106 bytes", "good: every tensor", "model-00002-of-00003.safetensors"]
    {
        assert!(run.stdout.contains(words), "no {words:?} in {}", run.stdout);
    }
    let report = Run::of(&["inspect", &t12, "--json"]).json();
    let sum = |key: &str| -> u64 {
        report[key].as_object().unwrap().values().map(|count| count["bytes"].as_u64().unwrap()).sum()
    };
    assert_eq!(report["bytes"].as_u64().unwrap(), sum("parts"));
    assert_eq!(report["bytes"].as_u64().unwrap(), sum("types"));
    assert_eq!(report["verdict"]["good"], true);
    assert_eq!(report["kv_bytes_per_token"], 106.0);
    assert_eq!(report["shards"].as_array().unwrap().len(), 3);
}

#[test]
fn parity_passes_and_a_planted_mistake_does_not() {
    let (t12, file) = (golden("t12"), golden("t12/golden.safetensors"));
    let args = ["parity", "--model", &t12, "--golden", &file];
    let run = Run::of(&args);
    assert_eq!(run.code, 0, "{}", run.stdout);
    assert!(run.stdout.contains(" passed, 0 failed") && !run.stdout.contains("FAIL"), "{}", run.stdout);
    let report = Run::of(&[&args[..], &["--json", "--case", "short"]].concat()).json();
    let checks = report["checks"].as_array().unwrap();
    assert_eq!(report["failed"], 0);
    assert!(checks.len() > 100 && checks.iter().all(|check| check["case"] == "short" && check["passed"] == true));

    let run = Run::of(&[&args[..], &["--plant", "comb-transposed", "--case", "short"]].concat());
    assert_eq!(run.code, 1, "{}", run.stderr);
    let first = run.stdout.lines().find(|line| line.starts_with("first failure: ")).unwrap();
    assert_eq!(first, "first failure: 2a.ffn_pre in case short, layer 0");
    assert!(run.stderr.contains("planted the mistake comb-transposed"));
}

#[test]
fn make_tiny_writes_the_built_in_model() {
    let folder = tempfile::tempdir().unwrap();
    let out = text(&folder.path().join("new"));
    assert_eq!(Run::of(&["make-tiny", "--out", &out, "--shards", "2"]).code, 0);
    let args = ["generate", "--prompt", PROMPT, "--max-tokens", "6", "--json"];
    let built_in = Run::of(&args).json();
    let written = Run::of(&[&args[..], &["--model", &out]].concat()).json();
    assert_eq!((ids(&written), &written["text"]), (ids(&built_in), &built_in["text"]));
    assert_eq!(Run::of(&["inspect", &out, "--json"]).json()["shards"].as_array().unwrap().len(), 2);

    let again = Run::of(&["make-tiny", "--out", &out]);
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("is not empty; --force"), "{}", again.stderr);
    let config = text(&folder.path().join("new/config.json"));
    let small = std::fs::read_to_string(&config).unwrap().replace("1048576", "64");
    std::fs::write(&config, small).unwrap();
    assert_eq!(Run::of(&["make-tiny", "--out", &out, "--force", "--config", &config]).code, 0);
    assert!(Run::of(&["inspect", &out]).stdout.contains("positions          64\n"));
}

#[test]
fn two_languages() {
    let t12 = golden("t12");
    let english = Run::of(&["inspect", &t12]).stdout;
    let vietnamese = Run::of(&["inspect", &t12, "--lang", "vi"]).stdout;
    assert!(english.contains("every tensor is") && vietnamese.contains("mọi tensor đúng"));
    let by_environment = Run::from(flash890(&["inspect", &t12]).env("LC_ALL", "vi_VN.UTF-8").output().unwrap());
    assert_eq!(by_environment.stdout, vietnamese);
    let run = Run::of(&["generate", "--prompt", "a", "--max-tokens", "1", "--lang", "vi"]);
    assert!(run.stderr.contains("trọng số là ngẫu nhiên") && run.stderr.contains("trả lời: 1 token"), "{}", run.stderr);
    let copy = Copy::new();
    std::fs::remove_file(copy.file("config.json")).unwrap();
    let run = Run::of(&["inspect", &copy.path(), "--lang", "vi"]);
    assert!(run.stderr.contains("gợi ý: "), "{}", run.stderr);
}

#[test]
fn help_and_version() {
    for args in
        [&["--help"][..], &["generate", "--help"], &["inspect", "--help"], &["parity", "--help"], &["--version"]]
    {
        let run = Run::of(args);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
        assert!(run.stdout.contains("flash890"), "{args:?}");
    }
}
