//! # 6A: the KV cache, 890 bytes per token
//!
//! What a sequence keeps, in the bytes in which it is kept (section 8.1 of the specification; released geometry in brackets):
//!
//! ```text
//! compressed entry  head_dim E2M1, two per byte [256] + one E4M3 scale per 16 [32]           288 bytes
//! index key         index_head_dim E2M1 [64] + one E8M0 scale per 32 [4]                       68 bytes
//! window row        head_dim E4M3 [512] + one E8M0 scale per 32 [16]                          528 bytes, 128 rows per layer
//! ```
//!
//! Layers 2, 8 and 14 write half an entry per token, layer 20 a whole one: 2.5 * (288 + 68) = 890 bytes per token. Codes and scales lie in
//! separate planes, as the shaders read them. What is quantised here is what every reader sees: nothing keeps a finer copy.

use super::b3b_compressor::Partial;
use super::rollback::{Displaced, Undo};
use crate::config::Config;
use crate::numerics::precision::Precision;
use crate::numerics::quant;

/// How the rows of a plane are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// f32, unquantised.
    F32,
    /// One E4M3 code per element, one E8M0 scale per 32: window rows.
    Fp8,
    /// Two E2M1 codes per byte, one E4M3 scale per 16: compressed entries.
    Kv4,
    /// Two E2M1 codes per byte, one E8M0 scale per 32: index keys.
    Idx4,
}

/// Rows of one width in one format, codes and scales apart.
#[derive(Debug, Clone, PartialEq)]
pub struct Plane {
    /// Storage format.
    pub format: Format,
    /// Elements per row.
    pub width: usize,
    /// Codes, `len * code_bytes`.
    pub codes: Vec<u8>,
    /// Scales, `len * scale_bytes`.
    pub scales: Vec<u8>,
    /// Rows of [`Format::F32`]; empty otherwise.
    pub values: Vec<f32>,
}

impl Plane {
    /// An empty plane.
    pub fn new(format: Format, width: usize) -> Self {
        Plane { format, width, codes: Vec::new(), scales: Vec::new(), values: Vec::new() }
    }

    /// Bytes of one row: codes and scales.
    pub fn row_bytes(format: Format, width: usize) -> (usize, usize) {
        match format {
            Format::F32 => (4 * width, 0),
            Format::Fp8 => (width, width / quant::FP8_GROUP),
            Format::Kv4 => (width / 2, width / quant::KV4_GROUP),
            Format::Idx4 => (width / 2, width / quant::IDX4_GROUP),
        }
    }

