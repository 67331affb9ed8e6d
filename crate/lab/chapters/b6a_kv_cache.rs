//! 6A: what a sequence keeps, byte by byte.

use super::begin;
use crate::blocks::b6a_kv_cache::Format;
use crate::blocks::tap::Tap;
use crate::lab::again::{turn, wide};
use crate::lab::content::{Badge, Cell, Chapter, Check, Table, Tensor, Text};
use crate::lab::run::Run;
use crate::numerics::{e2m1, e4m3, quant};

const LOOK_FOR: Text = Text::new(
    "Chỉ các lớp nguồn giữ KV toàn cục; cộng số byte mỗi token của chúng lại thì được 890 (với kích thước của bản phát hành).",
    "Only the source layers keep global KV; their bytes per token add up to 890 (with the released geometry).",
);
const HAPPENS: Text = Text::new(
    "Mỗi entry được lượng tử hoá FP4 (E2M1: 4 bit mỗi số, hai số một byte) với một scale E4M3 cho mỗi 16 số; khoá chỉ mục cũng FP4, với \
     một scale E8M0 cho mỗi 32 số. Những gì lưu là những gì mọi lớp đọc: không ai giữ bản chính xác hơn. Vòng đệm cửa sổ dùng FP8 và có \
     kích thước cố định, nên không tính vào số byte mỗi token.",
    "Each entry is quantised to FP4 (E2M1: 4 bits a number, two to a byte) with one E4M3 scale per 16 numbers; index keys are FP4 too, with \
     one E8M0 scale per 32. What is stored is what every layer reads: nobody keeps a finer copy. The window rings are FP8 and of fixed \
     size, so they do not count per token.",
);
const FORMULA: &[Text] = &[
    Text::new(
        "entry = head_dim/2 mã + head_dim/16 scale     khoá = index_dim/2 mã + index_dim/32 scale",
        "entry = head_dim/2 codes + head_dim/16 scales     key = index_dim/2 codes + index_dim/32 scales",
    ),
    Text::new(
        "byte mỗi token = Σ theo lớp nguồn (entry + khoá) / tỷ lệ",
        "bytes per token = Σ over source layers (entry + key) / ratio",
    ),
    Text::new(
        "bản phát hành: (256 + 32 + 64 + 4) × (½ + ½ + ½ + 1) = 356 × 2.5 = 890",
        "release: (256 + 32 + 64 + 4) × (½ + ½ + ½ + 1) = 356 × 2.5 = 890",
    ),
];

/// The chapter.
pub(super) fn chapter(run: &Run) -> Chapter {
    let (config, n) = (run.config(), run.n());
    let entries = n / config.ratio(run.focus()).max(1);
    let mut chapter = begin(LOOK_FOR, HAPPENS, FORMULA);
    chapter.inputs.push(Tensor::new(
        Tap::Latent.name(),
        &[entries, config.head_dim],
        Text::new("latent, rồi xoay theo vị trí của nhóm", "latents, then rotated by the group's position"),
    ));
    for (tap, width, about) in [
        (
            Tap::CompressedKv,
            config.head_dim,
            Text::new("entry như mọi lớp đọc thấy", "entries as every layer reads them"),
        ),
        (
            Tap::IndexKeys,
            config.index_head_dim,
            Text::new("khoá chỉ mục như bộ chỉ mục đọc thấy", "index keys as the indexer reads them"),
        ),
    ] {
        chapter.outputs.push(Tensor::new(tap.name(), &[entries, width], about));
    }
    chapter.tables.push(ledger(run));
    chapter.tables.extend(entry_bytes(run));
    let (rings, state) = (run.state.ring_bytes(), &run.state);
    let open =
        state.sources.iter().flatten().map(|source| 4 * (source.partial.value.len() + source.partial.score.len()));
    let open: usize = open.sum();
    chapter.notes.push(Text::of(
        format!("Ngoài ra: vòng đệm cửa sổ {rings} byte (cố định) và nhóm còn mở {open} byte."),
        format!("Besides: window rings {rings} bytes (fixed) and open groups {open} bytes."),
    ));
    chapter.checks.push(bytes_by_layer(run));
    chapter.checks.push(bytes_in_all(run));
    chapter.checks.push(read_again(run));
    chapter.checks.push(scales(run));
    chapter.checks.extend(rounding(run));
    chapter
}

/// Bytes of an entry and of a key, as the formula has them.
fn record(run: &Run) -> (usize, usize) {
    let (entry, key) = (run.config().head_dim, run.config().index_head_dim);
    (entry / 2 + entry / 16, key / 2 + key / 32)
}

