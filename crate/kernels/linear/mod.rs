//! Linear layers: one kernel per weight format, one place that records them.

pub mod linear_bf16;
pub mod linear_f32;
pub mod linear_fp4;
pub mod linear_fp8;

use super::include::round_flag;
use crate::Result;
use crate::gpu::{Gpu, Kernel, Planner, Tensor};
use crate::numerics::linear::{BLOCK, Matrix};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of the linear kernels.
    pub struct Linear {
        /// Rows of this piece of the matrix.
        pub rows: u32,
        /// Rows of the matrix before it.
        pub first: u32,
        /// Outputs: rows of the matrix.
        pub outputs: u32,
        /// Inputs of one output.
        pub cols: u32,
        /// Elements of a row of x.
        pub stride: u32,
        /// Outputs that read the same inputs.
        pub group: u32,
        /// Place in the model.
        pub place: u32,
    }
}

/// A weight in GPU memory, in its storage format. Columns are filled up to a multiple of 32 with zeros. What the device does not bind whole is
/// there in pieces of some rows each.
#[derive(Debug, Clone)]
pub struct GpuMatrix {
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    pieces: Vec<Piece>,
    kernel: &'static Kernel,
}

/// Some rows of a matrix.
#[derive(Debug, Clone)]
struct Piece {
    /// Rows before it.
    first: usize,
    rows: usize,
    /// Values, or codes and scales.
    tensors: Vec<Tensor>,
}

/// Bytes of a matrix: of a row of values or codes, of a row of scales, and how many rows share that.
struct Stored<'a> {
    kernel: &'static Kernel,
    cols: usize,
    values: (usize, &'a [u8]),
    scales: Option<(usize, &'a [u8])>,
    rows_per_scale: usize,
}

impl GpuMatrix {
    /// Copies a matrix as it is stored.
    ///
    /// # Errors
    /// [`crate::Error::DoesNotFit`] if not even 32 rows can be bound.
    pub fn new(gpu: &Gpu, label: &str, matrix: &Matrix) -> Result<Self> {
        let cols = matrix.cols();
        match matrix {
            Matrix::Fp8 { codes, scales, .. } if cols.is_multiple_of(BLOCK) => {
                let (values, scales) = ((cols, &codes[..]), Some((cols / BLOCK, &scales[..])));
                let stored = Stored { kernel: &linear_fp8::KERNEL, cols, values, scales, rows_per_scale: BLOCK };
                Self::copied(gpu, label, matrix.rows(), &stored)
            }
            Matrix::Fp4 { packed, scales, .. } => {
                let (values, scales) = ((cols / 2, &packed[..]), Some((cols / BLOCK, &scales[..])));
                let stored = Stored { kernel: &linear_fp4::KERNEL, cols, values, scales, rows_per_scale: 1 };
                Self::copied(gpu, label, matrix.rows(), &stored)
            }
            Matrix::Bf16 { data, .. } => {
                let (data, cols) = padded(data, cols);
                let values = (2 * cols, bytemuck::cast_slice(&data));
                let stored = Stored { kernel: &linear_bf16::KERNEL, cols, values, scales: None, rows_per_scale: 1 };
                Self::copied(gpu, label, matrix.rows(), &stored)
            }
            _ => {
                let (data, cols) = padded(&matrix.to_f32(), cols);
                let values = (4 * cols, bytemuck::cast_slice(&data));
                let stored = Stored { kernel: &linear_f32::KERNEL, cols, values, scales: None, rows_per_scale: 1 };
                Self::copied(gpu, label, matrix.rows(), &stored)
            }
        }
    }

    fn copied(gpu: &Gpu, label: &str, rows: usize, stored: &Stored<'_>) -> Result<Self> {
        let most = gpu.rows_of_piece(stored.values.0, BLOCK);
        let mut pieces = Vec::new();
        for first in (0..rows).step_by(most) {
            let end = (first + most).min(rows);
            let part = |(width, bytes): (usize, &[u8]), share: usize, label: &str| {
                let (from, to) = (first / share, end.div_ceil(share));
                Tensor::bytes(gpu, label, &[to - from, width], &bytes[from * width..to * width])
            };
            let mut tensors = vec![part(stored.values, 1, label)?];
            if let Some(scales) = stored.scales {
                tensors.push(part(scales, stored.rows_per_scale, &format!("{label} scales"))?);
            }
            pieces.push(Piece { first, rows: end - first, tensors });
        }
        Ok(GpuMatrix { rows, cols: stored.cols, pieces, kernel: stored.kernel })
    }

    /// Bytes in GPU memory.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(Piece::bytes).sum()
    }
}

impl Piece {
    fn bytes(&self) -> usize {
        self.tensors.iter().map(|tensor| tensor.buffer.size() as usize).sum()
    }
}

/// Rows filled up with zeros to a multiple of 32 columns.
fn padded<T: Copy + Default>(data: &[T], cols: usize) -> (Vec<T>, usize) {
    let wide = cols.next_multiple_of(BLOCK);
    if wide == cols {
        return (data.to_vec(), cols);
    }
    let mut out = vec![T::default(); data.len() / cols * wide];
    out.chunks_exact_mut(wide).zip(data.chunks_exact(cols)).for_each(|(out, row)| out[..cols].copy_from_slice(row));
    (out, wide)
}

/// Rows of x that share a decoded weight: all of a small call, of a large one as many as a thread can keep sums of. Each row is summed as it is
/// alone, whatever this is.
fn shared_by(capacity: usize) -> u32 {
    match capacity {
        1 => 1,
        2..=4 => 4,
        5..=8 => 8,
        _ => 16,
    }
}

/// Records `y = W x`: `x` `[n, stride]`, `y` `[n, rows]`. With `groups` above one the outputs fall into that many equal groups, each of which
/// reads its own `cols` of a row of x (the grouped output projection, section 7.3). `round` says whether the output is rounded to bf16.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    weight: &GpuMatrix,
    [x, y]: [&Tensor; 2],
    call: &Tensor,
    groups: usize,
    round: Precision,
) -> Result<()> {
    let capacity = y.len() / weight.rows;
    let (threads, tokens) = (planner.threads_per_output, shared_by(capacity));
    let fault = planner.fault()?;
    for piece in &weight.pieces {
        let p = Linear {
            rows: piece.rows as u32,
            first: piece.first as u32,
            outputs: weight.rows as u32,
            cols: weight.cols as u32,
            stride: (x.len() / capacity) as u32,
            group: (weight.rows / groups) as u32,
            place: planner.place,
        };
        let mut bound: Vec<&Tensor> = piece.tensors.iter().collect();
        bound.extend([x, y, &fault, call]);
        let workgroups = [(p.rows * threads).div_ceil(64), capacity.div_ceil(tokens as usize) as u32, 1];
        planner.reads(piece.bytes());
        planner.dispatch(weight.kernel, &[tokens, threads, round_flag(round)], &bound, &p, workgroups)?;
    }
    Ok(())
}
