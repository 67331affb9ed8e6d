//! 3B, 6A: what a sequence keeps in GPU memory.

pub mod plane_write;
pub mod pool_pairs;

use crate::Result;
use crate::blocks::b6a_kv_cache::{Format, Plane};
use crate::gpu::{Element, Gpu, Tensor, readback};

/// Rows of one width in one storage format, codes and scales apart: the twin of [`Plane`] in GPU memory.
#[derive(Debug, Clone)]
pub struct GpuPlane {
    /// Storage format.
    pub format: Format,
    /// Elements of a row.
    pub width: usize,
    /// Rows that the buffers hold.
    pub capacity: usize,
    /// Codes, `[capacity, code bytes]`.
    pub codes: Tensor,
    /// Scales, `[capacity, scale bytes]`.
    pub scales: Tensor,
}

impl GpuPlane {
    /// A plane of zeros.
    ///
    /// # Errors
    /// [`crate::Error::DoesNotFit`] if it passes what the device binds.
    pub fn new(gpu: &Gpu, label: &str, format: Format, width: usize, capacity: usize) -> Result<Self> {
        let (codes, scales) = Plane::row_bytes(format, width);
        let tensor =
            |part: &str, bytes| Tensor::zeros(gpu, &format!("{label} {part}"), Element::Byte, &[capacity, bytes]);
        Ok(GpuPlane { format, width, capacity, codes: tensor("codes", codes)?, scales: tensor("scales", scales)? })
    }

    /// The shaders' number of the format.
    pub fn format_code(&self) -> u32 {
        match self.format {
            Format::F32 => 0,
            Format::Fp8 => 1,
            Format::Kv4 => 2,
            Format::Idx4 => 3,
        }
    }

    /// Copies all rows to the first rows of `other`, which has the same format and width and at least as many.
    pub fn copy_to(&self, other: &GpuPlane, encoder: &mut wgpu::CommandEncoder) {
        for (from, to) in [(&self.codes, &other.codes), (&self.scales, &other.scales)] {
            encoder.copy_buffer_to_buffer(&from.buffer, 0, &to.buffer, 0, from.buffer.size());
        }
    }

    /// Reads all rows back, in the bytes of the reference.
    ///
    /// # Errors
    /// [`crate::Error::Gpu`].
    pub async fn read(&self, gpu: &Gpu) -> Result<Plane> {
        let (code_bytes, scale_bytes) = Plane::row_bytes(self.format, self.width);
        let mut plane = Plane::new(self.format, self.width);
        if self.format == Format::F32 {
            plane.values = readback::f32s(gpu, &self.codes_as_f32()).await?;
            return Ok(plane);
        }
        plane.codes = readback::bytes(gpu, &self.codes).await?;
        plane.codes.truncate(self.capacity * code_bytes);
        plane.scales = readback::bytes(gpu, &self.scales).await?;
        plane.scales.truncate(self.capacity * scale_bytes);
        Ok(plane)
    }

    /// Writes rows to the first places, in the bytes of the reference. The plane has the same format and width, and no more rows.
    pub fn write(&self, gpu: &Gpu, plane: &Plane) {
        let write = |tensor: &Tensor, bytes: &[u8]| {
            let mut bytes = bytes.to_vec();
            bytes.resize(bytes.len().next_multiple_of(4), 0);
            if !bytes.is_empty() {
                gpu.queue.write_buffer(&tensor.buffer, 0, &bytes);
            }
        };
        if self.format == Format::F32 {
            write(&self.codes, bytemuck::cast_slice(&plane.values));
        } else {
            write(&self.codes, &plane.codes);
            write(&self.scales, &plane.scales);
        }
    }

    fn codes_as_f32(&self) -> Tensor {
        Tensor { element: Element::F32, shape: vec![self.capacity, self.width], ..self.codes.clone() }
    }

    /// Bytes of `rows` rows, codes and scales.
    pub fn bytes(&self, rows: usize) -> usize {
        let (codes, scales) = Plane::row_bytes(self.format, self.width);
        rows * (codes + scales)
    }
}
