//! 6B: the choice of a token, stage one: the best of every [`PIECE`] logits, greedy or with Gumbel noise.
//!
//! With noise from [`gumbel`](crate::numerics::gumbel) the largest of `logit / T + noise` is an exact draw from `softmax(logits / T)`: the whole
//! choice is an argmax and nothing but the token's id has to come back.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/head/choose.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::Uniform;
use crate::gpu::{Gpu, Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{BEST, CALL, GUMBEL};
use crate::numerics::gumbel::COLDEST;

crate::uniform_struct! {
    /// How to choose; mirrors `Draw` in the shader.
    pub struct Draw {
        /// `1 / T`; 0 takes the largest logit.
        pub inverse_temperature: f32,
        /// Lower half of the seed.
        pub seed_low: u32,
        /// Upper half of the seed.
        pub seed_high: u32,
    }
}

crate::uniform_struct! {
    /// Parameters of `choose`.
    pub struct Choose {
        /// Logits of a row.
        pub vocab: u32,
        /// Row of the logits.
        pub row: u32,
    }
}

impl Draw {
    /// The largest logit below [`COLDEST`], a draw from `softmax(logits / temperature)` otherwise.
    pub fn new(temperature: f32, seed: u64) -> Self {
        let inverse_temperature = if temperature < COLDEST { 0.0 } else { 1.0 / temperature };
        Draw { inverse_temperature, seed_low: seed as u32, seed_high: (seed >> 32) as u32 }
    }

    /// Writes it where the kernels read it.
    pub fn write(&self, gpu: &Gpu, buffer: &Tensor) {
        gpu.queue.write_buffer(&buffer.buffer, 0, bytemuck::cast_slice(&self.words()));
    }
}

/// Logits that one workgroup looks at.
pub const PIECE: usize = 1024;

/// The id that stands for logits that are not finite.
pub const NOT_FINITE: u32 = u32::MAX;

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "choose",
    wgsl: crate::wgsl!("../../../shaders/head/choose.wgsl"),
    includes: &[BEST, CALL, GUMBEL],
    bindings: &[
        read("logits"),
        read_write("values"),
        read_write("ids"),
        uniform::<Call>("call"),
        uniform::<Draw>("draw"),
        uniform::<Choose>("p"),
    ],
    overrides: &[],
};

/// Records `values` and `ids` `[vocab / PIECE]` of one `row` of `logits` `[rows, vocab]`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    [logits, values, ids]: [&Tensor; 3],
    [call, draw]: [&Tensor; 2],
    row: usize,
) -> Result<()> {
    let vocab = logits.shape[1];
    let p = Choose { vocab: vocab as u32, row: row as u32 };
    let groups = [vocab.div_ceil(PIECE) as u32, 1, 1];
    planner.dispatch(&KERNEL, &[], &[logits, values, ids, call, draw], &p, groups)
}
