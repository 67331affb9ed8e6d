//! The model's hyper-parameters, as config.json states them (section 0 of the specification).
//!
//! Two files say the same thing: the released, nested one (Transformers names) and the vendor's flat one. Both parse into [`Config`], whose
//! field names are the vendor's. [`Config::role`] turns the layer lists into the schedule of section 4.1.
//!
//! `parse` reads both forms, `check`, `schedule` and `engram` refuse what no model can be built from, `write` writes the released form, `preset` holds the release and
//! the small model that is used when no checkpoint is given.

mod check;
mod engram;
mod parse;
mod preset;
mod schedule;
mod section;
mod write;

#[cfg(test)]
mod tests;

/// All hyper-parameters of one model. Sizes are counts of elements unless a unit is named.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Tokens in the vocabulary (129,280).
    pub vocab_size: usize,
    /// Width of one residual stream (5120).
    pub dim: usize,
    /// Layers of the backbone, encoder and decoder together (40).
    pub n_layers: usize,
    /// DSpark stages, `mtp.0..` (3).
    pub n_mtp_layers: usize,
    /// Query heads (64).
    pub n_heads: usize,
    /// Width of a head and of the one latent that is key and value (512).
    pub head_dim: usize,
    /// Last dims of a head that rotate (64).
    pub rope_head_dim: usize,
    /// Rank of the query projection (1280).
    pub q_lora_rank: usize,
    /// Groups of heads in the output projection (8).
    pub o_groups: usize,
    /// Rank of each group's output projection (1024).
    pub o_lora_rank: usize,
    /// Sliding window in tokens, the token itself included (128).
    pub window_size: usize,
    /// Epsilon of every RMSNorm of the text model (1e-20).
    pub norm_eps: f32,
    /// Longest sequence in tokens (1,048,576).
    pub max_position_embeddings: usize,
    /// Routed experts per layer (384).
    pub n_routed_experts: usize,
    /// Shared experts per layer (1).
    pub n_shared_experts: usize,
    /// Routed experts chosen per token (6).
    pub n_activated_experts: usize,
    /// Inner width of an expert (2304).
    pub moe_inter_dim: usize,
    /// Factor on the normalised routing weights (1.5).
    pub route_scale: f32,
    /// Clamp of SwiGLU's inputs (10).
    pub swiglu_limit: f32,
    /// Compression ratio per layer: 0 window only, 2 encoder, 1 decoder; backbone layers first, then the DSpark stages.
    pub compress_ratios: Vec<usize>,
    /// Layers that write global KV (2, 8, 14, 20).
    pub kv_source_layers: Vec<usize>,
    /// Layers that run their own indexer (2, 8, 14, 20, 24, 28, 32, 36).
    pub index_source_layers: Vec<usize>,
    /// RoPE base of window-only layers (10,000).
    pub rope_theta: f64,
    /// RoPE base of layers with a compression ratio (160,000), with YaRN.
    pub compress_rope_theta: f64,
    /// YaRN: original context length (65,536).
    pub original_seq_len: usize,
    /// YaRN: factor (16).
    pub rope_factor: f64,
    /// YaRN: rotations at which interpolation begins (32).
    pub beta_fast: f64,
    /// YaRN: rotations at which interpolation is complete (1).
    pub beta_slow: f64,
    /// Heads of the index query (32).
    pub index_n_heads: usize,
    /// Width of an index key (128).
    pub index_head_dim: usize,
    /// Compressed entries a query may select (512).
    pub index_topk: usize,
    /// Layer whose candidate blocks the later index sources search in (20).
    pub candidate_source_layer: usize,
    /// Candidate blocks kept per query (2048).
    pub candidate_topk_blocks: usize,
    /// Entries per candidate block (8).
    pub candidate_block_size: usize,
    /// Residual streams (4).
    pub hc_mult: usize,
    /// Sinkhorn iterations (20).
    pub hc_sinkhorn_iters: usize,
    /// Epsilon inside the Sinkhorn iterations (1e-6).
    pub hc_eps: f32,
    /// Layers with an n-gram memory in front (1, 14).
    pub engram_layer_ids: Vec<usize>,
    /// Where the search for hash primes begins (16,000,000).
    pub engram_vocab_size: u64,
    /// Rows of each layer's table: the sum of its primes.
    pub engram_num_embeddings: Vec<u64>,
    /// Longest n-gram (4).
    pub engram_max_ngram_size: usize,
    /// Hash heads per n-gram size (8).
    pub engram_n_heads: usize,
    /// Width of a table row (256).
    pub engram_head_dim: usize,
    /// Token id that stands for "nothing before" (2).
    pub engram_pad_id: u32,
    /// Distinct compressed token ids (99,092).
    pub engram_compressed_vocab_size: u64,
    /// Beginning of sequence (0).
    pub bos_token_id: u32,
    /// End of sequence, the stop token (1).
    pub eos_token_id: u32,
    /// Id of every image position (129,264).
    pub image_token_id: u32,
    /// Tokens in one draft block (5).
    pub dspark_block_size: usize,
    /// Id of the draft block's open places (128,799).
    pub dspark_noise_token_id: u32,
    /// Layers whose input residual the drafter reads (37, 38, 39).
    pub dspark_target_layer_ids: Vec<usize>,
    /// Rank of the Markov correction (256).
    pub dspark_markov_rank: usize,
    /// Routed experts of a draft stage (128).
    pub dspark_n_routed_experts: usize,
    /// Routed experts a draft stage chooses (3).
    pub dspark_n_activated_experts: usize,
    /// The vision tower, absent in text-only checkpoints.
    pub vision: Option<VisionConfig>,
    /// Keys this reader does not know, kept as they were, dotted path to value.
    pub unknown: Vec<(String, serde_json::Value)>,
}

