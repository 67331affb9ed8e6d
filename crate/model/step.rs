//! One layer on a chunk of rows: steps 5a to 5k of section R.5, with the caches.

use super::reference::{Call, Given, Reference, check_finite};
use crate::blocks::b3b_compressor as compressor;
use crate::blocks::b3c_window_indexer::{self as indexer, IndexQuery, Selection};
use crate::blocks::b5a_experts::{self as experts, Mixture};
use crate::blocks::b6a_kv_cache::{SourceCache, State};
use crate::blocks::layer::{Routed, Rows, observe};
use crate::blocks::tap::{Observer, Tap, Values};
use crate::blocks::{b1b_engram as engram, b4a_latent_attention as attention, b6b_head_dspark as head};
use crate::error::Result;

/// Window rows that the queries of a call may see, as a reader sees them.
pub(super) struct WindowRows {
    /// `[.., head_dim]`, without gaps.
    pub(super) rows: Vec<f32>,
    /// Position of the first.
    pub(super) start: usize,
}

impl Reference {
    /// Runs `rows` through layer `index`.
    pub(super) async fn run_layer(
        &self,
        index: usize,
        rows: &mut Rows,
        state: &mut State,
        call: &mut Call,
        given: Given<'_>,
        observer: &mut dyn Observer,
    ) -> Result<()> {
        let (context, config) = (&self.context, self.config());
        let backbone = &self.layers[index];
        self.apply_engram(index, rows, call, observer);
        if config.dspark_target_layer_ids.contains(&index) {
            call.target_hidden.push(head::stream_mean(context, rows));
        }
        if observer.wants(Tap::Rows, index) {
            let positions: Vec<i64> = rows.positions().map(|p| p as i64).collect();
            observer.see(Tap::Rows, index, &[rows.n()], Values::I64(&positions));
        }
        let entered = backbone.layer.enter_attention(context, rows, index, observer);
        let y = self.attention(index, rows, &entered.x, state, call, given, observer);
        let routed = backbone.layer.enter_experts(context, rows, &entered.mixes, &y, index, observer);
        let y = self.mixture(index, &routed).await?;
        backbone.layer.leave_experts(context, rows, routed, &y, index, observer);
        check_finite(Tap::Streams, index, &rows.streams)
    }

    /// Step 5j: all experts are there, or come in turns of as many as there are slots.
    async fn mixture(&self, index: usize, routed: &Routed) -> Result<Vec<f32>> {
        let weights = &self.layers[index].layer.experts;
        let Some(slots) = &self.slots else {
            return Ok(experts::mixture(&self.context, weights, &routed.x, &routed.route));
        };
        let mut mixture = Mixture::new(&self.context, weights, &routed.x, &routed.route);
        for ids in mixture.used().chunks(slots.count()) {
            let brought = slots.bring(&self.checkpoint, &self.context, index, ids).await?;
            ids.iter().zip(brought).for_each(|(&id, expert)| mixture.add(id, &expert));
        }
        Ok(mixture.finish())
    }

    /// Step 5a, in a layer that has n-gram memory and in calls that brought it.
    fn apply_engram(&self, index: usize, rows: &mut Rows, call: &Call, observer: &mut dyn Observer) {
        if let (Some((_, weights)), Some(memory)) = (&self.layers[index].engram, call.memory.get(&index)) {
            let gates = engram::apply(&self.context, weights, &mut rows.streams, memory, &rows.types);
            observe(observer, Tap::EngramGate, index, &[rows.n(), self.config().hc_mult], &gates);
        }
    }

    /// Only what a KV source leaves behind for later: its entries, keys and window rows. The tail runs the rest (section 4.5a, step 2), on rows
    /// that already have the layer's n-gram memory, if it has one.
    pub(super) fn feed_source(
        &self,
        index: usize,
        rows: &mut Rows,
        call: &Call,
        state: &mut State,
        observer: &mut dyn Observer,
    ) -> WindowRows {
        self.apply_engram(index, rows, call, observer);
        let norm = &self.layers[index].layer.attn_norm;
        let x = crate::blocks::layer::collapse_and_norm(&self.context, &rows.streams, &rows.pre, norm, rows.n());
        let x_quantised = self.context.numerics.activation(&x);
        self.write_caches(index, rows.start, &x, &x_quantised, state, false, observer)
    }

