//! 6A: rows on their way into a plane of the KV cache, in the bytes in which they are kept, and the rotation of the queries beside them.
//!
//! Norm, rotation and storage format touch one row each and nothing else, so one workgroup does all three; the queries of the same position
//! turn by the same angles in the same dispatch.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/cache/plane_write.wgsl"), "\n```")]

use crate::gpu::{Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::cache::GpuPlane;
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE, FAULT, QUANTISE, REDUCE, ROUND, STORE, round_flag};
use crate::numerics::precision::Precision;
use crate::{Error, Result};

crate::uniform_struct! {
    /// Parameters of `plane_write`.
    pub struct PlaneWrite {
        /// Elements of a row.
        pub width: u32,
        /// Elements from one row to the next where they come from.
        pub stride: u32,
        /// Elements before the first.
        pub offset: u32,
        /// Query heads of a row, or 0.
        pub heads: u32,
        /// Elements of a row of queries.
        pub q_stride: u32,
        /// Dims of an index head.
        pub index_width: u32,
        /// Pairs that rotate.
        pub pairs: u32,
        /// Rows that the plane holds.
        pub capacity: u32,
        /// Epsilon of the norm.
        pub eps: f32,
        /// Place in the model.
        pub place: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "plane_write",
    wgsl: crate::wgsl!("../../../shaders/cache/plane_write.wgsl"),
    includes: &[CALL, DECODE, FAULT, QUANTISE, REDUCE, ROUND, STORE],
    bindings: &[
        read("angles"),
        read_write("q"),
        read("rows"),
        read("weight"),
        read_write("codes"),
        read_write("scales"),
        read_write("fault"),
        uniform::<Call>("call"),
        uniform::<PlaneWrite>("p"),
    ],
    overrides: &["FORMAT", "NORM", "KEEP", "GRID", "RATIO", "ROUND"],
};

/// Widest row: what the shader's workgroup memory holds.
pub const MOST_WIDTH: usize = 1024;

/// Queries of the indexer.
#[derive(Debug, Clone, Copy)]
pub struct IndexQueries {
    /// Heads.
    pub heads: usize,
    /// Dims of a head.
    pub width: usize,
    /// On the FP4 grid, as the keys are.
    pub grid: bool,
}

/// What happens to rows on their way.
#[derive(Debug, Clone, Copy)]
pub struct Way<'a> {
    /// Angles of the rows `[m, pairs, 2]` (cos, sin).
    pub angles: &'a Tensor,
    /// Queries that turn by the same angles `[m, stride]`: `heads` of the plane's width, then those of `index`. Without either any tensor,
    /// which stays as it is unless `keep` is set.
    pub q: &'a Tensor,
    /// Heads of the queries.
    pub heads: usize,
    /// Index queries behind them.
    pub index: Option<IndexQueries>,
    /// Without queries: `q` `[m, width]` keeps the normed rows as they are before they turn.
    pub keep: bool,
    /// Weight of the norm `[width]`.
    pub weight: &'a Tensor,
    /// Epsilon of the norm; `None` leaves the rows as they are.
    pub eps: Option<f32>,
    /// Elements before the first row in the tensor that holds them.
    pub offset: usize,
    /// 0: a ring by position; 1, 2: entries of a source of that ratio.
    pub ratio: usize,
    /// Roundings.
    pub numerics: Precision,
}

/// Records the writing of up to `most` rows into `plane`: each is a piece of a row of `rows` `[most, stride]`.
///
/// # Errors
/// [`Error::DoesNotFit`] for rows beyond [`MOST_WIDTH`], and what [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    rows: &Tensor,
    plane: &GpuPlane,
    call: &Tensor,
    way: Way<'_>,
    most: usize,
) -> Result<()> {
    if plane.width > MOST_WIDTH {
        let (needed, available) = (format!("{} elements", plane.width), format!("{MOST_WIDTH} elements"));
        return Err(Error::DoesNotFit { what: "a row of the KV cache in a workgroup".into(), needed, available });
    }
    let p = PlaneWrite {
        width: plane.width as u32,
        stride: (rows.len() / most) as u32,
        offset: way.offset as u32,
        heads: way.heads as u32,
        q_stride: (way.q.len() / most) as u32,
        index_width: way.index.map_or(0, |index| index.width as u32),
        pairs: way.angles.shape[1] as u32,
        capacity: plane.capacity as u32,
        eps: way.eps.unwrap_or_default(),
        place: planner.place,
    };
    let grid = way.index.is_some_and(|index| index.grid);
    let [norm, keep, grid] = [way.eps.is_some(), way.keep, grid].map(u32::from);
    let overrides = [plane.format_code(), norm, keep, grid, way.ratio as u32, round_flag(way.numerics)];
    let groups = p.heads + 1 + way.index.map_or(0, |index| index.heads as u32);
    let fault = planner.fault()?;
    let bound = [way.angles, way.q, rows, way.weight, &plane.codes, &plane.scales, &fault, call];
    planner.dispatch(&KERNEL, &overrides, &bound, &p, [groups, most as u32, 1])
}
