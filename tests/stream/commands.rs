//! The command line with a checkpoint on a server.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flash890::weights::checksums::{CHECKSUMS_FILE, Checksums};
use flash890::weights::{Files, tiny};
use serde_json::Value;

use crate::server::{Fault, Server};
use crate::{files, golden};

const SHARD: &str = "model-00002-of-00003.safetensors";

/// The program in English, with a cache folder of its own.
pub(crate) fn flash890(cache: &std::path::Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flash890"));
    command.args(args).env("LC_ALL", "C").env("XDG_CACHE_HOME", cache).env("LOCALAPPDATA", cache).env("HOME", cache);
    command.env("XDG_RUNTIME_DIR", env!("CARGO_TARGET_TMPDIR")).stdin(Stdio::null());
    command
}

pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn run(cache: &std::path::Path, args: &[&str]) -> Run {
    let output = flash890(cache, args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let run = Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) };
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    run
}

pub(crate) fn json(run: &Run) -> Value {
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

/// Adds checksums.json.
fn with_checksums(mut files: Files) -> Files {
    let checksums = Checksums::of_files(&files).to_json();
    files.insert(CHECKSUMS_FILE.into(), checksums.into_bytes().into());
    files
}

const GENERATE: [&str; 7] = ["generate", "--prompt", "The quick brown fox", "--max-tokens", "8", "--backend", "cpu"];

fn generate(cache: &std::path::Path, model: &str, more: &[&str]) -> Run {
    run(cache, &[&GENERATE[..], &["--json", "--model", model], more].concat())
}

#[test]
fn greedy_ids_are_those_from_disk_with_and_without_a_store() {
    let cache = tempfile::tempdir().unwrap();
    let disk = json(&generate(cache.path(), golden("t12").to_str().unwrap(), &[]));
    let server = Server::new(files("t12"));
    let url = server.url();
    let uncached = json(&generate(cache.path(), &url, &["--no-cache"]));
    assert_eq!(uncached["ids"], disk["ids"]);
    assert_eq!(uncached["settings"]["model"], url.as_str());
    assert!(!cache.path().join("flash890/models").exists());

    let first = json(&generate(cache.path(), &url, &[]));
    let asked = server.seen().len();
    let second = json(&generate(cache.path(), &url, &[]));
    assert_eq!((&first["ids"], &second["ids"]), (&disk["ids"], &disk["ids"]));
    // The second run asks for the documents and for the beginning of each shard, and for no weight.
    let asked_again = server.seen();
    assert!(asked_again.len() < asked, "{asked_again:?}");
    assert!(
        asked_again.iter().filter_map(|seen| seen.range.as_ref()).all(|range| range.start == 0 && range.end <= 1 << 14)
    );
}

/// Slots change when bytes are read, and no token: from one slot in all to one for every expert, from disk and from a server.
#[test]
fn an_expert_budget_changes_no_token() {
    let cache = tempfile::tempdir().unwrap();
    let t12 = golden("t12");
    let server = Server::new(files("t12"));
    let disk = json(&generate(cache.path(), t12.to_str().unwrap(), &[]));
    for (place, percent) in
        [(t12.to_str().unwrap(), "0.01"), (t12.to_str().unwrap(), "10"), (&server.url(), "10"), (&server.url(), "100")]
    {
        let run = generate(cache.path(), place, &["--expert-budget", percent, "--no-cache"]);
        assert_eq!(json(&run)["ids"], disk["ids"], "{place} {percent}");
        assert!(run.stderr.contains("% were there, ") && run.stderr.contains(" GB/s"), "{}", run.stderr);
    }
    // The same on a GPU, and the same as all experts there.
    let on_gpu = |more: &[&str]| {
        run(
            cache.path(),
            &[&GENERATE[..5], &["--backend", "gpu", "--json", "--model", t12.to_str().unwrap()], more].concat(),
        )
    };
    let all = json(&on_gpu(&[]));
    for percent in ["0.01", "10", "100"] {
        let some = on_gpu(&["--expert-budget", percent]);
        assert_eq!(json(&some)["ids"], all["ids"], "{percent}");
        assert!(some.stderr.contains("% were there, "), "{}", some.stderr);
    }
    for wrong in ["0", "101", "x"] {
        assert_eq!(generate(cache.path(), t12.to_str().unwrap(), &["--expert-budget", wrong]).code, Some(2));
    }
}

#[test]
fn other_commands_take_an_address() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::new(files("t12"));
    let url = server.url();
    let inspected = run(cache.path(), &["inspect", &url]);
    let on_disk = run(cache.path(), &["inspect", golden("t12").to_str().unwrap()]);
    assert_eq!((inspected.code, inspected.stdout), (Some(0), on_disk.stdout));
    let file = golden("t12").join("golden.safetensors");
    let parity = ["parity", "--model", &url, "--golden", file.to_str().unwrap(), "--case", "short"];
    assert_eq!(run(cache.path(), &parity).code, Some(0));
    let lab = run(cache.path(), &["lab", "--model", &url, "--no-image", "--block", "5A", "--json"]);
    assert_eq!(lab.code, Some(0), "{}", lab.stderr);

    let missing = run(cache.path(), &["inspect", &format!("{url}/nothing")]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("nothing/config.json"), "{}", missing.stderr);
    server.fail(SHARD, 0, usize::MAX, Fault::Whole);
    let refused = generate(cache.path(), &url, &["--no-cache"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(4), ""));
    assert!(refused.stderr.contains("has to support ranges"), "{}", refused.stderr);
    assert_eq!(run(cache.path(), &["inspect", "http://"]).code, Some(2));
}

