//! 3C: what a query sees: the ring of recent rows, and the chosen entries.

use super::begin;
use crate::blocks::tap::Tap;
use crate::lab::again::{distance, narrow, rms_norm, turn, wide};
use crate::lab::content::{Badge, Cell, Chapter, Check, Table, Tensor, Text};
use crate::lab::run::Run;
use crate::numerics::quant::fake_idx4;

/// How far an index score may be off when a few numbers of its query fell into the neighbouring FP4 code.
const QUERY_STEP: f64 = 1e-2;

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
    let (config, n) = (run.config(), run.n());
    let mut chapter = begin(LOOK_FOR, HAPPENS, FORMULA);
    chapter.inputs = vec![
        Tensor::new(
            Tap::WindowKv.name(),
            &[n, config.head_dim],
            Text::new("hàng cửa sổ của mỗi lớp", "window rows of each layer"),
        ),
        Tensor::new(
            Tap::IndexKeys.name(),
            &[n / config.ratio(run.focus()).max(1), config.index_head_dim],
            Text::new("khoá chỉ mục", "index keys"),
        ),
    ];
    for (tap, width, about) in [
        (
            Tap::IndexScores,
            n / config.ratio(run.focus()).max(1),
            Text::new("điểm của mọi entry", "scores of all entries"),
        ),
        (Tap::CandidateBlocks, config.candidate_topk_blocks, Text::new("các khối được giữ", "blocks kept")),
        (Tap::TopkIds, config.index_topk, Text::new("các entry được chọn", "chosen entries")),
    ] {
        chapter.outputs.push(Tensor::new(tap.name(), &[n, width], about));
    }
    chapter.tables.push(ring_table(run));
    chapter.tables.push(sources_table(run));
    chapter.tables.push(scores_table(run));
    chapter.checks.push(window_positions(run));
    chapter.checks.push(ring_rows(run));
    chapter.checks.push(scores_again(run));
    chapter.checks.extend(selections(run));
    chapter.checks.push(newest_block(run));
    chapter.checks.extend(inside_pool(run));
    chapter
}

