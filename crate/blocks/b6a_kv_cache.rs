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

    /// Dequantises rows `first..` as `[len - first, width]`.
    pub fn read_from(&self, first: usize) -> Vec<f32> {
        let mut out = vec![0.0; (self.len() - first) * self.width];
        for (index, row) in out.chunks_exact_mut(self.width).enumerate() {
            self.read(first + index, row);
        }
        out
    }
}

/// The last `window` rows of one layer; position `p` lies in slot `p mod window`.
#[derive(Debug, Clone, PartialEq)]
pub struct Ring {
    plane: Plane,
    window: usize,
    start: usize,
    end: usize,
}

impl Ring {
    /// An empty ring of `window` slots.
    pub fn new(format: Format, width: usize, window: usize) -> Self {
        let mut plane = Plane::new(format, width);
        plane.resize(window);
        Ring { plane, window, start: 0, end: 0 }
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
    /// Compressed entries, key and value in one.
    pub entries: Plane,
    /// Index keys, one per entry.
    pub keys: Plane,
    /// The open group of a ratio-2 layer.
    pub partial: Partial,
}

/// Everything that a sequence carries from one call to the next (section 4.7).
#[derive(Debug, Clone, PartialEq)]
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
}

impl State {
    /// The state before the first token. `kv` decides between the released bytes and f32 rows.
    pub fn new(config: &Config, kv: Precision) -> Self {
        let pick = |format| if kv == Precision::F32 { Format::F32 } else { format };
        let ring = || Ring::new(pick(Format::Fp8), config.head_dim, config.window_size);
        let source = |layer: usize| {
            config.kv_source_layers.contains(&layer).then(|| SourceCache {
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
mod tests {
    use super::*;

    #[test]
    fn record_sizes() {
        assert_eq!(Plane::row_bytes(Format::Kv4, 512), (256, 32));
        assert_eq!(Plane::row_bytes(Format::Idx4, 128), (64, 4));
        assert_eq!(Plane::row_bytes(Format::Fp8, 512), (512, 16));
    }

    /// Every row of the table in section 8.2.
    #[test]
    fn bytes_by_context() {
        let config = Config::flash();
        #[rustfmt::skip]
        let table: [(u64, u64, u64); 8] = [
            (1_023, 736_128, 173_808), (4_096, 2_949_120, 696_320), (16_384, 11_796_480, 2_785_280),
            (65_536, 47_185_920, 11_141_120), (131_072, 94_371_840, 22_282_240), (262_144, 188_743_680, 44_564_480),
            (1_000_000, 720_000_000, 170_000_000), (1_048_576, 754_974_720, 178_257_920),
        ];
        for (tokens, kv, keys) in table {
            assert_eq!(kv_bytes(&config, tokens), (kv, keys), "{tokens} tokens");
        }
        assert_eq!(kv_bytes(&config, 1), (288, 68));
        assert_eq!(kv_bytes(&config, 2), (1_440, 340));
        assert_eq!(config.kv_bytes_per_token(), 890.0);
    }

    #[test]
    fn bytes_kept_besides() {
        let config = Config::flash();
        let state = State::new(&config, Precision::Released);
        assert_eq!(state.windows.iter().map(Ring::bytes).sum::<usize>(), 2_703_360);
        assert_eq!(state.ring_bytes(), 2_906_112);
        assert_eq!(State::partial_bytes(&config), 24_576);
    }

    /// A plane filled token by token holds what the formula says, for odd lengths too.
    #[test]
    fn planes_hold_what_the_formula_says() {
        let config = Config::flash();
        let mut state = State::new(&config, Precision::Released);
        for token in 1..=9u64 {
            for &layer in &config.kv_source_layers {
                if token.is_multiple_of(config.ratio(layer) as u64) {
                    let source = state.sources[layer].as_mut().unwrap();
                    source.entries.extend(&vec![token as f32; config.head_dim]);
                    source.keys.extend(&vec![token as f32; config.index_head_dim]);
                }
            }
            let (kv, keys) = kv_bytes(&config, token);
            assert_eq!(state.kv_bytes() as u64, kv + keys);
        }
    }

    #[test]
    fn ring_keeps_the_last_rows_and_forgets_across_gaps() {
        let mut ring = Ring::new(Format::F32, 1, 8);
        (0..14).for_each(|p| ring.write(p, &[p as f32]));
        assert_eq!(ring.positions(), 6..14);
        assert_eq!(ring.read(6..14), (6..14).map(|p| p as f32).collect::<Vec<_>>());
        assert_eq!(ring.slot(13), 5);
        ring.write(20, &[20.0]);
        assert_eq!(ring.positions(), 20..21);
        ring.write(21, &[21.0]);
        assert_eq!(ring.read(20..22), [20.0, 21.0]);
    }

    /// Storing codes and scales loses nothing against the dequantised values (section 8.4): writing what was read gives the same values.
    #[test]
    fn stored_rows_read_the_same_twice() {
        let row: Vec<f32> = (0..512).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.0625).collect();
        for format in [Format::Fp8, Format::Kv4, Format::Idx4] {
            let mut plane = Plane::new(format, 512);
            plane.extend(&row);
            let read = plane.read_from(0);
            assert!(read.iter().all(|&v| crate::numerics::bf16::round(v) == v), "{format:?} is not bf16");
            assert_ne!(read, row, "{format:?} should lose something");
        }
    }
}
