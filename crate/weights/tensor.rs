//! Tensors of a checkpoint as numbers. Every value that is not finite is refused with the name of its tensor.

use super::Dtype;
use super::checkpoint::{Checkpoint, TensorInfo};
use crate::numerics::linear::Matrix;
use crate::numerics::{bf16, e4m3, e8m0};
use crate::{Error, Result};

/// Columns that share one scale in a row of an Engram table (section 2.4).
const ROW_GROUP: usize = 32;

impl Checkpoint {
    /// A BF16 or F32 tensor of any shape, flattened row-major.
    ///
    /// # Errors
    /// [`Error::Tensor`] if it is missing or of another type, [`Error::NotFinite`] naming the first value that is not a finite number.
    pub async fn vector(&self, name: &str) -> Result<Vec<f32>> {
        let info = self.info(name)?;
        let bytes = self.bytes(name).await?;
        match info.dtype {
            Dtype::F32 => f32_values(name, &bytes),
            Dtype::BF16 => Ok(bf16_bits(name, &bytes)?.into_iter().map(bf16::decode).collect()),
            other => Err(Error::tensor(name, format!("needed BF16 or F32, found {other}"))),
        }
    }

    /// The weight `<prefix>.weight` `[out, in]` in its storage format, with `<prefix>.scale` where the format has one: E4M3 with E8M0 per tile of
    /// 32 by 32, packed E2M1 (I8: two columns per byte, P-46) with E8M0 per 32 columns, BF16, or F32.
    ///
    /// # Errors
    /// [`Error::Tensor`] if a tensor is missing or of another type or shape, [`Error::NotFinite`] with the full tensor name if a code or a scale
    /// stands for no finite number.
    pub async fn matrix(&self, prefix: &str) -> Result<Matrix> {
        let weight = format!("{prefix}.weight");
        let info = self.info(&weight)?;
        match info.dtype {
            Dtype::F8_E4M3 | Dtype::I8 => {}
            _ => return self.tensor_matrix(&weight).await,
        }
        let (rows, cols) = matrix_shape(info)?;
        let codes = self.bytes(&weight).await?;
        let scales = self.scales(prefix).await?;
        let matrix = if info.dtype == Dtype::I8 {
            Matrix::fp4(rows, 2 * cols, codes, scales)
        } else {
            e4m3_codes(&weight, &codes)?;
            Matrix::fp8(rows, cols, codes, scales)
        };
        matrix.map_err(|error| named(&weight, error))
    }

    /// A BF16 or F32 tensor `[out, in]` under its full name, for those without the suffix `.weight` (`hc_attn_fn`).
    ///
    /// # Errors
    /// As [`Checkpoint::matrix`].
    pub async fn tensor_matrix(&self, name: &str) -> Result<Matrix> {
        let info = self.info(name)?;
        let (rows, cols) = matrix_shape(info)?;
        let bytes = self.bytes(name).await?;
        let matrix = match info.dtype {
            Dtype::F32 => Matrix::f32(rows, cols, f32_values(name, &bytes)?),
            Dtype::BF16 => Matrix::bf16(rows, cols, bf16_bits(name, &bytes)?),
            other => return Err(Error::tensor(name, format!("needed BF16 or F32, found {other}"))),
        };
        matrix.map_err(|error| named(name, error))
    }

    /// One row of a table with one scale per 32 columns of a row, `<prefix>.weight` and `<prefix>.scale`: value = code * scale, exact in f32
    /// (section 2.4). Only the row is read: 264 bytes in the release.
    ///
    /// # Errors
    /// As [`Checkpoint::matrix`], and [`Error::Tensor`] if there is no such row.
    pub async fn table_row(&self, prefix: &str, row: u64) -> Result<Vec<f32>> {
        let (weight, scale) = (format!("{prefix}.weight"), format!("{prefix}.scale"));
        for (name, needed) in [(&weight, Dtype::F8_E4M3), (&scale, Dtype::F8_E8M0)] {
            let found = self.info(name)?.dtype;
            if found != needed {
                return Err(Error::tensor(name, format!("needed {needed}, found {found}")));
            }
        }
        let (rows, columns) = matrix_shape(self.info(&weight)?)?;
        let needed = [rows, columns / ROW_GROUP];
        let found = &self.info(&scale)?.shape;
        if !columns.is_multiple_of(ROW_GROUP) || found != &needed {
            return Err(Error::tensor(
                &scale,
                format!("needed one scale per {ROW_GROUP} columns of a row {needed:?}, found {found:?}"),
            ));
        }
        let codes = self.read_rows(&weight, row, 1).await?;
        let scales = self.read_rows(&scale, row, 1).await?;
        let in_table = |width: usize| {
            move |error| match error {
                Error::NotFinite { name, index } => Error::NotFinite { name, index: row * width as u64 + index },
                other => other,
            }
        };
        e4m3_codes(&weight, &codes).map_err(in_table(codes.len()))?;
        e8m0_scales(&scale, &scales).map_err(in_table(scales.len()))?;
        let value = |(column, &code): (usize, &u8)| e4m3::decode(code) * e8m0::decode(scales[column / ROW_GROUP]);
        Ok(codes.iter().enumerate().map(value).collect())
    }

    async fn scales(&self, prefix: &str) -> Result<Vec<u8>> {
        let name = format!("{prefix}.scale");
        let found = self.info(&name)?.dtype;
        if found != Dtype::F8_E8M0 {
            return Err(Error::tensor(&name, format!("needed F8_E8M0, found {found}")));
        }
        let scales = self.bytes(&name).await?;
        e8m0_scales(&name, &scales)?;
        Ok(scales)
    }
}

fn matrix_shape(info: &TensorInfo) -> Result<(usize, usize)> {
    match info.shape.as_slice() {
        &[rows, cols] => Ok((rows, cols)),
        other => Err(Error::tensor(&info.name, format!("needed two dimensions, found {other:?}"))),
    }
}

/// Constructors of matrices know lengths, not names.
fn named(name: &str, error: Error) -> Error {
    match error {
        Error::Tensor { name: what, problem } => Error::tensor(name, format!("{what}: {problem}")),
        other => other,
    }
}

fn not_finite(name: &str, index: usize) -> Error {
    Error::NotFinite { name: name.into(), index: index as u64 }
}

fn f32_values(name: &str, bytes: &[u8]) -> Result<Vec<f32>> {
    let values: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word)).collect();
    match values.iter().position(|value| !value.is_finite()) {
        Some(index) => Err(not_finite(name, index)),
        None => Ok(values),
    }
}

fn bf16_bits(name: &str, bytes: &[u8]) -> Result<Vec<u16>> {
    let bits: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|&word| u16::from_le_bytes(word)).collect();
    // An exponent of all ones is infinity or NaN.
    match bits.iter().position(|bits| bits & 0x7F80 == 0x7F80) {
        Some(index) => Err(not_finite(name, index)),
        None => Ok(bits),
    }
}

/// E4M3 has two codes for NaN, 0x7F and 0xFF, and no infinity (section N.1).
fn e4m3_codes(name: &str, codes: &[u8]) -> Result<()> {
    match codes.iter().position(|code| code & 0x7F == e4m3::NAN) {
        Some(index) => Err(not_finite(name, index)),
        None => Ok(()),
    }
}

/// E8M0 has one code for NaN, 255 (section N.1).
fn e8m0_scales(name: &str, scales: &[u8]) -> Result<()> {
    match scales.iter().position(|&byte| byte == 255) {
        Some(index) => Err(not_finite(name, index)),
        None => Ok(()),
    }
}
