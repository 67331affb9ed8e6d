//! 1B: rows of a huge table, found by the last tokens alone.

use super::{begin, same};
use crate::blocks::tap::Tap;
use crate::lab::content::{Badge, Cell, Chapter, Check, Table, Tensor, Text};
use crate::lab::figure::{EngramFigure, Figure, HashRow, HashStep, LayerGates};
use crate::lab::labels;
use crate::lab::run::Run;
use crate::weights::EngramTables;

const LOOK_FOR: Text = Text::new(
    "Địa chỉ của các hàng chỉ phụ thuộc vào vài token cuối, nên biết được trước khi tính bất cứ lớp nào; cổng mới là chỗ trạng thái \
     hiện tại quyết định lấy bao nhiêu.",
    "Which rows are read follows from the last few tokens alone, so it is known before any layer runs; only the gate lets the \
     current state decide how much of them to take.",
);
const HAPPENS: Text = Text::new(
    "Mã của các token cuối được rút gọn (bỏ phân biệt hoa thường, dấu, khoảng trắng), nhân với hằng số lẻ, XOR với nhau rồi chia lấy \
     dư cho các số nguyên tố. Mỗi cỡ n-gram (cụm n token liền nhau) và mỗi đầu băm cho một hàng. Các hàng tìm được thành một value \
     chung và một key cho mỗi luồng; gate (cổng) so key với luồng. Vị trí ảnh chặn tầm nhìn và không nhận gì.",
    "The ids of the last tokens are compressed (case, accents and spaces folded), multiplied by odd constants, XORed, and reduced \
     modulo primes. Each n-gram size and each hash head gives one row. The rows found become one value for all streams and one key per \
     stream; a gate compares key and stream. Picture positions block the view and receive nothing.",
);
const FORMULA: &[Text] = &[
    Text::new(
        "v_n  = ⊕_{k<n} t_k · m_k                      64 bit; t_k: mã rút gọn lùi k vị trí, hoặc pad",
        "v_n  = ⊕_{k<n} t_k · m_k                      64-bit; t_k: compressed id k places back, or pad",
    ),
    Text::both("row  = v_n mod prime[n, head] + offset[n, head]"),
    Text::new(
        "g_c  = sigmoid(sign(d) √|d|)                  d: tích chuẩn hoá của luồng c và key của nó",
        "g_c  = sigmoid(sign(d) √|d|)                  d: normalised product of stream c and its key",
    ),
    Text::new(
        "h_c += g_c · value                            g_c = 0 ở vị trí ảnh",
        "h_c += g_c · value                            g_c = 0 for picture positions",
    ),
];

/// The chapter.
pub(super) fn chapter(run: &Run) -> Chapter {
    let config = run.config();
    let mut chapter = begin(LOOK_FOR, HAPPENS, FORMULA);
    let (n, columns) = (run.n(), config.engram_columns());
    chapter.inputs.push(Tensor::new("ids", &[n], Text::new("mã token", "token ids")));
    let Some(which) = shown(&config.engram_layer_ids, run.layer) else {
        chapter.notes.push(Text::new("Mô hình này không có Engram.", "This model has no Engram."));
        return chapter;
    };
    let layer = config.engram_layer_ids[which];
    let table = [config.engram_num_embeddings[which] as usize, config.engram_head_dim];
    let about = Text::of(format!("bảng FP8 của lớp {layer}"), format!("FP8 table of layer {layer}"));
    chapter.inputs.push(Tensor::new("engram.embed", &table, about));
    chapter.outputs.push(Tensor::new(
        Tap::EngramRows.name(),
        &[n, columns],
        Text::of(format!("các hàng mà lớp {layer} đọc"), format!("the rows that layer {layer} reads")),
    ));
    chapter.outputs.push(Tensor::new(
        Tap::EngramGate.name(),
        &[n, config.hc_mult],
        Text::of(format!("cổng của mỗi luồng ở lớp {layer}"), format!("gate of each stream in layer {layer}")),
    ));
    let figure = figure(run, which);
    chapter.tables.push(machine(&figure));
    chapter.tables.push(found(&figure));
    chapter.tables.push(gates(run));
    chapter.notes.extend(notes(run, layer));
    chapter.checks.push(in_range(run));
    chapter.checks.push(hashed_again(run));
    chapter.checks.extend(gate_checks(run));
    chapter.figure = Some(Figure::Engram(figure));
    chapter
}

/// Which Engram layer to show for the chosen layer: that layer, or the nearest one before it, or the first.
fn shown(layers: &[usize], chosen: usize) -> Option<usize> {
    let passed = layers.iter().filter(|&&layer| layer <= chosen).count();
    (!layers.is_empty()).then(|| passed.saturating_sub(1))
}

