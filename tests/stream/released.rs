//! The published checkpoint as far as its headers: a server that makes all 96,085 of them and 510 GB of zeros on the fly.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use flash890::config::Config;
use flash890::weights::contract::contract;
use serde_json::{Map, Value, json};

use crate::commands::{json, run};
use crate::server::{Content, Server};

/// Documents and headers in memory; all data is zero.
struct Released {
    documents: BTreeMap<String, Arc<[u8]>>,
    /// Header with its length in front, and length of the whole shard.
    shards: BTreeMap<String, (Vec<u8>, u64)>,
}

impl Released {
    fn new() -> Released {
        let config = Config::flash();
        let specs = contract(&config);
        let name = |shard: usize| format!("model-{shard:05}-of-00048.safetensors");
        let total: u64 = specs.iter().map(|spec| spec.bytes()).sum();
        let map: Map<String, Value> = specs.iter().map(|spec| (spec.name.clone(), name(spec.shard).into())).collect();
        let index = json!({"metadata": {"total_size": total}, "weight_map": map}).to_string();
        let documents = [("config.json", config.to_json()), ("model.safetensors.index.json", index)];
        let mut shards = BTreeMap::new();
        for specs in specs.chunk_by(|a, b| a.shard == b.shard) {
            let (mut header, mut end) = (Map::new(), 0);
            for spec in specs {
                let start = end;
                end += spec.bytes();
                let entry = json!({"dtype": spec.dtype, "shape": spec.shape, "data_offsets": [start, end]});
                header.insert(spec.name.clone(), entry);
            }
            let text = Value::Object(header).to_string();
            let head = [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
            let len = head.len() as u64 + end;
            shards.insert(name(specs[0].shard), (head, len));
        }
        let documents = documents.map(|(name, text)| (name.to_string(), text.into_bytes().into()));
        Released { documents: documents.into_iter().collect(), shards }
    }
}

impl Content for Released {
    fn len(&self, name: &str) -> Option<u64> {
        self.shards.get(name).map(|(_, len)| *len).or_else(|| Content::len(&self.documents, name))
    }

    fn read(&self, name: &str, range: Range<u64>) -> Vec<u8> {
        let Some((head, _)) = self.shards.get(name) else { return self.documents.read(name, range) };
        let mut bytes = vec![0; (range.end - range.start) as usize];
        if let Some(rest) = head.get(range.start as usize..) {
            let n = rest.len().min(bytes.len());
            bytes[..n].copy_from_slice(&rest[..n]);
        }
        bytes
    }
}

/// Totals of section 11.1, bytes per token of section 11.5, and no more than headers and a sample on the way.
#[test]
fn inspect_and_plan_read_headers_only() {
    let cache = tempfile::tempdir().unwrap();
    let server = Server::new(Released::new());
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
