//! What a run of the lab keeps of its tensors.

use crate::blocks::tap::{Observer, Recorded, Recorder, Tap, Values};
use std::collections::BTreeMap;

/// Recorded tensors by tap and layer.
#[derive(Debug, Clone, Default)]
pub struct Tensors(BTreeMap<(Tap, usize), Recorded>);

impl Tensors {
    /// The tensor of a tap and layer, if it was recorded.
    pub fn get(&self, tap: Tap, layer: usize) -> Option<&Recorded> {
        self.0.get(&(tap, layer))
    }

    /// Its real numbers; empty if it was not recorded.
    pub fn values(&self, tap: Tap, layer: usize) -> &[f32] {
        self.get(tap, layer).map_or(&[], |tensor| &tensor.f32)
    }

    /// Its indices; empty if it was not recorded.
    pub fn indices(&self, tap: Tap, layer: usize) -> &[i64] {
        self.get(tap, layer).map_or(&[], |tensor| &tensor.i64)
    }

    /// One row of its real numbers; empty if there is none.
    pub fn row(&self, tap: Tap, layer: usize, row: usize) -> &[f32] {
        let Some(tensor) = self.get(tap, layer) else { return &[] };
        let width: usize = tensor.shape[1..].iter().product();
        tensor.f32.get(row * width..(row + 1) * width).unwrap_or(&[])
    }

    /// One row of its indices without the padding; empty if there is none.
    pub fn index_row(&self, tap: Tap, layer: usize, row: usize) -> Vec<usize> {
        let Some(tensor) = self.get(tap, layer) else { return Vec::new() };
        let width: usize = tensor.shape[1..].iter().product();
        let row = tensor.i64.get(row * width..(row + 1) * width).unwrap_or(&[]);
        row.iter().filter_map(|&id| usize::try_from(id).ok()).collect()
    }

    /// Takes over all tensors of `newer`.
    pub fn replace(&mut self, newer: Tensors) {
        self.0.extend(newer.0);
    }

    /// Every tensor, in the order in which a token meets the taps.
    pub fn iter(&self) -> impl Iterator<Item = (Tap, usize, &Recorded)> {
        self.0.iter().map(|(&(tap, layer), tensor)| (tap, layer, tensor))
    }
}

impl<F: Fn(Tap, usize) -> bool> From<Recorder<F>> for Tensors {
    fn from(recorder: Recorder<F>) -> Self {
        Tensors(recorder.tensors)
    }
}

/// Whether only the last row of a tap is kept. Queries and heads of all rows and layers would be far larger than everything else together,
/// and only those of the followed token are looked at.
pub fn last_row_only(tap: Tap) -> bool {
    matches!(tap, Tap::Query | Tap::Heads)
}

/// Keeps every tensor, chunk after chunk; of those with [`last_row_only`], the last row.
#[derive(Debug, Default)]
pub(super) struct Everything {
    tensors: BTreeMap<(Tap, usize), Recorded>,
}

impl Observer for Everything {
    fn wants(&self, _: Tap, _: usize) -> bool {
        true
    }

    fn see(&mut self, tap: Tap, layer: usize, shape: &[usize], values: Values<'_>) {
        let mut shape = shape.to_vec();
        let width: usize = shape[1..].iter().product();
        let mut from = 0;
        if last_row_only(tap) && shape[0] > 1 {
            from = (shape[0] - 1) * width;
            shape[0] = 1;
        }
        let (f32, i64): (&[f32], &[i64]) = match values {
            Values::F32(values) => (&values[from..], &[]),
            Values::I64(values) => (&[], &values[from..]),
        };
        let same_call = !last_row_only(tap) && !matches!(tap, Tap::AttnWeights | Tap::HeadsRotated);
        match self.tensors.get_mut(&(tap, layer)) {
            Some(kept) if same_call && kept.shape[1..] == shape[1..] => {
                kept.shape[0] += shape[0];
                kept.f32.extend_from_slice(f32);
                kept.i64.extend_from_slice(i64);
            }
            _ => {
                self.tensors.insert((tap, layer), Recorded { shape, f32: f32.to_vec(), i64: i64.to_vec() });
            }
        }
    }
}

impl From<Everything> for Tensors {
    fn from(everything: Everything) -> Self {
        Tensors(everything.tensors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_row_of_large_taps() {
        let mut seen = Everything::default();
        let values: Vec<f32> = (0..12).map(|i| i as f32).collect();
        seen.see(Tap::Query, 3, &[3, 2, 2], Values::F32(&values));
        seen.see(Tap::AttnOut, 3, &[3, 4], Values::F32(&values));
        seen.see(Tap::TopkIds, 3, &[2, 2], Values::I64(&[0, -1, 1, 2]));
        let tensors = Tensors::from(seen);
        assert_eq!(tensors.get(Tap::Query, 3).unwrap().shape, [1, 2, 2]);
        assert_eq!(tensors.row(Tap::Query, 3, 0), [8.0, 9.0, 10.0, 11.0]);
        assert_eq!(tensors.row(Tap::AttnOut, 3, 1), [4.0, 5.0, 6.0, 7.0]);
        assert_eq!(tensors.index_row(Tap::TopkIds, 3, 0), [0]);
        assert_eq!(tensors.row(Tap::AttnOut, 3, 3), [] as [f32; 0]);
        assert_eq!(tensors.iter().count(), 3);
    }
}
