//! The decoder's tail (section 4.5a): rows between encoder and decoder, kept in GPU memory until the whole prompt has passed the encoder.

use super::record::Part;
use super::state::GpuState;
use super::{GpuModel, MOST_ROWS, Trace, capacity};
use crate::blocks::b1a_input::Prompt;
use crate::blocks::b3a_encoder_decoder::DecoderTail;
use crate::error::Result;
use crate::gpu::{Element, Tensor};
use crate::model::reference::{Output, Prefill};
use std::collections::BTreeMap;
use std::ops::Range;

/// The last rows of a prompt as they left the encoder.
#[derive(Debug)]
pub(super) struct Tail {
    /// Place in the prompt of the first row.
    first: usize,
    /// The last KV source.
    split: usize,
    /// [`MOST_ROWS`] rows each.
    blocks: Vec<Block>,
    /// Whether the window in front of the first row is safe in the tail's ring.
    has_window: bool,
}

#[derive(Debug)]
struct Block {
    /// `[MOST_ROWS, lanes, dim]`
    streams: Tensor,
    /// `[MOST_ROWS, lanes]`
    pre: Tensor,
    /// N-gram rows of decoder layers.
    memory: BTreeMap<usize, Vec<f32>>,
}

impl Tail {
    /// Room for the rows that `how` keeps of a prompt of `len` tokens. `None` if all of them run through all layers.
    pub(super) async fn new(
        model: &GpuModel,
        state: &mut GpuState,
        how: DecoderTail,
        len: usize,
    ) -> Result<Option<Tail>> {
        let config = model.config();
        let (DecoderTail::Last(keep), Some(split)) = (how, config.last_kv_source()) else { return Ok(None) };
        let first = len.saturating_sub(keep.max(1));
        if first == 0 || split == 0 {
            return Ok(None);
        }
        let make = || {
            let tensor = |label, width| Tensor::zeros(&model.gpu, label, Element::F32, &[MOST_ROWS, width]);
            let block = |_| -> Result<Block> {
                let streams = tensor("tail streams", config.hc_mult * config.dim)?;
                Ok(Block { streams, pre: tensor("tail pre", config.hc_mult)?, memory: BTreeMap::new() })
            };
            state.make_tail_ring(&model.gpu, split)?;
            (0..(len - first).div_ceil(MOST_ROWS)).map(block).collect::<Result<Vec<_>>>()
        };
        let blocks = model.gpu.checked("making room for the tail", make).await?;
        Ok(Some(Tail { first, split, blocks, has_window: false }))
    }

    /// Takes what it keeps of the chunk `range` that just passed the encoder, with the chunk's n-gram rows.
    pub(super) fn take(
        &mut self,
        model: &GpuModel,
        state: &GpuState,
        range: Range<usize>,
        memory: &[(usize, Vec<f32>)],
    ) {
        let scratch = state.made_scratch(capacity(range.len()));
        let mut encoder = model.gpu.encoder();
        // A ring has room for a window and one chunk, so it still holds the whole window in front of the first row when this chunk ends.
        if let Some(ring) = state.tail_ring.as_ref().filter(|_| !self.has_window && range.end >= self.first) {
            state.rings[self.split].copy_to(ring, &mut encoder);
            self.has_window = true;
        }
        let mut row = range.start.max(self.first);
        while row < range.end {
            let (block, place) = ((row - self.first) / MOST_ROWS, (row - self.first) % MOST_ROWS);
            let (n, from) = ((range.end - row).min(MOST_ROWS - place), row - range.start);
            let block = &mut self.blocks[block];
            for (source, kept) in [(&scratch.streams, &block.streams), (&scratch.pre_ffn, &block.pre)] {
                let width = (kept.len() / MOST_ROWS * 4) as u64;
                let (from, to) = (from as u64 * width, place as u64 * width);
                encoder.copy_buffer_to_buffer(&source.buffer, from, &kept.buffer, to, n as u64 * width);
            }
            for (layer, rows) in memory.iter().filter(|(layer, _)| *layer > self.split) {
                let width = rows.len() / range.len();
                block.memory.entry(*layer).or_default().extend(&rows[from * width..(from + n) * width]);
            }
            row += n;
        }
        model.gpu.submit(encoder);
    }

    /// Runs the rows through the decoder, when the whole `prompt`, which began at position `begin`, has passed the encoder.
    pub(super) async fn run(
        self,
        model: &GpuModel,
        state: &mut GpuState,
        (prompt, begin): (&Prompt, usize),
        how: Prefill,
        (taps, trace): (&[&str], &mut Trace),
    ) -> Result<Output> {
        state.decoder_oldest = begin + self.first;
        // The decoder's rings have no rows of the tokens that it left out.
        state.rewind_from = state.position;
        let mut output = Output { logits: Vec::new(), first_row: begin + self.first };
        for (index, block) in self.blocks.into_iter().enumerate() {
            let from = self.first + index * MOST_ROWS;
            let range = from..(from + MOST_ROWS).min(prompt.len());
            let (n, end) = (range.len(), range.end);
            let memory: Vec<_> = block.memory.into_iter().collect();
            model.write_rows(state, prompt, range, begin + from, &memory)?;
            let scratch = state.made_scratch(capacity(n));
            let mut encoder = model.gpu.encoder();
            for (kept, used) in [(&block.streams, &scratch.streams), (&block.pre, &scratch.pre_ffn)] {
                let bytes = (kept.len() / MOST_ROWS * 4 * n) as u64;
                encoder.copy_buffer_to_buffer(&kept.buffer, 0, &used.buffer, 0, bytes);
            }
            model.gpu.submit(encoder);
            model.run(state, Part::Decoder, (begin + from, n), (taps, &mut *trace)).await?;
            if how.all_logits || end == prompt.len() {
                output.logits.extend(model.logits(state, n, if how.all_logits { n } else { 1 }).await?);
            }
        }
        Ok(output)
    }
}
