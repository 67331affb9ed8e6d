//! Reads config.json in the released, nested form (section 0.2) and in the vendor's flat one (section 0.1).
//!
//! What no key of the two forms accounts for is kept in [`Config::unknown`], so nothing in a file is dropped without a trace.

use serde_json::Value;

use super::section::{Section, kind};
use super::{Config, VisionConfig};
use crate::{Error, Result};

/// Defaults of values that the vendor's flat file leaves to code (sections 0.2 and 0.4).
const BOS_TOKEN_ID: u32 = 0;
const EOS_TOKEN_ID: u32 = 1;
const MAX_POSITION_EMBEDDINGS: usize = 1 << 20;

impl Config {
    /// Parses and checks a config.json, released or flat; the form is recognised by its keys.
    ///
    /// # Errors
    /// [`Error::Json`] if the bytes are no JSON object, [`Error::Config`] naming the key if a value is missing, of the wrong type, absurd or
    /// in contradiction to another one.
    pub fn from_json(bytes: &[u8]) -> Result<Config> {
        let json = |problem: String| Error::Json { file: "config.json".into(), what: "a model configuration", problem };
        let root = match serde_json::from_slice(bytes).map_err(|e| json(e.to_string()))? {
            Value::Object(map) => Section::new("", map),
            other => return Err(json(format!("needed an object, found {}", kind(&other)))),
        };
        let mut config = if root.has("text_config") {
            read_nested(root)?
        } else if root.has("dim") || root.has("n_layers") {
            read_flat(root)?
        } else {
            return Err(no_known_form(root));
        };
        // Two lengths are in circulation (D-01); whatever is said about the stages, they attend to their window only.
        let (layers, all) = (config.n_layers, config.n_layers + config.n_mtp_layers);
        let found = config.compress_ratios.len();
        if found != layers && found != all {
            return Err(Error::config(
                "compress_ratios",
                format!("needed {layers} entries (layers) or {all} (layers and DSpark stages), found {found}"),
            ));
        }
        if let Some(ratio) = config.compress_ratios.iter().find(|&&ratio| ratio > 2) {
            return Err(Error::config("compress_ratios", format!("needed ratios 0, 1 or 2, found {ratio}")));
        }
        config.compress_ratios.truncate(layers);
        config.compress_ratios.resize(all, 0);
        config.check()?;
        Ok(config)
    }
}

fn no_known_form(mut root: Section) -> Error {
    match root.take("model_type") {
        Some(found) => Error::config("model_type", format!("needed deepseek_v41, found {found}")),
        None => Error::config("text_config", "missing, and the keys of the flat form (dim, n_layers) are missing too"),
    }
}

/// The released form: `text_config`, `vision_config` and `quantization_config` inside the root object.
fn read_nested(mut root: Section) -> Result<Config> {
    root.is("model_type", &["deepseek_v41"])?;
    root.is("tie_word_embeddings", &[false])?;
    root.ignore(&["architectures", "dtype", "torch_dtype", "transformers_version", "pad_token_id"]);
    let mut quantization = root.section("quantization_config")?;
    check_quantization(&mut quantization)?;
    let mut text = root.section("text_config")?;
    check_text_architecture(&mut text)?;
    let mut yarn = text.section("rope_scaling")?;
    check_yarn(&mut yarn)?;
    let mut vision = root.optional_section("vision_config")?;
    if let Some(vision) = &mut vision {
        vision.is("model_type", &["deepseek_v41_vision"])?;
        vision.ignore(&["dtype"]);
    }
    let mut config = Config {
        vocab_size: text.usize("vocab_size")?,
        dim: text.usize("hidden_size")?,
        n_layers: text.usize("num_hidden_layers")?,
        n_mtp_layers: text.usize("num_nextn_predict_layers")?,
        n_heads: text.usize("num_attention_heads")?,
        head_dim: text.usize("head_dim")?,
        rope_head_dim: text.usize("qk_rope_head_dim")?,
        q_lora_rank: text.usize("q_lora_rank")?,
        o_groups: text.usize("o_groups")?,
        o_lora_rank: text.usize("o_lora_rank")?,
        window_size: text.usize("sliding_window")?,
        norm_eps: text.f32("rms_norm_eps")?,
        max_position_embeddings: text.usize("max_position_embeddings")?,
        n_routed_experts: text.usize("n_routed_experts")?,
        n_shared_experts: text.usize("n_shared_experts")?,
        n_activated_experts: text.usize("num_experts_per_tok")?,
        moe_inter_dim: text.usize("moe_intermediate_size")?,
        route_scale: text.f32("routed_scaling_factor")?,
        swiglu_limit: text.f32("swiglu_limit")?,
        compress_ratios: text.list("compress_ratios")?,
        kv_source_layers: text.list("kv_source_layer_ids")?,
        index_source_layers: text.list("index_source_layer_ids")?,
        rope_theta: text.f64("rope_theta")?,
        compress_rope_theta: text.f64("compress_rope_theta")?,
        original_seq_len: yarn.usize("original_max_position_embeddings")?,
        rope_factor: yarn.f64("factor")?,
        beta_fast: yarn.f64("beta_fast")?,
        beta_slow: yarn.f64("beta_slow")?,
        index_n_heads: text.usize("index_n_heads")?,
        index_head_dim: text.usize("index_head_dim")?,
        index_topk: text.usize("index_topk")?,
        candidate_source_layer: text.usize("candidate_source_layer_id")?,
        candidate_topk_blocks: text.usize("candidate_topk_blocks")?,
        candidate_block_size: text.usize("candidate_block_size")?,
        hc_mult: text.usize("hc_mult")?,
        hc_sinkhorn_iters: text.usize("hc_sinkhorn_iters")?,
        hc_eps: text.f32("hc_eps")?,
        engram_layer_ids: text.list("engram_layer_ids")?,
        engram_vocab_size: text.u64("engram_vocab_size")?,
        engram_num_embeddings: text.list("engram_num_embeddings")?,
        engram_max_ngram_size: text.usize("engram_max_ngram_size")?,
        engram_n_heads: text.usize("engram_n_heads")?,
        engram_head_dim: text.usize("engram_head_dim")?,
        engram_pad_id: text.u32("engram_pad_token_id")?,
        engram_compressed_vocab_size: text.u64("engram_compressed_vocab_size")?,
        bos_token_id: token_id(&mut root, &mut text, "bos_token_id", Some(BOS_TOKEN_ID))?,
        eos_token_id: token_id(&mut root, &mut text, "eos_token_id", Some(EOS_TOKEN_ID))?,
        image_token_id: token_id(&mut root, &mut text, "image_token_id", None)?,
        dspark_block_size: text.usize("dspark_block_size")?,
        dspark_noise_token_id: text.u32("dspark_noise_token_id")?,
        dspark_target_layer_ids: text.list("dspark_target_layer_ids")?,
        dspark_markov_rank: text.usize("dspark_markov_rank")?,
        dspark_n_routed_experts: text.usize("dspark_n_routed_experts")?,
        dspark_n_activated_experts: text.usize("dspark_num_experts_per_tok")?,
        vision: vision.as_mut().map(read_nested_vision).transpose()?,
        unknown: Vec::new(),
    };
    for section in [Some(root), Some(quantization), Some(text), Some(yarn), vision].into_iter().flatten() {
        section.finish(&mut config.unknown);
    }
    Ok(config)
}

