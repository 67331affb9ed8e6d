//! Golden files: named tensors with what an independent implementation computed from the same weights.

use crate::error::{Error, Result};
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;

/// A tensor of a golden file.
#[derive(Debug, Clone, PartialEq)]
pub struct Golden {
    /// Shape, rows first.
    pub shape: Vec<usize>,
    /// Real numbers; empty for indices.
    pub f32: Vec<f32>,
    /// Indices; empty for real numbers.
    pub i64: Vec<i64>,
}

impl Golden {
    /// Elements of one row, that is of everything behind the first axis.
    pub fn row(&self) -> usize {
        self.shape[1..].iter().product()
    }

    /// Length of the first axis.
    pub fn rows(&self) -> usize {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Indices as ids.
    pub fn ids(&self) -> Vec<u32> {
        self.i64.iter().map(|&id| id as u32).collect()
    }
}

/// All tensors of a golden file, keyed as in its README: `CASE.layers.N.streams`, `CASE.logits`, `image.vit`.
#[derive(Debug, Clone, Default)]
pub struct GoldenFile {
    /// Name for messages.
    pub file: String,
    tensors: BTreeMap<String, Golden>,
}

impl GoldenFile {
    /// Parses a safetensors file of F32, I32, I64 and U8 tensors.
    ///
    /// # Errors
    /// [`Error::Golden`] for anything else.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self> {
        let wrong = |problem: String| Error::Golden { file: file.into(), problem };
        let parsed = SafeTensors::deserialize(bytes).map_err(|error| wrong(format!("not safetensors: {error}")))?;
        let mut tensors = BTreeMap::new();
        for (name, view) in parsed.tensors() {
            let data = view.data();
            let mut golden = Golden { shape: view.shape().to_vec(), f32: Vec::new(), i64: Vec::new() };
            match view.dtype() {
                Dtype::F32 => golden.f32 = data.as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect(),
                Dtype::I32 => {
                    golden.i64 = data.as_chunks().0.iter().map(|&b| i64::from(i32::from_le_bytes(b))).collect();
                }
                Dtype::I64 => golden.i64 = data.as_chunks().0.iter().map(|&b| i64::from_le_bytes(b)).collect(),
                Dtype::U8 => golden.i64 = data.iter().map(|&b| i64::from(b)).collect(),
                other => return Err(wrong(format!("{name} is {other:?}; needed F32, I32, I64 or U8"))),
            }
            tensors.insert(name, golden);
        }
        Ok(GoldenFile { file: file.into(), tensors })
    }

    /// The tensor of that name, if there is one.
    pub fn get(&self, name: &str) -> Option<&Golden> {
        self.tensors.get(name)
    }

    /// The tensor of that name.
    ///
    /// # Errors
    /// [`Error::Golden`] if it is missing.
    pub fn need(&self, name: &str) -> Result<&Golden> {
        let missing =
            || Error::Golden { file: self.file.clone(), problem: format!("needs a tensor {name}, found none") };
        self.get(name).ok_or_else(missing)
    }

    /// Names of the cases: everything with `.input_ids`.
    pub fn cases(&self) -> Vec<&str> {
        self.tensors.keys().filter_map(|name| name.strip_suffix(".input_ids")).collect()
    }
}