fn notes(run: &Run, shown: usize) -> Vec<Text> {
    let mut notes = Vec::new();
    let chosen = run.layer;
    if shown < chosen {
        notes.push(Text::of(
            format!("Lớp {chosen} không có Engram; đây là lớp {shown}, lớp Engram gần nhất trước nó."),
            format!("Layer {chosen} has no Engram; this is layer {shown}, the nearest one before it that has."),
        ));
    } else if shown > chosen {
        notes.push(Text::of(
            format!("Lớp {chosen} đứng trước mọi lớp Engram; đây là lớp đầu tiên có nó, lớp {shown}."),
            format!("Layer {chosen} stands before every Engram; this is the first layer that has one, layer {shown}."),
        ));
    }
    if run.prompt.types[run.at].is_image() {
        notes.push(Text::new(
            "Token đang theo là một phần của ảnh: mọi mã đều là pad và cổng bằng 0, nên không có gì được cộng vào.",
            "The followed token is part of a picture: all its ids are pads and its gates are 0, so nothing is added.",
        ));
    }
    notes
}

fn figure(run: &Run, which: usize) -> EngramFigure {
    let layers = &run.config().engram_layer_ids;
    let gates = |&layer: &usize| LayerGates { layer, gates: run.seen.row(Tap::EngramGate, layer, run.at).to_vec() };
    EngramFigure {
        layer: layers[which],
        blocked: run.prompt.types[run.at].is_image(),
        steps: steps(run, which),
        rows: rows(run, which),
        gates: layers.iter().map(gates).collect(),
    }
}

/// The hash at the followed token, place by place.
fn steps(run: &Run, which: usize) -> Vec<HashStep> {
    let (ids, multipliers) = (seen_ids(run, run.at), &run.checkpoint.engram.multipliers[which]);
    let in_view = view(run, run.at);
    let step = |(back, (&id, &multiplier)): (usize, (&u64, &u64))| {
        let position = (back < in_view).then(|| run.at - back);
        HashStep {
            back,
            position,
            label: position.map_or("(pad)".into(), |p| labels::token(run, run.prompt.ids[p])),
            compressed: id as u32,
            multiplier: format!("{multiplier:x}"),
            product: format!("{:x}", id.wrapping_mul(multiplier)),
            hash: format!("{:x}", mixed(&ids, multipliers, back + 1)),
        }
    };
    ids.iter().zip(multipliers).enumerate().map(step).collect()
}

/// The rows that the hash finds at the followed token, by size and head.
fn rows(run: &Run, which: usize) -> Vec<HashRow> {
    let (tables, heads) = (&run.checkpoint.engram, run.config().engram_n_heads);
    let ids = seen_ids(run, run.at);
    let row = |(column, (&prime, offset)): (usize, (&u64, u64))| {
        let size = column / heads + 2;
        let remainder = mixed(&ids, &tables.multipliers[which], size) % prime;
        HashRow { size, head: column % heads, prime, remainder, offset, row: remainder + offset }
    };
    tables.primes[which].iter().zip(starts(tables, which)).enumerate().map(row).collect()
}

/// How many tokens position `p` sees, itself included: up to the longest n-gram, the beginning, or a picture.
fn view(run: &Run, p: usize) -> usize {
    let back = (0..run.config().engram_max_ngram_size).map_while(|back| p.checked_sub(back));
    back.take_while(|&place| !run.prompt.types[place].is_image()).count()
}

/// Compressed ids that position `p` sees, newest first; pad from the first thing on that blocks the view.
fn seen_ids(run: &Run, p: usize) -> Vec<u64> {
    let tables = &run.checkpoint.engram;
    let compressed = |back| u64::from(tables.token_map[run.prompt.ids[p - back] as usize]);
    let mut ids: Vec<u64> = (0..view(run, p)).map(compressed).collect();
    ids.resize(run.config().engram_max_ngram_size, u64::from(tables.pad_id));
    ids
}

/// `v_n` of the first `n` ids.
fn mixed(ids: &[u64], multipliers: &[u64], n: usize) -> u64 {
    ids.iter().zip(multipliers).take(n).fold(0, |v, (id, m)| v ^ id.wrapping_mul(*m))
}

fn machine(figure: &EngramFigure) -> Table {
    let layer = figure.layer;
    let title = Text::of(
        format!("Máy băm của lớp {layer} tại token đang theo"),
        format!("The hash of layer {layer} at the followed token"),
    );
    let mut columns = vec![Text::same("k"), Text::same("token"), Text::new("mã rút gọn t_k", "compressed id t_k")];
    columns.extend(same(&["m_k (hex)", "v_{k+1} (hex)"]));
    let mut table = Table::new(title, Badge::CpuReference, columns);
    for step in &figure.steps {
        let id = u64::from(step.compressed);
        let words = [&step.multiplier, &step.hash].map(|word| Cell::from(word.clone()));
        table.push([step.back.into(), step.label.clone().into(), id.into()].into_iter().chain(words).collect());
    }
    table
}

