//! Rows of n-gram tables, kept in memory: the tables stay where they are (98 GB each), and words repeat.

use std::collections::HashMap;

/// Most rows that are kept: 17 MB in the release, where a row has 264 bytes with its scales.
const MOST: usize = 1 << 16;

/// Stored bytes of rows by tensor and row. The rows that were not used for longest go first, half of them at a time: that costs less than a
/// list in exact order, and hardly a hit.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: HashMap<(usize, u64), Row>,
    clock: u64,
}

#[derive(Debug)]
struct Row {
    bytes: Vec<u8>,
    used: u64,
}

impl Rows {
    /// The row, and notes that it was used.
    pub(super) fn get(&mut self, tensor: usize, row: u64) -> Option<&[u8]> {
        self.clock += 1;
        let found = self.rows.get_mut(&(tensor, row))?;
        found.used = self.clock;
        Some(&found.bytes)
    }

    /// Whether the row is here; it does not count as used.
    pub(super) fn has(&self, tensor: usize, row: u64) -> bool {
        self.rows.contains_key(&(tensor, row))
    }

    pub(super) fn insert(&mut self, tensor: usize, row: u64, bytes: Vec<u8>) {
        if self.rows.len() >= MOST {
            let mut ages: Vec<u64> = self.rows.values().map(|row| row.used).collect();
            let (_, &mut middle, _) = ages.select_nth_unstable(MOST / 2);
            self.rows.retain(|_, row| row.used >= middle);
        }
        self.clock += 1;
        self.rows.insert((tensor, row), Row { bytes, used: self.clock });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_half_goes() {
        let mut rows = Rows::default();
        for row in 0..MOST as u64 {
            rows.insert(0, row, vec![row as u8]);
        }
        // An old row that is used again is not old.
        assert_eq!(rows.get(0, 5), Some(&[5][..]));
        rows.insert(1, 0, vec![9]);
        assert!(rows.has(0, 5) && rows.has(1, 0) && rows.has(0, MOST as u64 - 1));
        assert!(!rows.has(0, 4) && !rows.has(0, 100));
        assert!(rows.rows.len() <= MOST / 2 + 1);
    }
}
