//! Weight matrices as the checkpoint stores them, and their products with activations (sections N.6, N.7 and R.3 of the specification).
//!
//! A [`Matrix`] is `[rows, cols]` = `[out, in]`, row-major, and stays in its storage format: a product decodes each weight once and uses it for
//! every activation row while it is in the cache. Decoded weights are exact in f32.
//!
//! # Order of summation
//!
//! One output is the sum over blocks of 32 columns, in ascending order, of block sums; see [`dot`]. That is the order of the released FP8 and
//! FP4 linears (N.6): scales being powers of two, it does not matter that they are applied to the elements here and to the block sums there.
//! Neither the number of activation rows nor the number of threads changes a bit of any output.

use super::{bf16, e2m1, e4m3, e8m0};
use crate::{Error, Result};
use rayon::prelude::*;

/// Columns per FP4 scale, side of an FP8 tile, and length of a block sum.
pub const BLOCK: usize = 32;

/// Weight rows decoded together. With several activation rows, each is fetched once per this many weight rows.
const ROWS_AT_ONCE: usize = 8;

/// Multiplications below which starting threads costs more than it saves.
const PARALLEL_FROM: usize = 1 << 16;

/// A `[rows, cols]` weight in one of the checkpoint's formats. The constructors check that all lengths fit.
#[derive(Debug, Clone, PartialEq)]
pub enum Matrix {
    /// f32 values.
    F32 {
        /// Outputs.
        rows: usize,
        /// Inputs.
        cols: usize,
        /// `[rows, cols]`.
        data: Vec<f32>,
    },
    /// bfloat16 bits.
    Bf16 {
        /// Outputs.
        rows: usize,
        /// Inputs.
        cols: usize,
        /// `[rows, cols]`.
        data: Vec<u16>,
    },
    /// E4M3 codes with one E8M0 scale per tile of 32 x 32.
    Fp8 {
        /// Outputs.
        rows: usize,
        /// Inputs.
        cols: usize,
        /// `[rows, cols]`.
        codes: Vec<u8>,
        /// `[ceil(rows / 32), ceil(cols / 32)]`.
        scales: Vec<u8>,
    },
    /// E2M1 codes, two per byte, low nibble first, with one E8M0 scale per 32 columns of a row.
    Fp4 {
        /// Outputs.
        rows: usize,
        /// Inputs, a multiple of 32.
        cols: usize,
        /// `[rows, cols / 2]`.
        packed: Vec<u8>,
        /// `[rows, cols / 32]`.
        scales: Vec<u8>,
    },
}

impl Matrix {
    /// A matrix of f32 values.
    ///
    /// # Errors
    ///
    /// [`Error::Tensor`] when `data` does not hold `rows * cols` values.
    pub fn f32(rows: usize, cols: usize, data: Vec<f32>) -> Result<Self> {
        check_length("f32 weight", "values", [rows, cols], data.len())?;
        Ok(Matrix::F32 { rows, cols, data })
    }

    /// A matrix of bfloat16 bits.
    ///
    /// # Errors
    ///
    /// [`Error::Tensor`] when `data` does not hold `rows * cols` values.
    pub fn bf16(rows: usize, cols: usize, data: Vec<u16>) -> Result<Self> {
        check_length("bf16 weight", "values", [rows, cols], data.len())?;
        Ok(Matrix::Bf16 { rows, cols, data })
    }

    /// A matrix of E4M3 codes `[rows, cols]` with scales `[ceil(rows / 32), ceil(cols / 32)]`.
    ///
    /// # Errors
    ///
    /// [`Error::Tensor`] when a length does not fit.
    pub fn fp8(rows: usize, cols: usize, codes: Vec<u8>, scales: Vec<u8>) -> Result<Self> {
        check_length("FP8 weight", "codes", [rows, cols], codes.len())?;
        check_length("FP8 weight", "scales", [rows.div_ceil(BLOCK), cols.div_ceil(BLOCK)], scales.len())?;
        Ok(Matrix::Fp8 { rows, cols, codes, scales })
    }

