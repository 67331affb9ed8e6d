//! 5A: many small experts, few of them used.

mod checks;

use super::begin;
use crate::blocks::tap::Tap;
use crate::lab::content::{Cell, Chapter, Table, Tensor, Text};
use crate::lab::figure::{ExpertsFigure, Figure};
use crate::lab::run::Run;

const LOOK_FOR: Text = Text::new(
    "Bias giúp chọn chuyên gia nhưng không tham gia vào trọng số: ai được chọn là do điểm cộng bias, nặng bao nhiêu là do điểm thô.",
    "The bias helps to choose experts but not to weigh them: who is chosen follows from score plus bias, how much from the score alone.",
);
const HAPPENS: Text = Text::new(
    "Router (bộ định tuyến) chấm điểm mọi chuyên gia cho từng token. Token chữ và vị trí ảnh dùng hai bias khác nhau. Các chuyên gia được \
     chọn tính SwiGLU có chặn, nhân trọng số của mình trước phép chiếu ra, rồi cộng lại cùng chuyên gia chung (shared expert), là chuyên \
     gia mà token nào cũng đi qua.",
    "The router scores every expert for each token. Text tokens and picture positions use two different biases. The chosen experts compute \
     a clamped SwiGLU, apply their weight before the output projection, and are summed with the shared expert, which every token passes.",
);
const FORMULA: &[Text] = &[
    Text::new(
        "s_e = √softplus(W_g[e] · x)                      chọn = top-k của s_e + bias_e",
        "s_e = √softplus(W_g[e] · x)                      chosen = top-k of s_e + bias_e",
    ),
    Text::new(
        "w_e = 1.5 s_e / Σ_{chọn} s                       vị trí ảnh dùng bias_vl thay cho bias",
        "w_e = 1.5 s_e / Σ_{chosen} s                     bias_vl instead of bias for picture positions",
    ),
    Text::new(
        "y   = Σ_{chọn} W₂(w_e · silu(min(g, 10)) · clamp(u, ±10)) + shared(x)        g = W₁x, u = W₃x",
        "y   = Σ_{chosen} W₂(w_e · silu(min(g, 10)) · clamp(u, ±10)) + shared(x)      g = W₁x, u = W₃x",
    ),
];

/// The chapter.
pub(super) fn chapter(run: &Run) -> Chapter {
    let (config, n, layer) = (run.config(), run.n(), run.layer);
    let mut chapter = begin(LOOK_FOR, HAPPENS, FORMULA);
    chapter.inputs.push(Tensor::new(
        Tap::FfnInput.name(),
        &[n, config.dim],
        Text::new("đầu vào đã chuẩn hoá", "normalised input"),
    ));
    for (tap, width, about) in [
        (Tap::RouterScores, config.n_routed_experts, Text::new("điểm của mọi chuyên gia", "scores of all experts")),
        (Tap::ExpertIds, config.n_activated_experts, Text::new("chuyên gia được chọn", "chosen experts")),
        (Tap::ExpertWeights, config.n_activated_experts, Text::new("trọng số của chúng", "their weights")),
        (Tap::FfnOut, config.dim, Text::new("đầu ra", "output")),
    ] {
        chapter.outputs.push(Tensor::new(tap.name(), &[n, width], about));
    }
    chapter.tables.push(router_table(run, layer));
    chapter.notes.push(usage(run));
    chapter.checks = checks::all(run);
    chapter.figure = Some(Figure::Experts(figure(run, layer)));
    chapter
}

fn figure(run: &Run, layer: usize) -> ExpertsFigure {
    ExpertsFigure {
        layer,
        scores: run.seen.row(Tap::RouterScores, layer, run.at).to_vec(),
        bias: bias(run, layer, run.at).to_vec(),
        picture: run.prompt.types[run.at].is_image(),
        chosen: run.seen.index_row(Tap::ExpertIds, layer, run.at),
        weights: run.seen.row(Tap::ExpertWeights, layer, run.at).to_vec(),
        paths: (0..run.config().n_layers).map(|layer| run.seen.index_row(Tap::ExpertIds, layer, run.at)).collect(),
    }
}

/// The selection bias of position `p` in `layer`.
fn bias(run: &Run, layer: usize, p: usize) -> &[f32] {
    let experts = &run.model.layers[layer].layer.experts;
    if run.prompt.types[p].is_image() { &experts.bias_vl } else { &experts.bias }
}

fn router_table(run: &Run, layer: usize) -> Table {
    let title = Text::of(
        format!("Router của lớp {layer} cho token đang theo"),
        format!("Router of layer {layer} for the followed token"),
    );
    let columns = vec![
        Text::new("hạng", "rank"),
        Text::new("chuyên gia", "expert"),
        Text::new("điểm s", "score s"),
        Text::same("bias"),
        Text::same("s + bias"),
        Text::new("trọng số", "weight"),
        Text::new("được chọn", "chosen"),
    ];
    let mut table = Table::new(title, run.badge(), columns);
    let (scores, bias) = (run.seen.row(Tap::RouterScores, layer, run.at), bias(run, layer, run.at));
    let chosen = run.seen.index_row(Tap::ExpertIds, layer, run.at);
    let weights = run.seen.row(Tap::ExpertWeights, layer, run.at);
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| (scores[b] + bias[b]).total_cmp(&(scores[a] + bias[a])).then(a.cmp(&b)));
    for (rank, &expert) in order.iter().enumerate().take(chosen.len() + 6) {
        let place = chosen.iter().position(|&e| e == expert);
        table.push(vec![
            (rank + 1).into(),
            expert.into(),
            scores[expert].into(),
            bias[expert].into(),
            (scores[expert] + bias[expert]).into(),
            place.and_then(|place| weights.get(place)).map_or(Cell::Empty, |&w| w.into()),
            if place.is_some() { Text::new("có", "yes") } else { Text::new("không", "no") }.into(),
        ]);
    }
    table
}

/// How many experts the prompt used.
fn usage(run: &Run) -> Text {
    let config = run.config();
    let used = |layer: usize| {
        let mut ids = run.seen.indices(Tap::ExpertIds, layer).to_vec();
        ids.sort_unstable();
        ids.dedup();
        ids.len()
    };
    let counts: Vec<usize> = (0..config.n_layers).map(used).collect();
    let (all, experts) = (counts.iter().filter(|&&c| c == config.n_routed_experts).count(), config.n_routed_experts);
    let least = counts.iter().min().copied().unwrap_or(0);
    Text::of(
        format!(
            "Trong {} lớp, {all} lớp dùng đủ {experts} chuyên gia trên prompt này; lớp ít nhất dùng {least}.",
            config.n_layers
        ),
        format!(
            "Of {} layers, {all} used all {experts} experts over this prompt; the fewest in a layer is {least}.",
            config.n_layers
        ),
    )
}
