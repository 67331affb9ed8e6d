//! What a checkpoint must hold: every tensor's name, type and shape, from the config alone (sections 11.2 and 11.3).

use super::Dtype;
use super::header::byte_len;
use crate::config::{Config, Role, VisionConfig};

/// Side of an FP8 tile and length of an FP4 group (section N.6).
const TILE: usize = 32;

/// The part of the model a tensor belongs to, as section 11.1 counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Routed experts of the backbone.
    RoutedExperts,
    /// Tables of the n-gram memory.
    EngramTables,
    /// Routed experts of the DSpark stages.
    DraftExperts,
    /// Query, latent and output projections with their norms and sinks.
    Attention,
    /// Shared experts of the backbone.
    SharedExperts,
    /// Token embedding.
    Embedding,
    /// Output head.
    Head,
    /// Vision tower.
    Vision,
    /// Everything else of the DSpark stages.
    DraftRest,
    /// Projections and gate weights of the n-gram memory.
    EngramProjections,
    /// Router matrices and biases.
    Routers,
    /// Hyper-connections.
    HyperConnections,
    /// Aligner between vision tower and backbone.
    Aligner,
    /// Index queries and keys.
    Indexers,
    /// Projections that write global KV.
    Compressors,
    /// Norms of the layers and the final norm.
    Norms,
    /// The three vectors around and inside an image.
    ImageVectors,
}

/// One tensor that must be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Full name.
    pub name: String,
    /// Stored type.
    pub dtype: Dtype,
    /// Stored shape; for packed FP4 (I8) the last dimension counts bytes.
    pub shape: Vec<usize>,
    /// Shard of the released layout, counted from 1.
    pub shard: usize,
    /// What it is a part of.
    pub part: Part,
}

impl TensorSpec {
    /// Stored elements; a byte of packed FP4 counts as one.
    pub fn elements(&self) -> u64 {
        self.shape.iter().map(|&dim| dim as u64).product()
    }

    /// Stored bytes.
    pub fn bytes(&self) -> u64 {
        byte_len(self.dtype, &self.shape).unwrap_or(u64::MAX)
    }
}

/// All tensors of a model, shard by shard in the released order: vision and aligner, embedding, layers, head, DSpark stages, Engram.
pub fn contract(config: &Config) -> Vec<TensorSpec> {
    let mut list = List { config, tensors: Vec::new(), shard: 1 };
    if let Some(vision) = &config.vision {
        list.vision(vision);
        list.aligner(vision);
        list.shard += 1;
    }
    list.embedding();
    for layer in 0..config.n_layers {
        list.shard += 1;
        list.layer(layer);
    }
    list.shard += 1;
    list.head();
    for stage in 0..config.n_mtp_layers {
        list.shard += 1;
        list.stage(stage);
    }
    for (&layer, &rows) in config.engram_layer_ids.iter().zip(&config.engram_num_embeddings) {
        list.shard += 1;
        list.engram(layer, rows as usize);
    }
    list.tensors
}

/// The parts that a layer's tensors count for: backbone layers are split up, DSpark stages are not.
struct Parts {
    attention: Part,
    norms: Part,
    hyper_connection: Part,
    router: Part,
    experts: Part,
    shared: Part,
}

const BACKBONE: Parts = Parts {
    attention: Part::Attention,
    norms: Part::Norms,
    hyper_connection: Part::HyperConnections,
    router: Part::Routers,
    experts: Part::RoutedExperts,
    shared: Part::SharedExperts,
};

const DRAFT: Parts = Parts {
    attention: Part::DraftRest,
    norms: Part::DraftRest,
    hyper_connection: Part::DraftRest,
    router: Part::DraftRest,
    experts: Part::DraftExperts,
    shared: Part::DraftRest,
};

struct List<'a> {
    config: &'a Config,
    tensors: Vec<TensorSpec>,
    shard: usize,
}