    /// A matrix of packed E2M1 codes `[rows, cols / 2]` with scales `[rows, cols / 32]`.
    ///
    /// # Errors
    ///
    /// [`Error::Tensor`] when a length does not fit or `cols` is not a multiple of 32.
    pub fn fp4(rows: usize, cols: usize, packed: Vec<u8>, scales: Vec<u8>) -> Result<Self> {
        if !cols.is_multiple_of(BLOCK) {
            return Err(Error::tensor("FP4 weight", format!("needs a multiple of {BLOCK} columns, found {cols}")));
        }
        check_length("FP4 weight", "bytes", [rows, cols / 2], packed.len())?;
        check_length("FP4 weight", "scales", [rows, cols / BLOCK], scales.len())?;
        Ok(Matrix::Fp4 { rows, cols, packed, scales })
    }

    /// Outputs.
    pub fn rows(&self) -> usize {
        match *self {
            Matrix::F32 { rows, .. } | Matrix::Bf16 { rows, .. } => rows,
            Matrix::Fp8 { rows, .. } | Matrix::Fp4 { rows, .. } => rows,
        }
    }

    /// Inputs.
    pub fn cols(&self) -> usize {
        match *self {
            Matrix::F32 { cols, .. } | Matrix::Bf16 { cols, .. } => cols,
            Matrix::Fp8 { cols, .. } | Matrix::Fp4 { cols, .. } => cols,
        }
    }

    /// Bytes as stored, codes and scales together.
    pub fn bytes(&self) -> usize {
        match self {
            Matrix::F32 { data, .. } => 4 * data.len(),
            Matrix::Bf16 { data, .. } => 2 * data.len(),
            Matrix::Fp8 { codes, scales, .. } => codes.len() + scales.len(),
            Matrix::Fp4 { packed, scales, .. } => packed.len() + scales.len(),
        }
    }

    /// The weights of one row, exact, into `out` of `cols` elements.
    ///
    /// # Panics
    ///
    /// When there is no such row or `out` has another length.
    pub fn decode_row(&self, row: usize, out: &mut [f32]) {
        let cols = self.cols();
        assert!(row < self.rows() && out.len() == cols, "row {row} of {}, {cols} columns", self.rows());
        match self {
            Matrix::F32 { data, .. } => out.copy_from_slice(&data[row * cols..][..cols]),
            Matrix::Bf16 { data, .. } => {
                for (value, &bits) in out.iter_mut().zip(&data[row * cols..][..cols]) {
                    *value = bf16::decode(bits);
                }
            }
            Matrix::Fp8 { codes, scales, .. } => {
                let tiles = cols.div_ceil(BLOCK);
                decode_fp8(&codes[row * cols..][..cols], &scales[row / BLOCK * tiles..][..tiles], out);
            }
            Matrix::Fp4 { packed, scales, .. } => {
                let blocks = cols / BLOCK;
                decode_fp4(&packed[row * cols / 2..][..cols / 2], &scales[row * blocks..][..blocks], out);
            }
        }
    }

    /// The matrix cut into `parts` of equally many rows each, as views of their own.
    ///
    /// # Errors
    ///
    /// [`Error::Tensor`] when the rows do not divide, or a part would cut an FP8 tile.
    pub fn split_rows(self, parts: usize) -> Result<Vec<Self>> {
        let (rows, cols) = (self.rows(), self.cols());
        let part = rows / parts.max(1);
        if part * parts != rows || part == 0 || (matches!(self, Matrix::Fp8 { .. }) && !part.is_multiple_of(BLOCK)) {
            let problem = format!("[{rows}, {cols}] cannot be cut into {parts} parts of whole rows and tiles");
            return Err(Error::tensor("grouped weight", problem));
        }
        fn cut<T: Clone>(data: Vec<T>, parts: usize) -> impl Iterator<Item = Vec<T>> {
            let len = data.len() / parts;
            (0..parts).map(move |index| data[index * len..][..len].to_vec())
        }
        Ok(match self {
            Matrix::F32 { data, .. } => cut(data, parts).map(|data| Matrix::F32 { rows: part, cols, data }).collect(),
            Matrix::Bf16 { data, .. } => cut(data, parts).map(|data| Matrix::Bf16 { rows: part, cols, data }).collect(),
            Matrix::Fp8 { codes, scales, .. } => (cut(codes, parts).zip(cut(scales, parts)))
                .map(|(codes, scales)| Matrix::Fp8 { rows: part, cols, codes, scales })
                .collect(),
            Matrix::Fp4 { packed, scales, .. } => (cut(packed, parts).zip(cut(scales, parts)))
                .map(|(packed, scales)| Matrix::Fp4 { rows: part, cols, packed, scales })
                .collect(),
        })
    }

