//! A sequence on its way between main memory and the GPU, byte for byte; and back to an earlier position.

use super::state::OPEN_SLOTS;
use super::{GpuModel, GpuState};
use crate::blocks::b3b_compressor::Partial;
use crate::blocks::b6a_kv_cache::{Ring, SourceCache, State};
use crate::error::{Error, Result};
use crate::kernels::cache::{self, GpuPlane};

impl GpuModel {
    /// Reads a whole sequence back: rings, entries and index keys in the bytes in which they are stored, open groups, n-gram history,
    /// position. The reference goes on with it.
    ///
    /// # Errors
    /// [`Error::Gpu`].
    pub async fn download(&self, state: &GpuState) -> Result<State> {
        let config = self.config();
        let (end, window) = (state.position, config.window_size);
        let mut out = State::new(config, self.context.kv);
        out.position = end;
        let history = &state.engram_history;
        let held = history.len().min(config.engram_max_ngram_size - 1);
        out.engram_history = history[history.len() - held..].to_vec();

        let begin = end.saturating_sub(window);
        let live = |layer: usize| {
            let is_decoder = config.last_kv_source().is_some_and(|split| layer > split);
            begin.max(if is_decoder { state.decoder_oldest } else { 0 })..end
        };
        let drafting = state.drafting.iter().filter(|_| self.drafter.is_some());
        let draft_rings = drafting.flat_map(|drafting| &drafting.rings);
        let rings: Vec<&GpuPlane> = state.rings.iter().chain(draft_rings).collect();
        let mut wanted: Vec<_> = rings.iter().map(|&ring| (ring, ring.capacity)).collect();
        let mut open = Vec::new();
        for source in state.sources.values() {
            let entries = end / source.ratio.max(1);
            wanted.extend([(&source.entries, entries), (&source.keys, entries)]);
            open.extend(source.open.iter().filter(|_| has_open(source.ratio, end)));
        }
        let (mut planes, open) = cache::read(&self.gpu, &wanted, &open).await?;

        let mut stored = planes.split_off(rings.len()).into_iter();
        let (windows, draft_windows) = planes.split_at(state.rings.len());
        for (layer, (rows, out)) in windows.iter().zip(&mut out.windows).enumerate() {
            *out = Ring::from_rows(rows, window, live(layer));
        }
        for (rows, out) in draft_windows.iter().zip(&mut out.draft_windows) {
            *out = Ring::from_rows(rows, window, begin.max(state.decoder_oldest)..end);
        }
        let mut open = open.chunks_exact(2);
        for (&layer, source) in &state.sources {
            let Some(out) = &mut out.sources[layer] else { continue };
            let planes = [&mut out.entries, &mut out.keys];
            planes.into_iter().zip(&mut stored).for_each(|(out, plane)| *out = plane);
            if has_open(source.ratio, end)
                && let Some([value, score]) = open.next()
            {
                let row = open_row(end) * config.head_dim..(open_row(end) + 1) * config.head_dim;
                out.partial = Partial { value: value[row.clone()].to_vec(), score: score[row].to_vec() };
            }
        }
        Ok(out)
    }

    /// The same sequence in GPU memory: what [`Self::download`] gives, or what the reference computed.
    ///
    /// # Errors
    /// [`Error::Usage`] if the state is not one of this model with these cache formats, or has a speculation open; [`Error::DoesNotFit`],
    /// [`Error::Gpu`].
    pub async fn upload(&self, state: &State) -> Result<GpuState> {
        let config = self.config();
        self.check_state(state)?;
        let mut out = self.state()?;
        out.reserve(&self.gpu, state.position).await?;
        out.position = state.position;
        (out.rewind_from, out.written) = (state.position, state.position);
        out.engram_history.clone_from(&state.engram_history);
        let split = config.last_kv_source().unwrap_or(config.n_layers);
        let decoder = state.windows.get(split + 1).or(state.draft_windows.first());
        out.decoder_oldest = decoder.map_or(0, |ring| ring.positions().start);

        for (ring, own) in out.rings.iter().zip(&state.windows) {
            ring.write(&self.gpu, &own.to_rows(ring.capacity));
        }
        let drafting = out.drafting.iter().flat_map(|drafting| &drafting.rings);
        for (ring, own) in drafting.zip(&state.draft_windows) {
            ring.write(&self.gpu, &own.to_rows(ring.capacity));
        }
        for (layer, source) in &out.sources {
            let Some(own) = &state.sources[*layer] else { continue };
            source.entries.write(&self.gpu, &own.entries);
            source.keys.write(&self.gpu, &own.keys);
            let offset = (open_row(state.position) * config.head_dim * 4) as u64;
            for (open, own) in source.open.iter().zip([&own.partial.value, &own.partial.score]) {
                if !own.is_empty() {
                    self.gpu.queue.write_buffer(&open.buffer, offset, bytemuck::cast_slice(own));
                }
            }
        }
        Ok(out)
    }

    /// Whether a state has the shape of this model's.
    fn check_state(&self, state: &State) -> Result<()> {
        let expected = State::new(self.config(), self.context.kv);
        let rings = |state: &State| -> Vec<_> {
            state.windows.iter().chain(&state.draft_windows).map(|ring| (ring.shape(), ring.bytes())).collect()
        };
        let shape =
            |source: &SourceCache| (source.ratio, source.entries.format, source.entries.width, source.keys.width);
        let sources = |state: &State| -> Vec<_> { state.sources.iter().map(|s| s.as_ref().map(shape)).collect() };
        let is_whole = |source: &SourceCache| {
            let entries = state.position / source.ratio;
            let open = source.ratio == 2 && !state.position.is_multiple_of(2);
            source.entries.len() == entries && source.keys.len() == entries && source.partial.is_open() == open
        };
        let problem = if rings(state) != rings(&expected) || sources(state) != sources(&expected) {
            "has another shape or other cache formats than this model's"
        } else if !state.sources.iter().flatten().all(is_whole) {
            "holds other entries than its position asks for"
        } else if state.is_speculating() {
            "has a speculation open"
        } else {
            return Ok(());
        };
        Err(Error::Usage(format!("a sequence's state {problem}")))
    }
}

/// Where the open group lies at an odd position.
fn open_row(position: usize) -> usize {
    position / 2 % OPEN_SLOTS
}

/// Whether a source's group is open at a position.
fn has_open(ratio: usize, position: usize) -> bool {
    ratio == 2 && !position.is_multiple_of(2)
}
