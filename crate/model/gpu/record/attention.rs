//! 4A and what feeds it: window rows, compressed entries, selection.

use super::Recorder;
use crate::blocks::tap::Tap;
use crate::error::Result;
use crate::gpu::Tensor;
use crate::kernels::attend::attention::{self, Sees};
use crate::kernels::cache::plane_write::{self, IndexQueries, Way};
use crate::kernels::cache::{GpuPlane, pool_pairs};
use crate::kernels::index::{candidate_blocks, index_scores, top_k};
use crate::kernels::linear;
use crate::kernels::norm::rope;
use crate::model::gpu::state::GpuState;
use crate::model::gpu::weights::{GpuCompressor, GpuLayer};
use crate::numerics::precision::Precision;

impl<'a> Recorder<'a, '_> {
    pub(super) fn attention(&mut self, index: usize, layer: &GpuLayer, ring: &GpuPlane, sees_all: bool) -> Result<()> {
        let (model, state, s) = (self.model, self.state, self.s);
        let (config, numerics) = (model.config(), self.numerics());
        self.at(Tap::Query, index);
        self.linear(&layer.wq_a_wkv, self.input(), &s.qr_kv)?;
        self.norm(&layer.q_norm, &s.qr_kv, &s.qr, self.quantises())?;
        let q = s.queries(layer.wq_b.rows);
        self.linear(&layer.wq_b, &s.qr, &q)?;
        let (angles, grid) = (self.angles(index), model.context.kv == Precision::Released);
        let heads = IndexQueries { heads: config.index_n_heads, width: config.index_head_dim, grid };
        let index_heads = layer.source.as_ref().map(|_| heads);
        let way = self.window_way(angles, &layer.kv_norm, &q);
        let way = Way { heads: config.n_heads, index: index_heads, ..way };
        plane_write::record(self.planner, &s.qr_kv, ring, &s.call, way, self.n)?;
        self.tap(Tap::Query, index, &q);
        if let Some(source) = self.source(index, layer)? {
            if let Some(compressor) = layer.compressor.as_ref().filter(|_| !self.is_fed(index)) {
                self.compress(index, compressor, &source)?;
            }
            self.at(Tap::IndexScores, index);
            self.select(index, [&q, &source])?;
        }
        let (entries, sees) = match config.kv_source(index) {
            // No entries either; a ring of the backbone never moves, as a plan that outlives the cache's growth needs it.
            _ if sees_all => (&state.rings[0], Sees::WholeCall),
            Some(source) => (self.caches(source)[0], Sees::Selected(config.index_topk)),
            None => (ring_as_entries(state, index), Sees::Window),
        };
        let (tensors, call) = ([&q, self.selection(index), &layer.sink, &s.heads], self.call(index));
        attention::record(self.planner, tensors, (ring, entries), call, config, sees, numerics)?;
        self.tap(Tap::HeadsRotated, index, &s.heads);
        let shape = [self.n, config.n_heads, config.head_dim];
        rope::record(self.planner, angles, &s.heads, shape, true, numerics)?;
        self.tap(Tap::Heads, index, &s.heads);
        self.at(Tap::AttnOut, index);
        linear::record(self.planner, &layer.wo_a, [&s.heads, &s.low], &s.call, config.o_groups, numerics)?;
        let low = self.quantised(&s.low, &s.low_q)?;
        self.linear(&layer.wo_b, low, &s.y)
    }

    /// Entries and index keys that layers read from a source.
    fn caches(&self, source: usize) -> [&'a GpuPlane; 2] {
        if let Some(given) = self.given {
            let [entries, keys] = &given.caches[&source];
            return [entries, keys];
        }
        let source = &self.state.sources[&source];
        [&source.entries, &source.keys]
    }

    /// What a layer's queries select.
    fn selection(&self, index: usize) -> &'a Tensor {
        let given = self.given.zip(self.model.config().index_source(index));
        given.map_or(&self.s.topk, |(given, source)| &given.selections[&source])
    }

    /// What an index source makes of its input, in one product: value and score of the compressor, index weights.
    pub(super) fn source(&mut self, index: usize, layer: &GpuLayer) -> Result<Option<Tensor>> {
        let Some(weight) = &layer.source else { return Ok(None) };
        let (s, out) = (self.s, self.s.source(weight.rows));
        self.at(if layer.compressor.is_some() { Tap::Latent } else { Tap::IndexScores }, index);
        // Values and scores stay f32 until they are pooled (section 5.2); the index weights are rounded where they are used.
        let pools = layer.compressor.as_ref().is_some_and(|compressor| compressor.pools);
        let round = if pools { Precision::F32 } else { self.numerics() };
        linear::record(self.planner, weight, [&s.x, &out], &s.call, 1, round)?;
        Ok(Some(out))
    }

    /// 3B and 6A at a KV source: latents, index keys, entries.
    pub(super) fn compress(&mut self, index: usize, weights: &GpuCompressor, rows: &Tensor) -> Result<()> {
        let (state, s) = (self.state, self.s);
        let numerics = self.numerics();
        let source = &state.sources[&index];
        self.at(Tap::Latent, index);
        let (rows, angles) = if weights.pools {
            let [value, score] = &source.open;
            pool_pairs::record(self.planner, [rows, value, score, &s.pooled], &s.call, numerics)?;
            (&s.pooled, &s.angles_pairs)
        } else {
            (rows, &s.angles_compressed)
        };
        if self.stored {
            return Ok(());
        }
        // The key comes from the latent before it is rotated (section 5.5), which the entry's way keeps.
        let (eps, ratio) = (Some(self.model.config().norm_eps), source.ratio);
        let entry = Way {
            angles,
            q: &s.latent,
            heads: 0,
            index: None,
            keep: true,
            weight: &weights.norm,
            eps,
            offset: 0,
            ratio,
            numerics,
        };
        plane_write::record(self.planner, rows, &source.entries, &s.call, entry, self.n)?;
        self.tap(Tap::Latent, index, &s.latent);
        self.at(Tap::IndexKeys, index);
        self.linear(&weights.wk, &s.latent, &s.key)?;
        let key = Way { keep: false, weight: &weights.k_norm, ..entry };
        plane_write::record(self.planner, &s.key, &source.keys, &s.call, key, self.n)
    }

    /// 3C at an index source: scores, candidate pool, selection.
    fn select(&mut self, index: usize, [query, weights]: [&Tensor; 2]) -> Result<()> {
        let (state, s) = (self.state, self.s);
        let config = self.model.config();
        let Some(source) = config.kv_source(index) else { return Ok(()) };
        let ([_, keys], ratio) = (self.caches(source), state.sources[&source].ratio);
        let rows = &state.scores[&self.n];
        let pooled = index > config.candidate_source_layer;
        let tensors = [query, weights, &rows.pool, &rows.scores];
        let numerics = self.numerics();
        index_scores::record(self.planner, tensors, keys, &s.call, config, ratio, pooled, numerics)?;
        self.tap(Tap::IndexScores, index, &rows.scores);
        if index == config.candidate_source_layer {
            let tensors = [&rows.scores, &rows.best, &rows.pool];
            candidate_blocks::record(self.planner, tensors, &s.call, config, ratio)?;
            self.tap(Tap::CandidateBlocks, index, &rows.pool);
        }
        top_k::record(self.planner, &rows.scores, &s.topk, &s.call, ratio)?;
        self.tap(Tap::TopkIds, index, &s.topk);
        Ok(())
    }
}

/// Window-only layers read no entries, but the kernel's bindings must not be empty, nor name the ring twice: another layer's plane serves.
fn ring_as_entries(state: &GpuState, index: usize) -> &GpuPlane {
    state
        .sources
        .values()
        .next()
        .map_or_else(|| &state.rings[(index + 1) % state.rings.len()], |source| &source.entries)
}
