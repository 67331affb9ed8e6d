//! 3B, 6A: what a sequence keeps in GPU memory.

pub mod plane_write;
pub mod pool_pairs;

use crate::Result;
use crate::blocks::b6a_kv_cache::{Format, Plane};
use crate::gpu::readback::{self, Piece};
use crate::gpu::{Element, Gpu, Tensor};

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

    /// `rows` rows in the bytes of the reference, from the bytes of both buffers.
    fn plane(&self, rows: usize, [codes, scales]: [Vec<u8>; 2]) -> Plane {
        let (code_bytes, scale_bytes) = Plane::row_bytes(self.format, self.width);
        let mut plane = Plane::new(self.format, self.width);
        if self.format == Format::F32 {
            plane.values = readback::floats(&codes, rows * self.width);
            return plane;
        }
        (plane.codes, plane.scales) = (codes, scales);
        plane.codes.truncate(rows * code_bytes);
        plane.scales.truncate(rows * scale_bytes);
        plane
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

    /// Bytes of `rows` rows, codes and scales.
    pub fn bytes(&self, rows: usize) -> usize {
        let (codes, scales) = Plane::row_bytes(self.format, self.width);
        rows * (codes + scales)
    }
}

/// Reads the first rows of planes, in the bytes of the reference, and whole tensors of f32: all together.
///
/// # Errors
/// [`crate::Error::Gpu`].
pub async fn read(
    gpu: &Gpu,
    planes: &[(&GpuPlane, usize)],
    tensors: &[&Tensor],
) -> Result<(Vec<Plane>, Vec<Vec<f32>>)> {
    let mut pieces = Vec::with_capacity(2 * planes.len() + tensors.len());
    for (plane, rows) in planes {
        let (codes, scales) = Plane::row_bytes(plane.format, plane.width);
        pieces
            .extend([Piece::of(&plane.codes, (rows * codes) as u64), Piece::of(&plane.scales, (rows * scales) as u64)]);
    }
    pieces.extend(tensors.iter().map(|tensor| Piece::of(tensor, tensor.buffer.size())));
    let encoder = gpu.encoder();
    let mut bytes = readback::many(gpu, encoder, &pieces).await?.into_iter();
    let mut next = || bytes.next().unwrap_or_default();
    let planes = planes.iter().map(|(plane, rows)| plane.plane(*rows, [next(), next()])).collect();
    let tensors = tensors.iter().map(|tensor| readback::floats(&next(), tensor.len())).collect();
    Ok((planes, tensors))
}
