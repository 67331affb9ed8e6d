//! Looking into a call: the tapped tensors, copied on the way and read back in one piece.
//!
//! The hot path never comes here. A traced call encodes the same plan with copies between its steps, so what is seen is what was computed.

use super::{GpuModel, capacity};
use crate::blocks::tap::{Observer, Tap, Values};
use crate::config::Config;
use crate::error::Result;
use crate::gpu::{Element, Plan, Tensor, readback};

/// Bytes of copies that lie in GPU memory at a time.
const BATCH: u64 = 64 << 20;

/// What a call leaves to look at.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// In the order of the plan, chunk after chunk.
    pub tensors: Vec<Traced>,
    /// `(layer, ids)` of the n-gram rows `[rows, columns]`, chunk by chunk.
    pub engram_ids: Vec<(usize, Vec<i64>)>,
}

/// A tensor as it was after some step.
#[derive(Debug, Clone)]
pub struct Traced {
    /// Name of the tap.
    pub name: &'static str,
    /// Layer.
    pub layer: usize,
    /// Position of the chunk's first row.
    pub start: usize,
    /// Rows of the chunk.
    pub rows: usize,
    /// The buffer's first `rows` rows; integers as their bits.
    pub values: Vec<f32>,
}

impl Trace {
    /// Shows everything to an observer, with the shapes and types of the reference.
    pub fn replay(&self, config: &Config, observer: &mut dyn Observer) {
        let columns = config.engram_columns();
        for (layer, ids) in &self.engram_ids {
            if observer.wants(Tap::EngramRows, *layer) {
                observer.see(Tap::EngramRows, *layer, &[ids.len() / columns, columns], Values::I64(ids));
            }
        }
        // Later chunks see more entries. All rows of scores get the width of the last, so that they are one tensor.
        let end = self.tensors.iter().map(|traced| traced.start + traced.rows).max().unwrap_or(0);
        for traced in &self.tensors {
            if let Some(tap) = Tap::ALL.into_iter().find(|tap| tap.name() == traced.name) {
                traced.show(tap, config, end, observer);
            }
        }
    }
}

impl Traced {
    /// Some columns of every row.
    fn columns(&self, columns: std::ops::Range<usize>) -> Vec<f32> {
        let row = self.values.len() / self.rows;
        self.values.chunks_exact(row).flat_map(|row| &row[columns.clone()]).copied().collect()
    }

