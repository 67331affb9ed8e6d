//! The one place where bytes come back from the GPU.

use super::buffer::Tensor;
use super::device::Gpu;
use crate::Result;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// Reads a whole tensor as bytes, after everything that was submitted before.
///
/// # Errors
/// [`Error::Gpu`](crate::Error::Gpu) if the device was lost or refuses to map.
pub async fn bytes(gpu: &Gpu, tensor: &Tensor) -> Result<Vec<u8>> {
    let encoder = gpu.encoder();
    bytes_after(gpu, encoder, tensor).await
}

/// Submits `encoder` and reads a whole tensor as it is after that: one submit for work and copy together.
///
/// # Errors
/// As [`bytes`].
pub async fn bytes_after(gpu: &Gpu, encoder: wgpu::CommandEncoder, tensor: &Tensor) -> Result<Vec<u8>> {
    let [bytes] = after(gpu, encoder, [tensor]).await?;
    Ok(bytes)
}

/// Submits `encoder` and reads whole tensors as they are after that, in one piece.
///
/// # Errors
/// As [`bytes`].
pub async fn after<const N: usize>(
    gpu: &Gpu,
    encoder: wgpu::CommandEncoder,
    tensors: [&Tensor; N],
) -> Result<[Vec<u8>; N]> {
    let pieces = tensors.map(|tensor| Piece::of(tensor, tensor.buffer.size()));
    let mut read = many(gpu, encoder, &pieces).await?.into_iter();
    Ok(tensors.map(|_| read.next().unwrap_or_default()))
}

/// The first bytes of a buffer.
#[derive(Debug, Clone)]
pub struct Piece {
    buffer: wgpu::Buffer,
    size: u64,
}

impl Piece {
    /// The first `size` bytes of a tensor, filled up to whole words.
    pub fn of(tensor: &Tensor, size: u64) -> Self {
        Piece { buffer: tensor.buffer.clone(), size: size.next_multiple_of(4).min(tensor.buffer.size()) }
    }
}

/// Bytes that are read in one go.
const MOST: u64 = 64 << 20;

/// Submits `encoder` and reads pieces of buffers as they are after that: one submit and one map for all, and another for every 64 MiB.
/// A submit and a wait cost more than the bytes do.
///
/// # Errors
/// As [`bytes`].
pub async fn many(gpu: &Gpu, encoder: wgpu::CommandEncoder, pieces: &[Piece]) -> Result<Vec<Vec<u8>>> {
    many_by(gpu, encoder, pieces, MOST.min(gpu.limits.max_buffer_size)).await
}

async fn many_by(gpu: &Gpu, encoder: wgpu::CommandEncoder, pieces: &[Piece], most: u64) -> Result<Vec<Vec<u8>>> {
    let (mut encoder, mut rest, mut read) = (Some(encoder), pieces, Vec::with_capacity(pieces.len()));
    while !rest.is_empty() || encoder.is_some() {
        let mut size = 0;
        let fits = |piece: &&Piece| {
            size += piece.size;
            size <= most
        };
        // A tensor alone always fits in a buffer.
        let count = rest.iter().take_while(fits).count().max(1).min(rest.len());
        let (batch, after) = rest.split_at(count);
        let begin = || gpu.encoder();
        batch_after(gpu, encoder.take().unwrap_or_else(begin), batch, &mut read).await?;
        rest = after;
    }
    Ok(read)
}

/// One submit and one map.
async fn batch_after(
    gpu: &Gpu,
    mut encoder: wgpu::CommandEncoder,
    pieces: &[Piece],
    read: &mut Vec<Vec<u8>>,
) -> Result<()> {
    gpu.alive()?;
    let size = pieces.iter().map(|piece| piece.size).sum::<u64>().max(4);
    let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
    let descriptor = wgpu::BufferDescriptor { label: Some("readback"), size, usage, mapped_at_creation: false };
    let staging = gpu.device.create_buffer(&descriptor);
    let mut at = 0;
    for piece in pieces.iter().filter(|piece| piece.size > 0) {
        encoder.copy_buffer_to_buffer(&piece.buffer, 0, &staging, at, piece.size);
        at += piece.size;
    }
    gpu.submit(encoder);
    gpu.traffic.bytes_read_back.fetch_add(at, Relaxed);
    map(gpu, &staging).await?;
    let view = staging.slice(..).get_mapped_range();
    let view = view.map_err(|error| gpu.error(format!("reading back: {error}")))?;
    let mut at = 0;
    for piece in pieces {
        read.push(view[at..at + piece.size as usize].to_vec());
        at += piece.size as usize;
    }
    drop(view);
    staging.unmap();
    Ok(())
}

