//! 6A: what a sequence keeps, byte by byte.

mod checks;
mod figure;

use super::begin;
use crate::blocks::b6a_kv_cache::Format;
use crate::blocks::tap::Tap;
use crate::lab::again::{turn, wide};
use crate::lab::content::{Cell, Chapter, Table, Tensor, Text};
use crate::lab::figure::Figure;
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
    let (config, layer) = (run.config(), shown(run));
    let entries = run.visible(layer);
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
    chapter.tables.extend(entry_bytes(run, layer));
    chapter.notes.push(whose(run, layer));
    let (rings, open) = (run.state.ring_bytes(), open_bytes(run));
    chapter.notes.push(Text::of(
        format!("Ngoài ra: vòng đệm cửa sổ {rings} byte (cố định) và nhóm còn mở {open} byte."),
        format!("Besides: window rings {rings} bytes (fixed) and open groups {open} bytes."),
    ));
    chapter.checks = checks::all(run);
    chapter.figure = Some(Figure::Cache(figure::figure(run, layer)));
    chapter
}

/// The source layer whose entries are shown: the one that the chosen layer reads; the first, if it reads none.
fn shown(run: &Run) -> usize {
    let config = run.config();
    config.kv_source(run.layer).or(config.kv_source_layers.first().copied()).unwrap_or(0)
}

/// Why that layer is shown, and whether there is an entry yet.
fn whose(run: &Run, source: usize) -> Text {
    let (config, layer) = (run.config(), run.layer);
    let (mut vi, mut en) = match config.kv_source(layer) {
        Some(_) if layer == source => {
            (format!("Lớp {layer} tự ghi entry của nó."), format!("Layer {layer} writes entries of its own."))
        }
        Some(_) => (
            format!("Lớp {layer} không ghi gì: nó đọc entry của lớp {source}, và ở đây là byte của lớp ấy."),
            format!("Layer {layer} writes none: it reads those of layer {source}, whose bytes are shown here."),
        ),
        None => (
            format!("Lớp {layer} chỉ có cửa sổ, không đọc entry nào; ở đây là lớp nguồn đầu tiên, lớp {source}."),
            format!(
                "Layer {layer} has a window alone and reads no entries; shown is the first source, layer {source}."
            ),
        ),
    };
    if run.visible(source) == 0 {
        let ratio = config.ratio(source);
        vi += &format!(" Chưa có nhóm {ratio} token nào đủ, nên chưa có entry.");
        en += &format!(" No group of {ratio} tokens is full yet, so there is no entry.");
    }
    Text::of(vi, en)
}

/// Bytes of the groups that are still open after the prompt.
fn open_bytes(run: &Run) -> usize {
    let sources = run.state.sources.iter().flatten();
    sources.map(|source| 4 * (source.partial.value.len() + source.partial.score.len())).sum()
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
    let mut table = Table::new(title, run.badge(), columns);
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
fn entry_bytes(run: &Run, layer: usize) -> Option<Table> {
    let config = run.config();
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
    let mut table = Table::new(title, run.badge(), columns);
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