fn ring_table(run: &Run) -> Table {
    let window = run.config().window_size;
    let title = Text::of(
        format!("Vòng đệm của lớp {}, {window} ô", run.focus()),
        format!("Ring of layer {}, {window} slots", run.focus()),
    );
    let columns = vec![Text::same(""), Text::new("vị trí", "position"), Text::new("ô", "slot")];
    let mut table = Table::new(title, Badge::CpuReference, columns);
    let ring = &run.state_at.windows[run.focus()];
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

/// Visible entries of the query at `p` with index source `layer`.
fn visible(run: &Run, layer: usize, p: usize) -> usize {
    (p + 1) / run.config().ratio(layer).max(1)
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
    let mut table = Table::new(title, Badge::CpuReference, columns);
    for &layer in &run.config().index_source_layers {
        let chosen = run.seen.index_row(Tap::TopkIds, layer, run.at);
        let scored = scored(run, layer, run.at);
        let (mine, left): (Vec<_>, Vec<_>) = scored.iter().partition(|(entry, _)| chosen.contains(entry));
        let score = |scores: &[(usize, f32)], pick: fn(f32, f32) -> f32| {
            scores.iter().map(|s| s.1).reduce(pick).map_or(Cell::Empty, Cell::from)
        };
        table.push(vec![
            layer.into(),
            visible(run, layer, run.at).into(),
            scored.len().into(),
            chosen.len().into(),
            score(&mine, f32::max),
            score(&mine, f32::min),
            score(&left, f32::max),
        ]);
    }
    table
}

/// The best scores of the followed token, and the first that was not chosen.
fn scores_table(run: &Run) -> Table {
    let (config, layer) = (run.config(), run.focus());
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
    let mut table = Table::new(title, Badge::CpuReference, columns);
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

fn window_positions(run: &Run) -> Check {
    let config = run.config();
    let (from, to) = ((run.at + 1).saturating_sub(config.window_size), run.at + 1);
    let rings = run.state_at.windows.iter().filter(|ring| ring.positions() != (from..to)).count();
    // Attention shows how many rows it really read: window, chosen entries, and the sink.
    let read = |layer: usize| {
        let chosen =
            config.index_source(layer).map_or(0, |source| run.seen.index_row(Tap::TopkIds, source, run.at).len());
        let weights = run.seen.get(Tap::AttnWeights, layer).map_or(0, |tensor| tensor.shape[1]);
        weights == to - from + chosen + 1
    };
    let wrong = rings + (0..config.n_layers).filter(|&layer| !read(layer)).count();
    let what = Text::new(
        "Cửa sổ của token đang theo là đúng các vị trí sau, ở mọi lớp",
        "The followed token's window is exactly these positions, in every layer",
    );
    let numbers = Text::of(
        format!("{from} đến {}, {} hàng; sai {wrong}", run.at, to - from),
        format!("{from} to {}, {} rows; {wrong} wrong", run.at, to - from),
    );
    Check::new(what, wrong == 0, numbers)
}

/// Every slot holds the row of the position that it should hold.
fn ring_rows(run: &Run) -> Check {
    let window = run.config().window_size;
    let (mut wrong, mut count) = (0, 0);
    for (layer, ring) in run.state_at.windows.iter().enumerate() {
        for p in ring.positions() {
            let row = ring.read(p..p + 1);
            wrong += usize::from(row != run.seen.row(Tap::WindowKv, layer, p) || ring.slot(p) != p % window);
            count += 1;
        }
    }
    let what = Text::of(
        format!("Ô p mod {window} đọc lại đúng hàng của vị trí p, ở mọi lớp"),
        format!("Slot p mod {window} reads back the row of position p, in every layer"),
    );
    Check::none_wrong(what, wrong, count)
}

/// The followed token's scores at the focus layer, from the attention input and the stored keys.
///
/// The query is quantised on the way: a number on the border between two codes may fall to either side, so the limit is a step of a few
/// numbers, not rounding. Wrongly rotated queries are off by about the scores' own size.
fn scores_again(run: &Run) -> Check {
    let (config, layer) = (run.config(), run.focus());
    let what = Text::of(
        format!("Điểm của lớp {layer} tính lại được từ đầu vào attention và các khoá đã lưu"),
        format!("Scores of layer {layer}, computed again from the attention input and the stored keys"),
    );
    let Some(weights) = &run.model.layers[layer].indexer else { return Check::within(what, f64::INFINITY, QUERY_STEP) };
    let core = &run.model.layers[layer].layer.attention;
    let x = run.seen.row(Tap::AttnInput, layer, run.at);
    let low = rms_norm(&wide(&core.wq_a.matvec(x)), &core.q_norm, config.norm_eps);
    let mut query = wide(&weights.wq_b.matvec(&narrow(&low)));
    query
        .chunks_exact_mut(config.index_head_dim)
        .for_each(|head| turn(config, config.ratio(layer) > 0, run.at, false, head));
    let mut query = narrow(&query);
    fake_idx4(&mut query);
    let factor = 1.0 / ((config.index_head_dim * config.index_n_heads) as f64).sqrt();
    let w: Vec<f64> = wide(&weights.weights_proj.matvec(x)).iter().map(|w| w * factor).collect();
    let (mut found, mut expected) = (Vec::new(), Vec::new());
    for (entry, score) in scored(run, layer, run.at) {
        let key = run.seen.row(Tap::IndexKeys, layer, entry);
        let product = |q: &[f32]| q.iter().zip(key).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum::<f64>().max(0.0);
        expected.push(query.chunks_exact(config.index_head_dim).zip(&w).map(|(q, w)| product(q) * w).sum());
        found.push(score);
    }
    Check::within(what, distance(&found, &expected), QUERY_STEP)
}

/// What every query of every index source chose.
fn selections(run: &Run) -> [Check; 2] {
    let config = run.config();
    let (mut unlawful, mut beaten, mut count) = (0, 0, 0);
    for &layer in &config.index_source_layers {
        for p in 0..run.n() {
            let chosen = run.seen.index_row(Tap::TopkIds, layer, p);
            let scored = scored(run, layer, p);
            let lawful = chosen.is_sorted_by(|a, b| a < b)
                && chosen.iter().all(|&entry| entry < visible(run, layer, p))
                && chosen.len() == config.index_topk.min(scored.len());
            unlawful += usize::from(!lawful);
            let worst = scored.iter().filter(|s| chosen.contains(&s.0)).map(|s| s.1).fold(f32::INFINITY, f32::min);
            let best_left =
                scored.iter().filter(|s| !chosen.contains(&s.0)).map(|s| s.1).fold(f32::NEG_INFINITY, f32::max);
            beaten += usize::from(best_left > worst);
            count += 1;
        }
    }
    let k = config.index_topk;
    [
        Check::none_wrong(
            Text::of(
                format!("Danh sách chọn tăng dần, nhân quả, nhiều nhất {k} (mọi truy vấn)"),
                format!("Selections ascend, are causal, and hold at most {k} (all queries)"),
            ),
            unlawful,
            count,
        ),
        Check::none_wrong(
            Text::new(
                "Không entry bị bỏ nào có điểm cao hơn entry được chọn",
                "No entry left out scores higher than a chosen one",
            ),
            beaten,
            count,
        ),
    ]
}

fn newest_block(run: &Run) -> Check {
    let (config, layer) = (run.config(), run.config().candidate_source_layer);
    let missing = (0..run.n()).filter(|&p| {
        let newest = visible(run, layer, p).checked_sub(1).map(|entry| entry / config.candidate_block_size);
        let kept = run.seen.index_row(Tap::CandidateBlocks, layer, p);
        newest.is_some_and(|block| !kept.contains(&block)) || kept.len() > config.candidate_topk_blocks
    });
    let what = Text::of(
        format!("Khối mới nhất luôn nằm trong tập khối của lớp {layer}, nhiều nhất {}", config.candidate_topk_blocks),
        format!("The newest block is always in layer {layer}'s pool of at most {}", config.candidate_topk_blocks),
    );
    Check::none_wrong(what, missing.count(), run.n())
}

/// Index sources behind the candidate source choose inside its pool.
fn inside_pool(run: &Run) -> Option<Check> {
    let (config, source) = (run.config(), run.config().candidate_source_layer);
    let (mut outside, mut count) = (0, 0);
    for &layer in config.index_source_layers.iter().filter(|&&layer| layer > source) {
        for p in 0..run.n() {
            let pool = run.seen.index_row(Tap::CandidateBlocks, source, p);
            let chosen = run.seen.index_row(Tap::TopkIds, layer, p);
            outside += chosen.iter().filter(|&entry| !pool.contains(&(entry / config.candidate_block_size))).count();
            count += chosen.len();
        }
    }
    let what = Text::of(
        format!("Các lớp Reindex chỉ chọn bên trong tập khối của lớp {source}"),
        format!("Reindex layers choose only inside the pool of layer {source}"),
    );
    (count > 0).then(|| Check::none_wrong(what, outside, count))
}