/// Hyper-parameters of the vision tower (section 1.5) and of the resize plan (section 1.2).
#[derive(Debug, Clone, PartialEq)]
pub struct VisionConfig {
    /// ViT blocks (32).
    pub n_layers: usize,
    /// ViT width (1024).
    pub dim: usize,
    /// ViT heads (16).
    pub n_heads: usize,
    /// ViT inner width (2816).
    pub inter_dim: usize,
    /// Pixels along a patch (14).
    pub patch_size: usize,
    /// Patches along an image token (3).
    pub downsample_ratio: usize,
    /// Most tokens of one image, START, NEW_LINE and END included (1024).
    pub max_n_token: usize,
    /// Pixels below which an image is enlarged (295,936).
    pub min_pixels: u64,
    /// Largest width to height ratio; `None` in the release.
    pub max_wh_ratio: Option<f64>,
    /// Base of the 2-D rotation (10,000).
    pub rope_theta: f64,
}

/// What a layer does about global KV (section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sliding window only.
    Window,
    /// Compresses, indexes and selects for itself and for the layers after it.
    Full,
    /// Reads another layer's entries and keys, but selects with its own index query.
    Reindex,
    /// Reads another layer's entries and another layer's selection.
    Reuse,
}

impl Role {
    /// Name as the report uses it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Window => "Window",
            Role::Full => "Full",
            Role::Reindex => "Reindex",
            Role::Reuse => "Reuse",
        }
    }
}

impl Config {
    /// Compression ratio of backbone layer `layer`: 0, 1 or 2. DSpark stages have ratio 0.
    pub fn ratio(&self, layer: usize) -> usize {
        if layer < self.n_layers { self.compress_ratios[layer] } else { 0 }
    }

    /// Role of backbone layer `layer`.
    pub fn role(&self, layer: usize) -> Role {
        if self.ratio(layer) == 0 {
            Role::Window
        } else if self.kv_source_layers.contains(&layer) {
            Role::Full
        } else if self.index_source_layers.contains(&layer) {
            Role::Reindex
        } else {
            Role::Reuse
        }
    }

    /// Layer whose compressed entries and index keys `layer` reads; `None` for window-only layers.
    pub fn kv_source(&self, layer: usize) -> Option<usize> {
        if self.ratio(layer) == 0 {
            return None;
        }
        self.kv_source_layers.iter().copied().filter(|&s| s <= layer).max()
    }

    /// Layer whose selection `layer` uses; `None` for window-only layers.
    pub fn index_source(&self, layer: usize) -> Option<usize> {
        if self.ratio(layer) == 0 {
            return None;
        }
        self.index_source_layers.iter().copied().filter(|&s| s <= layer).max()
    }

    /// The last layer that writes global KV. Layers up to here must see every token, layers after it only the tail (section 4.5a).
    pub fn last_kv_source(&self) -> Option<usize> {
        self.kv_source_layers.iter().copied().max()
    }

    /// Rows of the end of a prompt that must pass the decoder for an exact last row and exact rings (section 4.5):
    /// `(n_layers - source - 2) * (window - 1) + window`.
    pub fn exact_tail(&self) -> usize {
        let after = self.n_layers - 1 - self.last_kv_source().unwrap_or(0);
        after.saturating_sub(1) * (self.window_size - 1) + self.window_size
    }

    /// Bytes of global KV that one token of a long sequence adds, as a fraction `(bytes, tokens)`: (890, 1) with the released geometry.
    ///
    /// Per entry: `head_dim / 2` code bytes, `head_dim / 16` scales, `index_head_dim / 2` key codes, `index_head_dim / 32` key scales.
    pub fn kv_bytes_per_token(&self) -> f64 {
        let entry = self.head_dim / 2 + self.head_dim / 16 + self.index_head_dim / 2 + self.index_head_dim / 32;
        self.kv_source_layers.iter().map(|&l| entry as f64 / self.ratio(l).max(1) as f64).sum()
    }

    /// Hash columns of the n-gram memory: (max n-gram - 1) sizes times heads (24).
    pub fn engram_columns(&self) -> usize {
        (self.engram_max_ngram_size - 1) * self.engram_n_heads
    }
}
