//! The one place where bytes come back from the GPU.

use super::buffer::Tensor;
use super::device::Gpu;
use crate::Result;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// Reads a whole tensor as bytes, after everything that was submitted before.
///
/// # Errors
/// [`Error::Gpu`](crate::Error::Gpu) if the device was lost or refuses to map.
pub async fn bytes(gpu: &Gpu, tensor: &Tensor) -> Result<Vec<u8>> {
    let encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
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
    mut encoder: wgpu::CommandEncoder,
    tensors: [&Tensor; N],
) -> Result<[Vec<u8>; N]> {
    gpu.alive()?;
    let sizes = tensors.map(|tensor| tensor.buffer.size());
    let size = sizes.iter().sum();
    let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
    let descriptor = wgpu::BufferDescriptor { label: Some("readback"), size, usage, mapped_at_creation: false };
    let staging = gpu.device.create_buffer(&descriptor);
    let mut at = 0;
    for tensor in tensors {
        encoder.copy_buffer_to_buffer(&tensor.buffer, 0, &staging, at, tensor.buffer.size());
        at += tensor.buffer.size();
    }
    gpu.queue.submit([encoder.finish()]);
    map(gpu, &staging).await?;
    let view = staging.slice(..).get_mapped_range();
    let view = view.map_err(|error| gpu.error(format!("reading back: {error}")))?;
    let mut at = 0;
    let bytes = sizes.map(|size| {
        at += size as usize;
        view[at - size as usize..at].to_vec()
    });
    drop(view);
    staging.unmap();
    Ok(bytes)
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