    /// The parts of [`Matrix::split_rows`] as one matrix again.
    ///
    /// # Errors
    ///
    /// [`Error::Tensor`] when there is no part, or they differ in format or columns.
    pub fn join_rows(parts: &[Self]) -> Result<Self> {
        let mut parts = parts.iter();
        let wrong = || Error::tensor("grouped weight", "needs parts of one format and width");
        let mut whole = parts.next().ok_or_else(wrong)?.clone();
        for part in parts {
            if part.cols() != whole.cols() {
                return Err(wrong());
            }
            match (&mut whole, part) {
                (Matrix::F32 { rows, data, .. }, Matrix::F32 { rows: more, data: tail, .. }) => {
                    *rows += more;
                    data.extend(tail);
                }
                (Matrix::Bf16 { rows, data, .. }, Matrix::Bf16 { rows: more, data: tail, .. }) => {
                    *rows += more;
                    data.extend(tail);
                }
                (Matrix::Fp8 { rows, codes, scales, .. }, Matrix::Fp8 { rows: more, codes: c, scales: s, .. })
                | (
                    Matrix::Fp4 { rows, packed: codes, scales, .. },
                    Matrix::Fp4 { rows: more, packed: c, scales: s, .. },
                ) => {
                    *rows += more;
                    codes.extend(c);
                    scales.extend(s);
                }
                _ => return Err(wrong()),
            }
        }
        Ok(whole)
    }

    /// All weights, `[rows, cols]`.
    pub fn to_f32(&self) -> Vec<f32> {
        let mut out = vec![0.0; self.rows() * self.cols()];
        for (row, out) in out.chunks_exact_mut(self.cols().max(1)).enumerate() {
            self.decode_row(row, out);
        }
        out
    }

    /// `W x`: `x` has `cols` elements, the result `rows`.
    ///
    /// # Panics
    ///
    /// When `x` has another length.
    pub fn matvec(&self, x: &[f32]) -> Vec<f32> {
        self.matmul(x, 1)
    }

    /// `W x` for each of `n` activation rows: `x` is `[n, cols]`, the result `[n, rows]`. Every row of it has the bits [`Matrix::matvec`] gives.
    ///
    /// # Panics
    ///
    /// When `x` has another length than `n * cols`.
    pub fn matmul(&self, x: &[f32], n: usize) -> Vec<f32> {
        let (rows, cols) = (self.rows(), self.cols());
        assert_eq!(x.len(), n * cols, "activations are [{n}, {cols}]");
        if rows * n == 0 {
            return Vec::new();
        }
        // [rows, n] first, so that threads write to separate ranges.
        let mut by_row = vec![0.0; rows * n];
        let chunk = ROWS_AT_ONCE * n;
        if rows * cols * n < PARALLEL_FROM {
            let mut buffer = Vec::new();
            for (i, out) in by_row.chunks_mut(chunk).enumerate() {
                self.multiply_rows(i * ROWS_AT_ONCE, x, n, &mut buffer, out);
            }
        } else {
            by_row.par_chunks_mut(chunk).enumerate().for_each_init(Vec::new, |buffer, (i, out)| {
                self.multiply_rows(i * ROWS_AT_ONCE, x, n, buffer, out);
            });
        }
        if n == 1 { by_row } else { transpose(&by_row, n) }
    }

    /// Products of the weight rows from `first` on with all activation rows, into `out` = `[weight rows, n]`.
    fn multiply_rows(&self, first: usize, x: &[f32], n: usize, buffer: &mut Vec<f32>, out: &mut [f32]) {
        let cols = self.cols();
        let weights = self.decoded_rows(first, out.len() / n, buffer);
        for token in 0..n {
            let x = &x[token * cols..][..cols];
            for (row, out) in out.chunks_exact_mut(n).enumerate() {
                out[token] = dot(&weights[row * cols..][..cols], x);
            }
        }
    }

