//! 2A: four residual streams and the 24 numbers that steer them.

mod mixing;

use super::begin;
use crate::blocks::tap::Tap;
use crate::lab::again::{self, SAME, distance, narrow, rms_norm, wide, worse};
use crate::lab::content::{Cell, Chapter, Check, Table, Tensor, Text};
use crate::lab::figure::{Figure, MixFigure, StreamsFigure};
use crate::lab::run::Run;
use mixing::{ATTENTION, FFN, Mixing, Sub};

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
    let (config, n, layer) = (run.config(), run.n(), run.layer);
    let lanes = config.hc_mult;
    let mut chapter = begin(LOOK_FOR, HAPPENS, FORMULA);
    let streams = [n, lanes, config.dim];
    let before = Text::of(format!("bốn luồng vào lớp {layer}"), format!("the streams that enter layer {layer}"));
    chapter.inputs.push(Tensor::new(Tap::Streams.name(), &streams, before));
    for sub in [ATTENTION, FFN] {
        chapter.outputs.extend(outputs(sub, n, lanes));
    }
    let about = Text::of(format!("bốn luồng sau lớp {layer}"), format!("the streams after layer {layer}"));
    chapter.outputs.push(Tensor::new(Tap::Streams.name(), &streams, about));
    let figure = figure(run);
    chapter.tables.push(lanes_table(run, &figure));
    chapter.tables.push(comb_table(run, ATTENTION, &figure.attn));
    chapter.tables.push(comb_table(run, FFN, &figure.ffn));
    if config.engram_layer_ids.contains(&layer) {
        chapter.notes.push(Text::of(
            format!("Ở lớp {layer}, Engram (1B) cộng vào bốn luồng trước khi mọi phép trộn bắt đầu."),
            format!("In layer {layer} Engram (1B) adds to the streams before any mixing begins."),
        ));
    }
    chapter.checks.push(column_sums(run));
    chapter.checks.extend(balanced_again(run));
    chapter.checks.push(post_range(run));
    chapter.checks.push(first_input(run));
    chapter.checks.extend(rebuilt(run));
    chapter.figure = Some(Figure::Streams(figure));
    chapter
}

fn outputs(sub: Sub, n: usize, lanes: usize) -> [Tensor; 3] {
    let name = sub.name;
    [
        (
            sub.pre,
            vec![n, lanes],
            Text::of(
                format!("{name}: trọng số gộp cho lớp con kế tiếp"),
                format!("{name}: collapse weights of the next sub-layer"),
            ),
        ),
        (
            sub.post,
            vec![n, lanes],
            Text::of(format!("{name}: mỗi luồng nhận bao nhiêu"), format!("{name}: what each stream takes")),
        ),
        (sub.comb, vec![n, lanes, lanes], Text::of(format!("{name}: ma trận trộn"), format!("{name}: mixing matrix"))),
    ]
    .map(|(tap, shape, about)| Tensor::new(tap.name(), &shape, about))
}

fn figure(run: &Run) -> StreamsFigure {
    let (config, layer) = (run.config(), run.layer);
    let lengths = |streams: &[f32]| streams.chunks_exact(config.dim).map(|h| again::norm(h) as f32).collect();
    let weights = &run.model.layers[layer].layer;
    let entered = mixing::entered(run, layer);
    let between = mixing::passed(run, ATTENTION, layer, &entered);
    StreamsFigure {
        layer,
        before: lengths(&narrow(&mixing::before(run, layer))),
        after: lengths(run.seen.row(Tap::Streams, layer, run.at)),
        attn: mix_figure(run, ATTENTION, &Mixing::of(config, &weights.hc_attn, &entered)),
        ffn: mix_figure(run, FFN, &Mixing::of(config, &weights.hc_ffn, &between)),
    }
}

/// What the run recorded, and the way of the matrix through the Sinkhorn steps, which it did not.
fn mix_figure(run: &Run, sub: Sub, again: &Mixing) -> MixFigure {
    let [pre, post, comb] = [sub.pre, sub.post, sub.comb].map(|tap| run.seen.row(tap, run.layer, run.at).to_vec());
    MixFigure {
        pre,
        post,
        comb,
        sinkhorn: again.steps.iter().map(|step| narrow(step)).collect(),
        row_error: again.steps.iter().map(|step| row_error(step, run.config().hc_mult) as f32).collect(),
    }
}

/// Largest distance of a row sum of a matrix `[lanes * lanes]` from one.
fn row_error(comb: &[f64], lanes: usize) -> f64 {
    comb.chunks_exact(lanes).map(|row| (row.iter().sum::<f64>() - 1.0).abs()).fold(0.0, worse)
}

