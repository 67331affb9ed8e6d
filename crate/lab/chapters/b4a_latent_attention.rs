//! 4A: attention over one shared latent.

mod checks;

pub(super) use checks::attended_again;

use super::begin;
use crate::blocks::tap::Tap;
use crate::lab::again::{self, narrow, norm, wide};
use crate::lab::content::{Badge, Cell, Chapter, Table, Tensor, Text};
use crate::lab::figure::{AttentionFigure, Figure};
use crate::lab::labels;
use crate::lab::run::Run;

const LOOK_FOR: Text = Text::new(
    "Mọi đầu đọc cùng những hàng, mỗi hàng vừa là key vừa là value. Sink (chỗ thoát) nhận phần chú ý mà không hàng nào xứng đáng, nên \
     tổng trọng số trên các hàng nhỏ hơn 1.",
    "All heads read the same rows, and a row is key and value at once. The sink takes the attention that no row deserves, so the \
     weights of the rows sum to less than one.",
);
const HAPPENS: Text = Text::new(
    "Query đi qua một hạng thấp rồi được RoPE xoay theo vị trí, chỉ ở các chiều cuối. Mỗi đầu so query với các hàng cửa sổ và các entry \
     đã chọn, softmax thêm một ô sink chỉ nằm ở mẫu số. Vì value mang theo phép xoay của vị trí nó, kết quả được xoay ngược lại. Cuối \
     cùng các đầu đi ra theo nhóm, mỗi nhóm một phép chiếu hạng thấp riêng.",
    "The query passes a low rank and RoPE turns its last dims by the position. Each head compares it with the window rows and the chosen \
     entries; the softmax has one more place, the sink, in its denominator only. Since a value carries the rotation of its position, the \
     result is rotated back. The heads leave in groups, each with a low-rank projection of its own.",
);
const FORMULA: &[Text] = &[
    Text::new(
        "qr = rms_norm(W_qa x)      q = rope_p(W_qb qr)                      các đầu không chuẩn hoá",
        "qr = rms_norm(W_qa x)      q = rope_p(W_qb qr)                      no norm on the heads",
    ),
    Text::both("w_i = exp(q·kv_i / √d) / (Σ_j exp(q·kv_j / √d) + exp(sink))"),
    Text::both("o   = rope_p⁻¹(Σ_i w_i kv_i)"),
    Text::new(
        "y   = W_ob [W_oa[0] o_nhóm 0, W_oa[1] o_nhóm 1, …]",
        "y   = W_ob [W_oa[0] o_group 0, W_oa[1] o_group 1, …]",
    ),
];

/// The chapter.
pub(super) fn chapter(run: &Run) -> Chapter {
    let (config, n, layer) = (run.config(), run.n(), run.layer);
    let mut chapter = begin(LOOK_FOR, HAPPENS, FORMULA);
    let (heads, width) = (config.n_heads, config.head_dim);
    let read = run.seen.get(Tap::AttnWeights, layer).map_or(0, |tensor| tensor.shape[1]);
    chapter.inputs = vec![
        Tensor::new(Tap::AttnInput.name(), &[n, config.dim], Text::new("đầu vào của attention", "input of attention")),
        Tensor::new(
            "kv",
            &[read.saturating_sub(1), width],
            Text::new(
                "hàng cửa sổ và entry mà token đang theo thấy",
                "window rows and entries that the followed token sees",
            ),
        ),
    ];
    chapter.outputs = vec![
        Tensor::new(Tap::Query.name(), &[1, heads, width], Text::new("query đã xoay", "rotated queries")),
        Tensor::new(Tap::AttnWeights.name(), &[heads, read], Text::new("trọng số, sink ở cuối", "weights, sink last")),
        Tensor::new(
            Tap::Heads.name(),
            &[1, heads, width],
            Text::new("các đầu sau khi xoay ngược", "heads, rotated back"),
        ),
        Tensor::new(Tap::AttnOut.name(), &[n, config.dim], Text::new("đầu ra", "output")),
    ];
    chapter.tables.push(weights_table(run, layer));
    chapter.tables.push(rotation_table(run, layer));
    chapter.tables.push(groups_table(run, layer));
    chapter.notes.push(whose(run, layer));
    chapter.checks = checks::all(run);
    chapter.figure = Some(Figure::Attention(figure(run, layer)));
    chapter
}

/// Where the rows come from that the chosen layer attends to.
fn whose(run: &Run, layer: usize) -> Text {
    let config = run.config();
    match (config.kv_source(layer), config.index_source(layer)) {
        (Some(kv), Some(index)) => Text::of(
            format!("Lớp {layer}: cửa sổ của chính nó, entry của lớp {kv}, do lớp {index} chọn."),
            format!("Layer {layer}: its own window, entries of layer {kv}, chosen by layer {index}."),
        ),
        _ => Text::of(
            format!("Lớp {layer} chỉ chú ý trong cửa sổ của nó, không đọc entry nào."),
            format!("Layer {layer} attends within its window alone and reads no entries."),
        ),
    }
}

/// Entries that the followed token attends to in `layer`.
fn chosen(run: &Run, layer: usize) -> Vec<usize> {
    let source = run.config().index_source(layer);
    source.map_or(Vec::new(), |source| run.seen.index_row(Tap::TopkIds, source, run.at))
}

fn figure(run: &Run, layer: usize) -> AttentionFigure {
    let config = run.config();
    let tails = |heads: &[f32]| {
        let tail = config.head_dim - config.rope_head_dim;
        heads.chunks_exact(config.head_dim).map(|head| head[tail..].to_vec()).collect()
    };
    AttentionFigure {
        layer,
        window: window(run).collect(),
        entries: chosen(run, layer),
        ratio: config.ratio(layer),
        weights: (0..config.n_heads).map(|head| run.seen.row(Tap::AttnWeights, layer, head).to_vec()).collect(),
        tail_before: tails(run.seen.values(Tap::HeadsRotated, layer)),
        tail_after: tails(run.seen.values(Tap::Heads, layer)),
        groups: config.o_groups,
    }
}