#[test]
fn verify_finds_a_wrong_bit_on_disk_and_on_the_way() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::new(with_checksums(large()));
    let url = server.url();
    server.fail_at("model-00002", 1 << 20, Fault::Corrupt);
    // Nothing but the checksum can notice a bit that was wrong on the way.
    let wrong = run(cache.path(), &["verify", &url]);
    assert_eq!((wrong.code, wrong.stdout.as_str()), (Some(4), ""), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("model-00002-of-00002.safetensors has SHA-256"), "{}", wrong.stderr);
    // What is kept of that file is gone, and the next run fetches it again.
    let again = run(cache.path(), &["verify", &url]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert!(again.stdout.starts_with("good: "), "{}", again.stdout);

    let folder = tempfile::tempdir().unwrap();
    tiny::write_dir(&with_checksums(files("t12")), folder.path()).unwrap();
    let path = folder.path().to_str().unwrap();
    assert_eq!(run(cache.path(), &["verify", path]).code, Some(0));
    let mut shard = std::fs::read(folder.path().join(SHARD)).unwrap();
    let last = shard.len() - 1;
    shard[last] ^= 1;
    std::fs::write(folder.path().join(SHARD), shard).unwrap();
    let damaged = run(cache.path(), &["verify", path]);
    assert_eq!((damaged.code, damaged.stdout.as_str()), (Some(4), ""));
    assert!(damaged.stderr.contains(SHARD), "{}", damaged.stderr);
    let without = run(cache.path(), &["verify", golden("t12").to_str().unwrap()]);
    assert_eq!(without.code, Some(0));
    assert!(without.stderr.contains("no checksums.json"), "{}", without.stderr);
}