/// Reads a tensor of 32-bit floats.
///
/// # Errors
/// As [`bytes`].
pub async fn f32s(gpu: &Gpu, tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(floats(&bytes(gpu, tensor).await?, tensor.len()))
}

/// The first `count` 32-bit floats of what was read back.
pub fn floats(bytes: &[u8], count: usize) -> Vec<f32> {
    bytes.as_chunks().0.iter().take(count).map(|&word| f32::from_le_bytes(word)).collect()
}

/// Reads a tensor of 32-bit integers.
///
/// # Errors
/// As [`bytes`].
pub async fn u32s(gpu: &Gpu, tensor: &Tensor) -> Result<Vec<u32>> {
    let bytes = bytes(gpu, tensor).await?;
    Ok(bytes.as_chunks().0.iter().take(tensor.len()).map(|&word| u32::from_le_bytes(word)).collect())
}

#[derive(Default)]
struct Mapped {
    result: Option<Result<(), wgpu::BufferAsyncError>>,
    waker: Option<Waker>,
}

/// Waits until `staging` is mapped. A browser calls back by itself; natively someone has to poll the device.
async fn map(gpu: &Gpu, staging: &wgpu::Buffer) -> Result<()> {
    let mapped = Arc::new(Mutex::new(Mapped::default()));
    let setter = mapped.clone();
    staging.slice(..).map_async(wgpu::MapMode::Read, move |result| {
        if let Ok(mut mapped) = setter.lock() {
            mapped.result = Some(result);
            if let Some(waker) = mapped.waker.take() {
                waker.wake();
            }
        }
    });
    // A buffer of a device that is gone cannot be mapped, and nobody would call back.
    gpu.alive()?;
    #[cfg(not(target_arch = "wasm32"))]
    gpu.device.poll(wgpu::PollType::wait_indefinitely()).map_err(|error| gpu.error(format!("waiting: {error}")))?;
    let result = std::future::poll_fn(|context| {
        let Ok(mut mapped) = mapped.lock() else { return Poll::Ready(Ok(())) };
        match mapped.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                mapped.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    });
    result.await.map_err(|error| gpu.error(format!("mapping: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Choice;

    /// In one go or in several, with pieces beyond a batch, of nothing, and of less than a word.
    #[test]
    fn pieces_come_back_in_order() {
        pollster::block_on(async {
            let gpu = Gpu::open(&Choice::default()).await.expect("GPU tests need an adapter; a software one will do");
            let values: Vec<u8> = (0..=255).collect();
            let tensors = [7usize, 64, 3, 256, 1].map(|n| Tensor::bytes(&gpu, "piece", &[n], &values[..n]).unwrap());
            let wanted: Vec<(usize, u64)> = vec![(0, 7), (1, 64), (2, 0), (3, 256), (4, 1), (3, 17)];
            let pieces: Vec<Piece> = wanted.iter().map(|&(which, size)| Piece::of(&tensors[which], size)).collect();
            for most in [4, 64, 100, 1 << 20] {
                let encoder = gpu.encoder();
                let read = many_by(&gpu, encoder, &pieces, most).await.unwrap();
                assert_eq!(read.len(), wanted.len());
                for (bytes, (_, size)) in read.iter().zip(&wanted) {
                    let size = *size as usize;
                    assert_eq!((&bytes[..size], bytes.len()), (&values[..size], size.next_multiple_of(4)), "by {most}");
                }
            }
        });
    }
}
