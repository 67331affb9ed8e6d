//! Many tensors in few requests: neighbours are read as one range, long ranges in pieces, several pieces at a time.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::http::{IN_FLIGHT, PIECE, join};
use super::source::ByteSource;
use crate::{Error, Result};

/// Bytes between two tensors that are rather read and dropped than asked around: about what a request costs.
const GAP: u64 = 256 << 10;

/// The bytes of all `wanted` ranges, each a source's number and a range within it, in their order.
///
/// # Errors
/// As [`ByteSource::read`].
pub(super) async fn read_together(sources: &[ByteSource], wanted: &[(usize, Range<u64>)]) -> Result<Vec<Vec<u8>>> {
    let mut out = Vec::with_capacity(wanted.len());
    for (_, range) in wanted {
        out.push(zeroed(range.end - range.start)?);
    }
    let out = Mutex::new(out);
    let shared = &out;
    let reads = pieces(sources, wanted).into_iter().map(|(file, piece)| async move {
        let bytes = sources[file].read(piece.clone()).await?;
        let mut out = shared.lock().unwrap_or_else(PoisonError::into_inner);
        for ((of, range), out) in wanted.iter().zip(out.iter_mut()) {
            let overlap = range.start.max(piece.start)..range.end.min(piece.end);
            if *of == file && overlap.start < overlap.end {
                let from = (overlap.start - piece.start) as usize..(overlap.end - piece.start) as usize;
                let to = (overlap.start - range.start) as usize..(overlap.end - range.start) as usize;
                out[to].copy_from_slice(&bytes[from]);
            }
        }
        Ok(())
    });
    join(reads, IN_FLIGHT).await?;
    Ok(out.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn zeroed(len: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match usize::try_from(len).map(|len| bytes.try_reserve_exact(len).map(|()| len)) {
        Ok(Ok(len)) => bytes.resize(len, 0),
        _ => {
            return Err(Error::DoesNotFit {
                what: "one tensor".into(),
                needed: format!("{len} bytes"),
                available: "less memory than that".into(),
            });
        }
    }
    Ok(bytes)
}

/// What is read: the wanted ranges, widened to each source's grain, joined where hardly anything lies between, cut to pieces.
fn pieces(sources: &[ByteSource], wanted: &[(usize, Range<u64>)]) -> Vec<(usize, Range<u64>)> {
    let widened = wanted.iter().filter(|(_, range)| range.start < range.end).map(|(file, range)| {
        let (grain, len) = (sources[*file].grain().unwrap_or(1), sources[*file].len());
        (*file, range.start / grain * grain..range.end.next_multiple_of(grain).min(len))
    });
    let mut sorted: Vec<(usize, Range<u64>)> = widened.collect();
    sorted.sort_by_key(|(file, range)| (*file, range.start));
    let mut runs: Vec<(usize, Range<u64>)> = Vec::new();
    for (file, range) in sorted {
        match runs.last_mut() {
            Some((of, run)) if *of == file && range.start <= run.end + GAP => run.end = run.end.max(range.end),
            _ => runs.push((file, range)),
        }
    }
    let cut = |(file, run): (usize, Range<u64>)| {
        let starts = run.clone().step_by(PIECE as usize);
        starts.map(move |start| (file, start..(start + PIECE).min(run.end)))
    };
    runs.into_iter().flat_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Vec<ByteSource> {
        let bytes = |seed: u64| (0..(20u64 << 20)).map(|i| (i * 7 + seed + (i >> 8)) as u8).collect::<Vec<u8>>();
        vec![ByteSource::memory("a", bytes(0)), ByteSource::memory("b", bytes(3))]
    }

    #[test]
    fn neighbours_are_one_range_of_at_most_eight_mib() {
        let sources = sources();
        let mib = 1 << 20;
        let wanted =
            [(0, 5..10), (1, 0..4), (0, 10..20), (0, 20 + GAP..30 + GAP), (0, mib..10 * mib), (0, 7..7), (0, 0..5)];
        let expected = [(0, 0..30 + GAP), (0, mib..9 * mib), (0, 9 * mib..10 * mib), (1, 0..4)];
        assert_eq!(pieces(&sources, &wanted), expected);
    }

    #[test]
    fn together_as_one_by_one() {
        let sources = sources();
        let wanted = [(0, 100..9 << 20), (1, 5..5), (0, 0..50), (1, 1 << 20..(1 << 20) + 77), (0, 60..200)];
        let together = pollster::block_on(read_together(&sources, &wanted)).unwrap();
        for ((file, range), bytes) in wanted.iter().zip(&together) {
            assert!(*bytes == pollster::block_on(sources[*file].read(range.clone())).unwrap(), "{file} {range:?}");
        }
        assert!(pollster::block_on(read_together(&sources, &[(0, 0..21 << 20)])).is_err());
    }
}
