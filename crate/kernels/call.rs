//! What changes from call to call: the only thing that is written per token.

use crate::Result;
use crate::gpu::{Gpu, Tensor, Uniform};

crate::uniform_struct! {
    /// Mirrors `Call` in shaders/include/call.wgsl.
    pub struct Call {
        /// Position of the first row.
        pub start: u32,
        /// Rows.
        pub n: u32,
        /// First position whose window row may be read.
        pub oldest: u32,
        /// Entries that ratio-2 sources complete in this call.
        pub pairs: u32,
        /// Entries of ratio-1 sources after this call.
        pub entries: u32,
        /// Entries of ratio-2 sources after this call.
        pub halves: u32,
    }
}

impl Call {
    /// The call that feeds `n` rows from position `start` on.
    pub fn new(start: usize, n: usize, oldest: usize) -> Self {
        let end = start + n;
        Call {
            start: start as u32,
            n: n as u32,
            oldest: oldest as u32,
            pairs: (end / 2 - start / 2) as u32,
            entries: end as u32,
            halves: (end / 2) as u32,
        }
    }

    /// Writes it where the kernels read it.
    pub fn write(&self, gpu: &Gpu, buffer: &Tensor) {
        let mut words = self.words();
        words.resize(16, 0);
        gpu.queue.write_buffer(&buffer.buffer, 0, bytemuck::cast_slice(&words));
    }

    /// The buffer of 64 bytes.
    ///
    /// # Errors
    /// None on a working device.
    pub fn buffer(gpu: &Gpu) -> Result<Tensor> {
        Tensor::uniform(gpu, "call", 16)
    }
}
