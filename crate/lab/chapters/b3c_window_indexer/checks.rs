//! The checks of chapter 3C.

use super::scored;
use crate::blocks::tap::Tap;
use crate::lab::again::{distance, narrow, rms_norm, turn, wide};
use crate::lab::content::{Check, Text};
use crate::lab::run::Run;
use crate::numerics::quant::fake_idx4;

/// How far an index score may be off when a few numbers of its query fell into the neighbouring FP4 code.
const QUERY_STEP: f64 = 1e-2;

/// All checks; those of the scores on the selection that the chosen layer reads, the others on every layer.
pub(super) fn all(run: &Run) -> Vec<Check> {
    let mut checks = vec![window_positions(run), ring_rows(run)];
    checks.extend(run.config().index_source(run.layer).and_then(|source| scores_again(run, source)));
    checks.extend(selections(run));
    checks.push(newest_block(run));
    checks.extend(inside_pool(run));
    checks
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

/// The followed token's scores at an index source, from the attention input and the stored keys.
///
/// The query is quantised on the way: a number on the border between two codes may fall to either side, so the limit is a step of a few
/// numbers, not rounding. Wrongly rotated queries are off by about the scores' own size.
fn scores_again(run: &Run, layer: usize) -> Option<Check> {
    let config = run.config();
    let what = Text::of(
        format!("Điểm của lớp {layer} tính lại được từ đầu vào attention và các khoá đã lưu"),
        format!("Scores of layer {layer}, computed again from the attention input and the stored keys"),
    );
    let weights = run.model.layers[layer].indexer.as_ref()?;
    let keys = config.kv_source(layer)?;
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
        let key = run.seen.row(Tap::IndexKeys, keys, entry);
        let product = |q: &[f32]| q.iter().zip(key).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum::<f64>().max(0.0);
        expected.push(query.chunks_exact(config.index_head_dim).zip(&w).map(|(q, w)| product(q) * w).sum());
        found.push(score);
    }
    // Before the first whole group there is no entry to score.
    (run.visible(layer) > 0).then(|| Check::within(what, distance(&found, &expected), QUERY_STEP))
}

/// Visible entries of the query at `p` with index source `layer`.
fn visible(run: &Run, layer: usize, p: usize) -> usize {
    (p + 1) / run.config().ratio(layer).max(1)
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
