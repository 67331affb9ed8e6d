use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Config, Role};
use crate::Error;

/// The vendor's flat file, typed from section 0.1.
fn flat() -> Value {
    serde_json::from_str(FLAT).unwrap()
}

const FLAT: &str = r#"{
    "vocab_size": 129280, "dim": 5120, "n_layers": 40, "n_mtp_layers": 3, "n_heads": 64, "head_dim": 512, "rope_head_dim": 64,
    "q_lora_rank": 1280, "o_groups": 8, "o_lora_rank": 1024, "window_size": 128, "norm_eps": 1e-20, "n_routed_experts": 384,
    "n_shared_experts": 1, "n_activated_experts": 6, "moe_inter_dim": 2304, "score_func": "sqrtsoftplus", "route_scale": 1.5,
    "swiglu_limit": 10.0, "expert_dtype": "fp4", "dtype": "fp8",
    "compress_ratios": [0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0],
    "kv_source_layers": [2, 8, 14, 20], "index_source_layers": [2, 8, 14, 20, 24, 28, 32, 36], "rope_theta": 10000,
    "compress_rope_theta": 160000, "original_seq_len": 65536, "rope_factor": 16, "beta_fast": 32, "beta_slow": 1, "index_n_heads": 32,
    "index_head_dim": 128, "index_topk": 512, "candidate_source_layer": 20, "candidate_topk_blocks": 2048, "candidate_block_size": 8,
    "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-6, "engram_layer_ids": [1, 14], "engram_vocab_size": 16000000,
    "engram_num_embeddings": [384006168, 384016682], "engram_max_ngram_size": 4, "engram_n_heads": 8, "engram_head_dim": 256,
    "engram_pad_id": 2, "engram_compressed_vocab_size": 99092, "image_token_id": 129264, "dspark_block_size": 5,
    "dspark_noise_token_id": 128799, "dspark_target_layer_ids": [37, 38, 39], "dspark_markov_rank": 256, "dspark_n_routed_experts": 128,
    "dspark_n_activated_experts": 3, "vision_n_layers": 32, "vision_dim": 1024, "vision_n_heads": 16, "vision_inter_dim": 2816,
    "vision_patch_size": 14, "vision_downsample_ratio": 3, "vision_max_n_token": 1024, "vision_min_pixels": 295936,
    "vision_max_wh_ratio": null, "vision_rope_theta": 10000
}"#;

fn nested() -> Value {
    serde_json::from_str(&Config::flash().to_json()).unwrap()
}

fn parse(value: &Value) -> Result<Config, Error> {
    Config::from_json(value.to_string().as_bytes())
}

/// The key that a refusal names; panics if the config is accepted or refused otherwise.
fn refused(value: &Value) -> String {
    match parse(value) {
        Err(Error::Config { key, .. }) => key,
        other => panic!("expected a refusal that names a key, got {other:?}"),
    }
}

#[test]
fn the_flat_file_is_the_release_and_has_64_keys() {
    let flat = flat();
    assert_eq!(flat.as_object().unwrap().len(), 64);
    assert_eq!(parse(&flat).unwrap(), Config::flash());
}

#[test]
fn writing_and_reading_gives_the_same_config() {
    for mut config in [Config::flash(), Config::lab()] {
        assert_eq!(Config::from_json(config.to_json().as_bytes()).unwrap(), config);
        config.vision = None;
        config.unknown = vec![
            ("from_the_future".into(), json!({"a": [1, 2]})),
            ("quantization_config.extra".into(), json!(1)),
            ("text_config.gate_temp".into(), json!(1.0)),
            ("text_config.rope_scaling.mscale".into(), json!(0.5)),
        ];
        assert_eq!(Config::from_json(config.to_json().as_bytes()).unwrap(), config);
    }
}