    /// Weights of `count` rows from `first` on: the stored ones where they are f32, decoded into `buffer` otherwise.
    fn decoded_rows<'a>(&'a self, first: usize, count: usize, buffer: &'a mut Vec<f32>) -> &'a [f32] {
        let cols = self.cols();
        if let Matrix::F32 { data, .. } = self {
            return &data[first * cols..][..count * cols];
        }
        buffer.resize(count * cols, 0.0);
        for (i, out) in buffer.chunks_exact_mut(cols.max(1)).enumerate() {
            self.decode_row(first + i, out);
        }
        buffer
    }
}

/// The dot product that every linear layer of this crate uses.
///
/// Columns are taken in blocks of 32. Within a block, lane `l` of 8 sums the products of columns `l`, `l + 8`, `l + 16`, `l + 24`; the lanes are
/// then added in halves (`l` and `l + 4`, `l` and `l + 2`, 0 and 1). Block sums are added in ascending order. A last, shorter block counts as
/// filled up with zeros.
///
/// # Panics
///
/// When the lengths differ.
pub fn dot(weights: &[f32], x: &[f32]) -> f32 {
    assert_eq!(weights.len(), x.len(), "one weight per activation");
    let (weight_blocks, weight_rest) = weights.as_chunks::<BLOCK>();
    let (x_blocks, x_rest) = x.as_chunks::<BLOCK>();
    let mut sum = 0.0;
    for (weights, x) in weight_blocks.iter().zip(x_blocks) {
        sum += block_sum(weights, x);
    }
    if !x_rest.is_empty() {
        sum += block_sum(&padded(weight_rest), &padded(x_rest));
    }
    sum
}

#[inline(always)]
fn block_sum(weights: &[f32; BLOCK], x: &[f32; BLOCK]) -> f32 {
    let mut lanes = [0.0; 8];
    for (weights, x) in weights.as_chunks::<8>().0.iter().zip(x.as_chunks::<8>().0) {
        for lane in 0..8 {
            lanes[lane] += weights[lane] * x[lane];
        }
    }
    let [a, b, c, d] = [0, 1, 2, 3].map(|lane| lanes[lane] + lanes[lane + 4]);
    (a + c) + (b + d)
}

fn padded(rest: &[f32]) -> [f32; BLOCK] {
    let mut block = [0.0; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    block
}

fn decode_fp8(codes: &[u8], scales: &[u8], out: &mut [f32]) {
    for ((codes, out), &scale) in codes.chunks(BLOCK).zip(out.chunks_mut(BLOCK)).zip(scales) {
        let scale = e8m0::decode(scale);
        for (value, &code) in out.iter_mut().zip(codes) {
            *value = e4m3::decode(code) * scale;
        }
    }
}

fn decode_fp4(packed: &[u8], scales: &[u8], out: &mut [f32]) {
    for ((packed, out), &scale) in packed.chunks_exact(BLOCK / 2).zip(out.chunks_exact_mut(BLOCK)).zip(scales) {
        let scale = e8m0::decode(scale);
        for (pair, &byte) in out.as_chunks_mut::<2>().0.iter_mut().zip(packed) {
            *pair = e2m1::PAIRS[byte as usize].map(|value| value * scale);
        }
    }
}

/// `[rows, n]` to `[n, rows]`.
fn transpose(by_row: &[f32], n: usize) -> Vec<f32> {
    (0..n).flat_map(|token| by_row.iter().skip(token).step_by(n).copied()).collect()
}

fn check_length(weight: &str, what: &str, shape: [usize; 2], found: usize) -> Result<()> {
    match shape[0].checked_mul(shape[1]) {
        Some(needed) if needed == found => Ok(()),
        _ => Err(Error::tensor(weight, format!("needs {} x {} {what}, found {found}", shape[0], shape[1]))),
    }
}

#[cfg(test)]
mod tests;
