use std::collections::{HashMap, HashSet};

use pollster::block_on;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::tokenizer::{lab_token_map, lab_tokenizer_json};
use super::*;
use crate::numerics::hash::Stream;
use crate::numerics::{bf16, e4m3, e8m0};
use crate::weights::Folder;

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// sha256 and name of every lab file, in the form of sha256sum. They change only with the lab model itself, and then every value that was
/// recorded with it changes too.
const LAB_FILES: &str = "\
759246008b8bacc077123bcfc9e54d0ef02357fb3fbf7385c80010221ca47d68  config.json
c41de7079bdce46160b6d5913299652c9fc31f8d6ee421ace4d317555b298008  engram_tables.json
1b29d59950c5e8ca6fefc0ba4f561880d155b3573da984b887fd0a78c0b292bb  model-00001-of-00003.safetensors
44f894d45d749fde8de629cf98076be838969b144c09ab3564617347276b1826  model-00002-of-00003.safetensors
9052ef46a4b4337b81d0ea7491015141d8adc273f8f1cd1d12444d78b9dfeea6  model-00003-of-00003.safetensors
38862ae410dd6cce00ea58ea6cd694dbda21e568b7c4114b5184baf79b61c9fb  model.safetensors.index.json
3cbebc09da57e9307434e31b72934b236a7417f3d21744181a46886a190c0669  tokenizer.json
";

#[test]
fn lab_files_are_the_same_everywhere() {
    let files = TinySpec::lab().files().unwrap();
    let found: String = files.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes))).collect();
    assert_eq!(found, LAB_FILES, "found:\n{found}");
}

#[test]
fn lab_opens_with_nothing_missing_and_nothing_extra() {
    let files = TinySpec::lab().files().unwrap();
    let (checkpoint, verdict) = block_on(Checkpoint::inspect(&Folder::Memory(files))).unwrap();
    assert_eq!(verdict, super::super::verdict::Verdict::default());
    assert_eq!(checkpoint.config, Config::lab());
    assert_eq!(checkpoint.config.kv_bytes_per_token(), 890.0);
    assert_eq!(checkpoint.engram.token_map, lab_token_map());
}

#[test]
fn written_and_opened_from_a_folder_it_is_the_same() {
    let files = TinySpec::lab().files().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new");
    write_dir(&files, &path).unwrap();
    let dir = block_on(Checkpoint::open_dir(&path)).unwrap();
    let memory = block_on(lab()).unwrap();
    assert_eq!((dir.tensors(), &dir.engram, &dir.config), (memory.tensors(), &memory.engram, &memory.config));
    assert!(write_dir(&files, &path.join("config.json")).is_err(), "a file is no folder");
}

#[test]
fn values_follow_the_rules() {
    let checkpoint = block_on(lab()).unwrap();
    let vector = |name: &str| block_on(checkpoint.vector(name)).unwrap();
    let unit = |name: &str, i| Stream::new(name).unit(i);
    assert_eq!(vector("embed.weight")[77], bf16::round(unit("embed.weight", 77)));
    assert_eq!(vector("head.weight")[5], bf16::round(unit("head.weight", 5) * 0.3));
    assert_eq!(vector("layers.3.hc_ffn_base")[23], unit("layers.3.hc_ffn_base", 23) * 0.5);
    for norm in [
        "layers.0.attn.q_norm.weight",
        "layers.2.attn.indexer.k_norm.weight",
        "vision.blocks.1.norm2.weight",
        "norm.weight",
        "mtp.0.main_norm.weight",
        "layers.1.engram.q_weight",
    ] {
        assert_eq!(vector(norm)[9], bf16::round(1.0 + 0.25 * unit(norm, 9)), "{norm}");
    }
    let name = "layers.4.attn.wq_a";
    let wq_a = block_on(checkpoint.matrix(name)).unwrap().to_f32();
    let exponent = -10 + (Stream::new("layers.4.attn.wq_a.scale").at(1) & 1) as i32;
    let code = e4m3::encode(unit("layers.4.attn.wq_a.weight", 64 + 40) * 256.0);
    assert_eq!(wq_a[64 + 40], e4m3::decode(code) * 2f32.powi(exponent));
    let table = block_on(checkpoint.bytes("layers.14.engram.embed.scale")).unwrap();
    assert!(table.iter().all(|&byte| e8m0::decode(byte) == 2f32.powi(-8)));
    let packed = block_on(checkpoint.bytes("mtp.2.ffn.experts.3.w3.weight")).unwrap();
    assert_eq!(packed[100], Stream::new("mtp.2.ffn.experts.3.w3.weight").at(100) as u8);
}