#[test]
fn golden_configs_parse() {
    for (folder, layers, window, kv_bytes) in
        [("t12", 12, 16, None), ("t40", 40, 32, None), ("kv890", 40, 128, Some(890.0))]
    {
        let path = format!("{}/tests/golden/{folder}/config.json", env!("CARGO_MANIFEST_DIR"));
        let config = Config::from_json(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!((config.n_layers, config.window_size, config.dim), (layers, window, 64));
        assert_eq!(config.unknown, vec![]);
        assert_eq!(config.compress_ratios.len(), layers + 3);
        if let Some(bytes) = kv_bytes {
            assert_eq!(config.kv_bytes_per_token(), bytes);
        }
        assert_eq!(Config::from_json(config.to_json().as_bytes()).unwrap(), config);
    }
}

#[test]
fn the_schedule_of_section_4_1() {
    for config in [Config::flash(), Config::lab()] {
        let roles: Vec<Role> = (0..40).map(|layer| config.role(layer)).collect();
        for (layer, role) in roles.into_iter().enumerate() {
            let needed = match layer {
                0 | 1 => Role::Window,
                2 | 8 | 14 | 20 => Role::Full,
                24 | 28 | 32 | 36 => Role::Reindex,
                _ => Role::Reuse,
            };
            assert_eq!(role, needed, "layer {layer}");
        }
        assert_eq!(
            [1, 7, 13, 19, 39].map(|layer| config.kv_source(layer)),
            [None, Some(2), Some(8), Some(14), Some(20)]
        );
        assert_eq!([23, 25, 31, 39].map(|layer| config.index_source(layer)), [Some(20), Some(24), Some(28), Some(36)]);
        assert_eq!(config.kv_bytes_per_token(), 890.0);
    }
}

#[test]
fn both_lengths_of_compress_ratios_mean_the_same() {
    let mut value = nested();
    value["text_config"]["compress_ratios"].as_array_mut().unwrap().truncate(40);
    assert_eq!(parse(&value).unwrap(), Config::flash());
    value["text_config"]["compress_ratios"].as_array_mut().unwrap().extend([json!(1), json!(2), json!(0)]);
    assert_eq!(parse(&value).unwrap(), Config::flash(), "whatever stands past the layers is 0");
    value["text_config"]["compress_ratios"].as_array_mut().unwrap().pop();
    assert_eq!(refused(&value), "compress_ratios");
}

#[test]
fn every_needed_key_is_missed_by_name() {
    let value = nested();
    let optional = [
        "model_type",
        "topk_method",
        "norm_topk_prob",
        "hidden_act",
        "attention_bias",
        "attention_dropout",
        "use_cache",
    ];
    for key in value["text_config"].as_object().unwrap().keys() {
        let mut without = value.clone();
        without["text_config"].as_object_mut().unwrap().remove(key);
        if optional.contains(&key.as_str()) || key == "num_key_value_heads" {
            assert!(parse(&without).is_ok(), "{key}");
        } else {
            assert_eq!(refused(&without), format!("text_config.{key}"));
        }
    }
    for key in flat().as_object().unwrap().keys() {
        let mut without = flat();
        without.as_object_mut().unwrap().remove(key);
        if !["dtype", "expert_dtype", "score_func", "vision_n_layers", "vision_max_wh_ratio"].contains(&key.as_str()) {
            assert_eq!(&refused(&without), key);
        }
    }
    let mut without = nested();
    without.as_object_mut().unwrap().remove("quantization_config");
    assert_eq!(refused(&without), "quantization_config");
}

#[test]
fn wrong_types_zero_negative_and_absurd_values_are_refused() {
    let value = nested();
    for (key, old) in value["text_config"].as_object().unwrap() {
        if !old.is_number() || ["attention_dropout"].contains(&key.as_str()) {
            continue;
        }
        for bad in [json!("7"), json!(null), json!([1]), json!(-1), json!(true), json!(1e300)] {
            let mut changed = value.clone();
            changed["text_config"][key] = bad.clone();
            assert!(matches!(parse(&changed), Err(Error::Config { .. })), "{key} = {bad}");
        }
        // Zero is a fine number of stages and a fine id; everything else counts something.
        if !["num_nextn_predict_layers", "engram_pad_token_id", "dspark_noise_token_id"].contains(&key.as_str()) {
            let mut changed = value.clone();
            changed["text_config"][key] = json!(0);
            assert!(matches!(parse(&changed), Err(Error::Config { .. })), "{key} = 0");
        }
    }
}

#[test]
fn contradictions_are_refused_and_named() {
    let flat = flat();
    let cases = [
        ("o_groups", json!(7), "o_groups"),
        ("rope_head_dim", json!(63), "rope_head_dim"),
        ("rope_head_dim", json!(514), "rope_head_dim"),
        ("head_dim", json!(520), "head_dim"),
        ("index_head_dim", json!(120), "index_head_dim"),
        ("kv_source_layers", json!([2, 8, 14, 40]), "kv_source_layers"),
        ("kv_source_layers", json!([1, 2, 8, 14, 20]), "kv_source_layers"),
        ("kv_source_layers", json!([8, 2, 14, 20]), "kv_source_layers"),
        ("kv_source_layers", json!([]), "kv_source_layers"),
        ("kv_source_layers", json!([8, 14, 20]), "index_source_layers"),
        ("kv_source_layers", json!([2, 8, 14]), "compress_ratios"),
        ("index_source_layers", json!([2, 8, 14, 24]), "index_source_layers"),
        ("index_source_layers", json!([0, 2, 8, 14, 20]), "index_source_layers"),
        ("compress_ratios", json!(vec![3; 40]), "compress_ratios"),
        ("compress_ratios", json!(vec![2; 42]), "compress_ratios"),
        ("compress_ratios", json!(vec![2; 5000]), "compress_ratios"),
        ("candidate_source_layer", json!(21), "candidate_source_layer"),
        ("candidate_source_layer", json!(8), "candidate_source_layer"),
        ("engram_layer_ids", json!([1]), "engram_num_embeddings"),
        ("engram_layer_ids", json!([1, 40]), "engram_layer_ids"),
        ("engram_num_embeddings", json!([384006168, 384016683]), "engram_num_embeddings"),
        ("engram_vocab_size", json!(16000100), "engram_num_embeddings"),
        ("engram_compressed_vocab_size", json!(129281), "engram_compressed_vocab_size"),
        ("engram_max_ngram_size", json!(1), "engram_max_ngram_size"),
        ("index_topk", json!(0), "index_topk"),
        ("n_activated_experts", json!(385), "n_activated_experts"),
        ("dspark_n_activated_experts", json!(129), "dspark_n_activated_experts"),
        ("n_shared_experts", json!(2), "n_shared_experts"),
        ("image_token_id", json!(129280), "image_token_id"),
        ("dspark_target_layer_ids", json!([38, 40]), "dspark_target_layer_ids"),
        ("dspark_target_layer_ids", json!([]), "dspark_target_layer_ids"),
        ("n_heads", json!(4104), "n_heads"),
        ("vision_patch_size", json!(257), "vision_patch_size"),
        ("rope_theta", json!(1.0), "rope_theta"),
        ("norm_eps", json!(1e-40), "norm_eps"),
        ("n_routed_experts", json!(60000), "n_routed_experts"),
        ("score_func", json!("softmax"), "score_func"),
        ("expert_dtype", json!("fp8"), "expert_dtype"),
        ("vision_n_heads", json!(7), "vision_n_heads"),
        ("vision_max_wh_ratio", json!(0.5), "vision_max_wh_ratio"),
        ("beta_slow", json!(64), "beta_fast"),
        ("rope_factor", json!(0.5), "rope_factor"),
    ];
    for (key, bad, named) in cases {
        let mut changed = flat.clone();
        changed[key] = bad.clone();
        assert_eq!(refused(&changed), named, "{key} = {bad}");
    }
}

/// Each factor may pass its own bound while the side of the matrix they make does not fit.
#[test]
fn sides_beyond_32_bits_are_refused() {
    let named = |config: Config| match config.check() {
        Err(Error::Config { key, .. }) => key,
        other => panic!("{other:?}"),
    };
    let flash = Config::flash;
    assert_eq!(named(Config { n_heads: 4096, head_dim: 1 << 20, ..flash() }), "n_heads");
    assert_eq!(named(Config { o_groups: 2048, n_heads: 2048, o_lora_rank: 1 << 20, ..flash() }), "o_groups");
    assert_eq!(named(Config { index_n_heads: 4096, index_head_dim: 1 << 20, ..flash() }), "index_n_heads");
    assert_eq!(named(Config { engram_n_heads: 1024, engram_head_dim: 1 << 20, ..flash() }), "engram_n_heads");
    assert_eq!(named(Config { engram_vocab_size: 1 << 32, ..flash() }), "engram_vocab_size");
    let mut config = flash();
    if let Some(vision) = &mut config.vision {
        (vision.dim, vision.downsample_ratio) = (1 << 20, 256);
    }
    assert_eq!(named(config), "vision_downsample_ratio");
}

#[test]
fn other_formats_are_refused_by_name() {
    let cases = [
        ("/quantization_config/weight_block_size", json!([128, 128]), "quantization_config.weight_block_size"),
        ("/quantization_config/scale_fmt", json!("float"), "quantization_config.scale_fmt"),
        ("/quantization_config/expert_dtype", json!("fp8"), "quantization_config.expert_dtype"),
        ("/quantization_config/quant_method", json!("gptq"), "quantization_config.quant_method"),
        ("/text_config/scoring_func", json!("sigmoid"), "text_config.scoring_func"),
        ("/text_config/rope_scaling/type", json!("linear"), "text_config.rope_scaling.type"),
        ("/text_config/hidden_act", json!("gelu"), "text_config.hidden_act"),
        ("/text_config/num_key_value_heads", json!(8), "text_config.num_key_value_heads"),
        ("/model_type", json!("deepseek_v3"), "model_type"),
        ("/text_config", json!([]), "text_config"),
    ];
    for (pointer, bad, named) in cases {
        let mut changed = nested();
        *changed.pointer_mut(pointer).unwrap() = bad;
        assert_eq!(refused(&changed), named);
    }
    assert_eq!(refused(&json!({"model_type": "llama"})), "model_type");
    assert_eq!(refused(&json!({})), "text_config");
    for bytes in [&b""[..], b"[]", b"{", b"\xff\xfe", b"{\"text_config\": {}"] {
        assert!(matches!(Config::from_json(bytes), Err(Error::Json { .. })));
    }
}

#[test]
fn two_statements_of_one_token_id_must_agree() {
    let mut value = nested();
    value["text_config"]["bos_token_id"] = json!(0);
    assert_eq!(parse(&value).unwrap(), Config::flash());
    value["text_config"]["bos_token_id"] = json!(7);
    assert_eq!(refused(&value), "bos_token_id");
}

#[test]
fn unknown_keys_are_kept_with_their_path() {
    let mut value = nested();
    value["new"] = json!(1);
    value["vision_config"]["deep"] = json!({"er": true});
    let unknown = parse(&value).unwrap().unknown;
    assert_eq!(unknown, vec![("new".into(), json!(1)), ("vision_config.deep".into(), json!({"er": true}))]);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Config::from_json(&bytes).is_err());
    }

    /// One byte of a valid file replaced: parsed or refused, but what is parsed passes its own check.
    #[test]
    fn a_flipped_byte_never_panics(at in 0usize..4000, byte in any::<u8>()) {
        let mut bytes = Config::lab().to_json().into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(config) = Config::from_json(&bytes) {
            prop_assert!(config.check().is_ok());
        }
    }

    /// Any number in any place of the flat file.
    #[test]
    fn any_number_anywhere_never_panics(index in 0usize..64, number in any::<u64>(), small in 0u64..1000, use_small in any::<bool>()) {
        let mut value = flat();
        let object = value.as_object_mut().unwrap();
        let key = object.keys().nth(index).unwrap().clone();
        object[&key] = json!(if use_small { small } else { number });
        if let Ok(config) = parse(&value) {
            prop_assert!(config.check().is_ok());
        }
    }
}
