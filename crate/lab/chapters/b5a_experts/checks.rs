//! The checks of chapter 5A.

use super::bias;
use crate::blocks::tap::Tap;
use crate::lab::again::{self, SAME, distance, narrow, wide, worse};
use crate::lab::content::{Check, Text};
use crate::lab::run::Run;
use crate::numerics::linear::Matrix;

/// All checks: of the router in every layer, of the experts in the chosen one.
pub(super) fn all(run: &Run) -> Vec<Check> {
    let mut checks = vec![scores_again(run), chosen(run)];
    checks.extend(weights(run));
    checks.extend(output_again(run, run.layer));
    checks.extend(nibbles(run, run.layer));
    checks
}

/// Scores of the followed token in every layer, from the router's matrix.
fn scores_again(run: &Run) -> Check {
    let mut error = 0.0;
    for layer in 0..run.config().n_layers {
        let x = wide(run.seen.row(Tap::FfnInput, layer, run.at));
        let gate = &run.model.layers[layer].layer.experts.gate;
        let mut row = vec![0.0; gate.cols()];
        let expected: Vec<f64> = (0..gate.rows())
            .map(|expert| {
                gate.decode_row(expert, &mut row);
                again::router_score(row.iter().zip(&x).map(|(&w, x)| f64::from(w) * x).sum())
            })
            .collect();
        error = worse(error, distance(run.seen.row(Tap::RouterScores, layer, run.at), &expected));
    }
    let what = Text::new(
        "Điểm router tính lại được là √softplus(W_g x) (mọi lớp)",
        "Router scores, computed again as √softplus(W_g x) (all layers)",
    );
    Check::within(what, error, SAME)
}

fn chosen(run: &Run) -> Check {
    let k = run.config().n_activated_experts;
    let (mut wrong, mut count, mut changed) = (0, 0, 0);
    for layer in 0..run.config().n_layers {
        for p in 0..run.n() {
            let (scores, bias) = (run.seen.row(Tap::RouterScores, layer, p), bias(run, layer, p));
            let ids = run.seen.index_row(Tap::ExpertIds, layer, p);
            let best_of = |values: &dyn Fn(usize) -> f32| {
                let inside = ids.iter().map(|&e| values(e)).fold(f32::INFINITY, f32::min);
                let outside =
                    (0..scores.len()).filter(|e| !ids.contains(e)).map(values).fold(f32::NEG_INFINITY, f32::max);
                inside >= outside
            };
            let mut distinct = ids.clone();
            distinct.sort_unstable();
            distinct.dedup();
            let right = distinct.len() == k && !scores.is_empty() && best_of(&|e| scores[e] + bias[e]);
            wrong += usize::from(!right);
            changed += usize::from(!best_of(&|e| scores[e]));
            count += 1;
        }
    }
    let what = Text::of(
        format!("Chuyên gia được chọn là {k} chuyên gia có điểm cộng bias cao nhất (mọi lớp, mọi vị trí)"),
        format!("The chosen experts are the {k} best of score plus bias (all layers, all positions)"),
    );
    let numbers = Text::of(
        format!("sai {wrong} trong {count}; bias đổi lựa chọn {changed} lần"),
        format!("{wrong} wrong of {count}; the bias changed the choice {changed} times"),
    );
    Check::new(what, wrong == 0 && count > 0, numbers)
}

