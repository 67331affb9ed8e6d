//! The golden tiny models of appendix E, as specs for the checkpoint writer.

use flash890::blocks::b1a_input::Prompt;
use flash890::blocks::context::Context;
use flash890::config::{Config, VisionConfig};
use flash890::image::TokenType;
use flash890::model::Reference;
use flash890::numerics::bf16;
use flash890::numerics::hash::Stream;
use flash890::weights::Checkpoint;
use flash890::weights::tiny::{Rules, TinySpec};
use std::sync::Arc;

/// Multipliers of section 2.2 for layers 1 and 14; the model of E.1 uses the latter in its layer 4.
const MULTIPLIERS: [[u64; 4]; 2] = [
    [76_632_096_046_245, 4_839_876_093_313, 35_959_672_319_349, 73_987_337_458_391],
    [67_716_810_739_261, 51_510_806_800_915, 30_921_347_202_721, 82_619_226_485_591],
];

/// The text model of appendix E.1: six layers, two draft stages, no vision.
pub(crate) fn spec() -> TinySpec {
    TinySpec {
        config: config(),
        rules: Rules::appendix_e(),
        token_map: (0..128).map(|id| (7 * id + 3) % 100).collect(),
        multipliers: Some(MULTIPLIERS.map(Vec::from).to_vec()),
        tokenizer: None,
        shards: 1,
    }
}

/// The same with the vision tower of appendix E.3.
#[allow(dead_code, reason = "each test binary compiles this file and uses its own part")]
pub(crate) fn spec_with_vision() -> TinySpec {
    let vision = VisionConfig {
        n_layers: 2,
        dim: 64,
        n_heads: 2,
        inter_dim: 32,
        patch_size: 14,
        downsample_ratio: 3,
        max_n_token: 1024,
        min_pixels: 1,
        max_wh_ratio: None,
        rope_theta: 10_000.0,
    };
    TinySpec { config: Config { vision: Some(vision), ..config() }, ..spec() }
}

/// The config of appendix E.1. Its images are given as rows, so the image token is any.
pub(crate) fn config() -> Config {
    Config {
        vocab_size: 128,
        dim: 64,
        n_layers: 6,
        n_mtp_layers: 2,
        n_heads: 4,
        head_dim: 64,
        rope_head_dim: 16,
        q_lora_rank: 32,
        o_groups: 2,
        o_lora_rank: 32,
        window_size: 8,
        norm_eps: 1e-20,
        max_position_embeddings: 1024,
        n_routed_experts: 8,
        n_shared_experts: 1,
        n_activated_experts: 2,
        moe_inter_dim: 32,
        route_scale: 1.5,
        swiglu_limit: 10.0,
        compress_ratios: vec![0, 2, 2, 1, 1, 1, 0, 0],
        kv_source_layers: vec![1, 3],
        index_source_layers: vec![1, 3, 5],
        rope_theta: 10_000.0,
        compress_rope_theta: 40_000.0,
        original_seq_len: 32,
        rope_factor: 4.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
        index_n_heads: 4,
        index_head_dim: 32,
        index_topk: 4,
        candidate_source_layer: 3,
        candidate_topk_blocks: 3,
        candidate_block_size: 2,
        hc_mult: 4,
        hc_sinkhorn_iters: 20,
        hc_eps: 1e-6,
        engram_layer_ids: vec![1, 4],
        engram_vocab_size: 97,
        engram_num_embeddings: vec![630, 834],
        engram_max_ngram_size: 4,
        engram_n_heads: 2,
        engram_head_dim: 32,
        engram_pad_id: 2,
        engram_compressed_vocab_size: 100,
        bos_token_id: 0,
        eos_token_id: 1,
        image_token_id: 127,
        dspark_block_size: 3,
        dspark_noise_token_id: 7,
        dspark_target_layer_ids: vec![3, 4, 5],
        dspark_markov_rank: 32,
        dspark_n_routed_experts: 4,
        dspark_n_activated_experts: 2,
        vision: None,
        unknown: Vec::new(),
    }
}

/// The prompt of appendix E.1: 21 ids.
pub(crate) fn prompt() -> Vec<u32> {
    (0..21).map(|i| (5 * i * i + 11 * i + 1) % 128).collect()
}

/// The prompt with its image variant of appendix E.2: positions 5 to 9 are rows of a picture. Needs [`spec_with_vision`].
#[allow(dead_code, reason = "each test binary compiles this file and uses its own part")]
pub(crate) fn image_prompt() -> Prompt {
    let stream = Stream::new("golden.image_rows");
    let (config, ids) = (config(), prompt());
    let rows: Vec<f32> = (0..5 * config.dim as u64).map(|i| bf16::round(stream.unit(i))).collect();
    let mut out = Prompt::text(ids[..5].to_vec());
    out.push_image(config.image_token_id, &[TokenType::Image; 5], &rows);
    out.push_text(&ids[10..]);
    out
}

/// The checkpoint of a spec, in memory.
#[allow(dead_code, reason = "each test binary compiles this file and uses its own part")]
pub(crate) fn checkpoint(spec: &TinySpec) -> Arc<Checkpoint> {
    Arc::new(pollster::block_on(Checkpoint::from_files(spec.files().unwrap())).unwrap())
}

/// A checkpoint loaded with a context of one's own.
#[allow(dead_code, reason = "each test binary compiles this file and uses its own part")]
pub(crate) fn load(checkpoint: &Arc<Checkpoint>, context: Context) -> Reference {
    pollster::block_on(Reference::load_with(checkpoint.clone(), context, &mut |_, _, _| {})).unwrap()
}
