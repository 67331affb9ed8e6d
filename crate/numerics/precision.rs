//! The two ways to round between operations.

use super::linear::Matrix;
use super::{bf16, quant};
use std::borrow::Cow;

/// Which roundings a run applies. The same switch exists twice: once for activations, once for the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// f32 throughout. For caches: rows stay f32 and nothing is quantised.
    #[default]
    F32,
    /// The released roundings: bf16 between operations and FP8 activations per 32 in front of FP8 and FP4 weights (section N.6). For
    /// caches: the byte formats of section 8.
    Released,
}

impl Precision {
    /// Name on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Precision::F32 => "f32",
            Precision::Released => "released",
        }
    }

    /// Rounds a tensor to bf16 where the released model does; leaves it alone in f32.
    pub fn round(self, x: &mut [f32]) {
        if self == Precision::Released {
            bf16::round_all(x);
        }
    }

    /// The activation as a quantised matrix sees it: FP8 per 32 when released, unchanged in f32. `x` is rows of a multiple of 32.
    pub fn activation(self, x: &[f32]) -> Cow<'_, [f32]> {
        match self {
            Precision::F32 => Cow::Borrowed(x),
            Precision::Released => {
                let mut quantised = x.to_vec();
                quant::fake_fp8(&mut quantised);
                Cow::Owned(quantised)
            }
        }
    }

    /// `y = W x` for `n` rows, as sections N.6 and N.7 define it for the weight's format: quantised weights see quantised activations, and
    /// every format but f32 rounds its output to bf16. `x` is `[n, cols]`, the result `[n, rows]`.
    pub fn linear(self, weight: &Matrix, x: &[f32], n: usize) -> Vec<f32> {
        match weight {
            Matrix::Fp8 { .. } | Matrix::Fp4 { .. } => self.linear_quantised(weight, &self.activation(x), n),
            Matrix::Bf16 { .. } => {
                let mut y = weight.matmul(x, n);
                self.round(&mut y);
                y
            }
            Matrix::F32 { .. } => weight.matmul(x, n),
        }
    }

    /// [`Self::linear`] for an activation that already went through [`Self::activation`], for inputs that several matrices share.
    pub fn linear_quantised(self, weight: &Matrix, x: &[f32], n: usize) -> Vec<f32> {
        let mut y = weight.matmul(x, n);
        self.round(&mut y);
        y
    }
}