fn weights(run: &Run) -> [Check; 2] {
    let scale = f64::from(run.config().route_scale);
    let (mut sum_error, mut raw_error) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
    for layer in 0..run.config().n_layers {
        for p in 0..run.n() {
            let (scores, weights) =
                (run.seen.row(Tap::RouterScores, layer, p), run.seen.row(Tap::ExpertWeights, layer, p));
            let ids = run.seen.index_row(Tap::ExpertIds, layer, p);
            let chosen: Vec<f64> = ids.iter().filter_map(|&e| scores.get(e)).map(|&s| f64::from(s)).collect();
            let total: f64 = chosen.iter().sum();
            let expected: Vec<f64> = chosen.iter().map(|s| scale * s / total).collect();
            sum_error = worse(sum_error, (weights.iter().map(|&w| f64::from(w)).sum::<f64>() - scale).abs());
            raw_error = worse(raw_error, distance(weights, &expected));
        }
    }
    [
        Check::within(
            Text::of(
                format!("Trọng số của mỗi token có tổng {scale}"),
                format!("The weights of each token sum to {scale}"),
            ),
            sum_error,
            1e-5,
        ),
        Check::within(
            Text::new("Trọng số đến từ điểm thô, không có bias", "The weights come from the scores without bias"),
            raw_error,
            SAME,
        ),
    ]
}

/// `W₂(w · silu(min(W₁ x, limit)) · clamp(W₃ x))`.
fn expert(run: &Run, expert: &crate::blocks::b5a_experts::Expert, x: &[f32], w: f64) -> Vec<f64> {
    let limit = f64::from(run.config().swiglu_limit);
    let (gate, up) = (wide(&expert.w1.matvec(x)), wide(&expert.w3.matvec(x)));
    let inner = gate.iter().zip(&up).map(|(&g, u)| {
        let g = g.min(limit);
        w * g * again::sigmoid(g) * u.clamp(-limit, limit)
    });
    wide(&expert.w2.matvec(&narrow(&inner.collect::<Vec<_>>())))
}

/// `None` where experts come to slots: those that were chosen may be gone again.
fn output_again(run: &Run, layer: usize) -> Option<Check> {
    let experts = &run.model.layers[layer].layer.experts;
    let x = run.seen.row(Tap::FfnInput, layer, run.at);
    let mut sum = expert(run, &experts.shared, x, 1.0);
    let ids = run.seen.index_row(Tap::ExpertIds, layer, run.at);
    for (id, &w) in ids.into_iter().zip(run.seen.row(Tap::ExpertWeights, layer, run.at)) {
        let y = expert(run, experts.experts.get(id)?, x, f64::from(w));
        sum.iter_mut().zip(y).for_each(|(s, y)| *s += y);
    }
    let what = Text::of(
        format!("Đầu ra của lớp {layer} tính lại được từ các chuyên gia được chọn và chuyên gia chung"),
        format!("Output of layer {layer}, computed again from the chosen experts and the shared one"),
    );
    Some(Check::within(what, distance(run.seen.row(Tap::FfnOut, layer, run.at), &sum), SAME))
}

/// An FP4 row in use against its bytes in the file: the low nibble is the even column.
fn nibbles(run: &Run, layer: usize) -> Option<Check> {
    const MAGNITUDES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let stored = &run.stored_rows[layer];
    let matrix = &run.model.layers[layer].layer.experts.experts.get(stored.expert)?.w1;
    if !matches!(matrix, Matrix::Fp4 { .. }) {
        return None;
    }
    let mut used = vec![0.0; matrix.cols()];
    matrix.decode_row(0, &mut used);
    let group = matrix.cols() / stored.scales.len().max(1);
    let value = |column: usize| {
        let byte = stored.codes.get(column / 2)?;
        let code = if column.is_multiple_of(2) { byte & 15 } else { byte >> 4 };
        let sign = if code & 8 == 0 { 1.0 } else { -1.0 };
        let scale = 2f32.powi(i32::from(*stored.scales.get(column / group.max(1))?) - 127);
        Some(sign * MAGNITUDES[usize::from(code & 7)] * scale)
    };
    let wrong = (0..used.len()).filter(|&column| value(column) != Some(used[column])).count();
    let what = Text::of(
        format!("Trọng số FP4 của chuyên gia {}: nibble thấp trong tệp là cột chẵn", stored.expert),
        format!("FP4 weights of expert {}: the low nibble in the file is the even column", stored.expert),
    );
    Some(Check::none_wrong(what, wrong, used.len()))
}
