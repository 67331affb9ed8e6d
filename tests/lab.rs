//! The lab: all chapters in order, all checks pass on right models, and fail on planted mistakes.

use flash890::blocks::ORDER;
use flash890::blocks::context::Context;
use flash890::blocks::mistake::Mistake;
use flash890::image::{Rgb, decode};
use flash890::lab::content::Lab;
use flash890::lab::lang::Lang;
use flash890::lab::prompt::{MAX_POSITIONS, Picture, Request};
use flash890::lab::run::Run;
use flash890::lab::terminal::{Style, WIDTH, render};
use flash890::lab::{SENTENCE, report};
use flash890::numerics::precision::Precision;
use flash890::weights::{Checkpoint, tiny};
use pollster::block_on;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use unicode_width::UnicodeWidthStr;

static LAB: LazyLock<Arc<Checkpoint>> = LazyLock::new(|| Arc::new(block_on(tiny::lab()).unwrap()));

fn golden(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(path)
}

fn open(name: &str) -> Arc<Checkpoint> {
    Arc::new(block_on(Checkpoint::open_dir(golden(name))).unwrap())
}

fn picture() -> Rgb {
    decode(&std::fs::read(golden("t12/image.png")).unwrap()).unwrap()
}

fn request(text: &str, picture: Picture, token: Option<usize>) -> Request {
    Request { text: text.into(), picture, token }
}

/// Runs a request and expects ten chapters in order, every check passed, and lines that fit, in both languages.
fn passes(checkpoint: &Arc<Checkpoint>, request: Request, checks: usize) -> Lab {
    let lab = report(&block_on(Run::new(checkpoint.clone(), request.clone())).unwrap(), None);
    let failed: Vec<_> = lab
        .chapters
        .iter()
        .flat_map(|chapter| chapter.checks.iter().map(move |check| (chapter.code, check)))
        .filter(|(_, check)| !check.passed)
        .collect();
    let what = format!("“{}”, token {:?}", request.text, request.token);
    assert!(failed.is_empty(), "{what}: {failed:#?}");
    assert_eq!(lab.failed, 0);
    assert!(lab.passed >= checks, "{what}: only {} checks", lab.passed);
    let codes: Vec<_> = lab.chapters.iter().map(|chapter| chapter.code).collect();
    assert_eq!(codes, ORDER.map(|block| block.code));
    for lang in Lang::ALL {
        let text = render(&lab, Style { lang, colour: false });
        for line in text.lines() {
            assert!(line.width() <= WIDTH, "{} columns: {line}", line.width());
            assert!(!line.chars().any(char::is_control), "{line:?}");
        }
        for block in ORDER {
            assert!(text.contains(&format!("[{}]", block.code)), "{} is missing", block.code);
        }
    }
    lab
}

#[test]
fn built_in_sentences() {
    for lang in Lang::ALL {
        let lab = passes(&LAB, request(SENTENCE.get(lang), Picture::Generated, None), 54);
        let n = lab.tokens.len();
        assert!(n > 150, "{n} positions: the window of 128 should slide");
        assert_eq!(lab.followed, n - 1);
        assert_eq!(lab.tokens.iter().filter(|token| token.kind == "image").count(), 6);
        let closing = render(&lab, Style { lang, colour: false }).lines().last().unwrap().to_string();
        assert!(closing.starts_with(&lab.passed.to_string()), "{closing}");
    }
}

#[test]
fn odd_inputs() {
    for (text, token) in [("", None), ("a", None), ("🦀", None), ("x y\n\tz <｜User｜>", Some(2))] {
        passes(&LAB, request(text, Picture::None, token), 45);
    }
    // In the picture, before it, and behind it.
    for token in [0, 3, 5, 12] {
        passes(&LAB, request("one two three", Picture::Given(picture()), Some(token)), 45);
    }
}

#[test]
fn golden_checkpoints() {
    for name in ["t12", "t40", "kv890"] {
        let checkpoint = open(name);
        passes(&checkpoint, request("A window slides over these words.", Picture::Given(picture()), None), 50);
        passes(&checkpoint, request("a", Picture::None, None), 45);
    }
}

/// Far from the start angles are large, and their f32 rounding shows.
#[test]
fn long_text() {
    let lab = passes(&open("t12"), request(&"word ".repeat(330), Picture::None, None), 50);
    assert!(lab.tokens.len() > 900, "{} positions", lab.tokens.len());
}

#[test]
fn what_cannot_be_run() {
    let refused = |request| block_on(Run::new(LAB.clone(), request)).err().map(|error| error.exit_code());
    assert_eq!(refused(request("a", Picture::None, Some(9))), Some(2));
    assert_eq!(refused(request(&"word ".repeat(MAX_POSITIONS), Picture::None, None)), Some(2));
}

