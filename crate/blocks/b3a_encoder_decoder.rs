//! # 3A: the causal encoder-decoder: which layer runs for which token
//!
//! Layers 0 to 19 are the encoder, 20 to 39 the decoder; all attention is causal. Four layers write global KV (2, 8, 14, 20), and the decoder
//! reads only what layer 20 wrote. So a prompt needs the encoder and layer 20's KV projection for every token, and the decoder only for the
//! rows at its end, whose windows decoding will look into. That is why reading costs 8 billion parameters per token and writing 16.
//!
//! The [`Tail`] keeps those rows until the whole prompt has passed the encoder. A tail of [`Config::exact_tail`] rows is exact; the report's
//! production rule uses 128. Specification: section 4.

use super::layer::Rows;
use crate::config::{Config, Role};
use std::collections::BTreeMap;

/// How many rows at the end of a prompt run through the decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DecoderTail {
    /// All of them: the vendor's script, exact.
    #[default]
    All,
    /// The last `n`: exact from [`Config::exact_tail`] on, the production approximation at 128.
    Last(usize),
}

/// Rows between encoder and decoder: what the last KV source will need when the prompt has passed the encoder (section 4.5a).
#[derive(Debug, Clone, Default)]
pub struct Tail {
    keep: usize,
    window: usize,
    /// Residual and collapse weights that leave the encoder.
    pub rows: Rows,
    /// Window rows of the last KV source, as a reader sees them, from [`Tail::window_start`] to the end `[.., head_dim]`. They reach one window
    /// further back than the rows, so that the first of them sees its whole window.
    pub window_rows: Vec<f32>,
    /// Position of the first window row.
    pub window_start: usize,
    /// Decoded n-gram rows of the rows, by decoder layer `[n, columns * row width]`. Empty in the release, whose n-gram layers are encoder layers.
    pub memory: BTreeMap<usize, Vec<f32>>,
}

impl Tail {
    /// A tail of `keep` rows that begins with the window rows `[.., head_dim]` of earlier turns.
    pub fn new(config: &Config, keep: usize, window_rows: Vec<f32>, window_start: usize) -> Self {
        Tail { keep: keep.max(1), window: config.window_size, window_rows, window_start, ..Tail::default() }
    }

    /// Appends a chunk that passed the encoder, with its window rows `[n, head_dim]` and the n-gram rows that it still needs, and drops what is
    /// too old.
    pub fn push(&mut self, config: &Config, rows: Rows, window_rows: &[f32], memory: BTreeMap<usize, Vec<f32>>) {
        if self.rows.n() == 0 {
            self.rows = rows;
        } else {
            self.rows.types.extend(rows.types);
            self.rows.streams.extend(rows.streams);
            self.rows.pre.extend(rows.pre);
        }
        self.window_rows.extend(window_rows);
        for (layer, rows) in memory {
            self.memory.entry(layer).or_default().extend(rows);
        }

        let old = self.rows.n().saturating_sub(self.keep);
        self.rows.start += old;
        self.rows.types.drain(..old);
        self.rows.streams.drain(..old * config.hc_mult * config.dim);
        self.rows.pre.drain(..old * config.hc_mult);
        for rows in self.memory.values_mut() {
            rows.drain(..old * config.engram_columns() * config.engram_head_dim);
        }
        let oldest = (self.rows.start + 1).saturating_sub(self.window);
        let old = oldest.saturating_sub(self.window_start);
        self.window_rows.drain(..old * config.head_dim);
        self.window_start += old;
    }
}

/// One line of the schedule (section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScheduleRow {
    /// Layer.
    pub layer: usize,
    /// Compression ratio.
    pub ratio: usize,
    /// Role.
    pub role: Role,
    /// Layer whose entries it reads.
    pub kv_source: Option<usize>,
    /// Layer whose selection it uses.
    pub index_source: Option<usize>,
    /// Whether it belongs to the decoder.
    pub decoder: bool,
}

/// The schedule of all backbone layers.
pub fn schedule(config: &Config) -> Vec<ScheduleRow> {
    let row = |layer| ScheduleRow {
        layer,
        ratio: config.ratio(layer),
        role: config.role(layer),
        kv_source: config.kv_source(layer),
        index_source: config.index_source(layer),
        decoder: config.last_kv_source().is_some_and(|source| layer >= source),
    };
    (0..config.n_layers).map(row).collect()
}

/// Parameters that one token passes (section 4.6); scales are not counted, an FP4 weight counts as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActiveParameters {
    /// Encoder layers and the KV projections of the last source: reading a prompt.
    pub prefill: u64,
    /// All layers: the backbone without embedding and head.
    pub layers: u64,
    /// Layers, head, one embedding row, final norm and n-gram rows: writing a token.
    pub decode: u64,
}

