//! The figure of chapter 6A.

use super::{open_bytes, rotated};
use crate::blocks::b6a_kv_cache::{Format, Plane, SourceCache};
use crate::lab::figure::{CacheFigure, EntryBytes, LedgerLine};
use crate::lab::run::Run;

/// The newest entry of source layer `layer` at the followed token, and the bytes of all sources after the prompt.
pub(super) fn figure(run: &Run, layer: usize) -> CacheFigure {
    let sources = &run.config().kv_source_layers;
    let line = |&layer: &usize| Some(ledger_line(run.config().ratio(layer), layer, run.state.sources[layer].as_ref()?));
    CacheFigure {
        layer,
        entry: run.state_at.sources[layer].as_ref().and_then(|source| entry(run, layer, source)),
        ledger: sources.iter().filter_map(line).collect(),
        tokens: run.prompt.len(),
        bytes: run.state.kv_bytes(),
        per_token: run.config().kv_bytes_per_token(),
        rings: run.state.ring_bytes(),
        open: open_bytes(run),
    }
}

fn entry(run: &Run, layer: usize, source: &SourceCache) -> Option<EntryBytes> {
    let index = source.entries.len().checked_sub(1).filter(|_| source.entries.format == Format::Kv4)?;
    let (codes, scales) = bytes_of(&source.entries, index);
    let (key_codes, key_scales) = bytes_of(&source.keys, index);
    let mut stored = vec![0.0; source.entries.width];
    source.entries.read(index, &mut stored);
    let exact = rotated(run, layer, index).into_iter().map(|v| v as f32).collect();
    Some(EntryBytes { index, codes, scales, key_codes, key_scales, stored, exact })
}

/// Codes and scales of one row.
fn bytes_of(plane: &Plane, row: usize) -> (Vec<u8>, Vec<u8>) {
    let (codes, scales) = Plane::row_bytes(plane.format, plane.width);
    (plane.codes[row * codes..][..codes].to_vec(), plane.scales[row * scales..][..scales].to_vec())
}

/// What a source holds. An entry's share per token follows from its bytes and the ratio, so that it is there before the first entry is.
fn ledger_line(ratio: usize, layer: usize, source: &SourceCache) -> LedgerLine {
    let row = |plane: &Plane| {
        let (codes, scales) = Plane::row_bytes(plane.format, plane.width);
        codes + scales
    };
    // Rows kept in f32 count as codes.
    let codes = |plane: &Plane| plane.bytes() - plane.scales.len();
    let (entries, keys) = (&source.entries, &source.keys);
    LedgerLine {
        layer,
        ratio,
        entries: entries.len(),
        parts: [codes(entries), entries.scales.len(), codes(keys), keys.scales.len()],
        per_token: (row(entries) + row(keys)) as f64 / ratio.max(1) as f64,
    }
}