fn read_nested_vision(vision: &mut Section) -> Result<VisionConfig> {
    Ok(VisionConfig {
        n_layers: vision.usize("num_hidden_layers")?,
        dim: vision.usize("hidden_size")?,
        n_heads: vision.usize("num_attention_heads")?,
        inter_dim: vision.usize("intermediate_size")?,
        patch_size: vision.usize("patch_size")?,
        downsample_ratio: vision.usize("downsample_ratio")?,
        max_n_token: vision.usize("max_image_tokens")?,
        min_pixels: vision.u64("min_pixels")?,
        max_wh_ratio: vision.optional_f64("max_wh_ratio")?,
        rope_theta: vision.f64("rope_theta")?,
    })
}

/// The vendor's form: every key in the root object, no statement about block sizes (they are part of its code).
fn read_flat(mut root: Section) -> Result<Config> {
    root.is("score_func", &["sqrtsoftplus"])?;
    root.is("expert_dtype", &["fp4"])?;
    root.is("dtype", &["fp8"])?;
    root.is("scale_fmt", &["ue8m0"])?;
    root.ignore(&["max_batch_size", "max_seq_len", "temperature"]);
    let mut config = Config {
        vocab_size: root.usize("vocab_size")?,
        dim: root.usize("dim")?,
        n_layers: root.usize("n_layers")?,
        n_mtp_layers: root.usize("n_mtp_layers")?,
        n_heads: root.usize("n_heads")?,
        head_dim: root.usize("head_dim")?,
        rope_head_dim: root.usize("rope_head_dim")?,
        q_lora_rank: root.usize("q_lora_rank")?,
        o_groups: root.usize("o_groups")?,
        o_lora_rank: root.usize("o_lora_rank")?,
        window_size: root.usize("window_size")?,
        norm_eps: root.f32("norm_eps")?,
        max_position_embeddings: root.or_default("max_position_embeddings", MAX_POSITION_EMBEDDINGS)?,
        n_routed_experts: root.usize("n_routed_experts")?,
        n_shared_experts: root.usize("n_shared_experts")?,
        n_activated_experts: root.usize("n_activated_experts")?,
        moe_inter_dim: root.usize("moe_inter_dim")?,
        route_scale: root.f32("route_scale")?,
        swiglu_limit: root.f32("swiglu_limit")?,
        compress_ratios: root.list("compress_ratios")?,
        kv_source_layers: root.list("kv_source_layers")?,
        index_source_layers: root.list("index_source_layers")?,
        rope_theta: root.f64("rope_theta")?,
        compress_rope_theta: root.f64("compress_rope_theta")?,
        original_seq_len: root.usize("original_seq_len")?,
        rope_factor: root.f64("rope_factor")?,
        beta_fast: root.f64("beta_fast")?,
        beta_slow: root.f64("beta_slow")?,
        index_n_heads: root.usize("index_n_heads")?,
        index_head_dim: root.usize("index_head_dim")?,
        index_topk: root.usize("index_topk")?,
        candidate_source_layer: root.usize("candidate_source_layer")?,
        candidate_topk_blocks: root.usize("candidate_topk_blocks")?,
        candidate_block_size: root.usize("candidate_block_size")?,
        hc_mult: root.usize("hc_mult")?,
        hc_sinkhorn_iters: root.usize("hc_sinkhorn_iters")?,
        hc_eps: root.f32("hc_eps")?,
        engram_layer_ids: root.list("engram_layer_ids")?,
        engram_vocab_size: root.u64("engram_vocab_size")?,
        engram_num_embeddings: root.list("engram_num_embeddings")?,
        engram_max_ngram_size: root.usize("engram_max_ngram_size")?,
        engram_n_heads: root.usize("engram_n_heads")?,
        engram_head_dim: root.usize("engram_head_dim")?,
        engram_pad_id: root.u32("engram_pad_id")?,
        engram_compressed_vocab_size: root.u64("engram_compressed_vocab_size")?,
        bos_token_id: root.or_default("bos_token_id", BOS_TOKEN_ID)?,
        eos_token_id: root.or_default("eos_token_id", EOS_TOKEN_ID)?,
        image_token_id: root.u32("image_token_id")?,
        dspark_block_size: root.usize("dspark_block_size")?,
        dspark_noise_token_id: root.u32("dspark_noise_token_id")?,
        dspark_target_layer_ids: root.list("dspark_target_layer_ids")?,
        dspark_markov_rank: root.usize("dspark_markov_rank")?,
        dspark_n_routed_experts: root.usize("dspark_n_routed_experts")?,
        dspark_n_activated_experts: root.usize("dspark_n_activated_experts")?,
        vision: if root.has("vision_n_layers") { Some(read_flat_vision(&mut root)?) } else { None },
        unknown: Vec::new(),
    };
    root.finish(&mut config.unknown);
    Ok(config)
}