    /// Rows stored.
    pub fn len(&self) -> usize {
        match self.format {
            Format::F32 => self.values.len() / self.width,
            _ => self.codes.len() / Self::row_bytes(self.format, self.width).0,
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the rows occupy.
    pub fn bytes(&self) -> usize {
        self.codes.len() + self.scales.len() + 4 * self.values.len()
    }

    /// Makes room for `len` rows, new ones zero, or drops rows beyond `len`.
    pub fn resize(&mut self, len: usize) {
        if self.format == Format::F32 {
            self.values.resize(len * self.width, 0.0);
        } else {
            let (codes, scales) = Self::row_bytes(self.format, self.width);
            self.codes.resize(len * codes, 0);
            self.scales.resize(len * scales, 0);
        }
    }

    /// Quantises a row of `width` elements into place `index`, which must exist.
    pub fn write(&mut self, index: usize, row: &[f32]) {
        if self.format == Format::F32 {
            self.values[index * self.width..][..self.width].copy_from_slice(row);
            return;
        }
        let (codes, scales) = Self::row_bytes(self.format, self.width);
        let codes = &mut self.codes[index * codes..][..codes];
        let scales = &mut self.scales[index * scales..][..scales];
        match self.format {
            Format::Fp8 => quant::quantise_fp8(row, codes, scales),
            Format::Kv4 => quant::quantise_kv4(row, codes, scales),
            _ => quant::quantise_idx4(row, codes, scales),
        }
    }

    /// Appends rows `[n, width]`.
    pub fn extend(&mut self, rows: &[f32]) {
        let first = self.len();
        self.resize(first + rows.len() / self.width);
        for (index, row) in rows.chunks_exact(self.width).enumerate() {
            self.write(first + index, row);
        }
    }

    /// Dequantises row `index` into `out` `[width]`.
    pub fn read(&self, index: usize, out: &mut [f32]) {
        if self.format == Format::F32 {
            out.copy_from_slice(&self.values[index * self.width..][..self.width]);
            return;
        }
        let (codes, scales) = Self::row_bytes(self.format, self.width);
        let codes = &self.codes[index * codes..][..codes];
        let scales = &self.scales[index * scales..][..scales];
        match self.format {
            Format::Fp8 => quant::dequantise_fp8(codes, scales, out),
            Format::Kv4 => quant::dequantise_kv4(codes, scales, out),
            _ => quant::dequantise_idx4(codes, scales, out),
        }
    }

    /// Copies row `from` of `other`, which has the same format and width, into place `index` as it is stored.
    pub fn copy_row(&mut self, index: usize, other: &Plane, from: usize) {
        if self.format == Format::F32 {
            let width = self.width;
            self.values[index * width..][..width].copy_from_slice(&other.values[from * width..][..width]);
            return;
        }
        let (codes, scales) = Self::row_bytes(self.format, self.width);
        self.codes[index * codes..][..codes].copy_from_slice(&other.codes[from * codes..][..codes]);
        self.scales[index * scales..][..scales].copy_from_slice(&other.scales[from * scales..][..scales]);
    }

    /// Row `index` alone, as it is stored.
    pub fn row(&self, index: usize) -> Plane {
        let mut row = Plane::new(self.format, self.width);
        row.resize(1);
        row.copy_row(0, self, index);
        row
    }

    /// Dequantises rows `first..` as `[len - first, width]`.
    pub fn read_from(&self, first: usize) -> Vec<f32> {
        let mut out = vec![0.0; (self.len() - first) * self.width];
        for (index, row) in out.chunks_exact_mut(self.width).enumerate() {
            self.read(first + index, row);
        }
        out
    }
}

/// The last `window` rows of one layer; position `p` lies in slot `p mod window`. Two rings are equal if they hold the same rows of the same
/// positions in the same bytes, whatever lies in slots that nothing sees.
#[derive(Debug, Clone)]
pub struct Ring {
    pub(super) plane: Plane,
    window: usize,
    pub(super) start: usize,
    pub(super) end: usize,
    /// What writing has displaced since a speculation began.
    pub(super) displaced: Option<Vec<Displaced>>,
}

impl PartialEq for Ring {
    fn eq(&self, other: &Self) -> bool {
        self.window == other.window
            && self.positions() == other.positions()
            && self.positions().all(|p| self.plane.row(self.slot(p)) == other.plane.row(other.slot(p)))
    }
}

impl Ring {
    /// An empty ring of `window` slots.
    pub fn new(format: Format, width: usize, window: usize) -> Self {
        let mut plane = Plane::new(format, width);
        plane.resize(window);
        Ring { plane, window, start: 0, end: 0, displaced: None }
    }

    /// A ring that holds the rows of `positions`, at most `window` of them, from another ring's rows: position `p` lies in row `p mod len` of
    /// `rows`, which has at least as many.
    pub fn from_rows(rows: &Plane, window: usize, positions: std::ops::Range<usize>) -> Self {
        let mut ring = Ring::new(rows.format, rows.width, window);
        for position in positions.clone() {
            ring.plane.copy_row(position % window, rows, position % rows.len());
        }
        (ring.start, ring.end) = (positions.start, positions.end);
        ring
    }

    /// The rows as another ring of `slots` rows, at least as many, holds them; what holds no row is zero.
    pub fn to_rows(&self, slots: usize) -> Plane {
        let mut rows = Plane::new(self.plane.format, self.plane.width);
        rows.resize(slots);
        self.positions().for_each(|p| rows.copy_row(p % slots, &self.plane, self.slot(p)));
        rows
    }

    /// The rows of [`Self::positions`], oldest first.
    pub fn in_order(&self) -> Plane {
        let mut rows = Plane::new(self.plane.format, self.plane.width);
        rows.resize(self.positions().len());
        self.positions().enumerate().for_each(|(index, p)| rows.copy_row(index, &self.plane, self.slot(p)));
        rows
    }

    /// A ring of these rows, at most `window`, the first of which has position `first`.
    pub fn from_order(rows: &Plane, window: usize, first: usize) -> Self {
        let mut ring = Ring::new(rows.format, rows.width, window);
        (ring.start, ring.end) = (first, first + rows.len());
        (0..rows.len()).for_each(|index| ring.plane.copy_row((first + index) % window, rows, index));
        ring
    }

    /// Storage format and elements per row.
    pub fn shape(&self) -> (Format, usize) {
        (self.plane.format, self.plane.width)
    }

    /// Positions that hold a row, oldest first: at most `window`, ending with the newest.
    pub fn positions(&self) -> std::ops::Range<usize> {
        self.start..self.end
    }

    /// Slot of a position.
    pub fn slot(&self, position: usize) -> usize {
        position % self.window
    }

    /// Writes the row of `position`. Positions come in order; after a gap everything older counts as absent, so that no row of an earlier
    /// run can leak in (section 4.5a, step 5).
    pub fn write(&mut self, position: usize, row: &[f32]) {
        if let Some(displaced) = &mut self.displaced {
            let row = self.plane.row(position % self.window);
            displaced.push(Displaced { positions: self.start..self.end, row });
        }
        if position != self.end {
            self.start = position;
        }
        self.end = position + 1;
        // Kept exact, so that equal rings compare equal however their rows came in.
        self.start = self.start.max(self.end.saturating_sub(self.window));
        self.plane.write(position % self.window, row);
    }

    /// Dequantises the rows of `positions`, which must hold rows, as `[positions, width]`.
    pub fn read(&self, positions: std::ops::Range<usize>) -> Vec<f32> {
        let mut out = vec![0.0; positions.len() * self.plane.width];
        for (row, position) in out.chunks_exact_mut(self.plane.width).zip(positions) {
            self.plane.read(position % self.window, row);
        }
        out
    }

    /// Bytes of all slots.
    pub fn bytes(&self) -> usize {
        self.plane.bytes()
    }
}

/// Global KV of one source layer.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceCache {
    /// Tokens per entry, at least 1.
    pub ratio: usize,
    /// Compressed entries, key and value in one.
    pub entries: Plane,
    /// Index keys, one per entry.
    pub keys: Plane,
    /// The open group of a ratio-2 layer.
    pub partial: Partial,
}

/// Everything that a sequence carries from one call to the next (section 4.7). A speculation that is open is no part of what it equals.
#[derive(Debug, Clone)]
pub struct State {
    /// Tokens fed so far; the next token has this position.
    pub position: usize,
    /// Window ring of each backbone layer.
    pub windows: Vec<Ring>,
    /// Global KV by layer; `None` where a layer is no source.
    pub sources: Vec<Option<SourceCache>>,
    /// Compressed ids of the last `max n-gram - 1` positions, oldest first; `None` inside an image.
    pub engram_history: Vec<Option<u32>>,
    /// Window ring of each DSpark stage.
    pub draft_windows: Vec<Ring>,
    /// What it takes to go back; see [`State::begin`].
    pub(super) undo: Option<Undo>,
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.position == other.position
            && self.windows == other.windows
            && self.sources == other.sources
            && self.engram_history == other.engram_history
            && self.draft_windows == other.draft_windows
    }
}