fn lanes_table(run: &Run, figure: &StreamsFigure) -> Table {
    let layer = figure.layer;
    let title = Text::of(
        format!("Token đang theo, hai lớp con của lớp {layer}"),
        format!("The followed token, both sub-layers of layer {layer}"),
    );
    let columns = vec![
        Text::new("luồng", "stream"),
        Text::new("độ dài vào", "length in"),
        Text::same("attn pre"),
        Text::same("attn post"),
        Text::same("ffn pre"),
        Text::same("ffn post"),
        Text::new("độ dài ra", "length out"),
    ];
    let mut table = Table::new(title, run.badge(), columns);
    let parts = [&figure.before, &figure.attn.pre, &figure.attn.post, &figure.ffn.pre, &figure.ffn.post, &figure.after];
    for lane in 0..figure.before.len() {
        let numbers = parts.iter().filter_map(|part| part.get(lane)).map(|&v| Cell::from(v));
        table.push(std::iter::once(lane.into()).chain(numbers).collect());
    }
    table
}

fn comb_table(run: &Run, sub: Sub, figure: &MixFigure) -> Table {
    let layer = run.layer;
    let lanes = figure.post.len();
    let name = sub.name;
    let title = Text::of(
        format!("comb của {name}, lớp {layer}: từ luồng i (hàng) sang luồng j (cột)"),
        format!("comb of {name}, layer {layer}: from stream i (rows) to stream j (columns)"),
    );
    let mut columns = vec![Text::same("i \\ j")];
    columns.extend((0..lanes).map(|j| Text::same(j.to_string())));
    columns.push(Text::new("tổng hàng", "row sum"));
    let mut table = Table::new(title, run.badge(), columns);
    let rows = figure.comb.chunks_exact(lanes.max(1));
    for (i, row) in rows.clone().enumerate() {
        let mut cells: Vec<Cell> = vec![i.into()];
        cells.extend(row.iter().chain([&row.iter().sum()]).map(|&v| Cell::from(v)));
        table.push(cells);
    }
    let column = |j: usize| rows.clone().map(|row| row[j]).sum::<f32>();
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

/// The followed token's mixes, computed again from the streams, and how near to one the rows of comb come.
///
/// The last Sinkhorn step is always a column step. Rows of a matrix that is far from balanced are then still off after 20 steps; so they are
/// compared with what 20 exact steps leave.
fn balanced_again(run: &Run) -> [Check; 2] {
    let (config, lanes) = (run.config(), run.config().hc_mult);
    let (mut error, mut rows, mut exact_rows, mut seen) = (0.0, 0.0, 0.0, 0);
    for layer in 0..config.n_layers {
        let weights = &run.model.layers[layer].layer;
        let entered = mixing::entered(run, layer);
        let between = mixing::passed(run, ATTENTION, layer, &entered);
        for (sub, weights, streams) in [(ATTENTION, &weights.hc_attn, entered), (FFN, &weights.hc_ffn, between)] {
            let mixing = Mixing::of(config, weights, &streams);
            let expected = [&mixing.pre, &mixing.post, mixing.comb()].concat();
            let found = [sub.pre, sub.post, sub.comb].map(|tap| run.seen.row(tap, layer, run.at)).concat();
            exact_rows = worse(exact_rows, row_error(mixing.comb(), lanes));
            rows = worse(rows, row_error(&wide(run.seen.row(sub.comb, layer, run.at)), lanes));
            error = worse(error, distance(&found, &expected));
            seen += 1;
        }
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

/// Collapse and expand of the followed token, computed again in every layer.
fn rebuilt(run: &Run) -> [Check; 2] {
    let config = run.config();
    let (mut collapse, mut expand) = (0.0, 0.0);
    for layer in 0..config.n_layers {
        let row = |tap: Tap, layer: usize| wide(run.seen.row(tap, layer, run.at));
        let pre = match layer.checked_sub(1) {
            None => (0..config.hc_mult).map(|lane| if lane == 0 { 1.0 } else { 0.0 }).collect(),
            Some(before) => row(Tap::FfnPre, before),
        };
        let weights = &run.model.layers[layer].layer;
        let entered = mixing::entered(run, layer);
        let x = rms_norm(&mixing::collapsed(&entered, &pre), &weights.attn_norm, config.norm_eps);
        collapse = worse(collapse, distance(run.seen.row(Tap::AttnInput, layer, run.at), &x));
        let between = mixing::passed(run, ATTENTION, layer, &entered);
        let x = rms_norm(&mixing::collapsed(&between, &row(Tap::AttnPre, layer)), &weights.ffn_norm, config.norm_eps);
        collapse = worse(collapse, distance(run.seen.row(Tap::FfnInput, layer, run.at), &x));
        let after = mixing::passed(run, FFN, layer, &between);
        expand = worse(expand, distance(run.seen.row(Tap::Streams, layer, run.at), &after));
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