fn read_flat_vision(root: &mut Section) -> Result<VisionConfig> {
    Ok(VisionConfig {
        n_layers: root.usize("vision_n_layers")?,
        dim: root.usize("vision_dim")?,
        n_heads: root.usize("vision_n_heads")?,
        inter_dim: root.usize("vision_inter_dim")?,
        patch_size: root.usize("vision_patch_size")?,
        downsample_ratio: root.usize("vision_downsample_ratio")?,
        max_n_token: root.usize("vision_max_n_token")?,
        min_pixels: root.u64("vision_min_pixels")?,
        max_wh_ratio: root.optional_f64("vision_max_wh_ratio")?,
        rope_theta: root.f64("vision_rope_theta")?,
    })
}

/// Scales of another block size or format still divide the shapes evenly and give fluent nonsense (P-01): refuse them by name.
fn check_quantization(section: &mut Section) -> Result<()> {
    let block: Vec<usize> = section.list("weight_block_size")?;
    if block != [32, 32] {
        return Err(Error::config(section.key("weight_block_size"), format!("needed [32, 32], found {block:?}")));
    }
    section.must_be("scale_fmt", "ue8m0")?;
    section.must_be("expert_dtype", "fp4")?;
    section.is("quant_method", &["fp8"])?;
    section.is("fmt", &["e4m3"])?;
    section.is("activation_scheme", &["dynamic"])
}

/// Statements of the text config that have one value in this architecture.
fn check_text_architecture(text: &mut Section) -> Result<()> {
    text.is("model_type", &["deepseek_v41_text"])?;
    text.must_be("scoring_func", "sqrtsoftplus")?;
    text.is("topk_method", &["noaux_tc"])?;
    text.is("norm_topk_prob", &[true])?;
    text.is("hidden_act", &["silu"])?;
    text.is("attention_bias", &[false])?;
    text.is("num_key_value_heads", &[1])?;
    text.is("tie_word_embeddings", &[false])?;
    text.ignore(&["attention_dropout", "use_cache", "dtype", "torch_dtype", "pad_token_id"]);
    Ok(())
}

/// The kind of rope scaling is called `type` in the release and `rope_type` by newer writers.
fn check_yarn(yarn: &mut Section) -> Result<()> {
    let key = if yarn.has("rope_type") { "rope_type" } else { "type" };
    yarn.must_be(key, "yarn")?;
    yarn.is("type", &["yarn"])
}

/// A token id of the root object or of the text config; both may state it, but not two different ones.
fn token_id(root: &mut Section, text: &mut Section, key: &str, default: Option<u32>) -> Result<u32> {
    let outer = if root.has(key) { Some(root.u32(key)?) } else { None };
    let inner = if text.has(key) { Some(text.u32(key)?) } else { None };
    match (outer, inner) {
        (Some(a), Some(b)) if a != b => {
            Err(Error::config(key, format!("the root object says {a}, text_config says {b}: needed one value")))
        }
        (Some(id), _) | (None, Some(id)) => Ok(id),
        (None, None) => default.ok_or_else(|| Error::config(key, "missing")),
    }
}
