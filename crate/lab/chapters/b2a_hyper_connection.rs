//! 2A: four residual streams and the 24 numbers that steer them.

use super::begin;
use crate::blocks::tap::Tap;
use crate::lab::again::{self, SAME, distance, rms_norm, wide, worse};
use crate::lab::content::{Badge, Cell, Chapter, Check, Table, Tensor, Text};
use crate::lab::run::Run;

const LOOK_FOR: Text = Text::new(
    "Ma trận trộn 4 × 4 có tổng mỗi hàng và mỗi cột bằng 1: nó chuyển thông tin giữa các luồng nhưng không làm tổng lớn lên hay nhỏ đi.",
    "The 4 x 4 mixing matrix has rows and columns that sum to one: it moves information between streams without making the whole \
     larger or smaller.",
);
const HAPPENS: Text = Text::new(
    "Residual (phần dư) là bốn luồng song song. Trước mỗi lớp con, một phép chiếu nhỏ từ cả bốn luồng cho ra 24 số: pre gộp bốn luồng \
     thành đầu vào của lớp con KẾ TIẾP, post cho biết mỗi luồng nhận bao nhiêu từ đầu ra, comb trộn các luồng với nhau. Sinkhorn chia \
     luân phiên theo hàng và theo cột, 20 lượt, cho tới khi mọi tổng bằng 1.",
    "The residual is four parallel streams. Before each sub-layer a small projection of all four gives 24 numbers: pre collapses the \
     streams into the input of the NEXT sub-layer, post says how much of the output each stream takes, comb mixes the streams. Sinkhorn \
     divides by row sums and column sums in turn, 20 times, until all of them are one.",
);
const FORMULA: &[Text] = &[
    Text::new(
        "m    = (W · [h_0 … h_3]) / rms(h)                        24 số",
        "m    = (W · [h_0 … h_3]) / rms(h)                        24 numbers",
    ),
    Text::both("pre  = sigmoid(m[0..4] a_0 + b) + ε      post = 2 sigmoid(m[4..8] a_1 + b)"),
    Text::new(
        "comb = sinkhorn(m[8..24] a_2 + b)                        mỗi hàng, mỗi cột có tổng 1",
        "comb = sinkhorn(m[8..24] a_2 + b)                        rows, columns sum to 1",
    ),
    Text::new(
        "x    = Σ_c pre'[c] h_c                                   pre' của lớp con ngay trước",
        "x    = Σ_c pre'[c] h_c                                   pre' from one sub-layer before",
    ),
    Text::both("h'_j = post[j] · y + Σ_i comb[i][j] h_i"),
];

/// The chapter.
pub(super) fn chapter(run: &Run) -> Chapter {
    let (config, n, layer) = (run.config(), run.n(), run.focus());
    let lanes = config.hc_mult;
    let mut chapter = begin(LOOK_FOR, HAPPENS, FORMULA);
    let streams = [n, lanes, config.dim];
    let before = Text::of(format!("bốn luồng vào lớp {layer}"), format!("the streams that enter layer {layer}"));
    chapter.inputs.push(Tensor::new(Tap::Streams.name(), &streams, before));
    for (tap, shape, about) in [
        (
            Tap::AttnPre,
            vec![n, lanes],
            Text::new("trọng số gộp cho lớp con kế tiếp", "collapse weights of the next sub-layer"),
        ),
        (Tap::AttnPost, vec![n, lanes], Text::new("mỗi luồng nhận bao nhiêu", "what each stream takes")),
        (Tap::AttnComb, vec![n, lanes, lanes], Text::new("ma trận trộn", "mixing matrix")),
        (Tap::AttnInput, vec![n, config.dim], Text::new("đầu vào của attention", "input of attention")),
        (Tap::Streams, streams.to_vec(), Text::new("bốn luồng sau lớp", "the streams after the layer")),
    ] {
        chapter.outputs.push(Tensor::new(tap.name(), &shape, about));
    }
    chapter.tables.push(lanes_table(run, layer));
    chapter.tables.push(comb_table(run, layer));
    chapter.checks.push(column_sums(run));
    chapter.checks.extend(balanced_again(run));
    chapter.checks.push(post_range(run));
    chapter.checks.push(first_input(run));
    chapter.checks.extend(rebuilt(run));
    chapter
}

fn lanes_table(run: &Run, layer: usize) -> Table {
    let title = Text::of(
        format!("Token đang theo, attention của lớp {layer}"),
        format!("The followed token, attention of layer {layer}"),
    );
    let columns = vec![
        Text::new("luồng", "stream"),
        Text::same("pre"),
        Text::same("post"),
        Text::new("độ dài luồng sau lớp", "length of the stream after the layer"),
    ];
    let mut table = Table::new(title, Badge::CpuReference, columns);
    let (pre, post) = (run.seen.row(Tap::AttnPre, layer, run.at), run.seen.row(Tap::AttnPost, layer, run.at));
    let streams = run.seen.row(Tap::Streams, layer, run.at).chunks_exact(run.config().dim);
    for (lane, ((&pre, &post), h)) in pre.iter().zip(post).zip(streams).enumerate() {
        table.push(vec![lane.into(), pre.into(), post.into(), again::norm(h).into()]);
    }
    table
}