#[test]
fn plan_says_what_is_needed_and_what_there_is() {
    let cache = tempfile::tempdir().unwrap();
    let t12 = golden("t12");
    let server = Server::new(files("t12"));
    for place in [t12.to_str().unwrap(), &server.url()] {
        let plan = json(&run(cache.path(), &["plan", place, "--json"]));
        assert_eq!((&plan["fits_memory"], &plan["contract"]["good"]), (&true.into(), &true.into()));
        assert!(plan["bytes_per_token"]["total"].as_u64() < plan["needs"]["loaded_bytes"].as_u64());
        assert!(plan["memory_bytes_per_second"].as_f64() > Some(1e8));
        assert!(plan["source_bytes_per_second"].as_f64() > Some(1e5));
        let tenth = json(&run(cache.path(), &["plan", place, "--json", "--expert-budget", "10"]));
        let (all, part) = (plan["needed_bytes"].as_u64().unwrap(), tenth["needed_bytes"].as_u64().unwrap());
        assert_eq!(all - part, tenth["streamed_expert_bytes"].as_u64().unwrap());
        assert!(tenth["streamed_expert_bytes"].as_u64() > Some(0) && plan["streamed_expert_bytes"] == 0);
        let none = run(cache.path(), &["plan", place, "--memory", "0.0001"]);
        assert_eq!(none.code, Some(3), "{}", none.stderr);
        assert!(none.stdout.contains("does not fit") && none.stderr.contains("available: 100.0 kB"), "{}", none.stderr);
    }
    let mut wrong = files("t12");
    let config = String::from_utf8(wrong["config.json"].to_vec()).unwrap();
    let wider = config.replacen("\"moe_intermediate_size\": 32", "\"moe_intermediate_size\": 64", 1);
    assert_ne!(wider, config);
    wrong.insert("config.json".into(), wider.into_bytes().into());
    assert_eq!(run(cache.path(), &["plan", &Server::new(wrong).url()]).code, Some(4));
}

#[test]
fn a_full_store_is_announced_and_the_run_goes_on() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::new(files("t12"));
    let disk = json(&generate(cache.path(), golden("t12").to_str().unwrap(), &[]));
    let full = generate(cache.path(), &server.url(), &["--cache-limit", "0.0011"]);
    assert_eq!(json(&full)["ids"], disk["ids"]);
    assert_eq!(full.stderr.matches("keeping no more: no room left").count(), 1, "{}", full.stderr);
    let kept = json(&run(cache.path(), &["cache", "list", "--json"]));
    let bytes: u64 = kept.as_array().unwrap().iter().map(|entry| entry["bytes"].as_u64().unwrap()).sum();
    assert!(bytes <= 1_100_000, "{kept}");
    // A folder that cannot be made is an error only if it was asked for.
    let file = cache.path().join("file");
    std::fs::write(&file, "").unwrap();
    let broken = generate(cache.path(), &server.url(), &["--cache", file.to_str().unwrap()]);
    assert_eq!(broken.code, Some(1), "{}", broken.stderr);
}

#[test]
fn the_store_is_listed_and_cleared() {
    let cache = tempfile::tempdir().unwrap();
    let (one, two) = (Server::new(files("t12")), Server::new(files("t12")));
    for server in [&one, &two] {
        assert_eq!(generate(cache.path(), &server.url(), &[]).code, Some(0));
    }
    let list = || json(&run(cache.path(), &["cache", "list", "--json"]));
    let before = list();
    assert_eq!(before.as_array().unwrap().len(), 6);
    assert!(before.as_array().unwrap().iter().all(|entry| entry["bytes"].as_u64() > Some(0)));
    let text = run(cache.path(), &["cache", "list"]).stdout;
    assert!(text.contains(&one.url()) && text.contains(SHARD), "{text}");
    assert_eq!(run(cache.path(), &["cache", "clear", &one.url()]).code, Some(0));
    let left = list();
    assert_eq!(left.as_array().unwrap().len(), 3);
    assert!(left.as_array().unwrap().iter().all(|entry| entry["model"] == two.url().as_str()));
    assert_eq!(run(cache.path(), &["cache", "clear"]).code, Some(0));
    assert_eq!(list(), Value::Array(Vec::new()));
}

#[test]
fn a_new_revision_never_meets_old_chunks() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::new(files("t12"));
    let before = json(&generate(cache.path(), &server.url(), &[]));
    server.seen();
    server.fail(SHARD, 0, usize::MAX, Fault::OtherTag);
    let after = json(&generate(cache.path(), &server.url(), &[]));
    assert_eq!(before["ids"], after["ids"]);
    let refetched = |file: &str| server.seen().iter().filter(|seen| seen.file.contains(file)).count();
    assert!(refetched("model-00002") > 1);
    let kept = json(&run(cache.path(), &["cache", "list", "--json"]));
    let tags: Vec<&Value> = kept.as_array().unwrap().iter().map(|entry| &entry["tag"]).collect();
    assert_eq!(tags, ["\"first\"", "\"other\"", "\"first\""], "the old revision is gone");
}

