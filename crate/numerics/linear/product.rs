//! Products of a [`Matrix`] with one or many activation rows.
//!
//! # Order of summation
//!
//! Every output is a sum over blocks of 32 columns, in ascending order, of block sums. That is the order of the released FP8 and FP4 linears
//! (N.6): scales being powers of two, it does not matter that they are applied to the elements here and to the block sums there. Within a
//! block, with `p[k]` the product of column `k`:
//!
//! ```text
//! lane[l] = ((p[l] + p[l + 8]) + p[l + 16]) + p[l + 24]           l = 0..8
//! half[l] = lane[l] + lane[l + 4]                                 l = 0..4
//! sum     = (half[0] + half[2]) + (half[1] + half[3])
//! ```
//!
//! A last, shorter block counts as filled up with zeros. Neither the number of activation rows nor the number of threads changes a bit of any
//! output, although the two ways to compute them are different:
//!
//! | rows | vector lanes hold | why |
//! |---|---|---|
//! | one ([`Matrix::matvec`], [`dot`]) | columns | a row of weights is read once, from memory, as it lies there |
//! | more ([`Matrix::matmul`]) | activation rows | a decoded weight serves all of them, and nothing is ever added across lanes |
//!
//! Both are plain loops over arrays of fixed size, which the compiler turns into vector instructions: SSE2 on x86-64, NEON on 64-bit ARM, and
//! simd128 in the browser (a target feature, switched on in `.cargo/config.toml`).

use super::{BLOCK, Matrix};
use crate::numerics::parallel::for_each_chunk;

/// Weight rows per job, and per pass over the activations of a block.
const ROWS_PER_JOB: usize = 8;

/// Columns of one block for `T` activation rows: `[column][activation row]`, so that the rows lie in vector lanes.
type Panel<const T: usize> = [[f32; T]; BLOCK];

impl Matrix {
    /// `W x`: `x` has `cols` elements, the result `rows`.
    ///
    /// # Panics
    ///
    /// When `x` has another length.
    pub fn matvec(&self, x: &[f32]) -> Vec<f32> {
        assert_eq!(x.len(), self.cols(), "activations are [{}]", self.cols());
        let mut out = vec![0.0; self.rows()];
        for_each_chunk(&mut out, ROWS_PER_JOB, x.len(), |job, out| {
            for (row, out) in out.iter_mut().enumerate() {
                *out = self.row_times(job * ROWS_PER_JOB + row, x);
            }
        });
        out
    }

    /// `W x` for each of `n` activation rows: `x` is `[n, cols]`, the result `[n, rows]`. Every row of it has the bits [`Matrix::matvec`] gives.
    ///
    /// # Panics
    ///
    /// When `x` has another length than `n * cols`.
    pub fn matmul(&self, x: &[f32], n: usize) -> Vec<f32> {
        assert_eq!(x.len(), n * self.cols(), "activations are [{n}, {}]", self.cols());
        match n {
            0 => Vec::new(),
            1 => self.matvec(x),
            2..=4 => self.matmul_in_panels::<4>(x, n),
            // Sixteen rows at once are about a quarter quicker than eight, unless too many of the sixteen are empty.
            _ if 4 * n.next_multiple_of(16) > 5 * n.next_multiple_of(8) => self.matmul_in_panels::<8>(x, n),
            _ => self.matmul_in_panels::<16>(x, n),
        }
    }

    /// [`Matrix::matmul`] with `T` activation rows in the lanes of a panel; those of the last panel that are too many count as zeros.
    fn matmul_in_panels<const T: usize>(&self, x: &[f32], n: usize) -> Vec<f32> {
        let (rows, cols, panels) = (self.rows(), self.cols(), n.div_ceil(T));
        let x = panels_of::<T>(x, n, cols);
        // [rows, panels] first, so that jobs write to separate ranges.
        let mut by_row = vec![[0.0; T]; rows * panels];
        for_each_chunk(&mut by_row, ROWS_PER_JOB * panels, cols * T, |job, out| {
            self.multiply_rows(job * ROWS_PER_JOB, &x, panels, out);
        });
        let mut out = vec![0.0; n * rows];
        for (token, out) in out.chunks_exact_mut(rows.max(1)).enumerate() {
            let column = by_row.iter().skip(token / T).step_by(panels);
            out.iter_mut().zip(column).for_each(|(out, lanes)| *out = lanes[token % T]);
        }
        out
    }

