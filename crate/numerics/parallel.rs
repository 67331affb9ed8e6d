//! When to use more than one thread.
//!
//! Waking threads costs about as much as a few hundred thousand multiplications. A small model decodes with products far below that, so
//! every parallel loop first asks whether it pays. Threads never share an output, so they change no bit of it.

use rayon::prelude::*;

/// Multiplications below which starting threads costs more than it saves.
const PARALLEL_FROM: usize = 1 << 18;

/// Calls `work(index, chunk)` for every chunk of `out`, on all threads if that pays; one element of `out` costs `cost` multiplications.
pub(crate) fn for_each_chunk<T: Send>(
    out: &mut [T],
    chunk: usize,
    cost: usize,
    work: impl Fn(usize, &mut [T]) + Send + Sync,
) {
    if out.len().saturating_mul(cost) < PARALLEL_FROM {
        out.chunks_mut(chunk).enumerate().for_each(|(index, out)| work(index, out));
    } else {
        out.par_chunks_mut(chunk).enumerate().for_each(|(index, out)| work(index, out));
    }
}

/// `work(index)` for every index below `n`, in order, on all threads; one index alone stays on this one.
pub(crate) fn map_all<T: Send>(n: usize, work: impl Fn(usize) -> T + Send + Sync) -> Vec<T> {
    if n == 1 { vec![work(0)] } else { (0..n).into_par_iter().map(work).collect() }
}
