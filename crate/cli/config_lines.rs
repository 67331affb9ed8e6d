//! A config in a dozen lines. Every number here is read from config.json or follows from it.

use super::console::grouped;
use super::memory::ring_bytes;
use crate::blocks::b3a_encoder_decoder::active_parameters;
use crate::config::Config;
use crate::numerics::precision::Precision;

/// Label in Vietnamese and in English, value.
pub(super) fn of(config: &Config) -> Vec<(&'static str, &'static str, String)> {
    let active = active_parameters(config);
    let (read, written) = (grouped(active.prefill), grouped(active.decode));
    let (kv, rings) = (config.kv_bytes_per_token(), grouped(ring_bytes(config, Precision::Released)));
    vec![
        ("lớp", "layers", layers(config)),
        ("vai trò", "roles", roles(config)),
        ("kích thước", "geometry", geometry(config)),
        ("chú ý", "attention", attention(config)),
        ("chuyên gia", "experts", experts(config)),
        ("bộ nhớ n-gram", "n-gram memory", engram(config)),
        ("thị giác", "vision", vision(config)),
        ("DSpark", "DSpark", format!("{} stages, blocks of {} tokens", config.n_mtp_layers, config.dspark_block_size)),
        ("vị trí", "positions", grouped(config.max_position_embeddings as u64)),
        ("KV mỗi token", "KV per token", format!("{kv} bytes, and {rings} bytes of window rings per sequence")),
        ("tham số hoạt động", "active parameters", format!("{read} per token read, {written} per token written")),
    ]
}

fn layers(config: &Config) -> String {
    let (n, split) = (config.n_layers, config.last_kv_source().unwrap_or(config.n_layers));
    format!("{n}: encoder 0-{}, decoder {split}-{}", split.saturating_sub(1), n - 1)
}

/// Neighbours of one role together: `Window 0-1, Full 2, Reuse 3-7`.
fn roles(config: &Config) -> String {
    let mut runs: Vec<(&str, usize, usize)> = Vec::new();
    for layer in 0..config.n_layers {
        let role = config.role(layer).name();
        match runs.last_mut() {
            Some((name, _, last)) if *name == role => *last = layer,
            _ => runs.push((role, layer, layer)),
        }
    }
    let run = |&(role, first, last): &(&str, usize, usize)| match last - first {
        0 => format!("{role} {first}"),
        _ => format!("{role} {first}-{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(", ")
}

fn geometry(config: &Config) -> String {
    let Config { dim, hc_mult, n_heads, head_dim, q_lora_rank, .. } = config;
    let vocabulary = grouped(config.vocab_size as u64);
    format!(
        "width {dim} x {hc_mult} streams, {n_heads} heads of {head_dim}, query rank {q_lora_rank}, vocabulary {vocabulary}"
    )
}

fn attention(config: &Config) -> String {
    let Config { window_size, index_topk, candidate_topk_blocks, candidate_block_size, candidate_source_layer, .. } =
        config;
    format!(
        "window {window_size}, top {index_topk} entries, from layer {candidate_source_layer} on in the best \
         {candidate_topk_blocks} blocks of {candidate_block_size}"
    )
}

fn experts(config: &Config) -> String {
    let Config { n_activated_experts, n_routed_experts, n_shared_experts, moe_inter_dim, .. } = config;
    format!(
        "{n_activated_experts} of {n_routed_experts} routed, {n_shared_experts} shared, inner width {moe_inter_dim}"
    )
}

fn engram(config: &Config) -> String {
    let Config { engram_layer_ids, engram_max_ngram_size, engram_head_dim, .. } = config;
    let columns = config.engram_columns();
    format!(
        "layers {engram_layer_ids:?}, n-grams up to {engram_max_ngram_size}, {columns} columns of {engram_head_dim}"
    )
}

fn vision(config: &Config) -> String {
    config.vision.as_ref().map_or("-".into(), |vision| {
        let (n, dim, most) = (vision.n_layers, vision.dim, vision.max_n_token);
        format!("{n} ViT blocks of width {dim}, at most {most} tokens per picture")
    })
}