/// Counts the active parameters from the config.
pub fn active_parameters(config: &Config) -> ActiveParameters {
    let split = config.last_kv_source().unwrap_or(config.n_layers);
    let layers = |range: std::ops::Range<usize>| range.map(|layer| layer_parameters(config, layer)).sum::<u64>();
    let (dim, latent, key) = (config.dim as u64, config.head_dim as u64, config.index_head_dim as u64);
    let kv_of_split = 2 * latent * dim + latent + key * latent + key;
    let engram_rows = config.engram_layer_ids.len() * config.engram_columns() * config.engram_head_dim;
    let all = layers(0..config.n_layers);
    ActiveParameters {
        prefill: layers(0..split) + kv_of_split,
        layers: all,
        decode: all + config.vocab_size as u64 * dim + 2 * dim + engram_rows as u64,
    }
}

/// Active parameters of one backbone layer: what a token passes when it runs through all of it (section 4.6).
pub fn layer_parameters(config: &Config, layer: usize) -> u64 {
    let [dim, heads, latent, rank, groups, out_rank, lanes] = [
        config.dim,
        config.n_heads,
        config.head_dim,
        config.q_lora_rank,
        config.o_groups,
        config.o_lora_rank,
        config.hc_mult,
    ]
    .map(|size| size as u64);
    let query = rank * dim + heads * latent * rank + rank;
    let output = out_rank * heads * latent + dim * groups * out_rank;
    let attention = query + latent * dim + latent + output + heads;
    let experts = config.n_routed_experts as u64;
    let router = experts * dim + 2 * experts;
    let mixes = 2 * lanes + lanes * lanes;
    let hyper = 2 * (mixes * lanes * dim + mixes + 3);
    let used = (config.n_activated_experts + config.n_shared_experts) as u64;
    let mut total = attention + router + hyper + 2 * dim + used * 3 * config.moe_inter_dim as u64 * dim;

    let key = config.index_head_dim as u64;
    let index_heads = config.index_n_heads as u64;
    if config.index_source_layers.contains(&layer) {
        total += index_heads * key * rank + index_heads * dim;
    }
    if config.kv_source_layers.contains(&layer) {
        let projections = if config.ratio(layer) == 2 { 2 } else { 1 };
        total += projections * latent * dim + latent + key * latent + key;
    }
    if config.engram_layer_ids.contains(&layer) {
        let input = (config.engram_columns() * config.engram_head_dim) as u64;
        total += (lanes + 1) * dim * input + 2 * lanes * dim;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The role table of section 4.1.
    #[test]
    fn released_schedule() {
        let schedule = schedule(&Config::flash());
        assert_eq!(schedule.len(), 40);
        let expect = |layers: &[usize], ratio, role, kv, index| {
            for &layer in layers {
                let row = schedule[layer];
                assert_eq!(
                    (row.ratio, row.role, row.kv_source, row.index_source),
                    (ratio, role, kv, index),
                    "layer {layer}"
                );
                assert_eq!(row.decoder, layer >= 20);
            }
        };
        expect(&[0, 1], 0, Role::Window, None, None);
        for source in [2, 8, 14] {
            expect(&[source], 2, Role::Full, Some(source), Some(source));
            let reuse: Vec<_> = (source + 1..source + 6).collect();
            expect(&reuse, 2, Role::Reuse, Some(source), Some(source));
        }
        expect(&[20], 1, Role::Full, Some(20), Some(20));
        expect(&[21, 22, 23], 1, Role::Reuse, Some(20), Some(20));
        for index in [24, 28, 32, 36] {
            expect(&[index], 1, Role::Reindex, Some(20), Some(index));
            expect(&[index + 1, index + 2, index + 3], 1, Role::Reuse, Some(20), Some(index));
        }
    }

    /// The sums of section 4.6: "8B" to read, "16B" to write.
    #[test]
    fn active_parameters_of_the_release() {
        let config = Config::flash();
        assert_eq!(layer_parameters(&config, 0), 377_303_670);
        assert_eq!(layer_parameters(&config, 2) - layer_parameters(&config, 3), 10_715_776);
        assert_eq!(layer_parameters(&config, 20) - layer_parameters(&config, 21), 8_094_336);
        assert_eq!(layer_parameters(&config, 24) - layer_parameters(&config, 25), 5_406_720);
        assert_eq!(layer_parameters(&config, 1) - layer_parameters(&config, 0), 157_327_360);
        let active = active_parameters(&config);
        assert_eq!(active.prefill, 7_892_875_448 + 5_309_056);
        assert_eq!(active.layers, 15_468_670_064);
        assert_eq!(active.decode, 16_130_606_192);
    }

    /// Section 4.5: 18 * 127 + 128 rows are exact in the release.
    #[test]
    fn exact_tail_of_the_release() {
        assert_eq!(Config::flash().exact_tail(), 2_414);
    }
}
