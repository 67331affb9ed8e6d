//! Writes the released, nested config.json (section 0.2).

use serde_json::{Value, json};

use super::{Config, VisionConfig};

impl Config {
    /// The released form of config.json, unknown keys at their places; [`Config::from_json`] gives the same config back.
    pub fn to_json(&self) -> String {
        let mut root = json!({
            "architectures": ["DeepseekV41ForCausalLM"],
            "model_type": "deepseek_v41",
            "dtype": "bfloat16",
            "bos_token_id": self.bos_token_id,
            "eos_token_id": self.eos_token_id,
            "pad_token_id": self.engram_pad_id,
            "image_token_id": self.image_token_id,
            "tie_word_embeddings": false,
            "quantization_config": {
                "quant_method": "fp8",
                "activation_scheme": "dynamic",
                "weight_block_size": [32, 32],
                "scale_fmt": "ue8m0",
                "expert_dtype": "fp4",
            },
            "text_config": self.text_json(),
        });
        if let Some(vision) = &self.vision {
            root["vision_config"] = vision.json();
        }
        for (path, value) in &self.unknown {
            insert(&mut root, path, value);
        }
        let mut text = format!("{root:#}");
        text.push('\n');
        text
    }

    fn text_json(&self) -> Value {
        let mut text = json!({
            "model_type": "deepseek_v41_text",
            "vocab_size": self.vocab_size,
            "hidden_size": self.dim,
            "num_hidden_layers": self.n_layers,
            "num_nextn_predict_layers": self.n_mtp_layers,
            "num_attention_heads": self.n_heads,
            "num_key_value_heads": 1,
            "head_dim": self.head_dim,
            "qk_rope_head_dim": self.rope_head_dim,
            "q_lora_rank": self.q_lora_rank,
            "o_groups": self.o_groups,
            "o_lora_rank": self.o_lora_rank,
            "sliding_window": self.window_size,
            "rms_norm_eps": shortest(self.norm_eps),
            "max_position_embeddings": self.max_position_embeddings,
            "n_routed_experts": self.n_routed_experts,
            "n_shared_experts": self.n_shared_experts,
            "num_experts_per_tok": self.n_activated_experts,
            "moe_intermediate_size": self.moe_inter_dim,
            "scoring_func": "sqrtsoftplus",
            "topk_method": "noaux_tc",
            "norm_topk_prob": true,
            "routed_scaling_factor": shortest(self.route_scale),
            "hidden_act": "silu",
            "swiglu_limit": shortest(self.swiglu_limit),
            "attention_bias": false,
            "attention_dropout": 0.0,
            "use_cache": true,
            "compress_ratios": self.compress_ratios,
            "kv_source_layer_ids": self.kv_source_layers,
            "index_source_layer_ids": self.index_source_layers,
            "rope_theta": self.rope_theta,
            "compress_rope_theta": self.compress_rope_theta,
            "rope_scaling": {
                "type": "yarn",
                "factor": self.rope_factor,
                "beta_fast": self.beta_fast,
                "beta_slow": self.beta_slow,
                "original_max_position_embeddings": self.original_seq_len,
            },
        });
        self.add_memory_and_draft_keys(&mut text);
        text
    }

    fn add_memory_and_draft_keys(&self, text: &mut Value) {
        let more = json!({
            "index_n_heads": self.index_n_heads,
            "index_head_dim": self.index_head_dim,
            "index_topk": self.index_topk,
            "candidate_source_layer_id": self.candidate_source_layer,
            "candidate_topk_blocks": self.candidate_topk_blocks,
            "candidate_block_size": self.candidate_block_size,
            "hc_mult": self.hc_mult,
            "hc_sinkhorn_iters": self.hc_sinkhorn_iters,
            "hc_eps": shortest(self.hc_eps),
            "engram_layer_ids": self.engram_layer_ids,
            "engram_vocab_size": self.engram_vocab_size,
            "engram_num_embeddings": self.engram_num_embeddings,
            "engram_max_ngram_size": self.engram_max_ngram_size,
            "engram_n_heads": self.engram_n_heads,
            "engram_head_dim": self.engram_head_dim,
            "engram_pad_token_id": self.engram_pad_id,
            "engram_compressed_vocab_size": self.engram_compressed_vocab_size,
            "dspark_block_size": self.dspark_block_size,
            "dspark_noise_token_id": self.dspark_noise_token_id,
            "dspark_target_layer_ids": self.dspark_target_layer_ids,
            "dspark_markov_rank": self.dspark_markov_rank,
            "dspark_n_routed_experts": self.dspark_n_routed_experts,
            "dspark_num_experts_per_tok": self.dspark_n_activated_experts,
        });
        if let (Value::Object(text), Value::Object(more)) = (text, more) {
            text.extend(more);
        }
    }
}

impl VisionConfig {
    fn json(&self) -> Value {
        json!({
            "model_type": "deepseek_v41_vision",
            "num_hidden_layers": self.n_layers,
            "hidden_size": self.dim,
            "num_attention_heads": self.n_heads,
            "intermediate_size": self.inter_dim,
            "patch_size": self.patch_size,
            "downsample_ratio": self.downsample_ratio,
            "max_image_tokens": self.max_n_token,
            "min_pixels": self.min_pixels,
            "max_wh_ratio": self.max_wh_ratio,
            "rope_theta": self.rope_theta,
        })
    }
}

/// The f64 with the fewest digits that reads back as `value`: 1e-20 instead of 9.99999968e-21.
fn shortest(value: f32) -> f64 {
    format!("{value:e}").parse().unwrap_or(f64::from(value))
}

/// Puts an unknown key back into the object its path begins with, else into the root object.
fn insert(root: &mut Value, path: &str, value: &Value) {
    let places = [
        ("text_config.rope_scaling.", "/text_config/rope_scaling"),
        ("text_config.", "/text_config"),
        ("vision_config.", "/vision_config"),
        ("quantization_config.", "/quantization_config"),
    ];
    for (prefix, pointer) in places {
        if let (Some(key), Some(Value::Object(object))) = (path.strip_prefix(prefix), root.pointer_mut(pointer)) {
            object.entry(key).or_insert_with(|| value.clone());
            return;
        }
    }
    if let Value::Object(object) = root {
        object.entry(path).or_insert_with(|| value.clone());
    }
}