impl State {
    /// The state before the first token. `kv` decides between the released bytes and f32 rows.
    pub fn new(config: &Config, kv: Precision) -> Self {
        let pick = |format| if kv == Precision::F32 { Format::F32 } else { format };
        let ring = || Ring::new(pick(Format::Fp8), config.head_dim, config.window_size);
        let source = |layer: usize| {
            config.kv_source_layers.contains(&layer).then(|| SourceCache {
                ratio: config.ratio(layer).max(1),
                entries: Plane::new(pick(Format::Kv4), config.head_dim),
                keys: Plane::new(pick(Format::Idx4), config.index_head_dim),
                partial: Partial::default(),
            })
        };
        State {
            position: 0,
            windows: (0..config.n_layers).map(|_| ring()).collect(),
            sources: (0..config.n_layers).map(source).collect(),
            engram_history: Vec::new(),
            draft_windows: (0..config.n_mtp_layers).map(|_| ring()).collect(),
            undo: None,
        }
    }

    /// Bytes of global KV: entries and index keys of all source layers, counted from what the planes hold. 890 per token of a long sequence
    /// with the released geometry.
    pub fn kv_bytes(&self) -> usize {
        self.sources.iter().flatten().map(|source| source.entries.bytes() + source.keys.bytes()).sum()
    }

    /// Bytes of the window rings, DSpark's included.
    pub fn ring_bytes(&self) -> usize {
        self.windows.iter().chain(&self.draft_windows).map(Ring::bytes).sum()
    }

    /// Bytes that are set aside for open groups: `(a, g)` of two tokens in f32 per ratio-2 source.
    pub fn partial_bytes(config: &Config) -> usize {
        let pooled = config.kv_source_layers.iter().filter(|&&layer| config.ratio(layer) == 2).count();
        pooled * 2 * 2 * config.head_dim * 4
    }
}

/// Global KV bytes of a sequence of `tokens` tokens, from the config alone (section 8.2): entries and keys apart.
pub fn kv_bytes(config: &Config, tokens: u64) -> (u64, u64) {
    let row = |format, width| {
        let (codes, scales) = Plane::row_bytes(format, width);
        (codes + scales) as u64
    };
    let entries: u64 = config.kv_source_layers.iter().map(|&layer| tokens / config.ratio(layer).max(1) as u64).sum();
    (entries * row(Format::Kv4, config.head_dim), entries * row(Format::Idx4, config.index_head_dim))
}

#[cfg(test)]
#[path = "b6a_kv_cache_tests.rs"]
mod tests;
