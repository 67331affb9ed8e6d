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
        /// Outputs.
        pub rows: u32,
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

/// A weight in GPU memory, in its storage format. Columns are filled up to a multiple of 32 with zeros.
#[derive(Debug, Clone)]
pub struct GpuMatrix {
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    tensors: Vec<Tensor>,
    kernel: &'static Kernel,
}

impl GpuMatrix {
    /// Copies a matrix as it is stored.
    ///
    /// # Errors
    /// [`crate::Error::DoesNotFit`] if it passes what the device binds.
    pub fn new(gpu: &Gpu, label: &str, matrix: &Matrix) -> Result<Self> {
        let (rows, cols) = (matrix.rows(), matrix.cols());
        let (tensors, kernel, cols) = match matrix {
            Matrix::Fp8 { codes, scales, .. } if cols.is_multiple_of(BLOCK) => {
                let scale_shape = [rows.div_ceil(BLOCK), cols / BLOCK];
                (coded(gpu, label, ([rows, cols], codes), (scale_shape, scales))?, &linear_fp8::KERNEL, cols)
            }
            Matrix::Fp4 { packed, scales, .. } => {
                let (code_shape, scale_shape) = ([rows, cols / 2], [rows, cols / BLOCK]);
                (coded(gpu, label, (code_shape, packed), (scale_shape, scales))?, &linear_fp4::KERNEL, cols)
            }
            Matrix::Bf16 { data, .. } => {
                let (data, cols) = padded(data, cols);
                let tensor = Tensor::bytes(gpu, label, &[rows, 2 * cols], bytemuck::cast_slice(&data))?;
                (vec![tensor], &linear_bf16::KERNEL, cols)
            }
            _ => {
                let (data, cols) = padded(&matrix.to_f32(), cols);
                (vec![Tensor::f32(gpu, label, &[rows, cols], &data)?], &linear_f32::KERNEL, cols)
            }
        };
        Ok(GpuMatrix { rows, cols, tensors, kernel })
    }

    /// Whether its activations are quantised in released numerics.
    pub fn is_quantised(&self) -> bool {
        self.tensors.len() == 2
    }

    /// Bytes in GPU memory.
    pub fn bytes(&self) -> usize {
        self.tensors.iter().map(|tensor| tensor.buffer.size() as usize).sum()
    }
}

fn coded(gpu: &Gpu, label: &str, codes: ([usize; 2], &[u8]), scales: ([usize; 2], &[u8])) -> Result<Vec<Tensor>> {
    let scale_label = format!("{label} scales");
    Ok(vec![Tensor::bytes(gpu, label, &codes.0, codes.1)?, Tensor::bytes(gpu, &scale_label, &scales.0, scales.1)?])
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
    let p = Linear {
        rows: weight.rows as u32,
        cols: weight.cols as u32,
        stride: (x.len() / capacity) as u32,
        group: (weight.rows / groups) as u32,
        place: planner.place,
    };
    let threads = planner.threads_per_output;
    let mut bound: Vec<&Tensor> = weight.tensors.iter().collect();
    let fault = planner.fault()?;
    bound.extend([x, y, &fault, call]);
    let tokens = shared_by(capacity);
    let workgroups = [(p.rows * threads).div_ceil(64), capacity.div_ceil(tokens as usize) as u32, 1];
    planner.dispatch(weight.kernel, &[tokens, threads, round_flag(round)], &bound, &p, workgroups)
}
