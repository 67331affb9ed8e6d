//! The checks of chapter 4A.

use super::{group_output, window};
use crate::blocks::tap::Tap;
use crate::lab::again::{self, SAME, distance, narrow, norm, rms_norm, turn, wide, worse};
use crate::lab::content::{Check, Text};
use crate::lab::run::Run;

/// All checks: of the chosen layer, and where it costs little of every layer.
pub(super) fn all(run: &Run) -> Vec<Check> {
    let layer = run.layer;
    let mut checks = vec![weights_sum(run), query_again(run, layer), values_again(run)];
    checks.extend(rotation(run, layer));
    checks.extend(output_again(run, layer));
    checks
}

fn weights_sum(run: &Run) -> Check {
    let mut error = f64::NEG_INFINITY;
    for layer in 0..run.config().n_layers {
        for head in 0..run.config().n_heads {
            let sum: f64 = run.seen.row(Tap::AttnWeights, layer, head).iter().map(|&w| f64::from(w)).sum();
            error = worse(error, (sum - 1.0).abs());
        }
    }
    let what = Text::new(
        "Trọng số của mỗi đầu, kể cả sink, có tổng 1 (mọi lớp)",
        "Each head's weights, sink included, sum to one (all layers)",
    );
    Check::within(what, error, 1e-5)
}

/// The query from the attention input, by the formula.
fn query_again(run: &Run, layer: usize) -> Check {
    let config = run.config();
    let weights = &run.model.layers[layer].layer.attention;
    let low = weights.wq_a.matvec(run.seen.row(Tap::AttnInput, layer, run.at));
    let low = rms_norm(&wide(&low), &weights.q_norm, config.norm_eps);
    let mut query = wide(&weights.wq_b.matvec(&narrow(&low)));
    for head in query.chunks_exact_mut(config.head_dim) {
        turn(config, config.ratio(layer) > 0, run.at, false, head);
    }
    let what = Text::of(
        format!("Query của lớp {layer} tính lại được từ đầu vào: hạng thấp, chuẩn hoá, xoay theo cặp chiều kề nhau"),
        format!("Queries of layer {layer}, computed again: low rank, norm, rotation by adjacent pairs"),
    );
    Check::within(what, distance(run.seen.row(Tap::Query, layer, 0), &query), again::turned(run.at))
}

/// The heads of the followed token in `layer`, computed again from weights and rows, with global KV from `source`; how far off they are.
pub(in crate::lab::chapters) fn attended_again(run: &Run, layer: usize, source: usize) -> f64 {
    let config = run.config();
    let mut rows: Vec<&[f32]> = window(run).map(|p| run.seen.row(Tap::WindowKv, layer, p)).collect();
    if let Some(index) = config.index_source(layer) {
        let chosen = run.seen.index_row(Tap::TopkIds, index, run.at);
        rows.extend(chosen.into_iter().map(|entry| run.seen.row(Tap::CompressedKv, source, entry)));
    }
    let mut error = 0.0;
    for head in 0..config.n_heads {
        let weights = run.seen.row(Tap::AttnWeights, layer, head);
        if weights.len() != rows.len() + 1 {
            return f64::INFINITY;
        }
        let mut mixed = vec![0.0; config.head_dim];
        for (&w, row) in weights.iter().zip(&rows) {
            mixed.iter_mut().zip(*row).for_each(|(o, &v)| *o += f64::from(w) * f64::from(v));
        }
        error = worse(error, distance(run.seen.row(Tap::HeadsRotated, layer, head), &mixed));
    }
    error
}

fn values_again(run: &Run) -> Check {
    let config = run.config();
    let off = |layer: usize| attended_again(run, layer, config.kv_source(layer).unwrap_or(layer));
    let what = Text::new(
        "Mỗi đầu là tổng các hàng nó thấy nhân trọng số, sink pha loãng (mọi lớp)",
        "Each head is the sum of the rows it sees times their weights, diluted by the sink (all layers)",
    );
    Check::within(what, (0..config.n_layers).map(off).fold(0.0, worse), SAME)
}

/// Rotating the heads forward again gives what stood there before, and lengths do not change.
fn rotation(run: &Run, layer: usize) -> [Check; 2] {
    let config = run.config();
    let before = run.seen.values(Tap::HeadsRotated, layer);
    let after = run.seen.row(Tap::Heads, layer, 0);
    let mut forward = wide(after);
    let mut lengths: f64 = if after.is_empty() { f64::INFINITY } else { 0.0 };
    for (head, old) in forward.chunks_exact_mut(config.head_dim).zip(before.chunks_exact(config.head_dim)) {
        lengths = worse(lengths, (norm(&narrow(head)) / norm(old) - 1.0).abs());
        turn(config, config.ratio(layer) > 0, run.at, false, head);
    }
    [
        Check::within(
            Text::new("Xoay ngược không đổi độ dài của đầu nào", "Rotating back changes the length of no head"),
            lengths,
            1e-5,
        ),
        Check::within(
            Text::new(
                "Xoay xuôi các đầu trở lại thì được đúng giá trị trước khi xoay ngược",
                "Rotating the heads forward again gives what they were before",
            ),
            distance(before, &forward),
            again::turned(run.at),
        ),
    ]
}

/// The output is the sum of what the groups bring, and no group brings nothing.
fn output_again(run: &Run, layer: usize) -> [Check; 2] {
    let config = run.config();
    let mut sum = vec![0.0; config.dim];
    let mut least = f64::INFINITY;
    for group in 0..config.o_groups {
        let y = group_output(run, layer, group);
        least = least.min(norm(&narrow(&y)));
        sum.iter_mut().zip(y).for_each(|(s, y)| *s += y);
    }
    let whole = norm(run.seen.row(Tap::AttnOut, layer, run.at));
    let numbers = Text::of(
        format!("phần nhỏ nhất dài {least:.4}, cả đầu ra {whole:.4}"),
        format!("smallest part has length {least:.4}, the whole output {whole:.4}"),
    );
    [
        Check::within(
            Text::new(
                "Đầu ra là tổng phần của các nhóm đầu",
                "The output is the sum of what the groups of heads bring",
            ),
            distance(run.seen.row(Tap::AttnOut, layer, run.at), &sum),
            SAME,
        ),
        Check::new(
            Text::new("Đầu ra phụ thuộc vào từng nhóm", "The output depends on each group"),
            least > 1e-6 * whole && whole > 0.0,
            numbers,
        ),
    ]
}
