//! 1A: rows of the embedding table, or of a picture, copied to all residual streams.
//!
//! The shader:
#![doc = concat!("```wgsl\n", include_str!("../../../shaders/input/embed.wgsl"), "\n```")]

use crate::Result;
use crate::gpu::{Gpu, Kernel, Planner, Tensor, read, read_write, uniform};
use crate::kernels::call::Call;
use crate::kernels::include::{CALL, DECODE};

crate::uniform_struct! {
    /// Parameters of `embed`.
    pub struct Embed {
        /// Width of a stream.
        pub dim: u32,
        /// Streams.
        pub lanes: u32,
        /// Rows of this piece of the table.
        pub rows: u32,
        /// Rows of the table before it.
        pub first: u32,
    }
}

/// The shader and what Rust believes about it.
pub const KERNEL: Kernel = Kernel {
    name: "embed",
    wgsl: crate::wgsl!("../../../shaders/input/embed.wgsl"),
    includes: &[CALL, DECODE],
    bindings: &[
        read("ids"),
        read("images"),
        read("table"),
        read("image_rows"),
        read_write("streams"),
        read_write("pre"),
        uniform::<Call>("call"),
        uniform::<Embed>("p"),
    ],
    overrides: &[],
};

/// Marks a text position in `images`.
pub const TEXT: u32 = u32::MAX;

/// The embedding table in GPU memory `[vocab, dim]`, bf16: whole where the device binds it whole, and otherwise in pieces.
#[derive(Debug, Clone)]
pub struct Table {
    pieces: Vec<Tensor>,
    /// Rows of every piece but the last.
    rows: usize,
}

impl Table {
    /// Copies a table, `bytes` those of its rows.
    ///
    /// # Errors
    /// [`Error::DoesNotFit`](crate::Error::DoesNotFit) if not even one row can be bound.
    pub fn new(gpu: &Gpu, label: &str, [vocab, dim]: [usize; 2], bytes: &[u8]) -> Result<Self> {
        let rows = gpu.rows_of_piece(2 * dim, 1).min(vocab);
        let piece = |bytes: &[u8]| Tensor::bytes(gpu, label, &[bytes.len() / (2 * dim), 2 * dim], bytes);
        Ok(Table { pieces: bytes.chunks(rows * 2 * dim).map(piece).collect::<Result<_>>()?, rows })
    }
}

/// Records the rows of `capacity` positions: `ids`, `images` `[n]`, a `table`, `image_rows` `[pictures, dim]` into `streams` `[n, lanes, dim]` and
/// `pre` `[n, lanes]`. Each piece of the table writes the rows of its own ids.
///
/// # Errors
/// What [`Planner::dispatch`] refuses.
pub fn record(
    planner: &mut Planner<'_>,
    table: &Table,
    tensors: [&Tensor; 5],
    call: &Tensor,
    capacity: usize,
) -> Result<()> {
    let [ids, images, image_rows, streams, pre] = tensors;
    let (lanes, dim) = (streams.shape[1], streams.shape[2]);
    let groups = [capacity as u32, dim.div_ceil(64) as u32, 1];
    for (index, piece) in table.pieces.iter().enumerate() {
        let (rows, first) = (piece.shape[0] as u32, (index * table.rows) as u32);
        let p = Embed { dim: dim as u32, lanes: lanes as u32, rows, first };
        planner.reads(capacity * 2 * dim);
        planner.dispatch(&KERNEL, &[], &[ids, images, piece, image_rows, streams, pre, call], &p, groups)?;
    }
    Ok(())
}