    /// Adds the products of the weight rows from `first` on with all activations `[blocks, panels]` to `out` `[weight rows, panels]`.
    fn multiply_rows<const T: usize>(&self, first: usize, x: &[Panel<T>], panels: usize, out: &mut [[f32; T]]) {
        for (block, x) in x.chunks_exact(panels).enumerate() {
            for (row, out) in out.chunks_exact_mut(panels).enumerate() {
                self.for_each_block(first + row, block..block + 1, |_, weights| {
                    for (out, panel) in out.iter_mut().zip(x) {
                        *out = add(*out, block_sums(weights, panel));
                    }
                });
            }
        }
    }

    /// One output of [`Matrix::matvec`]: [`dot`] with weights that are decoded on the way.
    fn row_times(&self, row: usize, x: &[f32]) -> f32 {
        if let Matrix::F32 { data, cols, .. } = self {
            return dot(&data[row * cols..][..*cols], x);
        }
        let (blocks, rest) = x.as_chunks::<BLOCK>();
        let mut sum = 0.0;
        self.for_each_block(row, 0..blocks.len(), |block, weights| sum += block_sum(weights, &blocks[block]));
        if !rest.is_empty() {
            let rest = padded(rest);
            self.for_each_block(row, blocks.len()..blocks.len() + 1, |_, weights| sum += block_sum(weights, &rest));
        }
        sum
    }
}

/// The dot product that every linear layer of this crate uses, in the order of summation of this module's head.
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

/// The sum of one block for one activation row: columns `l`, `l + 8`, ... share vector lane `l`.
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

/// [`block_sum`] for the `T` activation rows of a panel at once: the same additions, each for all rows.
#[inline(always)]
fn block_sums<const T: usize>(weights: &[f32; BLOCK], x: &Panel<T>) -> [f32; T] {
    let half = |l: usize| add(lane_sums(weights, x, l), lane_sums(weights, x, l + 4));
    add(add(half(0), half(2)), add(half(1), half(3)))
}

/// Lane `l` of [`block_sum`] for the rows of a panel.
#[inline(always)]
fn lane_sums<const T: usize>(weights: &[f32; BLOCK], x: &Panel<T>, l: usize) -> [f32; T] {
    let mut sums = [0.0; T];
    for column in [l, l + 8, l + 16, l + 24] {
        for (sum, x) in sums.iter_mut().zip(&x[column]) {
            *sum += weights[column] * x;
        }
    }
    sums
}

#[inline(always)]
fn add<const T: usize>(a: [f32; T], b: [f32; T]) -> [f32; T] {
    let mut sums = a;
    sums.iter_mut().zip(&b).for_each(|(a, b)| *a += b);
    sums
}

fn padded(rest: &[f32]) -> [f32; BLOCK] {
    let mut block = [0.0; BLOCK];
    block[..rest.len()].copy_from_slice(rest);
    block
}

/// Activations `[n, cols]` as panels `[blocks, panels]`, zeros where there is no row or no column.
fn panels_of<const T: usize>(x: &[f32], n: usize, cols: usize) -> Vec<Panel<T>> {
    let panels = n.div_ceil(T);
    let mut out = vec![[[0.0; T]; BLOCK]; cols.div_ceil(BLOCK) * panels];
    for (index, panel) in out.iter_mut().enumerate() {
        let first = index / panels * BLOCK;
        let columns = first..cols.min(first + BLOCK);
        for (lane, x) in x.chunks_exact(cols).skip(index % panels * T).take(T).enumerate() {
            panel.iter_mut().zip(&x[columns.clone()]).for_each(|(column, &x)| column[lane] = x);
        }
    }
    out
}