/// A bit that flips on the disk is noticed by its chunk's hash, and that chunk alone is fetched again.
#[test]
fn a_damaged_chunk_is_fetched_again() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::new(with_checksums(large()));
    assert_eq!(run(cache.path(), &["verify", &server.url()]).code, Some(0));
    let kept = json(&run(cache.path(), &["cache", "list", "--json"]));
    let big = kept.as_array().unwrap().iter().find(|entry| entry["len"].as_u64() > Some(3 << 20)).unwrap();
    let data = std::path::Path::new(big["folder"].as_str().unwrap()).join("data");
    let mut bytes = std::fs::read(&data).unwrap();
    bytes[(2 << 20) + 77] ^= 4;
    std::fs::write(&data, bytes).unwrap();
    server.seen();
    assert_eq!(run(cache.path(), &["verify", &server.url()]).code, Some(0));
    let asked: Vec<_> =
        server.seen().into_iter().filter_map(|seen| seen.range).filter(|range| range.start > 0).collect();
    assert!(matches!(asked.as_slice(), [chunk] if *chunk == (2 << 20..3 << 20)), "{asked:?}");
}

/// The lab model in two shards, about 10 MB: files of several chunks.
fn large() -> Files {
    let mut spec = tiny::TinySpec::lab();
    spec.shards = 2;
    spec.files().unwrap()
}

/// Killed at twenty moments of a download, the store is right after every one of them, and the last run fetches only what is missing.
#[cfg(unix)]
#[test]
fn a_killed_download_goes_on() {
    let cache = tempfile::tempdir().unwrap();
    let files = with_checksums(large());
    let server = Server::new(files.clone());
    let url = server.url();
    let mut random = 0x2545_F491_4F6C_DD1Du64;
    let mut killed = 0;
    server.drip(Duration::from_millis(2));
    for _ in 0..20 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut child =
            flash890(cache.path(), &["verify", &url]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_millis(5 + random % 90);
        while Instant::now() < end && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        killed += i32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        check_store(cache.path(), &files);
    }
    assert!(killed >= 10, "only {killed} of 20 were killed in time");
    let kept: u64 = json(&run(cache.path(), &["cache", "list", "--json"]))
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["bytes"].as_u64().unwrap())
        .sum();
    server.drip(Duration::ZERO);
    server.seen();
    let done = run(cache.path(), &["verify", &url]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let shards: u64 =
        files.iter().filter(|(name, _)| name.ends_with(".safetensors")).map(|(_, bytes)| bytes.len() as u64).sum();
    let ranges =
        server.seen().into_iter().filter(|seen| seen.file.ends_with(".safetensors")).filter_map(|seen| seen.range);
    let fetched: u64 =
        ranges.filter(|range| range.start > 0 || range.end > 1 << 14).map(|range| range.end - range.start).sum();
    assert!(fetched <= shards - kept.min(shards) + (1 << 20), "{fetched} fetched, {kept} of {shards} were kept");
    check_store(cache.path(), &files);
}

/// Every chunk that the journals speak of has the bytes of the original.
#[cfg(unix)]
fn check_store(cache: &std::path::Path, files: &Files) {
    let root = cache.join("flash890/models");
    for entry in flash890::weights::store::list(&root).unwrap() {
        let original = &files[&entry.about.file];
        assert_eq!(entry.about.len, original.len() as u64);
        let journal = std::fs::read_to_string(entry.folder.join("journal")).unwrap();
        let data = std::fs::read(entry.folder.join("data")).unwrap();
        for line in journal.lines().filter(|line| line.len() == 82) {
            let start = usize::from_str_radix(&line[..8], 16).unwrap() << 20;
            let end = start + usize::from_str_radix(&line[9..17], 16).unwrap();
            assert!(data[start..end] == original[start..end], "{}: {line}", entry.about.file);
        }
    }
}
