//! The checks of chapter 6A, on every source layer.

use super::{record, rotated};
use crate::blocks::tap::Tap;
use crate::lab::content::{Check, Text};
use crate::lab::run::Run;
use crate::numerics::{e4m3, quant};

/// All checks.
pub(super) fn all(run: &Run) -> Vec<Check> {
    let mut checks = vec![bytes_by_layer(run), bytes_in_all(run), read_again(run), scales(run)];
    checks.extend(rounding(run));
    checks
}

fn bytes_by_layer(run: &Run) -> Check {
    let (entry, key) = record(run);
    let n = run.prompt.len();
    let mut passed = true;
    let mut parts = Vec::new();
    for &layer in &run.config().kv_source_layers {
        let ratio = run.config().ratio(layer);
        let found = run.state.sources[layer].as_ref().map_or(0, |s| s.entries.bytes() + s.keys.bytes());
        passed &= found == n / ratio * (entry + key);
        parts.push(format!("{}", (entry + key) as f64 / ratio as f64));
    }
    let per_token = run.config().kv_bytes_per_token();
    let what = Text::of(
        format!("Mỗi lớp nguồn giữ ⌊n / tỷ lệ⌋ × ({entry} + {key}) byte"),
        format!("Each source keeps ⌊n / ratio⌋ × ({entry} + {key}) bytes"),
    );
    let sum = format!("{} = {per_token}", parts.join(" + "));
    Check::new(what, passed, Text::of(format!("mỗi token {sum} byte"), format!("per token {sum} bytes")))
}

/// The whole, after prompt and after decoding; exact for even lengths.
fn bytes_in_all(run: &Run) -> Check {
    let (entry, key) = record(run);
    let each = run.config().kv_bytes_per_token();
    let mut passed = true;
    let mut parts = Vec::new();
    for (state, n) in [(&run.state, run.prompt.len()), (&run.state_decoded, run.prompt.len() + 1)] {
        // An odd last token has written only where the ratio is one.
        let even = n - n % 2;
        let whole = run.config().kv_source_layers.iter().filter(|&&layer| run.config().ratio(layer) == 1).count();
        let expected = even as f64 * each + (n % 2 * whole * (entry + key)) as f64;
        passed &= state.kv_bytes() as f64 == expected;
        let rest = if n % 2 == 1 { format!(" + {}", whole * (entry + key)) } else { String::new() };
        parts.push(format!("{} = {each} × {even}{rest}", state.kv_bytes()));
    }
    let what = Text::of(
        format!("Toàn bộ KV toàn cục = {each} byte × n với n chẵn, sau prompt và sau một bước decode"),
        format!("All global KV = {each} bytes × n for even n, after the prompt and after one decode step"),
    );
    Check::new(what, passed, Text::same(parts.join("; ")))
}

/// What attention read when an entry was written is what the cache gives now.
fn read_again(run: &Run) -> Check {
    let (mut wrong, mut count) = (0, 0);
    for &layer in &run.config().kv_source_layers {
        let Some(source) = &run.state.sources[layer] else { continue };
        for (plane, tap) in [(&source.entries, Tap::CompressedKv), (&source.keys, Tap::IndexKeys)] {
            let mut row = vec![0.0; plane.width];
            let written = run.seen.get(tap, layer).map_or(0, |tensor| tensor.shape[0]);
            for entry in 0..written {
                plane.read(entry, &mut row);
                wrong += usize::from(row != run.seen.row(tap, layer, entry));
                count += 1;
            }
        }
    }
    let what = Text::new(
        "Entry và khoá đọc lại từ byte trùng từng bit với lúc mới ghi",
        "Entries and keys, read again from their bytes, equal what was written, bit for bit",
    );
    Check::none_wrong(what, wrong, count)
}

fn scales(run: &Run) -> Check {
    let (mut wrong, mut count) = (0, 0);
    for source in run.state.sources.iter().flatten() {
        wrong += source.entries.scales.iter().filter(|&&byte| byte & 0x7F == 0 || byte & 0x7F == e4m3::NAN).count();
        // E8M0 255 is no number; every other byte is a power of two.
        wrong += source.keys.scales.iter().filter(|&&byte| byte == 255).count();
        count += source.entries.scales.len() + source.keys.scales.len();
    }
    Check::none_wrong(
        Text::new("Không scale nào bằng 0 hay không phải là số", "No scale is zero or not a number"),
        wrong,
        count,
    )
}

/// How far off a stored number of a group with this largest magnitude may be.
///
/// The widest step of E2M1 is from 4 to 6, half of it is one scale. The scale itself, an E4M3 number of at least 2^-9, is rounded by up to a
/// 16th, or by half of 2^-9 where E4M3 is subnormal; rounded down, it cuts the largest number off by six times that.
fn rounding_bound(largest: f64) -> f64 {
    let scale = largest.max(6.0 / 512.0) / 6.0;
    let slip = (scale / 16.0).max(1.0 / 1024.0);
    1.001 * (scale + slip).max(6.0 * slip)
}

/// Entries are their latents, rotated by their group's position, to within half a step of FP4.
fn rounding(run: &Run) -> Option<Check> {
    let (mut wrong, mut count, mut largest) = (0, 0, 0.0f64);
    for &layer in &run.config().kv_source_layers {
        let entries = run.seen.get(Tap::CompressedKv, layer).map_or(0, |tensor| tensor.shape[0]);
        for entry in 0..entries {
            let exact = rotated(run, layer, entry);
            let stored = run.seen.row(Tap::CompressedKv, layer, entry);
            for (exact, stored) in exact.chunks(quant::KV4_GROUP).zip(stored.chunks(quant::KV4_GROUP)) {
                let bound = rounding_bound(exact.iter().fold(0.0, |max: f64, v| max.max(v.abs())));
                for (e, &s) in exact.iter().zip(stored) {
                    let off = (e - f64::from(s)).abs() / bound;
                    largest = largest.max(off);
                    wrong += usize::from(off > 1.0 || off.is_nan());
                    count += 1;
                }
            }
        }
    }
    let what = Text::new(
        "Entry bằng latent xoay theo vị trí đầu nhóm, sai nhiều nhất nửa bước FP4",
        "Entries are latents rotated by their group's first position, to half a step of FP4",
    );
    let numbers = Text::of(
        format!("sai {wrong} trong {count}; lệch lớn nhất bằng {:.0} % giới hạn", 100.0 * largest),
        format!("{wrong} wrong of {count}; the largest error is {:.0} % of the bound", 100.0 * largest),
    );
    (count > 0).then(|| Check::new(what, wrong == 0, numbers))
}