#[test]
fn the_tokenizer_is_whole() {
    let document: Value = serde_json::from_str(&lab_tokenizer_json()).unwrap();
    let vocab = document["model"]["vocab"].as_object().unwrap();
    let config = Config::lab();
    let mut ids: HashMap<&str, u64> = vocab.iter().map(|(token, id)| (token.as_str(), id.as_u64().unwrap())).collect();
    for merge in document["model"]["merges"].as_array().unwrap() {
        let (left, right) = merge.as_str().unwrap().split_once(' ').unwrap();
        for token in [left, right, &format!("{left}{right}")] {
            assert!(vocab.contains_key(token), "{merge}: {token}");
        }
    }
    for added in document["added_tokens"].as_array().unwrap() {
        let (token, id) = (added["content"].as_str().unwrap(), added["id"].as_u64().unwrap());
        assert!(ids.insert(token, id).is_none_or(|in_vocab| in_vocab == id), "{token}");
    }
    let all: HashSet<u64> = ids.values().copied().collect();
    assert_eq!(all, (0..config.vocab_size as u64).collect());
    for (token, id) in [
        ("<｜begin▁of▁sentence｜>", config.bos_token_id),
        ("<｜end▁of▁sentence｜>", config.eos_token_id),
        ("<｜▁pad▁｜>", config.engram_pad_id),
        ("<｜System｜>", config.dspark_noise_token_id),
        ("<｜deepseek_image｜>", config.image_token_id),
    ] {
        assert_eq!(ids[token], u64::from(id), "{token}");
    }
    for token in ["<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "Ġthe", "ing", "ĠlÃł", "ÄĳÆ°á»£c"]
    {
        assert!(ids.contains_key(token), "{token}");
    }
}

/// Same splits, letter for letter, as the golden tokenizer, but for two escapes that do not change what they match.
#[test]
fn the_splits_are_the_released_ones() {
    let ours: Value = serde_json::from_str(&lab_tokenizer_json()).unwrap();
    let path = format!("{}/tests/golden/t12/tokenizer.json", env!("CARGO_MANIFEST_DIR"));
    let golden: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    for split in 0..3 {
        let regex = |document: &Value| {
            let text = &document["pre_tokenizer"]["pretokenizers"][split]["pattern"]["Regex"];
            text.as_str().unwrap().replace("\\\"", "\"").replace("\\r", "\r").replace("\\n", "\n")
        };
        assert_eq!(regex(&ours), regex(&golden), "split {split}");
    }
    assert_eq!(ours["pre_tokenizer"]["pretokenizers"][3], golden["pre_tokenizer"]["pretokenizers"][3]);
}

#[test]
fn the_token_map_folds_case_and_nothing_else() {
    let document: Value = serde_json::from_str(&lab_tokenizer_json()).unwrap();
    let id = |token: &str| document["model"]["vocab"][token].as_u64().unwrap() as usize;
    let map = lab_token_map();
    assert_eq!(map[id("A")], map[id("a")]);
    assert_ne!(map[id("a")], map[id("b")]);
    assert_eq!(map[..4], [0, 1, 2, 3]);
    let distinct: HashSet<u32> = map.iter().copied().collect();
    assert_eq!(distinct.len() as u64, Config::lab().engram_compressed_vocab_size);
}

#[test]
fn specs_that_do_not_fit_are_refused() {
    let lab = TinySpec::lab();
    let cases = [
        TinySpec { token_map: vec![0], ..lab.clone() },
        TinySpec { multipliers: Some(vec![]), ..lab.clone() },
        TinySpec { shards: 0, ..lab.clone() },
        TinySpec { rules: Rules { amplitudes: vec![], exponents: vec![] }, ..lab.clone() },
        TinySpec { rules: lab.rules.clone().with(&[], &[("attn.wq_a.", 200)]), ..lab.clone() },
        TinySpec { config: Config { head_dim: 100, ..Config::lab() }, ..lab.clone() },
        TinySpec { config: Config { n_routed_experts: 60_000, ..Config::lab() }, ..lab.clone() },
        TinySpec { config: Config { moe_inter_dim: 1 << 20, ..Config::lab() }, ..lab.clone() },
    ];
    for (i, spec) in cases.into_iter().enumerate() {
        assert!(spec.files().is_err(), "case {i}");
    }
}

#[test]
fn any_number_of_shards_holds_the_same_tensors() {
    let one = TinySpec { shards: 1, ..TinySpec::lab() }.files().unwrap();
    let many = TinySpec { shards: 1000, ..TinySpec::lab() }.files().unwrap();
    assert_eq!(one.keys().filter(|name| name.ends_with(".safetensors")).count(), 1);
    assert_eq!(many.keys().filter(|name| name.ends_with(".safetensors")).count(), 48);
    let (one, many) = (block_on(Checkpoint::from_files(one)).unwrap(), block_on(Checkpoint::from_files(many)).unwrap());
    for name in one.names() {
        assert_eq!(block_on(one.bytes(name)).unwrap(), block_on(many.bytes(name)).unwrap(), "{name}");
    }
    assert_eq!(one.names().count(), many.names().count());
}