fn ledger(run: &Run) -> Table {
    let columns = vec![
        Text::new("lớp nguồn", "source layer"),
        Text::new("tỷ lệ", "ratio"),
        Text::same("entry"),
        Text::new("mã KV", "KV codes"),
        Text::new("scale KV", "KV scales"),
        Text::new("mã khoá", "key codes"),
        Text::new("scale khoá", "key scales"),
        Text::new("tổng byte", "bytes"),
        Text::new("byte mỗi token", "bytes per token"),
    ];
    let title = Text::of(
        format!("Sổ byte sau prompt {} token, đếm trong bộ đệm", run.prompt.len()),
        format!("Bytes after the prompt of {} tokens, counted in the cache", run.prompt.len()),
    );
    let mut table = Table::new(title, Badge::CpuReference, columns);
    let mut sums = [0usize; 6];
    let mut per_token = 0.0;
    for &layer in &run.config().kv_source_layers {
        let Some(source) = &run.state.sources[layer] else { continue };
        let ratio = run.config().ratio(layer);
        let (entries, keys) = (&source.entries, &source.keys);
        let parts = [entries.codes.len(), entries.scales.len(), keys.codes.len(), keys.scales.len()];
        let total: usize = parts.iter().sum();
        // Whole groups only: an open one has no bytes yet.
        let tokens = entries.len() * ratio;
        let each = if tokens == 0 { 0.0 } else { total as f64 / tokens as f64 };
        let mut row: Vec<Cell> = vec![layer.into(), ratio.into(), entries.len().into()];
        row.extend(parts.map(Cell::from));
        row.extend([Cell::from(total), Cell::from(each)]);
        table.push(row);
        for (sum, part) in sums.iter_mut().zip([&[entries.len()][..], &parts, &[total]].concat()) {
            *sum += part;
        }
        per_token += each;
    }
    let mut row = vec![Cell::from(Text::new("cộng", "sum")), Cell::Empty];
    row.extend(sums.map(Cell::from));
    row.push(per_token.into());
    table.push(row);
    table
}

/// The first group of the newest entry, code by code.
fn entry_bytes(run: &Run) -> Option<Table> {
    let (config, layer) = (run.config(), run.focus());
    let source = run.state_at.sources[layer].as_ref()?;
    let entry = source.entries.len().checked_sub(1)?;
    if source.entries.format != Format::Kv4 {
        return None;
    }
    let title = Text::of(
        format!("Lớp {layer}, entry {entry}: vài nhóm 16 số, như chúng nằm trong bộ nhớ"),
        format!("Layer {layer}, entry {entry}: some groups of 16 numbers as they lie in memory"),
    );
    let columns = vec![
        Text::new("chiều", "dims"),
        Text::new("scale (byte)", "scale (byte)"),
        Text::new("8 byte mã", "8 bytes of codes"),
        Text::new("số lưu [0]", "stored [0]"),
        Text::same("[1]"),
        Text::new("số gốc [0]", "exact [0]"),
        Text::same("[1]"),
    ];
    let mut table = Table::new(title, Badge::CpuReference, columns);
    let (groups, exact) = (config.head_dim / quant::KV4_GROUP, rotated(run, layer, entry));
    for group in [0, 1, groups - 1] {
        let scale = source.entries.scales[entry * groups + group];
        let codes = &source.entries.codes[(entry * groups + group) * 8..][..8];
        let hex: Vec<String> = codes.iter().map(|byte| format!("{byte:02X}")).collect();
        let value = |i: usize| {
            let code = codes[i / 2] >> (4 * (i % 2)) & 0xF;
            f64::from(e2m1::decode(code) * e4m3::decode(scale))
        };
        let first = group * quant::KV4_GROUP;
        let mut row: Vec<Cell> = vec![format!("{first}–{}", first + quant::KV4_GROUP - 1).into()];
        row.push(format!("{} ({scale:02X})", e4m3::decode(scale)).into());
        row.push(hex.join(" ").into());
        row.extend((0..2).map(|i| Cell::from(value(i))));
        row.extend(exact.iter().skip(first).take(2).map(|&v| Cell::from(v)));
        table.push(row);
    }
    Some(table)
}

/// Entry `entry` of `layer` before quantisation: its latent, turned by the position of the group's first token.
fn rotated(run: &Run, layer: usize, entry: usize) -> Vec<f64> {
    let mut latent = wide(run.seen.row(Tap::Latent, layer, entry));
    if latent.len() == run.config().head_dim {
        turn(run.config(), true, entry * run.config().ratio(layer), false, &mut latent);
    }
    latent
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
