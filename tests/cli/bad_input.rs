//! Every kind of bad input ends with its exit code and one line that says what and where.

use super::{Copy, Run, fails, flash890, golden, text};
use flash890::config::Config;
use flash890::weights::Checkpoint;
use pollster::block_on;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

const SHARD: &str = "model-00002-of-00003.safetensors";

#[test]
fn missing_folder() {
    for args in [&["generate", "--prompt", "a", "--model", "/no/such/folder"][..], &["inspect", "/no/such/folder"]] {
        fails(args, 1, &["/no/such/folder: "]);
        assert!(Run::of(args).stderr.contains("hint: check the path"));
    }
    fails(&["inspect", &golden("t12/config.json")], 1, &["needed a folder, found a file"]);
    let empty = tempfile::tempdir().unwrap();
    fails(&["inspect", &text(empty.path())], 1, &["config.json"]);
}

#[test]
fn zeros_in_the_config() {
    for (from, key) in [
        ("\"hidden_size\": 64", "dim"),
        ("\"num_hidden_layers\": 12", "compress_ratios: needed 0 entries"),
        ("\"head_dim\": 64", "head_dim"),
        ("\"sliding_window\": 16", "window_size"),
        ("\"max_position_embeddings\": 1048576", "max_position_embeddings"),
    ] {
        let copy = Copy::new();
        let zero = format!("{} 0", from.split(' ').next().unwrap());
        copy.edit("config.json", from, &zero);
        copy.generate_fails(1, &["config.json:", key]);
    }
    let copy = Copy::new();
    std::fs::write(copy.file("config.json"), "{").unwrap();
    copy.generate_fails(1, &["not valid JSON"]);
}

#[test]
fn header_longer_than_the_file() {
    let copy = Copy::new();
    copy.patch(SHARD, 0, &u64::MAX.to_le_bytes());
    copy.generate_fails(4, &[SHARD, "damaged safetensors header"]);
    fails(&["inspect", &copy.path()], 4, &[SHARD]);
}

#[test]
fn missing_shard() {
    let copy = Copy::new();
    std::fs::remove_file(copy.file(SHARD)).unwrap();
    copy.generate_fails(4, &["shard index", SHARD, "not there"]);
}

#[test]
fn index_that_leaves_the_folder() {
    let copy = Copy::new();
    copy.edit("model.safetensors.index.json", SHARD, "../x.safetensors");
    copy.generate_fails(4, &["shard index", "../x.safetensors"]);
}

#[test]
fn tokenizer_of_another_type() {
    let copy = Copy::new();
    copy.edit("tokenizer.json", "\"BPE\"", "\"Unigram\"");
    copy.generate_fails(1, &["tokenizer.json", "Unigram"]);
    std::fs::remove_file(copy.file("tokenizer.json")).unwrap();
    copy.generate_fails(1, &["tokenizer.json", "no such file"]);
}