/// Where each column starts, summed up here from the primes.
fn starts(tables: &EngramTables, which: usize) -> Vec<u64> {
    let primes = &tables.primes[which];
    (0..primes.len()).map(|column| primes[..column].iter().sum()).collect()
}

fn found(figure: &EngramFigure) -> Table {
    let layer = figure.layer;
    let title = Text::of(
        format!("Hàng tìm được ở lớp {layer}, hai đầu băm đầu của mỗi cỡ"),
        format!("Rows found for layer {layer}, first two heads of each size"),
    );
    let columns = vec![
        Text::new("cỡ n", "size n"),
        Text::new("đầu băm", "head"),
        Text::new("số nguyên tố", "prime"),
        Text::new("số dư", "remainder"),
        Text::new("bắt đầu", "offset"),
        Text::new("hàng", "row"),
    ];
    let mut table = Table::new(title, Badge::CpuReference, columns);
    for row in figure.rows.iter().filter(|row| row.head < 2) {
        let hash = [row.prime, row.remainder, row.offset, row.row].map(Cell::from);
        table.push([row.size.into(), row.head.into()].into_iter().chain(hash).collect());
    }
    table
}

fn gates(run: &Run) -> Table {
    let mut columns = vec![Text::new("lớp", "layer")];
    columns.extend((0..run.config().hc_mult).map(|lane| Text::of(format!("luồng {lane}"), format!("stream {lane}"))));
    let title = Text::new("Cổng của token đang theo", "Gates of the followed token");
    let mut table = Table::new(title, run.badge(), columns);
    for &layer in &run.config().engram_layer_ids {
        let row = run.seen.row(Tap::EngramGate, layer, run.at);
        table.push(std::iter::once(layer.into()).chain(row.iter().map(|&g| Cell::from(g))).collect());
    }
    table
}

fn in_range(run: &Run) -> Check {
    let (config, columns) = (run.config(), run.config().engram_columns());
    let (mut wrong, mut count) = (0, 0);
    for (which, &layer) in config.engram_layer_ids.iter().enumerate() {
        let (starts, primes) = (starts(&run.checkpoint.engram, which), &run.checkpoint.engram.primes[which]);
        for (i, &row) in run.seen.indices(Tap::EngramRows, layer).iter().enumerate() {
            let column = i % columns;
            let range = starts[column] as i64..(starts[column] + primes[column]) as i64;
            wrong += usize::from(!range.contains(&row) || row as u64 >= config.engram_num_embeddings[which]);
            count += 1;
        }
    }
    let what = Text::new(
        "Mỗi hàng nằm trong bảng, đúng đoạn của cỡ n-gram và đầu băm của nó",
        "Every row lies in the table, in the stretch of its n-gram size and head",
    );
    Check::none_wrong(what, wrong, count)
}

fn hashed_again(run: &Run) -> Check {
    let (config, tables) = (run.config(), &run.checkpoint.engram);
    let heads = config.engram_n_heads;
    let (mut wrong, mut count) = (0, 0);
    for (which, &layer) in config.engram_layer_ids.iter().enumerate() {
        let starts = starts(tables, which);
        for p in 0..run.n() {
            let ids = seen_ids(run, p);
            let rows = run.seen.index_row(Tap::EngramRows, layer, p);
            for (column, &start) in starts.iter().enumerate() {
                let v = mixed(&ids, &tables.multipliers[which], column / heads + 2);
                let row = v % tables.primes[which][column] + start;
                wrong += usize::from(rows.get(column) != Some(&(row as usize)));
                count += 1;
            }
        }
    }
    let what = Text::new(
        "Băm lại từ hằng số và số nguyên tố cho cùng các hàng, ở mọi vị trí",
        "Hashing again from multipliers and primes gives the same rows, at every position",
    );
    Check::none_wrong(what, wrong, count)
}

fn gate_checks(run: &Run) -> Vec<Check> {
    let lanes = run.config().hc_mult;
    let (mut text, mut image) = ((0, 0), (0, 0));
    for &layer in &run.config().engram_layer_ids {
        for (i, &gate) in run.seen.values(Tap::EngramGate, layer).iter().enumerate() {
            if run.prompt.types[i / lanes].is_image() {
                image = (image.0 + usize::from(gate != 0.0), image.1 + 1);
            } else {
                text = (text.0 + usize::from(!(gate > 0.0 && gate < 1.0)), text.1 + 1);
            }
        }
    }
    let open = Text::new("Cổng của token chữ nằm giữa 0 và 1", "Gates of text tokens lie between 0 and 1");
    let shut = Text::new("Cổng của vị trí ảnh đúng bằng 0", "Gates of picture positions are exactly 0");
    let mut checks = vec![Check::none_wrong(open, text.0, text.1)];
    if image.1 > 0 {
        checks.push(Check::none_wrong(shut, image.0, image.1));
    }
    checks
}