/// Positions of the window of the followed token.
fn window(run: &Run) -> std::ops::Range<usize> {
    run.n().saturating_sub(run.config().window_size)..run.n()
}

fn weights_table(run: &Run, layer: usize) -> Table {
    let title = Text::of(
        format!("Trọng số của token đang theo ở lớp {layer}"),
        format!("Weights of the followed token in layer {layer}"),
    );
    let columns = vec![
        Text::new("đầu", "head"),
        Text::new("cửa sổ", "window"),
        Text::new("entry chọn", "chosen entries"),
        Text::same("sink"),
        Text::new("tổng", "sum"),
        Text::new("hàng nặng nhất", "heaviest row"),
        Text::new("trọng số", "weight"),
    ];
    let mut table = Table::new(title, Badge::CpuReference, columns);
    let config = run.config();
    let range = window(run);
    let chosen = chosen(run, layer);
    for head in 0..config.n_heads.min(8) {
        let weights = run.seen.row(Tap::AttnWeights, layer, head);
        let Some((sink, rows)) = weights.split_last() else { continue };
        let (recent, entries) = rows.split_at(range.len().min(rows.len()));
        let heaviest = (0..rows.len()).max_by(|&a, &b| rows[a].total_cmp(&rows[b])).unwrap_or(0);
        let name = match heaviest.checked_sub(range.len()) {
            None => {
                let label = labels::position(run, range.start + heaviest);
                Text::same(format!("{} {}", label.position, label.label))
            }
            Some(place) => Text::same(format!("entry {}", chosen.get(place).copied().unwrap_or(0))),
        };
        let sum = |weights: &[f32]| Cell::from(weights.iter().map(|&w| f64::from(w)).sum::<f64>());
        table.push(vec![
            head.into(),
            sum(recent),
            sum(entries),
            (*sink).into(),
            sum(weights),
            name.into(),
            rows.get(heaviest).map_or(Cell::Empty, |&w| w.into()),
        ]);
    }
    table
}

fn rotation_table(run: &Run, layer: usize) -> Table {
    let config = run.config();
    let title = Text::of(
        format!("Đầu 0 ở lớp {layer} trước và sau khi xoay ngược theo vị trí {}", run.at),
        format!("Head 0 in layer {layer} before and after it is rotated back by position {}", run.at),
    );
    let columns = vec![
        Text::new("cặp chiều", "dims"),
        Text::new("góc, rad", "angle, rad"),
        Text::new("trước", "before"),
        Text::same(""),
        Text::new("sau", "after"),
        Text::same(""),
    ];
    let mut table = Table::new(title, run.badge(), columns);
    let tail = config.head_dim - config.rope_head_dim;
    let (before, after) = (run.seen.row(Tap::HeadsRotated, layer, 0), run.seen.row(Tap::Heads, layer, 0));
    for pair in [0, 1, 2, config.rope_head_dim / 2 - 1] {
        let d = tail + 2 * pair;
        let angle = run.at as f64 * again::frequency(config, config.ratio(layer) > 0, pair);
        let mut row: Vec<Cell> = vec![format!("{d}, {}", d + 1).into(), angle.into()];
        for head in [before, after] {
            row.extend(head.get(d..d + 2).unwrap_or(&[]).iter().map(|&v| Cell::from(v)));
        }
        table.push(row);
    }
    table
}

/// The output that group `group` of the heads brings for the followed token.
fn group_output(run: &Run, layer: usize, group: usize) -> Vec<f64> {
    let config = run.config();
    let weights = &run.model.layers[layer].layer.attention;
    let (heads, rank) = (run.seen.row(Tap::Heads, layer, 0), config.o_lora_rank);
    let width = heads.len() / config.o_groups;
    let mut low = vec![0.0; config.o_groups * rank];
    low[group * rank..][..rank].copy_from_slice(&weights.wo_a[group].matvec(&heads[group * width..][..width]));
    wide(&weights.wo_b.matvec(&low))
}

fn groups_table(run: &Run, layer: usize) -> Table {
    let title = Text::of(
        format!("Phần của mỗi nhóm đầu trong đầu ra của lớp {layer}"),
        format!("What each group of heads brings to the output of layer {layer}"),
    );
    let columns = vec![
        Text::new("nhóm", "group"),
        Text::new("các đầu", "heads"),
        Text::new("độ dài", "length"),
        Text::same("y[0]"),
        Text::same("y[1]"),
        Text::same("y[2]"),
        Text::same("y[3]"),
    ];
    let mut table = Table::new(title, Badge::CpuReference, columns);
    let (config, heads) = (run.config(), run.config().n_heads / run.config().o_groups);
    for group in 0..config.o_groups {
        let y = group_output(run, layer, group);
        let mut row: Vec<Cell> = vec![group.into()];
        row.push(format!("{}–{}", group * heads, (group + 1) * heads - 1).into());
        row.push(norm(&narrow(&y)).into());
        row.extend(y.iter().take(4).map(|&v| Cell::from(v)));
        table.push(row);
    }
    let out = run.seen.row(Tap::AttnOut, layer, run.at);
    let mut row = vec![Cell::from(Text::new("đầu ra", "output")), Cell::Empty, norm(out).into()];
    row.extend(out.iter().take(4).map(|&v| Cell::from(v)));
    table.push(row);
    table
}
