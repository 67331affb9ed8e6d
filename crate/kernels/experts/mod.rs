//! 5A: the mixture of experts.

pub mod experts_down;
pub mod experts_down_many;
pub mod experts_sum;
pub mod experts_up;
pub mod experts_up_many;
pub mod route;

use crate::gpu::{Gpu, Tensor};
use crate::numerics::linear::Matrix;
use crate::{Error, Result};

/// A matrix of the shared expert, codes and scales in one tensor: the kernels have no binding left for both.
///
/// # Errors
/// [`Error::Tensor`] for a matrix that is not FP8 in whole tiles, [`Error::DoesNotFit`].
pub fn shared(gpu: &Gpu, label: &str, matrix: &Matrix) -> Result<Tensor> {
    match matrix {
        Matrix::Fp8 { rows, cols, codes, scales } if rows % 32 == 0 && cols % 32 == 0 => {
            let all = [codes.as_slice(), scales].concat();
            Tensor::bytes(gpu, label, &[all.len().next_multiple_of(16)], &padded(all))
        }
        _ => Err(Error::tensor(label, "needed FP8 in whole tiles of 32 x 32 for the GPU")),
    }
}

/// The kernels read sixteen bytes at a time.
fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    bytes
}

/// Bytes of weights that `n` tokens read at most: the experts that they choose, `k` each, and the shared one.
fn chosen_bytes([codes, scales, shared]: [&Tensor; 3], k: usize, n: usize) -> usize {
    let experts = codes.shape[0];
    (codes.len() + scales.len()) / experts * (k * n).min(experts) + shared.len()
}
