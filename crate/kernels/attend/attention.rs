//! 4A: every head over its window rows and its selected entries.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/attend/attention.wgsl"), "\n```")]

use crate::Result;
use crate::config::Config;
use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::cache::GpuPlane;
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE, PLANE, REDUCE, ROUND, round_flag};
use crate::numerics::precision::Precision;

crate::uniform_struct! {
    /// Parameters of `attention`.
    pub struct Attention {
        /// Heads.
        pub heads: u32,
        /// Elements of a row of queries.
        pub q_stride: u32,
        /// Positions in the window.
        pub window: u32,
        /// Slots of the ring.
        pub capacity: u32,
        /// `1 / sqrt(width)`.
        pub scale: f32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "attention",
    wgsl: crate::wgsl!("../../../shaders/attend/attention.wgsl"),
    includes: &[CALL, DECODE, PLANE, REDUCE, ROUND],
    bindings: &[
        read("q"),
        read("ring_codes"),
        read("ring_scales"),
        read("entry_codes"),
        read("entry_scales"),
        read("ids"),
        read("sink"),
        read_write("out"),
        uniform::<Call>("call"),
        uniform::<Attention>("p"),
    ],
    overrides: &["RING_FORMAT", "ENTRY_FORMAT", "WIDTH", "K", "WHOLE", "ROUND"],
};

/// Longest list of rows that one query may see: what the shader's workgroup memory holds.
pub const MOST_ROWS: usize = 1024;

/// What a query sees besides its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sees {
    /// Nothing.
    Window,
    /// As many selected entries at most.
    Selected(usize),
    /// All rows of its call, later ones too, and the whole window before the call: a draft block.
    WholeCall,
}

/// Records `out` `[n, heads, width]` of queries `q` `[n, stride]`, which begin with as many elements, over `ring` and the entries that `ids` `[n, k]` names.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    [q, ids, sink, out]: [&Tensor; 4],
    (ring, entries): (&GpuPlane, &GpuPlane),
    call: &Tensor,
    config: &Config,
    sees: Sees,
    numerics: Precision,
) -> Result<()> {
    let (k, more) = match sees {
        Sees::Window => (0, 0),
        Sees::Selected(k) => (k, k),
        Sees::WholeCall => (0, q.shape[0]),
    };
    if config.window_size + more > MOST_ROWS {
        let what = "the list of rows of one query".to_string();
        let (needed, available) = (format!("{} rows", config.window_size + more), format!("{MOST_ROWS} rows"));
        return Err(crate::Error::DoesNotFit { what, needed, available });
    }
    let p = Attention {
        heads: config.n_heads as u32,
        q_stride: (q.len() / q.shape[0]) as u32,
        window: config.window_size as u32,
        capacity: ring.capacity as u32,
        scale: (1.0 / (config.head_dim as f64).sqrt()) as f32,
    };
    let overrides = [
        ring.format_code(),
        entries.format_code(),
        config.head_dim as u32,
        k as u32,
        (sees == Sees::WholeCall).into(),
        round_flag(numerics),
    ];
    let bound = [q, &ring.codes, &ring.scales, &entries.codes, &entries.scales, ids, sink, out, call];
    planner.dispatch(&KERNEL, &overrides, &bound, &p, [config.n_heads as u32, q.shape[0] as u32, 1])
}