fn comb_table(run: &Run, layer: usize) -> Table {
    let lanes = run.config().hc_mult;
    let title = Text::of(
        format!("comb của lớp {layer}: từ luồng i (hàng) sang luồng j (cột)"),
        format!("comb of layer {layer}: from stream i (rows) to stream j (columns)"),
    );
    let mut columns = vec![Text::same("i \\ j")];
    columns.extend((0..lanes).map(|j| Text::same(j.to_string())));
    columns.push(Text::new("tổng hàng", "row sum"));
    let mut table = Table::new(title, Badge::CpuReference, columns);
    let comb = run.seen.row(Tap::AttnComb, layer, run.at);
    for (i, row) in comb.chunks_exact(lanes).enumerate() {
        let mut cells: Vec<Cell> = vec![i.into()];
        cells.extend(row.iter().chain([&row.iter().sum()]).map(|&v| Cell::from(v)));
        table.push(cells);
    }
    let column = |j: usize| comb.chunks_exact(lanes).map(|row| row[j]).sum::<f32>();
    let mut cells = vec![Cell::from(Text::new("tổng cột", "column sum"))];
    cells.extend((0..lanes).map(|j| Cell::from(column(j))));
    table.push(cells);
    table
}

/// Rows and columns of every mixing matrix of the run.
fn column_sums(run: &Run) -> Check {
    let lanes = run.config().hc_mult;
    let mut error = f64::NEG_INFINITY;
    for layer in 0..run.config().n_layers {
        for tap in [Tap::AttnComb, Tap::FfnComb] {
            for comb in run.seen.values(tap, layer).chunks_exact(lanes * lanes) {
                error = (0..lanes)
                    .map(|k| (comb.iter().skip(k).step_by(lanes).map(|&v| f64::from(v)).sum::<f64>() - 1.0).abs())
                    .fold(error, worse);
            }
        }
    }
    let what = Text::new(
        "Mỗi cột của comb có tổng 1 (mọi lớp, mọi vị trí, cả hai lớp con)",
        "Each column of comb sums to one (all layers, all positions, both sub-layers)",
    );
    Check::within(what, if error < 0.0 { f64::INFINITY } else { error }, 1e-5)
}

/// The followed token's attention mixes, computed again from the streams, and how near to one the rows of comb come.
///
/// The last Sinkhorn step is always a column step. Rows of a matrix that is far from balanced are then still off after 20 steps; so they are
/// compared with what 20 exact steps leave.
fn balanced_again(run: &Run) -> [Check; 2] {
    let (config, lanes) = (run.config(), run.config().hc_mult);
    let off = |comb: &[f64]| comb.chunks_exact(lanes).map(|row| (row.iter().sum::<f64>() - 1.0).abs()).fold(0.0, worse);
    let (mut error, mut rows, mut exact_rows, mut seen) = (0.0, 0.0, 0.0, 0);
    for layer in (1..config.n_layers).filter(|layer| !config.engram_layer_ids.contains(layer)) {
        let streams = run.seen.row(Tap::Streams, layer - 1, run.at);
        let weights = &run.model.layers[layer].layer.hc_attn;
        let size = again::rms(&wide(streams), f64::from(config.norm_eps));
        let m: Vec<f64> = wide(&weights.projection.matvec(streams)).iter().map(|m| m / size).collect();
        let at = |i: usize, part: usize| m[i] * f64::from(weights.scale[part]) + f64::from(weights.base[i]);
        let mut expected: Vec<f64> = (0..lanes).map(|c| again::sigmoid(at(c, 0)) + f64::from(config.hc_eps)).collect();
        expected.extend((lanes..2 * lanes).map(|c| 2.0 * again::sigmoid(at(c, 1))));
        let logits: Vec<f64> = (0..lanes * lanes).map(|i| at(2 * lanes + i, 2)).collect();
        let comb = again::balance(&logits, lanes, config.hc_sinkhorn_iters, f64::from(config.hc_eps));
        exact_rows = worse(exact_rows, off(&comb));
        expected.extend(comb);
        let found = [Tap::AttnPre, Tap::AttnPost, Tap::AttnComb].map(|tap| run.seen.row(tap, layer, run.at)).concat();
        rows = worse(rows, off(&wide(run.seen.row(Tap::AttnComb, layer, run.at))));
        error = worse(error, distance(&found, &expected));
        seen += 1;
    }
    let what = Text::of(
        format!("Mỗi hàng của comb có tổng 1, sát như {} lượt Sinkhorn cho phép", config.hc_sinkhorn_iters),
        format!("Each row of comb sums to one, as closely as {} Sinkhorn steps bring it", config.hc_sinkhorn_iters),
    );
    let numbers = Text::of(
        format!("lệch {rows:.1e}; tính đúng tuyệt đối còn lệch {exact_rows:.1e}"),
        format!("off by {rows:.1e}; exact steps leave {exact_rows:.1e}"),
    );
    [
        Check::new(what, rows <= exact_rows + 1e-5 && seen > 0, numbers),
        Check::within(
            Text::new(
                "pre, post và comb của token đang theo tính lại được từ bốn luồng",
                "pre, post and comb of the followed token, computed again from the streams",
            ),
            error,
            SAME,
        ),
    ]
}