impl List<'_> {
    fn add(&mut self, name: impl Into<String>, dtype: Dtype, shape: &[usize], part: Part) {
        self.tensors.push(TensorSpec { name: name.into(), dtype, shape: shape.to_vec(), shard: self.shard, part });
    }

    fn bf16(&mut self, name: impl Into<String>, shape: &[usize], part: Part) {
        self.add(name, Dtype::BF16, shape, part);
    }

    fn f32(&mut self, name: impl Into<String>, shape: &[usize], part: Part) {
        self.add(name, Dtype::F32, shape, part);
    }

    /// `y = W x` with E4M3 codes and one scale per tile of 32 by 32.
    fn fp8(&mut self, prefix: &str, out: usize, inp: usize, part: Part) {
        self.add(format!("{prefix}.weight"), Dtype::F8_E4M3, &[out, inp], part);
        self.add(format!("{prefix}.scale"), Dtype::F8_E8M0, &[out.div_ceil(TILE), inp.div_ceil(TILE)], part);
    }

    /// `y = W x` with two E2M1 codes per byte and one scale per 32 columns of a row.
    fn fp4(&mut self, prefix: &str, out: usize, inp: usize, part: Part) {
        self.add(format!("{prefix}.weight"), Dtype::I8, &[out, inp / 2], part);
        self.add(format!("{prefix}.scale"), Dtype::F8_E8M0, &[out, inp / TILE], part);
    }

    fn embedding(&mut self) {
        let (vocab, dim) = (self.config.vocab_size, self.config.dim);
        self.bf16("embed.weight", &[vocab, dim], Part::Embedding);
        if self.config.vision.is_some() {
            for name in ["image_start", "image_newline", "image_end"] {
                self.bf16(name, &[dim], Part::ImageVectors);
            }
        }
    }

    fn head(&mut self) {
        self.bf16("head.weight", &[self.config.vocab_size, self.config.dim], Part::Head);
        self.bf16("norm.weight", &[self.config.dim], Part::Norms);
    }

    fn layer(&mut self, layer: usize) {
        let c = self.config;
        let prefix = format!("layers.{layer}");
        self.attention(&prefix, &BACKBONE);
        if c.role(layer) == Role::Full {
            let name = |rest: &str| format!("{prefix}.attn.compressor.{rest}.weight");
            self.bf16(name("wkv"), &[c.head_dim, c.dim], Part::Compressors);
            if c.ratio(layer) == 2 {
                self.bf16(name("wgate"), &[c.head_dim, c.dim], Part::Compressors);
            }
            self.bf16(name("norm"), &[c.head_dim], Part::Compressors);
        }
        if matches!(c.role(layer), Role::Full | Role::Reindex) {
            let name = |rest: &str| format!("{prefix}.attn.indexer.{rest}");
            self.fp8(&name("wq_b"), c.index_n_heads * c.index_head_dim, c.q_lora_rank, Part::Indexers);
            self.bf16(name("weights_proj.weight"), &[c.index_n_heads, c.dim], Part::Indexers);
            if c.role(layer) == Role::Full {
                self.bf16(name("wk.weight"), &[c.index_head_dim, c.head_dim], Part::Indexers);
                self.bf16(name("k_norm.weight"), &[c.index_head_dim], Part::Indexers);
            }
        }
        self.feed_forward(&prefix, c.n_routed_experts, &BACKBONE);
    }

    /// A DSpark stage: a layer without global KV; the first also reads the taps, the last also writes tokens (section 10.3).
    fn stage(&mut self, stage: usize) {
        let c = self.config;
        let prefix = format!("mtp.{stage}");
        self.attention(&prefix, &DRAFT);
        self.feed_forward(&prefix, c.dspark_n_routed_experts, &DRAFT);
        if stage == 0 {
            self.fp8(&format!("{prefix}.main_proj"), c.dim, c.dim * c.dspark_target_layer_ids.len(), Part::DraftRest);
            self.bf16(format!("{prefix}.main_norm.weight"), &[c.dim], Part::DraftRest);
        }
        if stage + 1 == c.n_mtp_layers {
            self.bf16(format!("{prefix}.norm.weight"), &[c.dim], Part::DraftRest);
            for name in ["embed", "head"] {
                self.bf16(
                    format!("{prefix}.markov_head.{name}.weight"),
                    &[c.vocab_size, c.dspark_markov_rank],
                    Part::DraftRest,
                );
            }
            self.bf16(
                format!("{prefix}.confidence_head.proj.weight"),
                &[1, c.dim + c.dspark_markov_rank],
                Part::DraftRest,
            );
        }
    }

    fn attention(&mut self, prefix: &str, parts: &Parts) {
        let c = self.config;
        let name = |rest: &str| format!("{prefix}.attn.{rest}");
        self.fp8(&name("wq_a"), c.q_lora_rank, c.dim, parts.attention);
        self.bf16(name("q_norm.weight"), &[c.q_lora_rank], parts.attention);
        self.fp8(&name("wq_b"), c.n_heads * c.head_dim, c.q_lora_rank, parts.attention);
        self.fp8(&name("wkv"), c.head_dim, c.dim, parts.attention);
        self.bf16(name("kv_norm.weight"), &[c.head_dim], parts.attention);
        self.fp8(&name("wo_a"), c.o_groups * c.o_lora_rank, c.n_heads / c.o_groups * c.head_dim, parts.attention);
        self.fp8(&name("wo_b"), c.dim, c.o_groups * c.o_lora_rank, parts.attention);
        self.f32(name("attn_sink"), &[c.n_heads], parts.attention);
        for norm in ["attn_norm", "ffn_norm"] {
            self.bf16(format!("{prefix}.{norm}.weight"), &[c.dim], parts.norms);
        }
        // pre and post of every stream, and the square that mixes them (section 3.1).
        let mixes = (2 + c.hc_mult) * c.hc_mult;
        for hc in ["hc_attn", "hc_ffn"] {
            self.f32(format!("{prefix}.{hc}_fn"), &[mixes, c.hc_mult * c.dim], parts.hyper_connection);
            self.f32(format!("{prefix}.{hc}_base"), &[mixes], parts.hyper_connection);
            self.f32(format!("{prefix}.{hc}_scale"), &[3], parts.hyper_connection);
        }
    }

    fn feed_forward(&mut self, prefix: &str, experts: usize, parts: &Parts) {
        let (dim, inter) = (self.config.dim, self.config.moe_inter_dim);
        self.bf16(format!("{prefix}.ffn.gate.weight"), &[experts, dim], parts.router);
        self.f32(format!("{prefix}.ffn.gate.bias"), &[experts], parts.router);
        self.f32(format!("{prefix}.ffn.gate.bias_vl"), &[experts], parts.router);
        for expert in 0..experts {
            for (name, out, inp) in [("w1", inter, dim), ("w2", dim, inter), ("w3", inter, dim)] {
                self.fp4(&format!("{prefix}.ffn.experts.{expert}.{name}"), out, inp, parts.experts);
            }
        }
        for (name, out, inp) in [("w1", inter, dim), ("w2", dim, inter), ("w3", inter, dim)] {
            self.fp8(&format!("{prefix}.ffn.shared_experts.{name}"), out, inp, parts.shared);
        }
    }

    fn engram(&mut self, layer: usize, rows: usize) {
        let c = self.config;
        let prefix = format!("layers.{layer}.engram");
        let width = c.engram_head_dim;
        self.add(format!("{prefix}.embed.weight"), Dtype::F8_E4M3, &[rows, width], Part::EngramTables);
        self.add(format!("{prefix}.embed.scale"), Dtype::F8_E8M0, &[rows, width / TILE], Part::EngramTables);
        let (keys_and_value, looked_up) = ((c.hc_mult + 1) * c.dim, c.engram_columns() * width);
        self.fp8(&format!("{prefix}.wkv"), keys_and_value, looked_up, Part::EngramProjections);
        for gate in ["q_weight", "k_weight"] {
            self.bf16(format!("{prefix}.{gate}"), &[c.hc_mult, c.dim], Part::EngramProjections);
        }
    }

    fn vision(&mut self, v: &VisionConfig) {
        let part = Part::Vision;
        self.bf16("vision.patch_embed.proj.weight", &[v.dim, 3 * v.patch_size * v.patch_size], part);
        self.bf16("vision.patch_embed.proj.bias", &[v.dim], part);
        for block in 0..v.n_layers {
            let name = |rest: &str| format!("vision.blocks.{block}.{rest}");
            self.bf16(name("norm1.weight"), &[v.dim], part);
            self.bf16(name("norm2.weight"), &[v.dim], part);
            self.bf16(name("attn.wqkv.weight"), &[3 * v.dim, v.dim], part);
            self.bf16(name("attn.wqkv.bias"), &[3 * v.dim], part);
            self.bf16(name("attn.wo.weight"), &[v.dim, v.dim], part);
            self.bf16(name("attn.wo.bias"), &[v.dim], part);
            self.bf16(name("mlp.w1.weight"), &[2 * v.inter_dim, v.dim], part);
            self.bf16(name("mlp.w2.weight"), &[v.dim, v.inter_dim], part);
        }
        self.bf16("vision.norm.weight", &[v.dim], part);
    }

    fn aligner(&mut self, v: &VisionConfig) {
        let (dim, cell) = (self.config.dim, v.dim * v.downsample_ratio * v.downsample_ratio);
        for (name, inp) in [("w1", cell), ("w2", dim)] {
            self.bf16(format!("aligner.{name}.weight"), &[dim, inp], Part::Aligner);
            self.bf16(format!("aligner.{name}.bias"), &[dim], Part::Aligner);
        }
    }
}

#[cfg(test)]
#[path = "contract_tests.rs"]
mod tests;
