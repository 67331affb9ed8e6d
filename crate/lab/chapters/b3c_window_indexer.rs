//! 3C: what a query sees: the ring of recent rows, and the chosen entries.

mod checks;

use super::begin;
use crate::blocks::tap::Tap;
use crate::config::Role;
use crate::lab::content::{Cell, Chapter, Table, Tensor, Text};
use crate::lab::figure::{Figure, WindowFigure};
use crate::lab::run::Run;

const LOOK_FOR: Text = Text::new(
    "Dù prompt dài bao nhiêu, mỗi truy vấn chỉ đọc một số hàng cố định: các token gần nhất trong cửa sổ, và những entry điểm cao nhất \
     do bộ chỉ mục chọn.",
    "However long the prompt, a query reads a bounded number of rows: the latest tokens in the window, and the best-scored entries \
     that the indexer chose.",
);
const HAPPENS: Text = Text::new(
    "Mỗi lớp giữ các hàng gần nhất trong một vòng đệm (ring): vị trí p nằm ở ô p mod cửa sổ và bị ghi đè sau đúng một vòng. Bộ chỉ mục \
     (indexer) chấm điểm mọi entry nhìn thấy được bằng nhiều đầu nhỏ. Mức một: các entry chia thành khối, khối lấy điểm của entry tốt \
     nhất, khối mới nhất luôn được giữ; tập khối được giữ là nơi các lớp Reindex về sau tìm. Mức hai: lấy k entry điểm cao nhất, xếp \
     theo thứ tự tăng dần.",
    "Each layer keeps its latest rows in a ring: position p lies in slot p mod window and is overwritten one round later. The indexer \
     scores all visible entries with many small heads. Level one: entries form blocks, a block scores as its best entry, the newest block \
     always stays; in the blocks kept the later Reindex layers search. Level two: the k best entries, listed in ascending order.",
);
const FORMULA: &[Text] = &[
    Text::new(
        "cửa sổ(p) = max(0, p - cỡ + 1) … p               ô(p) = p mod cỡ",
        "window(p) = max(0, p - window + 1) … p           slot(p) = p mod window",
    ),
    Text::new(
        "s[j] = Σ_h relu(q_h · ik_j) w_h                  thấy được: j < ⌊(p + 1) / tỷ lệ⌋",
        "s[j] = Σ_h relu(q_h · ik_j) w_h                  visible: j < ⌊(p + 1) / ratio⌋",
    ),
    Text::new(
        "tập khối = khối có max s cao nhất, và khối mới   chọn = top-k của s trong tập khối",
        "pool = top blocks by max s, and the newest       chosen = top-k of s inside the pool",
    ),
];

/// The chapter.
pub(super) fn chapter(run: &Run) -> Chapter {
    let (config, n, layer) = (run.config(), run.n(), run.layer);
    let source = config.index_source(layer);
    let mut chapter = begin(LOOK_FOR, HAPPENS, FORMULA);
    chapter.inputs.push(Tensor::new(
        Tap::WindowKv.name(),
        &[n, config.head_dim],
        Text::new("hàng cửa sổ của mỗi lớp", "window rows of each layer"),
    ));
    let ring = &run.state_at.windows[layer];
    chapter.outputs.push(Tensor::new(
        "window",
        &[ring.positions().len(), config.head_dim],
        Text::new("các hàng cửa sổ mà token đang theo thấy", "window rows that the followed token sees"),
    ));
    chapter.tables.push(ring_table(run));
    chapter.tables.push(sources_table(run));
    if let Some(source) = source {
        let entries = run.visible(layer);
        let about = Text::new("khoá chỉ mục", "index keys");
        chapter.inputs.push(Tensor::new(Tap::IndexKeys.name(), &[entries, config.index_head_dim], about));
        for (tap, width, about) in [
            (Tap::IndexScores, entries, Text::new("điểm của mọi entry", "scores of all entries")),
            (Tap::CandidateBlocks, config.candidate_topk_blocks, Text::new("các khối được giữ", "blocks kept")),
            (Tap::TopkIds, config.index_topk, Text::new("các entry được chọn", "chosen entries")),
        ] {
            chapter.outputs.push(Tensor::new(tap.name(), &[n, width], about));
        }
        if entries > 0 {
            chapter.tables.push(scores_table(run, source));
        }
    }
    chapter.notes.push(whose(run));
    if source.is_some() && run.visible(layer) == 0 {
        let ratio = config.ratio(layer);
        chapter.notes.push(Text::of(
            format!("Chưa có nhóm {ratio} token nào đủ, nên chưa có entry để chấm điểm."),
            format!("No group of {ratio} tokens is full yet, so there is no entry to score."),
        ));
    }
    chapter.checks = checks::all(run);
    chapter.figure = Some(Figure::Window(figure(run)));
    chapter
}

/// Whose selection the chosen layer reads.
fn whose(run: &Run) -> Text {
    let (config, layer) = (run.config(), run.layer);
    match (config.role(layer), config.index_source(layer), config.kv_source(layer)) {
        (Role::Full, ..) => Text::of(
            format!("Lớp {layer} tự ghi entry và tự chọn trong đó."),
            format!("Layer {layer} writes entries of its own and chooses among them."),
        ),
        (Role::Reindex, _, Some(kv)) => Text::of(
            format!("Lớp {layer} đọc entry và khoá của lớp {kv}, nhưng chọn bằng truy vấn chỉ mục của chính nó."),
            format!("Layer {layer} reads entries and keys of layer {kv}, but chooses with an index query of its own."),
        ),
        (Role::Reuse, Some(source), _) => Text::of(
            format!(
                "Lớp {layer} không có bộ chỉ mục: nó dùng lại lựa chọn của lớp {source}. Điểm ở đây là của lớp ấy."
            ),
            format!(
                "Layer {layer} has no indexer: it reuses the choice of layer {source}. The scores here are that layer's."
            ),
        ),
        _ => Text::of(
            format!("Lớp {layer} chỉ có cửa sổ: nó không đọc entry nào, nên không có gì để chọn."),
            format!("Layer {layer} has a window alone: it reads no entries, so there is nothing to choose."),
        ),
    }
}

