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
    for (file, range) in wanted {
        if range.end > sources[*file].len() {
            // Its own words for a range beyond its end.
            sources[*file].read(range.clone()).await?;
        }
        out.push(zeroed(range.end - range.start)?);
    }
    let out = Mutex::new(out);
    let shared = &out;
    let runs = runs(sources, wanted);
    let reads = runs.iter().flat_map(Run::pieces).map(|(run, piece)| async move {
        let bytes = sources[run.file].read(piece.clone()).await?;
        let mut out = shared.lock().unwrap_or_else(PoisonError::into_inner);
        for &number in &run.wanted {
            let range = &wanted[number].1;
            let overlap = range.start.max(piece.start)..range.end.min(piece.end);
            if overlap.start < overlap.end {
                let from = (overlap.start - piece.start) as usize..(overlap.end - piece.start) as usize;
                let to = (overlap.start - range.start) as usize..(overlap.end - range.start) as usize;
                out[number][to].copy_from_slice(&bytes[from]);
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

/// Neighbours in one file.
struct Run {
    file: usize,
    range: Range<u64>,
    /// Which of the wanted ranges lie in it.
    wanted: Vec<usize>,
}

impl Run {
    /// What is read at once.
    fn pieces(&self) -> impl Iterator<Item = (&Run, Range<u64>)> {
        let starts = self.range.clone().step_by(PIECE as usize);
        starts.map(move |start| (self, start..(start + PIECE).min(self.range.end)))
    }
}

/// The wanted ranges, widened to each source's grain, joined where hardly anything lies between.
fn runs(sources: &[ByteSource], wanted: &[(usize, Range<u64>)]) -> Vec<Run> {
    let mut order: Vec<usize> = (0..wanted.len()).filter(|&number| !wanted[number].1.is_empty()).collect();
    order.sort_by_key(|&number| (wanted[number].0, wanted[number].1.start));
    let mut runs: Vec<Run> = Vec::new();
    for number in order {
        let (file, range) = (wanted[number].0, &wanted[number].1);
        let (grain, len) = (sources[file].grain().unwrap_or(1), sources[file].len());
        let range = range.start / grain * grain..range.end.next_multiple_of(grain).min(len);
        match runs.last_mut() {
            Some(run) if run.file == file && range.start <= run.range.end + GAP => {
                run.range.end = run.range.end.max(range.end);
                run.wanted.push(number);
            }
            _ => runs.push(Run { file, range, wanted: vec![number] }),
        }
    }
    runs
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
        let runs = runs(&sources, &wanted);
        let pieces: Vec<_> = runs.iter().flat_map(Run::pieces).map(|(run, piece)| (run.file, piece)).collect();
        assert_eq!(pieces, expected);
        assert_eq!(runs[0].wanted, [6, 0, 2, 3]);
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
