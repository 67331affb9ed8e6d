//! The published sizes: a server that makes headers of all 96,085 tensors, and whatever is asked of their 510 GB, on the fly.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use flash890::config::Config;
use flash890::weights::Dtype;
use flash890::weights::contract::contract;
use serde_json::{Map, Value, json};

use crate::commands::{flash890, json, run};
use crate::server::{Content, Server};

/// Documents and headers in memory, data made as it is asked for.
struct Made {
    documents: BTreeMap<String, Arc<[u8]>>,
    shards: BTreeMap<String, Shard>,
}

struct Shard {
    /// The header with its length in front.
    head: Vec<u8>,
    /// Type and end of every tensor, in order of their data.
    tensors: Vec<(Dtype, u64)>,
}

impl Made {
    fn new(config: &Config) -> Made {
        let specs = contract(config);
        let count = specs.iter().map(|spec| spec.shard).max().unwrap();
        let name = |shard: usize| format!("model-{shard:05}-of-{count:05}.safetensors");
        let total: u64 = specs.iter().map(|spec| spec.bytes()).sum();
        let map: Map<String, Value> = specs.iter().map(|spec| (spec.name.clone(), name(spec.shard).into())).collect();
        let index = json!({"metadata": {"total_size": total}, "weight_map": map}).to_string();
        let documents = [("config.json", config.to_json()), ("model.safetensors.index.json", index)];
        let documents = documents.map(|(name, text)| (name.to_string(), text.into_bytes().into()));
        let mut shards = BTreeMap::new();
        for specs in specs.chunk_by(|a, b| a.shard == b.shard) {
            let (mut header, mut tensors, mut end) = (Map::new(), Vec::new(), 0);
            for spec in specs {
                let start = end;
                end += spec.bytes();
                let entry = json!({"dtype": spec.dtype, "shape": spec.shape, "data_offsets": [start, end]});
                header.insert(spec.name.clone(), entry);
                tensors.push((spec.dtype, end));
            }
            let text = Value::Object(header).to_string();
            let head = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
            shards.insert(name(specs[0].shard), Shard { head, tensors });
        }
        Made { documents: documents.into_iter().collect(), shards }
    }
}

impl Content for Made {
    fn len(&self, name: &str) -> Option<u64> {
        let len = |shard: &Shard| shard.head.len() as u64 + shard.tensors.last().unwrap().1;
        self.shards.get(name).map(len).or_else(|| Content::len(&self.documents, name))
    }

    fn read(&self, name: &str, range: Range<u64>) -> Vec<u8> {
        let Some(Shard { head, tensors }) = self.shards.get(name) else { return self.documents.read(name, range) };
        let begin = head.len() as u64;
        let mut which = tensors.partition_point(|(_, end)| *end + begin <= range.start);
        let byte = |place: u64| {
            if place < begin {
                return head[place as usize];
            }
            while tensors[which].1 <= place - begin {
                which += 1;
            }
            value(tensors[which].0, place - begin)
        };
        range.map(byte).collect()
    }
}

/// A byte of a tensor that is a finite number and small, whatever the type; tensors of two and four bytes begin at such places.
fn value(dtype: Dtype, place: u64) -> u8 {
    let mixed = (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
    match dtype {
        Dtype::BF16 if place % 2 == 1 => 0x3C | (mixed & 0x80),
        Dtype::F32 if place % 4 == 3 => 0x3C,
        Dtype::F32 => 0,
        Dtype::F8_E8M0 => 120,
        Dtype::F8_E4M3 => mixed & 0xB7,
        _ => mixed,
    }
}

/// Totals of section 11.1, bytes per token of section 11.5, and no more than headers and a sample on the way.
#[test]
fn inspect_and_plan_read_headers_only() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::new(Made::new(&Config::flash()));
    let url = server.url();
    let begin = std::time::Instant::now();
    let report = json(&run(cache.path(), &["inspect", &url, "--json"]));
    assert_eq!((report["tensors"].as_u64(), report["bytes"].as_u64()), (Some(96_085), Some(510_286_023_000)));
    assert_eq!(report["verdict"]["good"], true);
    assert_eq!(report["shards"].as_array().unwrap().len(), 48);
    assert_eq!(report["parts"]["routed experts"]["bytes"].as_u64(), Some(288_777_830_400));

    let plan = json(&run(cache.path(), &["plan", &url, "--json", "--memory", "400"]));
    assert_eq!(plan["bytes_per_token"]["total"].as_u64(), Some(13_035_097_920));
    assert_eq!(plan["needs"]["loaded_bytes"].as_u64(), Some(307_527_990_600));
    assert_eq!((&plan["contract"]["good"], &plan["fits_memory"]), (&true.into(), &true.into()));
    assert!(plan["asked_bytes"].as_u64() < Some(40_000_000), "{plan}");
    assert!(begin.elapsed().as_secs() < 60, "seconds, not {:?}", begin.elapsed());

    let small = run(cache.path(), &["plan", &url, "--memory", "64"]);
    assert_eq!(small.code, Some(3), "{}", small.stderr);
    assert!(small.stdout.contains("96,085 tensors, 510,286,023,000"), "{}", small.stdout);
    assert!(small.stderr.contains("needs 307.5 GB, available: 64.0 GB"), "{}", small.stderr);
    // A run says the same before it has loaded anything.
    server.seen();
    let generated =
        run(cache.path(), &["generate", "--model", &url, "--no-cache", "--prompt", "a", "--backend", "cpu"]);
    assert_ne!(generated.code, Some(0));
    let read: u64 = server.seen().into_iter().filter_map(|seen| seen.range).map(|range| range.end - range.start).sum();
    assert!(read < 60_000_000, "{read} bytes");
}

/// One layer of the released widths with all 384 experts, 7.2 GB, through 12 slots: the process never holds more than what is resident by plan
/// and 256 MiB.
#[test]
fn a_layer_of_released_width_streams() {
    let config = Config {
        vocab_size: 512,
        n_layers: 1,
        n_mtp_layers: 0,
        compress_ratios: vec![1],
        kv_source_layers: vec![0],
        index_source_layers: vec![0],
        candidate_source_layer: 0,
        engram_layer_ids: Vec::new(),
        engram_num_embeddings: Vec::new(),
        engram_compressed_vocab_size: 512,
        image_token_id: 5,
        dspark_noise_token_id: 3,
        dspark_target_layer_ids: Vec::new(),
        vision: None,
        ..Config::flash()
    };
    let mut made = Made::new(&config);
    let tokenizer = std::fs::read(crate::golden("t12").join("tokenizer.json")).unwrap();
    made.documents.insert("tokenizer.json".into(), tokenizer.into());
    let total: u64 = contract(&config).iter().map(|spec| spec.bytes()).sum();
    let experts: u64 = 384 * 18_800_640;
    let cache = tempfile::tempdir().unwrap();
    let server = Server::new(made);
    let url = server.url();
    let args = ["generate", "--model", &url, "--no-cache", "--prompt", "a", "--max-tokens", "3", "--backend", "cpu"];
    let mut child = flash890(cache.path(), &[&args[..], &["--expert-budget", "3"]].concat())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        peak = peak_memory(child.id()).unwrap_or(peak);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("experts: 12 slots for 384"), "{stderr}");
    let resident = total - experts + 12 * 18_800_640;
    assert!(peak < resident + (256 << 20), "{peak} bytes, {resident} are resident by plan\n{stderr}");
    assert!(!cfg!(target_os = "linux") || peak > 100_000_000, "{peak}");
}

/// The most memory that a process had so far, where the system tells.
fn peak_memory(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}