    /// Step 5e: caches, selection, attention; `x` `[n, dim]` to `[n, dim]`.
    #[allow(clippy::too_many_arguments)]
    fn attention(
        &self,
        index: usize,
        rows: &Rows,
        x: &[f32],
        state: &mut State,
        call: &mut Call,
        given: Given<'_>,
        observer: &mut dyn Observer,
    ) -> Vec<f32> {
        let (context, config, n) = (&self.context, self.config(), rows.n());
        let core = &self.layers[index].layer.attention;
        let x_quantised = context.numerics.activation(x);
        let stale = self.stale_keys(index, rows, state);
        let window = match given {
            Given::Window(tail) => WindowRows { rows: tail.window_rows.clone(), start: tail.window_start },
            _ => {
                let stored = matches!(given, Given::Stored);
                self.write_caches(index, rows.start, x, &x_quantised, state, stored, observer)
            }
        };
        let qr = attention::low_rank_query(context, core, &x_quantised, n);
        let q = attention::queries(context, core, &qr, n, rows.start, index);
        observe(observer, Tap::Query, index, &[n, config.n_heads, config.head_dim], &q);
        let cache = config.kv_source(index).and_then(|source| state.sources[source].as_ref());
        let mut entries = cache.map(|cache| &cache.entries);
        let mut keys = cache.map(|cache| &cache.keys);
        if let Given::Forced(forced) = given {
            (entries, keys) = (Some(&forced.entries), Some(&forced.keys));
        }
        if let (Some(weights), Some(keys)) = (&self.layers[index].indexer, keys) {
            let query = indexer::index_query(context, weights, &qr, x, n, rows.start);
            self.select(index, &query, &stale.unwrap_or_else(|| keys.read_from(0)), rows.start, call, observer);
        }
        if let Given::Forced(forced) = given {
            call.selection.clone_from(&forced.selection);
        }

        let width = config.head_dim;
        let sees = |token: usize| {
            let range = indexer::window(rows.start + token, config.window_size, window.start);
            let mut seen =
                window.rows[(range.start - window.start) * width..(range.end - window.start) * width].to_vec();
            if let Some(entries) = entries {
                let begin = seen.len();
                let chosen = &call.selection[token];
                seen.resize(begin + chosen.len() * width, 0.0);
                seen[begin..].chunks_exact_mut(width).zip(chosen).for_each(|(row, &j)| entries.read(j as usize, row));
            }
            seen
        };
        let mut heads = attention::heads(context, core, &q, n, sees);
        if observer.wants(Tap::AttnWeights, index) || observer.wants(Tap::HeadsRotated, index) {
            self.show_last_row(index, &q, &heads, &sees(n - 1), observer);
        }
        attention::rotate_back(context, &mut heads, rows.start, index);
        observe(observer, Tap::Heads, index, &[n, config.n_heads, width], &heads);
        attention::output(context, core, &heads, n)
    }

    /// Writes window rows, and at a KV source entries and keys unless they are `stored` already, of rows from position `start`. Returns the
    /// window that their queries see.
    #[allow(clippy::too_many_arguments)]
    fn write_caches(
        &self,
        index: usize,
        start: usize,
        x: &[f32],
        x_quantised: &[f32],
        state: &mut State,
        stored: bool,
        observer: &mut dyn Observer,
    ) -> WindowRows {
        let (context, config) = (&self.context, self.config());
        let n = x.len() / config.dim;
        let core = &self.layers[index].layer.attention;
        let fresh = attention::window_rows(context, &core.wkv, &core.kv_norm, x_quantised, n, start, index);
        let ring = &mut state.windows[index];
        // The old rows are read before new ones take their slots. After a gap (a tail that left rows out) none of them is in sight.
        let held = ring.positions();
        let old = if held.end == start { held } else { start..start };
        let mut window = WindowRows { rows: ring.read(old.clone()), start: old.start };
        for (token, row) in fresh.chunks_exact(config.head_dim).enumerate() {
            ring.write(start + token, row);
            window.rows.extend(ring.read(start + token..start + token + 1));
        }
        let seen = &window.rows[old.len() * config.head_dim..];
        observe(observer, Tap::WindowKv, index, &[n, config.head_dim], seen);

        if let Some(weights) = &self.layers[index].compressor {
            // One by one where the open group after each token has to be remembered; the bits are the same.
            let step = if state.is_speculating() { 1 } else { n };
            let mut latents = Vec::new();
            for x in x.chunks_exact(step * config.dim) {
                let Some(source) = &mut state.sources[index] else { return window };
                latents.extend(compressor::compress(context, weights, x, step, &mut source.partial));
                state.keep_partial(index);
            }
            if let Some(source) = state.sources[index].as_mut().filter(|_| !stored) {
                let (ratio, first) = (source.ratio, source.entries.len());
                source.entries.extend(&compressor::entries(context, &latents, first, ratio));
                source.keys.extend(&compressor::index_keys(context, weights, &latents, first, ratio));
                show_entries(index, source, first, &latents, observer);
            }
        }
        window
    }

