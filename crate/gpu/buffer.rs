//! A tensor in GPU memory.

use super::device::Gpu;
use crate::{Error, Result};
use wgpu::BufferUsages as Usage;

/// What the elements of a tensor are, as the shaders address them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Element {
    /// 32-bit floats.
    F32,
    /// 32-bit unsigned integers.
    U32,
    /// Bytes, four to a word, the first in the low bits: codes and scales.
    Byte,
}

impl Element {
    /// Bytes per element.
    pub fn size(self) -> usize {
        if self == Element::Byte { 1 } else { 4 }
    }
}

/// A buffer that knows its shape.
#[derive(Debug, Clone)]
pub struct Tensor {
    /// The buffer; a multiple of four bytes, at least four.
    pub buffer: wgpu::Buffer,
    /// Name in messages and captures.
    pub label: String,
    /// Shape, rows first.
    pub shape: Vec<usize>,
    /// Element type.
    pub element: Element,
}

impl Tensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// [`Error::DoesNotFit`] if it passes what the device binds or allocates.
    pub fn zeros(gpu: &Gpu, label: &str, element: Element, shape: &[usize]) -> Result<Self> {
        let size = bytes(element, shape);
        fits(gpu, label, size)?;
        let usage = Usage::STORAGE | Usage::COPY_SRC | Usage::COPY_DST;
        let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size,
            usage,
            mapped_at_creation: false,
        });
        Ok(Tensor { buffer, label: label.into(), shape: shape.to_vec(), element })
    }

    /// A uniform buffer of `words` 32-bit words, zero at first.
    ///
    /// # Errors
    /// As [`Self::zeros`].
    pub fn uniform(gpu: &Gpu, label: &str, words: usize) -> Result<Self> {
        let (usage, size) = (Usage::UNIFORM | Usage::COPY_DST, 4 * words as u64);
        let buffer = gpu.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size,
            usage,
            mapped_at_creation: false,
        });
        Ok(Tensor { buffer, label: label.into(), shape: vec![words], element: Element::U32 })
    }

    /// A tensor of 32-bit floats.
    ///
    /// # Errors
    /// As [`Self::zeros`].
    pub fn f32(gpu: &Gpu, label: &str, shape: &[usize], values: &[f32]) -> Result<Self> {
        let tensor = Self::zeros(gpu, label, Element::F32, shape)?;
        gpu.queue.write_buffer(&tensor.buffer, 0, bytemuck::cast_slice(values));
        Ok(tensor)
    }

    /// A tensor of 32-bit integers.
    ///
    /// # Errors
    /// As [`Self::zeros`].
    pub fn u32(gpu: &Gpu, label: &str, shape: &[usize], values: &[u32]) -> Result<Self> {
        let tensor = Self::zeros(gpu, label, Element::U32, shape)?;
        gpu.queue.write_buffer(&tensor.buffer, 0, bytemuck::cast_slice(values));
        Ok(tensor)
    }

    /// A tensor of bytes; the last word is filled up with zeros.
    ///
    /// # Errors
    /// As [`Self::zeros`].
    pub fn bytes(gpu: &Gpu, label: &str, shape: &[usize], values: &[u8]) -> Result<Self> {
        let tensor = Self::zeros(gpu, label, Element::Byte, shape)?;
        let (words, rest) = values.split_at(values.len() / 4 * 4);
        gpu.queue.write_buffer(&tensor.buffer, 0, words);
        if !rest.is_empty() {
            let mut last = [0u8; 4];
            last[..rest.len()].copy_from_slice(rest);
            gpu.queue.write_buffer(&tensor.buffer, words.len() as u64, &last);
        }
        Ok(tensor)
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Size of a buffer of that shape: whole words, at least one.
fn bytes(element: Element, shape: &[usize]) -> u64 {
    let bytes = shape.iter().product::<usize>() * element.size();
    (bytes.div_ceil(4) * 4).max(4) as u64
}

fn fits(gpu: &Gpu, label: &str, size: u64) -> Result<()> {
    let available = gpu.limits.max_storage_buffer_binding_size.min(gpu.limits.max_buffer_size);
    if size <= available {
        return Ok(());
    }
    let (what, needed) = (format!("{label} in one binding of {}", gpu.adapter.name), format!("{size} bytes"));
    Err(Error::DoesNotFit { what, needed, available: format!("{available} bytes") })
}
