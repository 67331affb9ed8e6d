//! Golden checkpoints open and pass their contract; damaged copies of them are refused by name.

use std::path::PathBuf;

use pollster::block_on;

use super::header::read_header;
use super::index::{INDEX_FILE, SINGLE_FILE};
use super::*;
use crate::numerics::{bf16, e2m1, e4m3, e8m0};
use crate::{Error, Result};

fn folder(name: &str) -> PathBuf {
    PathBuf::from(format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR")))
}

/// The files of t12 that belong to the checkpoint.
fn t12() -> Files {
    let mut files = Files::new();
    for entry in std::fs::read_dir(folder("t12")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        if name.starts_with("model") || name.ends_with(".json") {
            files.insert(name, std::fs::read(path).unwrap().into());
        }
    }
    files
}

fn edit(files: &mut Files, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = files[name].to_vec();
    change(&mut bytes);
    files.insert(name.into(), bytes.into());
}

/// Replaces text that must be there.
fn replace(files: &mut Files, name: &str, from: &str, to: &str) {
    edit(files, name, |bytes| {
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(text.contains(from), "{name} has no {from}");
        *bytes = text.replacen(from, to, 1).into_bytes();
    });
}

fn open(files: Files) -> Result<Checkpoint> {
    block_on(Checkpoint::from_files(files))
}

/// t12 with the first bytes of one tensor, from byte `at` on, overwritten.
fn with_bytes(tensor: &str, at: usize, new: &[u8]) -> Checkpoint {
    let checkpoint = open(t12()).unwrap();
    let info = checkpoint.info(tensor).unwrap();
    let start = info.range.start as usize + at;
    let mut files = t12();
    edit(&mut files, checkpoint.shard_name(info.file), |bytes| bytes[start..start + new.len()].copy_from_slice(new));
    open(files).unwrap()
}

#[test]
fn golden_checkpoints_pass_their_contract() {
    for (name, tensors) in [("t12", 1175), ("t40", 3373), ("kv890", 2413)] {
        let (checkpoint, verdict) = block_on(Checkpoint::inspect(&Folder::Dir(folder(name)))).unwrap();
        assert_eq!(verdict, verdict::Verdict::default(), "{name}");
        assert_eq!(checkpoint.names().count(), tensors, "{name}");
        assert_eq!(checkpoint.tokenizer_json().unwrap().len(), 23_684);
    }
}

#[test]
fn memory_and_folder_give_the_same_bytes() {
    let memory = open(t12()).unwrap();
    let dir = block_on(Checkpoint::open_dir(folder("t12"))).unwrap();
    assert_eq!(memory.total_bytes(), 3_013_364);
    assert_eq!(memory.tensors(), dir.tensors());
    for name in memory.names() {
        assert_eq!(block_on(memory.bytes(name)).unwrap(), block_on(dir.bytes(name)).unwrap(), "{name}");
    }
}

#[test]
fn one_file_without_an_index_will_do() {
    let checkpoint = open(t12()).unwrap();
    let mut files = t12();
    files.retain(|name, _| name.ends_with(".json") && name != INDEX_FILE);
    let tensors = checkpoint.tensors().iter().map(|info| {
        let bytes = block_on(checkpoint.bytes(&info.name)).unwrap();
        (info.name.clone(), safetensors_view(info, bytes))
    });
    let all: Vec<(String, Stored)> = tensors.collect();
    files.insert(SINGLE_FILE.into(), safetensors::serialize(all, None).unwrap().into());
    let single = open(files).unwrap();
    assert_eq!(single.total_bytes(), checkpoint.total_bytes());
    for name in checkpoint.names() {
        assert_eq!(block_on(checkpoint.bytes(name)).unwrap(), block_on(single.bytes(name)).unwrap(), "{name}");
    }
}

/// A tensor for the library's own writer: what it writes must be readable here.
struct Stored {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

fn safetensors_view(info: &TensorInfo, bytes: Vec<u8>) -> Stored {
    Stored { dtype: info.dtype, shape: info.shape.clone(), bytes }
}

impl safetensors::View for Stored {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        (&self.bytes).into()
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

#[test]
fn matrices_keep_their_storage_format() {
    let checkpoint = open(t12()).unwrap();
    let matrix = |prefix: &str| block_on(checkpoint.matrix(prefix)).unwrap();
    let bytes = |name: &str| block_on(checkpoint.bytes(name)).unwrap();

    let wq_b = matrix("layers.0.attn.wq_b");
    assert_eq!((wq_b.rows(), wq_b.cols()), (256, 32));
    let (codes, scales) = (bytes("layers.0.attn.wq_b.weight"), bytes("layers.0.attn.wq_b.scale"));
    assert_eq!(wq_b.to_f32()[33 * 32 + 5], e4m3::decode(codes[33 * 32 + 5]) * e8m0::decode(scales[1]));

    // P-46: [64, 16] bytes are [64, 32] weights, the even column in the low nibble.
    let w2 = matrix("layers.0.ffn.experts.0.w2");
    assert_eq!((w2.rows(), w2.cols()), (64, 32));
    let (packed, scales) = (bytes("layers.0.ffn.experts.0.w2.weight"), bytes("layers.0.ffn.experts.0.w2.scale"));
    let weights = w2.to_f32();
    for row in [0, 1, 63] {
        let (byte, scale) = (packed[row * 16 + 7], e8m0::decode(scales[row]));
        assert_eq!(weights[row * 32 + 14], e2m1::decode(byte & 15) * scale);
        assert_eq!(weights[row * 32 + 15], e2m1::decode(byte >> 4) * scale);
    }

    let gate = matrix("layers.0.ffn.gate");
    assert_eq!((gate.rows(), gate.cols()), (8, 64));
    let stored = bytes("layers.0.ffn.gate.weight");
    assert_eq!(gate.to_f32()[1], bf16::decode(u16::from_le_bytes([stored[2], stored[3]])));

    let hc = block_on(checkpoint.tensor_matrix("layers.0.hc_attn_fn")).unwrap();
    assert_eq!((hc.rows(), hc.cols()), (24, 256));
    assert_eq!(hc.to_f32(), block_on(checkpoint.vector("layers.0.hc_attn_fn")).unwrap());
    assert_eq!(block_on(checkpoint.vector("layers.1.engram.q_weight")).unwrap().len(), 4 * 64);
}

#[test]
fn rows_are_read_singly() {
    let checkpoint = open(t12()).unwrap();
    let name = "layers.1.engram.embed.weight";
    let all = block_on(checkpoint.bytes(name)).unwrap();
    assert_eq!(block_on(checkpoint.read_rows(name, 6567, 1)).unwrap(), all[6567 * 32..]);
    assert_eq!(block_on(checkpoint.read_rows(name, 100, 3)).unwrap(), all[100 * 32..103 * 32]);
    assert!(block_on(checkpoint.read_rows(name, 6568, 0)).unwrap().is_empty());
    for (first, count) in [(6568, 1), (0, 6569), (u64::MAX, 2)] {
        let error = block_on(checkpoint.read_rows(name, first, count)).unwrap_err();
        assert!(matches!(error, Error::Tensor { .. }), "{error}");
    }
    let row = block_on(checkpoint.table_row("layers.1.engram.embed", 100)).unwrap();
    let scale = e8m0::decode(block_on(checkpoint.bytes("layers.1.engram.embed.scale")).unwrap()[100]);
    let needed: Vec<f32> = all[100 * 32..101 * 32].iter().map(|&code| e4m3::decode(code) * scale).collect();
    assert_eq!(row, needed);
    assert!(block_on(checkpoint.table_row("layers.0.attn.wkv", 0)).is_err(), "scaled by tile, not by row");
}

#[test]
fn numbers_that_are_not_finite_are_refused_by_name() {
    let found = |result: Result<()>| match result {
        Err(Error::NotFinite { name, index }) => (name, index),
        other => panic!("{other:?}"),
    };
    let matrix = |checkpoint: &Checkpoint, prefix: &str| found(block_on(checkpoint.matrix(prefix)).map(|_| ()));
    for nan in [0x7F, 0xFF] {
        let checkpoint = with_bytes("layers.2.attn.wkv.weight", 5, &[nan]);
        assert_eq!(matrix(&checkpoint, "layers.2.attn.wkv"), ("layers.2.attn.wkv.weight".into(), 5));
    }
    let checkpoint = with_bytes("layers.2.attn.wkv.scale", 3, &[255]);
    assert_eq!(matrix(&checkpoint, "layers.2.attn.wkv"), ("layers.2.attn.wkv.scale".into(), 3));
    let checkpoint = with_bytes("layers.2.ffn.experts.1.w1.scale", 9, &[255]);
    assert_eq!(matrix(&checkpoint, "layers.2.ffn.experts.1.w1"), ("layers.2.ffn.experts.1.w1.scale".into(), 9));
    for bits in [0x7F80u16, 0xFF80, 0x7FC1] {
        let checkpoint = with_bytes("embed.weight", 2 * 70, &bits.to_le_bytes());
        assert_eq!(matrix(&checkpoint, "embed"), ("embed.weight".into(), 70));
        assert_eq!(found(block_on(checkpoint.vector("embed.weight")).map(|_| ())).1, 70);
    }
    for value in [f32::INFINITY, f32::NAN] {
        let checkpoint = with_bytes("layers.3.hc_ffn_base", 4 * 23, &value.to_le_bytes());
        let result = block_on(checkpoint.vector("layers.3.hc_ffn_base")).map(|_| ());
        assert_eq!(found(result), ("layers.3.hc_ffn_base".into(), 23));
    }
    let checkpoint = with_bytes("layers.1.engram.embed.weight", 32 * 9 + 4, &[0xFF]);
    let row = |row| block_on(checkpoint.table_row("layers.1.engram.embed", row)).map(|_| ());
    assert_eq!(found(row(9)), ("layers.1.engram.embed.weight".into(), 32 * 9 + 4));
    assert!(row(8).is_ok());
    // In FP4 every nibble is a number: 0x7F and 0xFF are fine there.
    let checkpoint = with_bytes("layers.2.ffn.experts.1.w1.weight", 0, &[0x7F, 0xFF]);
    assert!(block_on(checkpoint.matrix("layers.2.ffn.experts.1.w1")).is_ok());
}

#[test]
fn unknown_tensors_and_wrong_kinds_are_errors() {
    let checkpoint = open(t12()).unwrap();
    assert!(!checkpoint.contains("layers.0.attn.wq_c.weight"));
    for error in [
        block_on(checkpoint.bytes("nope")).map(|_| ()),
        block_on(checkpoint.read_rows("nope", 0, 1)).map(|_| ()),
        block_on(checkpoint.matrix("nope")).map(|_| ()),
        block_on(checkpoint.vector("layers.0.attn.wq_a.weight")).map(|_| ()),
        block_on(checkpoint.tensor_matrix("layers.0.attn.wq_a.weight")).map(|_| ()),
        block_on(checkpoint.tensor_matrix("norm.weight")).map(|_| ()),
    ] {
        assert!(matches!(error, Err(Error::Tensor { .. })), "{error:?}");
    }
}

#[test]
fn a_config_for_other_weights_is_refused_with_a_count() {
    let mut files = t12();
    replace(&mut files, "config.json", "\"n_routed_experts\": 8", "\"n_routed_experts\": 9");
    let error = open(files.clone()).unwrap_err().to_string();
    assert_eq!(
        error,
        "tensor layers.0.ffn.gate.weight: needed BF16 [9, 64], found BF16 [8, 64] (and 107 more tensors are not as needed)"
    );
    let (_, verdict) = block_on(Checkpoint::inspect(&Folder::Memory(files))).unwrap();
    // Per layer: three router tensors of another shape, six tensors of a ninth expert that are missing.
    assert_eq!(verdict.differences.len(), 12 * (3 + 6));
    assert_eq!(verdict.differences[3].to_string(), "missing; needed I8 [32, 32]");

    let mut files = t12();
    replace(&mut files, "config.json", "\"n_routed_experts\": 8", "\"n_routed_experts\": 7");
    let (_, verdict) = block_on(Checkpoint::inspect(&Folder::Memory(files))).unwrap();
    assert_eq!((verdict.differences.len(), verdict.extra.len()), (12 * 3, 12 * 6));
    assert!(!verdict.is_good() && verdict.extra[0].contains(".experts.7."));
}

#[test]
fn files_that_are_missing_are_named() {
    for name in ["config.json", "model-00002-of-00003.safetensors", ENGRAM] {
        let mut files = t12();
        files.remove(name);
        let error = open(files).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
    let mut files = t12();
    files.remove("tokenizer.json");
    assert!(matches!(open(files).unwrap().tokenizer_json(), Err(Error::Tokenizer(_))));
    assert!(matches!(block_on(Checkpoint::open_dir("no such folder")), Err(Error::Io { .. })));
}

const ENGRAM: &str = "engram_tables.json";

#[test]
fn a_config_of_the_size_of_a_model_is_not_read() {
    let mut files = t12();
    edit(&mut files, "config.json", |bytes| bytes.resize((16 << 20) + 1, b' '));
    let error = open(files).unwrap_err();
    assert!(matches!(&error, Error::Integrity(text) if text.contains("config.json")), "{error}");
}

#[test]
fn index_and_shards_must_tell_the_same_story() {
    let cases = [
        ("\"total_size\": 3013364", "\"total_size\": 3013365", "total_size"),
        ("\"embed.weight\": \"model-00002", "\"embed.weight\": \"model-00001", "embed.weight"),
        ("\"embed.weight\"", "\"embed.height\"", "embed.height"),
        ("\"embed.weight\": \"model-00002-of-00003.safetensors\",", "", "embed.weight"),
        ("model-00002-of-00003", "model-00004-of-00003", "model-00004-of-00003"),
        ("model-00002-of-00003", "../model-00002-of-00003", "plain name"),
    ];
    for (from, to, named) in cases {
        let mut files = t12();
        let shard = String::from_utf8(files[INDEX_FILE].to_vec()).unwrap();
        let at = shard.find("\"embed.weight\": \"model-0000").unwrap() + "\"embed.weight\": \"".len();
        let home = &shard[at..at + "model-00002-of-00003".len()];
        let other = if home.contains("00001") { "model-00002" } else { "model-00001" };
        let from = from.replace("model-00002", &home[..11]);
        let to = if to.contains("model-00001") {
            to.replace("model-00001", other)
        } else {
            to.replace("model-00002", &home[..11])
        };
        replace(&mut files, INDEX_FILE, &from, &to);
        match open(files) {
            Err(Error::Index { problem, .. }) => assert!(problem.contains(named), "{problem}"),
            other => panic!("{from} to {to}: {other:?}"),
        }
    }
}

#[test]
fn a_shard_cut_short_is_refused() {
    let mut files = t12();
    edit(&mut files, "model-00002-of-00003.safetensors", |bytes| {
        bytes.pop();
    });
    assert!(matches!(open(files), Err(Error::Header { file, .. }) if file.contains("00002")));
}

#[test]
fn a_file_that_shrinks_while_open_is_an_error_with_file_and_offset() {
    let path = tempfile::tempdir().unwrap().keep().join("shard");
    std::fs::write(&path, [7; 100]).unwrap();
    let source = ByteSource::open(&path).unwrap();
    assert_eq!(block_on(source.read(98..100)).unwrap(), [7, 7]);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(60).unwrap();
    let error = block_on(source.read(50..100)).unwrap_err().to_string();
    assert!(error.contains("shard") && error.contains("at byte 60"), "{error}");
    let error = block_on(source.read(90..101)).unwrap_err().to_string();
    assert!(error.contains("up to 101") && error.contains("has 100"), "{error}");
    std::fs::remove_dir_all(path.parent().unwrap()).unwrap();
}

/// P-27: a tensor behind the first 4 GiB of a file. The file is sparse, so only where that is certain.
#[cfg(unix)]
#[test]
fn tensors_behind_4_gib_are_read() {
    use std::os::unix::fs::FileExt;
    const HUGE: u64 = 5 << 30;
    let json = format!(
        r#"{{"huge": {{"dtype": "U8", "shape": [{HUGE}], "data_offsets": [0, {HUGE}]}},
        "x": {{"dtype": "F32", "shape": [1], "data_offsets": [{HUGE}, {}]}}}}"#,
        HUGE + 4
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    let start = 8 + json.len() as u64;
    file.as_file().set_len(start + HUGE + 4).unwrap();
    file.as_file().write_all_at(&(json.len() as u64).to_le_bytes(), 0).unwrap();
    file.as_file().write_all_at(json.as_bytes(), 8).unwrap();
    file.as_file().write_all_at(&1.5f32.to_le_bytes(), start + HUGE).unwrap();
    let source = ByteSource::open(file.path()).unwrap();
    let entries = block_on(read_header(&source)).unwrap();
    assert_eq!(block_on(source.read(entries[1].range.clone())).unwrap(), 1.5f32.to_le_bytes());
    let whole = block_on(source.read(entries[0].range.clone())).unwrap_err();
    assert!(matches!(whole, Error::DoesNotFit { .. }), "{whole}");
}