fn figure(run: &Run) -> WindowFigure {
    let (config, layer) = (run.config(), run.layer);
    let ring = &run.state_at.windows[layer];
    let mut slots = vec![None; config.window_size];
    ring.positions().for_each(|position| slots[ring.slot(position)] = Some(position));
    let mut figure = WindowFigure {
        layer,
        slots,
        head: ring.slot(run.at),
        index_source: config.index_source(layer),
        ratio: config.ratio(layer),
        scores: Vec::new(),
        block_size: config.candidate_block_size,
        blocks: Vec::new(),
        chosen: Vec::new(),
        top_k: config.index_topk,
    };
    if let Some(source) = figure.index_source {
        let scores = run.seen.row(Tap::IndexScores, source, run.at).iter().take(run.visible(layer));
        figure.scores = scores.map(|&score| score.is_finite().then_some(score)).collect();
        figure.chosen = run.seen.index_row(Tap::TopkIds, source, run.at);
        // The pool is made at one layer, for itself and those after it; layers before it search everything.
        if source >= config.candidate_source_layer {
            figure.blocks = run.seen.index_row(Tap::CandidateBlocks, config.candidate_source_layer, run.at);
        }
    }
    figure
}

fn ring_table(run: &Run) -> Table {
    let window = run.config().window_size;
    let title = Text::of(
        format!("Vòng đệm của lớp {}, {window} ô", run.layer),
        format!("Ring of layer {}, {window} slots", run.layer),
    );
    let columns = vec![Text::same(""), Text::new("vị trí", "position"), Text::new("ô", "slot")];
    let mut table = Table::new(title, run.badge(), columns);
    let ring = &run.state_at.windows[run.layer];
    let (oldest, newest) = (ring.positions().start, ring.positions().end.saturating_sub(1));
    for (name, position) in [
        (Text::new("cũ nhất còn thấy", "oldest in sight"), oldest),
        (Text::new("token đang theo", "the followed token"), newest),
        (Text::new("sẽ ghi tiếp", "written next"), newest + 1),
    ] {
        table.push(vec![name.into(), position.into(), ring.slot(position).into()]);
    }
    table
}

/// Scores of the query at `p`: entry and score, as far as they were computed.
fn scored(run: &Run, layer: usize, p: usize) -> Vec<(usize, f32)> {
    let row = run.seen.row(Tap::IndexScores, layer, p);
    row.iter().copied().enumerate().filter(|(_, score)| *score != f32::NEG_INFINITY).collect()
}

fn sources_table(run: &Run) -> Table {
    let columns = vec![
        Text::new("lớp", "layer"),
        Text::new("thấy được", "visible"),
        Text::new("được chấm", "scored"),
        Text::new("được chọn", "chosen"),
        Text::new("điểm cao nhất", "best score"),
        Text::new("chọn thấp nhất", "lowest chosen"),
        Text::new("bỏ cao nhất", "best left out"),
    ];
    let title = Text::new("Các lớp có bộ chỉ mục, tại token đang theo", "Index sources, at the followed token");
    let mut table = Table::new(title, run.badge(), columns);
    for &layer in &run.config().index_source_layers {
        let chosen = run.seen.index_row(Tap::TopkIds, layer, run.at);
        let scored = scored(run, layer, run.at);
        let (mine, left): (Vec<_>, Vec<_>) = scored.iter().partition(|(entry, _)| chosen.contains(entry));
        let score = |scores: &[(usize, f32)], pick: fn(f32, f32) -> f32| {
            scores.iter().map(|s| s.1).reduce(pick).map_or(Cell::Empty, Cell::from)
        };
        table.push(vec![
            layer.into(),
            run.visible(layer).into(),
            scored.len().into(),
            chosen.len().into(),
            score(&mine, f32::max),
            score(&mine, f32::min),
            score(&left, f32::max),
        ]);
    }
    table
}

/// The best scores of the followed token at an index source, and the first that was not chosen.
fn scores_table(run: &Run, layer: usize) -> Table {
    let config = run.config();
    let title = Text::of(
        format!("Entry của lớp {layer} theo điểm, tại token đang theo"),
        format!("Entries of layer {layer} by score, at the followed token"),
    );
    let columns = vec![
        Text::new("hạng", "rank"),
        Text::same("entry"),
        Text::new("khối", "block"),
        Text::new("điểm", "score"),
        Text::new("được chọn", "chosen"),
    ];
    let mut table = Table::new(title, run.badge(), columns);
    let chosen = run.seen.index_row(Tap::TopkIds, layer, run.at);
    let mut scored = scored(run, layer, run.at);
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let near = chosen.len().saturating_sub(1)..chosen.len() + 2;
    for (rank, &(entry, score)) in scored.iter().enumerate().filter(|(rank, _)| *rank < 4 || near.contains(rank)) {
        let kept = if chosen.contains(&entry) { Text::new("có", "yes") } else { Text::new("không", "no") };
        table.push(vec![
            (rank + 1).into(),
            entry.into(),
            (entry / config.candidate_block_size).into(),
            score.into(),
            kept.into(),
        ]);
    }
    table
}