    /// 3C at an index source: replaces the call's selection, and at the candidate source its pool. `keys` `[E, index_head_dim]`.
    fn select(
        &self,
        index: usize,
        query: &IndexQuery,
        keys: &[f32],
        start: usize,
        call: &mut Call,
        observer: &mut dyn Observer,
    ) {
        let (context, config) = (&self.context, self.config());
        let pool = call.pool.as_ref().filter(|_| index > config.candidate_source_layer);
        let wanted = observer.wants(Tap::IndexScores, index);
        let (selection, blocks) = indexer::select(context, query, keys, config.ratio(index), start, pool, wanted);
        show_selection(index, &selection, config.index_topk, observer);
        if index == config.candidate_source_layer {
            if observer.wants(Tap::CandidateBlocks, index) {
                let padded = pad(&blocks, config.candidate_topk_blocks);
                let shape = [blocks.len(), config.candidate_topk_blocks];
                observer.see(Tap::CandidateBlocks, index, &shape, Values::I64(&padded));
            }
            call.pool = Some(blocks);
        }
        call.selection = selection.entries;
    }

    /// The vendor script's slip (section 6.7): on a decode step that completes no group, a ratio-2 source scores against the keys that the
    /// last publisher of the step before left, cut to its own length.
    fn stale_keys(&self, index: usize, rows: &Rows, state: &State) -> Option<Vec<f32>> {
        let config = self.config();
        let decoding = rows.n() == 1 && rows.start > 0;
        let pairs = self.layers[index].compressor.is_some() && config.ratio(index) == 2;
        if !(self.context.stale_index_keys && decoding && pairs && rows.start.is_multiple_of(2)) {
            return None;
        }
        let publisher = state.sources[config.last_kv_source()?].as_ref()?;
        let mut keys = publisher.keys.read_from(0);
        keys.truncate(rows.start.div_ceil(2) * config.index_head_dim);
        Some(keys)
    }

    /// What the lab shows of the last row: each head's weights over the rows it saw, and the heads before the rotation is undone.
    fn show_last_row(&self, index: usize, q: &[f32], heads: &[f32], seen: &[f32], observer: &mut dyn Observer) {
        let (config, core) = (self.config(), &self.layers[index].layer.attention);
        let row = config.n_heads * config.head_dim;
        let last = q.len() - row;
        let scale = (1.0 / (config.head_dim as f64).sqrt()) as f32;
        let weights: Vec<f32> = (q[last..].chunks_exact(config.head_dim).zip(&core.sink))
            .flat_map(|(q, &sink)| attention::weights_of(scale, q, seen, sink))
            .collect();
        observe(observer, Tap::AttnWeights, index, &[config.n_heads, seen.len() / config.head_dim + 1], &weights);
        observe(observer, Tap::HeadsRotated, index, &[config.n_heads, config.head_dim], &heads[last..]);
    }
}

fn show_entries(index: usize, source: &SourceCache, first: usize, latents: &[f32], observer: &mut dyn Observer) {
    let (width, key) = (source.entries.width, source.keys.width);
    let new = source.entries.len() - first;
    observe(observer, Tap::Latent, index, &[new, width], latents);
    if observer.wants(Tap::CompressedKv, index) {
        observe(observer, Tap::CompressedKv, index, &[new, width], &source.entries.read_from(first));
    }
    if observer.wants(Tap::IndexKeys, index) {
        observe(observer, Tap::IndexKeys, index, &[new, key], &source.keys.read_from(first));
    }
}

fn show_selection(index: usize, selection: &Selection, k: usize, observer: &mut dyn Observer) {
    let n = selection.entries.len();
    if observer.wants(Tap::IndexScores, index) {
        let entries = selection.scores.first().map_or(0, Vec::len);
        observe(observer, Tap::IndexScores, index, &[n, entries], &selection.scores.concat());
    }
    if observer.wants(Tap::TopkIds, index) {
        observer.see(Tap::TopkIds, index, &[n, k], Values::I64(&pad(&selection.entries, k)));
    }
}

/// Lists of different length as rows of `width`, -1 where nothing is.
fn pad(lists: &[Vec<u32>], width: usize) -> Vec<i64> {
    let row = |list: &Vec<u32>| {
        let none = std::iter::repeat_n(-1, width.saturating_sub(list.len()));
        list.iter().map(|&j| i64::from(j)).chain(none).collect::<Vec<_>>()
    };
    lists.iter().flat_map(row).collect()
}
