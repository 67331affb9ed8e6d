//! Weight matrices as the checkpoint stores them, and their products with activations (sections N.6, N.7 and R.3 of the specification).
//!
//! A [`Matrix`] is `[rows, cols]` = `[out, in]`, row-major, and stays in its storage format: a product decodes one block of 32 weights at a
//! time and uses it for every activation row at once. Decoded weights are exact in f32.
//!
//! The products and their order of summation are in `product`: [`Matrix::matvec`], [`Matrix::matmul`] and [`dot`].

mod product;

pub use product::dot;

use super::{bf16, e2m1, e4m3, e8m0};
use crate::{Error, Result};
use std::ops::Range;

/// Columns per FP4 scale, side of an FP8 tile, and length of a block sum.
pub const BLOCK: usize = 32;

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
        self.for_each_block(row, 0..cols.div_ceil(BLOCK), |block, weights| {
            let out = &mut out[block * BLOCK..cols.min((block + 1) * BLOCK)];
            out.copy_from_slice(&weights[..out.len()]);
        });
    }

    /// Decodes blocks of 32 columns of one row in turn; `visit` gets the number of each and its exact weights, zeros beyond the last column.
    #[inline(always)]
    fn for_each_block(&self, row: usize, blocks: Range<usize>, mut visit: impl FnMut(usize, &[f32; BLOCK])) {
        let cols = self.cols();
        let columns = |block: usize| row * cols + block * BLOCK..row * cols + cols.min((block + 1) * BLOCK);
        // One loop per format, so that the format is not asked for again at every block.
        match self {
            Matrix::F32 { data, .. } => blocks.for_each(|block| visit(block, &decoded(&data[columns(block)], |v| v))),
            Matrix::Bf16 { data, .. } => {
                blocks.for_each(|block| visit(block, &decoded(&data[columns(block)], bf16::decode)));
            }
            Matrix::Fp8 { codes, scales, .. } => {
                let scales = &scales[row / BLOCK * cols.div_ceil(BLOCK)..];
                blocks.for_each(|block| {
                    let scale = e8m0::decode(scales[block]);
                    visit(block, &decoded(&codes[columns(block)], |code| e4m3::decode(code) * scale));
                });
            }
            Matrix::Fp4 { packed, scales, .. } => {
                let (packed, scales) = (&packed[row * (cols / 2)..], &scales[row * (cols / BLOCK)..]);
                blocks.for_each(|block| {
                    let packed = &packed[block * BLOCK / 2..][..BLOCK / 2];
                    visit(block, &decoded_fp4(packed, e8m0::decode(scales[block])));
                });
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
}

/// Up to 32 stored numbers, decoded; the rest are zeros.
#[inline(always)]
fn decoded<T: Copy>(stored: &[T], decode: impl Fn(T) -> f32) -> [f32; BLOCK] {
    let mut out = [0.0; BLOCK];
    if let Some(stored) = stored.as_array::<BLOCK>() {
        // The same loop, with a length that the compiler knows and can unroll.
        out.iter_mut().zip(stored).for_each(|(out, &stored)| *out = decode(stored));
    } else {
        out.iter_mut().zip(stored).for_each(|(out, &stored)| *out = decode(stored));
    }
    out
}

/// A block of 16 bytes with two E2M1 codes each.
#[inline(always)]
fn decoded_fp4(packed: &[u8], scale: f32) -> [f32; BLOCK] {
    let mut out = [0.0; BLOCK];
    for (pair, &byte) in out.as_chunks_mut::<2>().0.iter_mut().zip(packed) {
        *pair = e2m1::PAIRS[byte as usize].map(|value| value * scale);
    }
    out
}

fn check_length(weight: &str, what: &str, shape: [usize; 2], found: usize) -> Result<()> {
    match shape[0].checked_mul(shape[1]) {
        Some(needed) if needed == found => Ok(()),
        _ => Err(Error::tensor(weight, format!("needs {} x {} {what}, found {found}", shape[0], shape[1]))),
    }
}

#[cfg(test)]
mod tests;