    fn show(&self, tap: Tap, config: &Config, end: usize, observer: &mut dyn Observer) {
        let (n, layer) = (self.rows, self.layer);
        if n == 0 || !observer.wants(tap, layer) {
            return;
        }
        let row = self.values.len() / n;
        let ratio = config.ratio(layer).max(1);
        let (lanes, heads) = (config.hc_mult, config.n_heads);
        let mut f32s = |shape: &[usize], values: &[f32]| observer.see(tap, layer, shape, Values::F32(values));
        match tap {
            // All streams are equal there.
            Tap::Embedding => {
                let rows: Vec<f32> =
                    self.values.chunks_exact(row).flat_map(|row| &row[..config.dim]).copied().collect();
                f32s(&[n, config.dim], &rows);
            }
            Tap::Streams => f32s(&[n, lanes, config.dim], &self.values),
            // Both lie in one tensor: post, then comb.
            Tap::AttnPost | Tap::FfnPost => f32s(&[n, lanes], &self.columns(0..lanes)),
            Tap::AttnComb | Tap::FfnComb => f32s(&[n, lanes, lanes], &self.columns(lanes..row)),
            // Index queries lie behind the others.
            Tap::Query => f32s(&[n, heads, config.head_dim], &self.columns(0..heads * config.head_dim)),
            Tap::Heads => f32s(&[n, heads, config.head_dim], &self.values),
            Tap::HeadsRotated => f32s(&[heads, config.head_dim], &self.values[(n - 1) * row..]),
            // Rows that completed no group left nothing.
            Tap::Latent => {
                let new = (self.start + n) / ratio - self.start / ratio;
                f32s(&[new, row], &self.values[..new * row]);
            }
            Tap::IndexScores => {
                let (entries, own) = (end / ratio, ((self.start + n) / ratio).min(row));
                let mut scores = vec![f32::NEG_INFINITY; n * entries];
                for (scores, row) in scores.chunks_exact_mut(entries.max(1)).zip(self.values.chunks_exact(row)) {
                    let visible = row[..own].iter().zip(scores).filter(|(score, _)| **score > -3.0e38);
                    visible.for_each(|(score, place)| *place = *score);
                }
                f32s(&[n, entries], &scores);
            }
            // A mark per block becomes a list.
            Tap::CandidateBlocks => {
                let most = config.candidate_topk_blocks;
                let mut blocks = vec![-1; n * most];
                for (marks, blocks) in self.values.chunks_exact(row).zip(blocks.chunks_exact_mut(most)) {
                    let kept = marks.iter().enumerate().filter(|(_, mark)| mark.to_bits() == 1);
                    kept.zip(blocks).for_each(|((block, _), place)| *place = block as i64);
                }
                observer.see(tap, layer, &[n, most], Values::I64(&blocks));
            }
            // The mark of "none" becomes -1.
            Tap::TopkIds | Tap::ExpertIds => {
                let ids: Vec<i64> = self.values.iter().map(|value| i64::from(value.to_bits() as i32)).collect();
                observer.see(tap, layer, &[n, row], Values::I64(&ids));
            }
            _ => f32s(&[n, row], &self.values),
        }
    }
}

impl GpuModel {
    /// Runs a plan for `n` rows from position `start` with copies of the named taps, a batch of copies per submit.
    pub(super) async fn run_traced(
        &self,
        plan: &Plan,
        (start, n): (usize, usize),
        taps: &[&str],
        trace: &mut Trace,
    ) -> Result<()> {
        let wanted: Vec<_> = plan.taps.iter().filter(|tap| taps.contains(&tap.name)).collect();
        // Of every tensor, bytes of the rows that the call uses.
        let bytes = |tensor: &Tensor| 4 * (tensor.len() / capacity(n) * n) as u64;
        let most = BATCH.min(self.gpu.limits.max_buffer_size).min(self.gpu.limits.max_storage_buffer_binding_size);
        let (mut done, mut next) = (0, 0);
        while next < wanted.len() {
            let (first, mut size) = (next, 0);
            while next < wanted.len() && (next == first || size + bytes(&wanted[next].tensor) <= most) {
                size += bytes(&wanted[next].tensor);
                next += 1;
            }
            let copies = Tensor::zeros(&self.gpu, "traced", Element::F32, &[size as usize / 4])?;
            let mut encoder = self.gpu.encoder();
            let mut at = 0;
            for tap in &wanted[first..next] {
                encoder = self.encode_steps(plan, done..tap.after, n, encoder).await?;
                done = tap.after;
                encoder.copy_buffer_to_buffer(&tap.tensor.buffer, 0, &copies.buffer, at, bytes(&tap.tensor));
                at += bytes(&tap.tensor);
            }
            self.gpu.submit(encoder);
            let values = readback::f32s(&self.gpu, &copies).await?;
            let mut rest = values.as_slice();
            for tap in &wanted[first..next] {
                let (values, after) = rest.split_at(bytes(&tap.tensor) as usize / 4);
                trace.tensors.push(Traced {
                    name: tap.name,
                    layer: tap.layer,
                    start,
                    rows: n,
                    values: values.to_vec(),
                });
                rest = after;
            }
        }
        let mut encoder = self.gpu.encoder();
        encoder = self.encode_steps(plan, done..plan.steps.len(), n, encoder).await?;
        self.gpu.submit(encoder);
        Ok(())
    }
}
