//! 3C: index scores of every visible entry.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/index/index_scores.wgsl"), "\n```")]

use crate::Result;
use crate::config::Config;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::cache::GpuPlane;
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE, FAULT, PLANE, ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `index_scores`.
    pub struct IndexScores {
        /// Scores of a row.
        pub entries: u32,
        /// Compression ratio of the source.
        pub ratio: u32,
        /// Entries of a candidate block.
        pub block: u32,
        /// Candidate blocks of a row.
        pub blocks: u32,
        /// `1 / sqrt(width * heads)`.
        pub factor: f32,
        /// Elements of a row of queries.
        pub q_stride: u32,
        /// Elements of a row of weights.
        pub w_stride: u32,
        /// Place in the model.
        pub place: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "index_scores",
    wgsl: crate::wgsl!("../../../shaders/index/index_scores.wgsl"),
    includes: &[CALL, DECODE, FAULT, PLANE, ROUND],
    bindings: &[
        read("q"),
        read("w"),
        read("codes"),
        read("scales"),
        read("pool"),
        read_write("scores"),
        read_write("fault"),
        uniform::<Call>("call"),
        uniform::<IndexScores>("p"),
    ],
    overrides: &["FORMAT", "POOLED", "HEADS", "WIDTH", "ROUND"],
};

/// Records scores `[n, entries]` of queries `q` `[n, stride]`, whose rows end with `[heads, width]`, and weights `w` `[n, stride]`, whose rows end
/// with `[heads]`, over the keys of `plane`; only inside `pool`
/// `[n, blocks]` if `pooled`.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    [q, w, pool, scores]: [&Tensor; 4],
    plane: &GpuPlane,
    call: &Tensor,
    config: &Config,
    ratio: usize,
    pooled: bool,
    numerics: Precision,
) -> Result<()> {
    let entries = scores.shape[1];
    let p = IndexScores {
        entries: entries as u32,
        ratio: ratio as u32,
        block: config.candidate_block_size as u32,
        blocks: pool.shape[1] as u32,
        factor: (1.0 / ((config.index_head_dim * config.index_n_heads) as f64).sqrt()) as f32,
        q_stride: (q.len() / scores.shape[0]) as u32,
        w_stride: (w.len() / scores.shape[0]) as u32,
        place: planner.place,
    };
    let fault = planner.fault()?;
    let (heads, width) = (config.index_n_heads as u32, config.index_head_dim as u32);
    let overrides = [plane.format_code(), pooled.into(), heads, width, round_flag(numerics)];
    let groups = [entries.div_ceil(64) as u32, scores.shape[0] as u32, 1];
    let bound = [q, w, &plane.codes, &plane.scales, pool, scores, &fault, call];
    planner.dispatch(&KERNEL, &overrides, &bound, &p, groups)
}