fn post_range(run: &Run) -> Check {
    let (mut wrong, mut count) = (0, 0);
    for layer in 0..run.config().n_layers {
        for tap in [Tap::AttnPost, Tap::FfnPost] {
            let values = run.seen.values(tap, layer);
            wrong += values.iter().filter(|&&v| !(v > 0.0 && v < 2.0)).count();
            count += values.len();
        }
    }
    Check::none_wrong(Text::new("post nằm giữa 0 và 2", "post lies between 0 and 2"), wrong, count)
}

/// The first sub-layer has no mixes before it: it reads stream 0, which is the embedding.
fn first_input(run: &Run) -> Check {
    let embedding = wide(run.seen.row(Tap::Embedding, 0, run.at));
    let expected = rms_norm(&embedding, &run.model.layers[0].layer.attn_norm, run.config().norm_eps);
    let what = Text::new(
        "Đầu vào của lớp 0 là hàng nhúng đã chuẩn hoá RMS, chưa trộn gì",
        "The input of layer 0 is the RMS-normalised embedding row, nothing mixed in yet",
    );
    Check::within(what, distance(run.seen.row(Tap::AttnInput, 0, run.at), &expected), SAME)
}

/// Collapse and expand of the followed token, computed again in every layer without Engram.
fn rebuilt(run: &Run) -> [Check; 2] {
    let config = run.config();
    let (mut collapse, mut expand) = (0.0, 0.0);
    for layer in (0..config.n_layers).filter(|layer| !config.engram_layer_ids.contains(layer)) {
        let row = |tap: Tap| wide(run.seen.row(tap, layer, run.at));
        let (mut streams, pre) = match layer.checked_sub(1) {
            None => {
                let embedding = wide(run.seen.row(Tap::Embedding, 0, run.at));
                let first = (0..config.hc_mult).map(|lane| if lane == 0 { 1.0 } else { 0.0 });
                (embedding.repeat(config.hc_mult), first.collect())
            }
            Some(before) => {
                (wide(run.seen.row(Tap::Streams, before, run.at)), wide(run.seen.row(Tap::FfnPre, before, run.at)))
            }
        };
        let weights = &run.model.layers[layer].layer;
        let x = rms_norm(&collapsed(&streams, &pre), &weights.attn_norm, config.norm_eps);
        collapse = worse(collapse, distance(run.seen.row(Tap::AttnInput, layer, run.at), &x));
        streams = expanded(&streams, &row(Tap::AttnOut), &row(Tap::AttnPost), &row(Tap::AttnComb));
        let x = rms_norm(&collapsed(&streams, &row(Tap::AttnPre)), &weights.ffn_norm, config.norm_eps);
        collapse = worse(collapse, distance(run.seen.row(Tap::FfnInput, layer, run.at), &x));
        streams = expanded(&streams, &row(Tap::FfnOut), &row(Tap::FfnPost), &row(Tap::FfnComb));
        expand = worse(expand, distance(run.seen.row(Tap::Streams, layer, run.at), &streams));
    }
    [
        Check::within(
            Text::new(
                "Đầu vào mỗi lớp con tính lại được từ bốn luồng với pre của lớp con ngay trước",
                "Each sub-layer's input, computed again from the streams with the pre of the sub-layer before",
            ),
            collapse,
            SAME,
        ),
        Check::within(
            Text::new(
                "Bốn luồng sau mỗi lớp tính lại được từ post, comb và đầu ra của hai lớp con",
                "The streams after each layer, computed again from post, comb and both sub-layers' outputs",
            ),
            expand,
            SAME,
        ),
    ]
}

/// `Σ_c pre[c] h_c`.
fn collapsed(streams: &[f64], pre: &[f64]) -> Vec<f64> {
    let dim = streams.len() / pre.len().max(1);
    (0..dim).map(|d| pre.iter().enumerate().map(|(c, w)| w * streams[c * dim + d]).sum()).collect()
}

/// `post[j] y + Σ_i comb[i][j] h_i`, stream after stream.
fn expanded(streams: &[f64], y: &[f64], post: &[f64], comb: &[f64]) -> Vec<f64> {
    let (lanes, dim) = (post.len(), y.len());
    let at = |j: usize, d: usize| {
        post[j] * y[d] + (0..lanes).map(|i| comb[i * lanes + j] * streams[i * dim + d]).sum::<f64>()
    };
    (0..lanes).flat_map(|j| (0..dim).map(move |d| (j, d))).map(|(j, d)| at(j, d)).collect()
}