#[test]
fn pictures() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let whole = std::fs::read(golden("image/rgba.png")).unwrap();
    std::fs::write(file("cut.png"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(file("text.png"), "not a picture at all").unwrap();
    image::RgbImage::new(1, 20_000).save(file("thin.png")).unwrap();
    let see = |path: &str, words: &[&str]| {
        fails(&["generate", "--prompt", "What is it?", "--image", path], 1, &[&["picture:"], words].concat());
    };
    see(&text(&file("cut.png")), &["cut.png", "damaged"]);
    see(&text(&file("text.png")), &["text.png", "needed: PNG, JPEG or WebP"]);
    see(&text(&file("thin.png")), &["thin.png", "1x20000"]);
    see(&golden("image/picture.gif"), &["Gif"]);
    fails(&["generate", "--image", "/no/such.png"], 1, &["/no/such.png"]);
    fails(&["generate", "--image", &golden("t12")], 1, &["found a folder"]);
}

#[test]
fn prompts() {
    fails(&["generate", "--prompt", ""], 1, &["prompt: empty"]);
    fails(&["generate", "--prompt", "", "--chat"], 1, &["prompt: empty"]);
    fails(&["generate", "--prompt", "-"], 1, &["prompt: empty"]);
    fails(&["generate", "--prompt", "a", "--stop", ""], 1, &["stop string 0"]);
    let mut child =
        flash890(&["generate", "--prompt", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"a\xff").unwrap();
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("needed UTF-8"), "{}", run.stderr);
}

#[test]
fn prompt_longer_than_the_model() {
    let copy = Copy::new();
    copy.edit("config.json", "\"max_position_embeddings\": 1048576", "\"max_position_embeddings\": 8");
    let path = copy.path();
    let long = ["generate", "--model", &path, "--prompt", "0 1 2 3 4 5 6 7 8 9"];
    fails(&long, 1, &["prompt:", "positions", "the model has 8"]);
    // An answer that reaches the end stops there and says so.
    let run = Run::of(&["generate", "--model", &path, "--prompt", "0", "--json"]).json();
    let usage = &run["usage"];
    let prompt = usage["prompt_tokens"].as_u64().unwrap();
    assert_eq!(run["finish"], "position-limit");
    // The last token needs no position of its own.
    assert_eq!(prompt + usage["generated_tokens"].as_u64().unwrap(), 9);
}

#[test]
fn weights_that_are_not_numbers() {
    let copy = Copy::new();
    let name = "layers.3.attn_norm.weight";
    let checkpoint = block_on(Checkpoint::open_dir(copy.folder.path())).unwrap();
    let info = checkpoint.info(name).unwrap();
    let shard = Path::new(checkpoint.shard_name(info.file)).file_name().unwrap().to_str().unwrap().to_string();
    let element = info.bytes() as usize / info.shape[0];
    // The upper half of an f32 NaN is a bf16 NaN.
    let nan = &f32::NAN.to_le_bytes()[4 - element..];
    copy.patch(&shard, info.range.start as usize + 5 * element, nan);
    copy.generate_fails(4, &[name, "element 5 is not a finite number"]);
}

#[test]
fn tensors_that_do_not_fit_the_config() {
    let copy = Copy::new();
    copy.edit("config.json", "\"moe_intermediate_size\": 32", "\"moe_intermediate_size\": 64");
    copy.generate_fails(1, &["tensor", "needed"]);
    let run = Run::of(&["inspect", &copy.path()]);
    assert_eq!(run.code, 4);
    assert!(run.stdout.contains("tensors are missing or unfit"), "{}", run.stdout);
    assert!(run.stderr.contains("error: integrity: "), "{}", run.stderr);
}

#[test]
fn usage() {
    let golden_file = golden("t12/golden.safetensors");
    let t12 = golden("t12");
    let parity = |more: &[&'static str]| {
        let mut args = vec!["parity", "--model", t12.as_str(), "--golden", golden_file.as_str()];
        args.extend(more);
        args.into_iter().map(String::from).collect::<Vec<String>>()
    };
    let refs = |args: &[String], words: &[&str]| fails(&args.iter().map(String::as_str).collect::<Vec<_>>(), 2, words);
    refs(&parity(&["--case", "nonsense"]), &["no case nonsense", "short"]);
    refs(&parity(&["--plant", "nonsense"]), &["no mistake nonsense", "comb-transposed"]);
    let out = tempfile::tempdir().unwrap();
    let path = text(out.path());
    fails(&["make-tiny", "--out", &path, "--preset", "nonsense"], 2, &["no preset nonsense", "lab"]);
    fails(&["make-tiny", "--out", &path, "--shards", "0"], 2, &["at least one shard"]);
    fails(&["generate", "--prompt", "a", "--temperature", "-1"], 2, &["temperature", "-1"]);
    fails(&["generate", "--prompt", "a", "--temperature", "nan"], 2, &["temperature", "NaN"]);
    fails(&["generate", "--prompt", "a", "--top-p", "0"], 2, &["top-p"]);
    fails(&["generate", "--prompt", "a", "--top-p", "1.5"], 2, &["top-p"]);
    for args in [
        &["generate"][..],
        &["generate", "--prompt", "a", "--greedy", "--seed", "1"],
        &["generate", "--prompt", "a", "--max-tokens", "0"],
        &["generate", "--prompt", "a", "--thinking", "200", "--chat"],
        &["generate", "--prompt", "a", "--system", "no chat"],
        &["generate", "--prompt", "a", "--decoder-tail", "0"],
        &["generate", "--prompt", "a", "--lang", "fr"],
        &["nonsense"],
        &[],
    ] {
        let run = Run::of(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.contains("Usage:") || run.stderr.contains("--help"), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn files_that_are_no_golden_files() {
    fails(&["parity", "--model", &golden("t12"), "--golden", "/no/such"], 1, &["/no/such"]);
    let config = golden("t12/config.json");
    fails(&["parity", "--model", &golden("t12"), "--golden", &config], 1, &["golden file", "not safetensors"]);
}

/// A checkpoint whose header is right and whose weights are a hole in the file: all of them are zero.
#[cfg(target_os = "linux")]
pub(super) fn hollow(config: &Config) -> tempfile::TempDir {
    use flash890::weights::contract::contract;
    use flash890::weights::engram::{ENGRAM_FILE, EngramTables};
    use flash890::weights::tiny::TinySpec;
    let folder = tempfile::tempdir().unwrap();
    let mut files = TinySpec::lab().files().unwrap();
    files.retain(|name, _| name.ends_with(".json") && !name.contains("index"));
    flash890::weights::tiny::write_dir(&files, folder.path()).unwrap();
    std::fs::write(folder.path().join("config.json"), config.to_json()).unwrap();
    let last = config.engram_compressed_vocab_size as u32 - 1;
    let map = (0..config.vocab_size as u32).map(|id| id.min(last)).collect();
    let tables = EngramTables::from_config(config, map).unwrap().to_json();
    std::fs::write(folder.path().join(ENGRAM_FILE), tables).unwrap();
    let mut header = serde_json::Map::new();
    let mut end = 0;
    for spec in contract(config) {
        let start = end;
        end += spec.bytes();
        let entry = serde_json::json!({"dtype": spec.dtype, "shape": spec.shape, "data_offsets": [start, end]});
        header.insert(spec.name, entry);
    }
    let header = serde_json::Value::Object(header).to_string();
    let mut file = std::fs::File::create(folder.path().join("model.safetensors")).unwrap();
    file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.set_len(8 + header.len() as u64 + end).unwrap();
    folder
}

/// Terabytes of experts; the window rings would take 24 GB.
#[cfg(target_os = "linux")]
#[test]
fn larger_than_memory() {
    let config = Config { moe_inter_dim: 1 << 20, n_routed_experts: 1024, window_size: 1 << 20, ..Config::lab() };
    let folder = hollow(&config);
    let path = text(folder.path());
    fails(&["generate", "--model", &path, "--prompt", "a"], 3, &["does not fit", "TB", "available"]);
    // Looking at it needs no memory.
    assert_eq!(Run::of(&["inspect", &path]).code, 0);
}