#[test]
fn json_holds_everything_in_both_languages() {
    let run = block_on(Run::new(LAB.clone(), request("Tiếng Việt", Picture::Generated, None))).unwrap();
    let lab = report(&run, Some("3c"));
    let json: serde_json::Value = serde_json::from_str(&serde_json::to_string(&lab).unwrap()).unwrap();
    assert_eq!(json["chapters"].as_array().unwrap().len(), 1);
    let chapter = &json["chapters"][0];
    assert_eq!(chapter["code"], "3C");
    for text in [&chapter["name"], &chapter["look_for"], &chapter["happens"], &chapter["checks"][0]["what"]] {
        assert!(!text["vi"].as_str().unwrap().is_empty() && !text["en"].as_str().unwrap().is_empty());
        assert_ne!(text["vi"], text["en"]);
    }
    let table = &chapter["tables"][1];
    assert_eq!(table["badge"], "cpu-reference");
    assert_eq!(table["rows"][0].as_array().unwrap().len(), table["columns"].as_array().unwrap().len());
    assert!(table["rows"][0][4].is_f64());
    assert_eq!(chapter["checks"][0]["passed"], true);
    assert_eq!(json["tokens"][0]["label"], "BOS");
}

/// Texts are complete: no chapter leaves a sentence out, and Vietnamese is no copy of the English.
#[test]
fn both_languages_are_complete() {
    let run = block_on(Run::new(LAB.clone(), request("a b", Picture::Generated, None))).unwrap();
    for chapter in report(&run, None).chapters {
        let texts = [&chapter.look_for, &chapter.happens].into_iter().chain(chapter.checks.iter().map(|c| &c.what));
        for text in texts.chain(chapter.tables.iter().map(|table| &table.title)) {
            assert!(!text.vi.is_empty() && !text.en.is_empty() && text.vi != text.en, "{}: {text:?}", chapter.code);
        }
        for line in chapter.formula {
            let english = [" of ", " the ", "per channel", "ratio", "rows"].iter().any(|word| line.vi.contains(word));
            assert!(!english, "{}: {}", chapter.code, line.vi);
        }
        assert!(!chapter.inputs.is_empty() && !chapter.outputs.is_empty() && !chapter.formula.is_empty());
        assert!(chapter.tables.iter().all(|table| !table.rows.is_empty()), "{} has an empty table", chapter.code);
    }
}

/// Blocks whose checks fail when a mistake is planted.
fn seen_by(checkpoint: &Arc<Checkpoint>, mistake: Mistake) -> Vec<&'static str> {
    let context = Context::new(&checkpoint.config, Precision::F32, Precision::Released).with_mistake(mistake);
    let request = request("A window slides over these words, and some more of them.", Picture::None, None);
    let lab = report(&block_on(Run::with_context(checkpoint.clone(), context, request)).unwrap(), None);
    let failed = |chapter: &&flash890::lab::content::Chapter| chapter.checks.iter().any(|check| !check.passed);
    lab.chapters.iter().filter(failed).map(|chapter| chapter.code).collect()
}

/// The checks can fail: each mistake is noticed in the block where it is made.
#[test]
fn planted_mistakes() {
    let checkpoint = open("t12");
    for (mistake, blocks) in [
        (Mistake::CombTransposed, &["2A"][..]),
        // 3A too: what a prefill with a tail feeds the last source does not make this mistake.
        (Mistake::PreNotLagged, &["2A", "3A"]),
        (Mistake::RotateHalf, &["3C", "4A", "6A"]),
        (Mistake::NoInverseRope, &["4A"]),
        (Mistake::OneRopeBase, &["3C", "4A", "6A"]),
        (Mistake::EntriesNotRotated, &["6A"]),
        (Mistake::EntriesRotatedAtIndex, &["6A"]),
        (Mistake::QueryHeadNorm, &["4A"]),
        // 3A too: it computes the decoder's attention again to see which plane was read.
        (Mistake::NoSink, &["3A", "4A"]),
        (Mistake::NibblesSwapped, &["5A"]),
        // In f32 the place of the weight changes nothing but rounding, and no input of this model reaches the clamp.
        (Mistake::RouteWeightAfterW2, &[]),
        (Mistake::NoSwigluClamp, &[]),
    ] {
        assert_eq!(seen_by(&checkpoint, mistake), blocks, "{}", mistake.name());
    }
}

/// The command: JSON and text on stdout, exit codes, no escape codes into a pipe.
#[test]
fn command_line() {
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_flash890"));
        let output = command.arg("lab").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, text, _) = run(&["--text", "a", "--no-image", "--lang", "vi", "--block", "6a"]);
    assert_eq!(code, Some(0));
    assert!(text.contains("[6A]") && !text.contains("[5A]") && !text.contains('\u{1b}'));
    assert!(text.ends_with("phép kiểm đạt, 0 không đạt\n"), "{text}");
    let (code, json, _) = run(&["--text", "a", "--no-image", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, json["failed"].as_u64()), (Some(0), Some(0)));
    let (code, _, error) = run(&["--text", "a", "--no-image", "--token", "7"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("positions 0 to 1"), "{error}");
}
