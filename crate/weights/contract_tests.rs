//! The totals of sections 11.1 to 11.3, all from the config alone.

use std::collections::{BTreeMap, HashSet};

use super::*;

fn release() -> Vec<TensorSpec> {
    contract(&Config::flash())
}

#[test]
fn tensors_and_bytes() {
    let tensors = release();
    assert_eq!(tensors.len(), 96_085);
    assert_eq!(tensors.iter().map(TensorSpec::bytes).sum::<u64>(), 510_286_023_000);
    let names: HashSet<&str> = tensors.iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names.len(), tensors.len());
}

#[test]
fn elements_by_type() {
    let mut elements = BTreeMap::new();
    for tensor in release() {
        *elements.entry(tensor.dtype).or_insert(0) += tensor.elements();
    }
    let needed = [
        (Dtype::I8, 278_585_671_680),
        (Dtype::F8_E4M3, 204_015_223_296),
        (Dtype::F8_E8M0, 23_563_015_184),
        (Dtype::BF16, 1_976_441_856),
        (Dtype::F32, 42_307_282u64),
    ];
    assert_eq!(elements, BTreeMap::from(needed));
    let f32s = 43 * 983_094 + 43 * 64 + 40 * 2 * 384 + 3 * 2 * 128;
    assert_eq!(elements[&Dtype::F32], f32s, "hyper-connections, sinks and router biases, nothing else");
}

#[test]
fn parts() {
    let mut parts = BTreeMap::new();
    for tensor in release() {
        let (count, bytes) = parts.entry(tensor.part).or_insert((0, 0));
        *count += 1;
        *bytes += tensor.bytes();
    }
    let needed = [
        (Part::RoutedExperts, (92_160, 288_777_830_400)),
        (Part::EngramTables, (4, 202_758_032_400)),
        (Part::DraftExperts, (2_304, 7_219_445_760)),
        (Part::Attention, (520, 5_069_721_600)),
        (Part::SharedExperts, (240, 1_416_960_000)),
        (Part::Embedding, (1, 1_323_827_200)),
        (Part::Head, (1, 1_323_827_200)),
        (Part::Vision, (259, 823_685_120)),
        (Part::DraftRest, (97, 713_428_872)),
        (Part::EngramProjections, (8, 315_043_840)),
        (Part::Routers, (120, 157_409_280)),
        (Part::HyperConnections, (240, 157_295_040)),
        (Part::Aligner, (4, 146_821_120)),
        (Part::Indexers, (32, 45_130_752)),
        (Part::Compressors, (11, 36_704_256)),
        (Part::Norms, (81, 829_440)),
        (Part::ImageVectors, (3, 30_720u64)),
    ];
    assert_eq!(parts, BTreeMap::from(needed));
}

#[test]
fn shards() {
    let mut shards = BTreeMap::new();
    for tensor in release() {
        let (count, bytes) = shards.entry(tensor.shard).or_insert((0, 0));
        *count += 1;
        *bytes += tensor.bytes();
    }
    assert_eq!(shards.len(), 48);
    for (shard, found) in shards {
        let needed = match shard {
            1 => (263, 970_506_240),
            2 => (4, 1_323_857_920),
            43 => (2, 1_323_837_440),
            44 => (801, 2_652_643_800),
            45 => (798, 2_573_913_560),
            46 => (802, 2_706_317_272),
            47 => (6, 101_535_150_272),
            48 => (6, 101_537_925_968u64),
            layer_shard => match layer_shard - 3 {
                2 | 8 | 14 => (2_342, 7_405_694_680),
                20 => (2_341, 7_400_451_800),
                24 | 28 | 32 | 36 => (2_337, 7_395_076_568),
                _ => (2_334, 7_389_500_888),
            },
        };
        assert_eq!(found, needed, "shard {shard}");
    }
}

#[test]
fn fp8_linears() {
    let tensors = release();
    let tables = tensors.iter().filter(|tensor| tensor.name.ends_with("engram.embed.weight")).count();
    let fp8 = tensors.iter().filter(|tensor| tensor.dtype == Dtype::F8_E4M3).count();
    assert_eq!((fp8 - tables, tables), (355, 2));
}

#[test]
fn names_types_and_shapes() {
    let tensors = release();
    let by_name: BTreeMap<&str, &TensorSpec> = tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let cases: &[(&str, Dtype, &[usize])] = &[
        ("embed.weight", Dtype::BF16, &[129_280, 5120]),
        ("image_newline", Dtype::BF16, &[5120]),
        ("layers.0.attn.wq_a.weight", Dtype::F8_E4M3, &[1280, 5120]),
        ("layers.0.attn.wq_a.scale", Dtype::F8_E8M0, &[40, 160]),
        ("layers.39.attn.wq_b.weight", Dtype::F8_E4M3, &[32_768, 1280]),
        ("layers.1.attn.wo_a.scale", Dtype::F8_E8M0, &[256, 128]),
        ("layers.5.attn.wo_b.weight", Dtype::F8_E4M3, &[5120, 8192]),
        ("mtp.1.attn.attn_sink", Dtype::F32, &[64]),
        ("layers.7.hc_attn_fn", Dtype::F32, &[24, 20_480]),
        ("layers.7.hc_ffn_scale", Dtype::F32, &[3]),
        ("mtp.2.ffn.gate.weight", Dtype::BF16, &[128, 5120]),
        ("mtp.2.ffn.gate.bias_vl", Dtype::F32, &[128]),
        ("layers.9.ffn.experts.383.w3.weight", Dtype::I8, &[2304, 2560]),
        ("layers.9.ffn.experts.383.w3.scale", Dtype::F8_E8M0, &[2304, 160]),
        ("mtp.0.ffn.experts.127.w2.weight", Dtype::I8, &[5120, 1152]),
        ("mtp.0.ffn.experts.127.w2.scale", Dtype::F8_E8M0, &[5120, 72]),
        ("layers.3.ffn.shared_experts.w1.scale", Dtype::F8_E8M0, &[72, 160]),
        ("layers.14.attn.compressor.wgate.weight", Dtype::BF16, &[512, 5120]),
        ("layers.20.attn.compressor.norm.weight", Dtype::BF16, &[512]),
        ("layers.36.attn.indexer.wq_b.scale", Dtype::F8_E8M0, &[128, 40]),
        ("layers.36.attn.indexer.weights_proj.weight", Dtype::BF16, &[32, 5120]),
        ("layers.20.attn.indexer.wk.weight", Dtype::BF16, &[128, 512]),
        ("layers.1.engram.embed.weight", Dtype::F8_E4M3, &[384_006_168, 256]),
        ("layers.14.engram.embed.scale", Dtype::F8_E8M0, &[384_016_682, 8]),
        ("layers.14.engram.wkv.weight", Dtype::F8_E4M3, &[25_600, 6144]),
        ("layers.1.engram.wkv.scale", Dtype::F8_E8M0, &[800, 192]),
        ("layers.1.engram.k_weight", Dtype::BF16, &[4, 5120]),
        ("mtp.0.main_proj.weight", Dtype::F8_E4M3, &[5120, 15_360]),
        ("mtp.0.main_proj.scale", Dtype::F8_E8M0, &[160, 480]),
        ("mtp.2.markov_head.head.weight", Dtype::BF16, &[129_280, 256]),
        ("mtp.2.confidence_head.proj.weight", Dtype::BF16, &[1, 5376]),
        ("vision.patch_embed.proj.weight", Dtype::BF16, &[1024, 588]),
        ("vision.blocks.31.attn.wqkv.bias", Dtype::BF16, &[3072]),
        ("vision.blocks.0.mlp.w1.weight", Dtype::BF16, &[5632, 1024]),
        ("vision.blocks.0.mlp.w2.weight", Dtype::BF16, &[1024, 2816]),
        ("aligner.w1.weight", Dtype::BF16, &[5120, 9216]),
        ("aligner.w2.bias", Dtype::BF16, &[5120]),
    ];
    for (name, dtype, shape) in cases {
        let tensor = by_name[name];
        assert_eq!((tensor.dtype, tensor.shape.as_slice()), (*dtype, *shape), "{name}");
    }
    for name in [
        "layers.20.attn.compressor.wgate.weight",
        "layers.24.attn.indexer.wk.weight",
        "layers.0.attn.indexer.wq_b.weight",
        "mtp.1.main_proj.weight",
        "mtp.0.norm.weight",
        "vision.blocks.0.mlp.w1.bias",
    ] {
        assert!(!by_name.contains_key(name), "{name}");
    }
}

#[test]
fn without_vision_its_tensors_and_its_shard_are_gone() {
    let tensors = contract(&Config { vision: None, ..Config::flash() });
    assert_eq!(tensors.len(), 96_085 - 259 - 4 - 3);
    assert_eq!((tensors[0].name.as_str(), tensors[0].shard), ("embed.weight", 1));
}
