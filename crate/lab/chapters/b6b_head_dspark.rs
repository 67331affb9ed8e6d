//! 6B: the next token, and a draft of the ones after it.

use super::begin;
use crate::blocks::tap::Tap;
use crate::lab::again::{self, SAME, distance, narrow, rms_norm, wide, worse};
use crate::lab::content::{Badge, Chapter, Check, Table, Tensor, Text};
use crate::lab::labels;
use crate::lab::run::Run;

const LOOK_FOR: Text = Text::new(
    "Một lượt chạy của mạng chính cho đúng một token; bản nháp đoán thêm vài token gần như miễn phí, và chỉ được giữ khi mạng chính đồng ý.",
    "One pass of the main network gives one token; the draft guesses some more almost for free, and is kept only where the main \
     network agrees.",
);
const HAPPENS: Text = Text::new(
    "Bốn luồng cuối được gộp, chuẩn hoá và nhân với ma trận đầu ra thành logit: một điểm cho mỗi token của từ vựng. DSpark đọc trạng thái \
     của vài lớp cuối, chạy ba tầng nhỏ trên cả khối nháp cùng lúc; hiệu chỉnh Markov cho mỗi token nháp biết token ngay trước nó, và một \
     số tự tin đoán khả năng token ấy được chấp nhận.",
    "The last streams are collapsed, normalised and multiplied with the head into logits: one score per token of the vocabulary. DSpark \
     reads the state of some of the last layers and runs three small stages over the whole draft block at once; a Markov correction tells \
     each draft token which one stands before it, and a confidence guesses whether it will be accepted.",
);
const FORMULA: &[Text] = &[
    Text::both("logits  = W_head rms_norm(Σ_c pre[c] h_c)"),
    Text::both("draft_i = argmax( W_head rms_norm(x_i) + M_head M_embed[draft_{i-1}] )"),
    Text::both("conf_i  = sigmoid( W_c [x_i, M_embed[draft_{i-1}]] )"),
];

/// The chapter.
pub(super) fn chapter(run: &Run) -> Chapter {
    let (config, last) = (run.config(), run.config().n_layers - 1);
    let mut chapter = begin(LOOK_FOR, HAPPENS, FORMULA);
    chapter.inputs = vec![
        Tensor::new(
            Tap::Streams.name(),
            &[1, config.hc_mult, config.dim],
            Text::of(format!("bốn luồng sau lớp {last}"), format!("the streams after layer {last}")),
        ),
        Tensor::new(
            Tap::TargetHidden.name(),
            &[run.n(), config.dspark_target_layer_ids.len() * config.dim],
            Text::new("trung bình các luồng mà DSpark đọc", "means of the streams that DSpark reads"),
        ),
    ];
    chapter.outputs.push(Tensor::new(
        Tap::Logits.name(),
        &[1, config.vocab_size],
        Text::new("điểm của mỗi token", "a score per token"),
    ));
    chapter.tables.push(top_table(run));
    chapter.notes.push(Text::new(
        "Trọng số chưa huấn luyện thì token đứng đầu không có nghĩa gì; đường đi đến nó mới là bài học.",
        "With untrained weights the best token means nothing; the way to it is the lesson.",
    ));
    chapter.checks.push(finite(run));
    chapter.checks.push(logits_again(run, last));
    chapter.checks.push(next_is_best(run));
    if let Some((draft, _)) = &run.draft {
        let about = Text::new("các token nháp", "draft tokens");
        chapter.outputs.push(Tensor::new("draft.ids", &[draft.ids.len()], about));
        chapter.tables.extend(draft_table(run));
        chapter.checks.extend(draft_checks(run));
    } else {
        chapter.notes.push(Text::new("Mô hình này không có DSpark.", "This model has no DSpark."));
    }
    chapter
}

fn top_table(run: &Run) -> Table {
    let title = Text::new("Năm token đứng đầu sau token đang theo", "The five best tokens after the followed one");
    let columns = vec![
        Text::new("hạng", "rank"),
        Text::same("id"),
        Text::same("token"),
        Text::same("logit"),
        Text::new("xác suất", "probability"),
    ];
    let mut table = Table::new(title, Badge::CpuReference, columns);
    let logits = run.seen.row(Tap::Logits, 0, 0);
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f64 = logits.iter().map(|&l| f64::from(l - max).exp()).sum();
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
    for (rank, &id) in order.iter().take(5).enumerate() {
        let probability = f64::from(logits[id] - max).exp() / total;
        let token = labels::token(run, id as u32);
        table.push(vec![(rank + 1).into(), id.into(), token.into(), logits[id].into(), probability.into()]);
    }
    table
}

fn draft_table(run: &Run) -> Option<Table> {
    let (draft, _) = run.draft.as_ref()?;
    let title = Text::of(
        format!("Bản nháp sau {} (id {})", labels::token(run, draft.anchor), draft.anchor),
        format!("The draft after {} (id {})", labels::token(run, draft.anchor), draft.anchor),
    );
    let columns = vec![
        Text::same("i"),
        Text::same("id"),
        Text::same("token"),
        Text::new("không Markov", "without Markov"),
        Text::new("tự tin", "confidence"),
        Text::new("mạng chính chọn", "main network chose"),
    ];
    let mut table = Table::new(title, Badge::CpuReference, columns);
    let vocab = run.config().vocab_size;
    for (i, (&id, &confidence)) in draft.ids.iter().zip(&draft.confidence).enumerate() {
        let base = best(draft.base_logits.get(i * vocab..(i + 1) * vocab).unwrap_or(&[]));
        let chose = match i {
            0 => {
                let chose = best(&run.logits_decoded) as u32;
                let name = labels::token(run, chose);
                if chose == id {
                    Text::of(format!("{name}: chấp nhận"), format!("{name}: accepted"))
                } else {
                    Text::of(format!("{name}: bác bỏ"), format!("{name}: rejected"))
                }
            }
            _ => Text::same(""),
        };
        table.push(vec![
            i.into(),
            u64::from(id).into(),
            labels::token(run, id).into(),
            labels::token(run, base as u32).into(),
            again::sigmoid(f64::from(confidence)).into(),
            chose.into(),
        ]);
    }
    Some(table)
}

/// Index of the largest, the first of equals.
fn best(values: &[f32]) -> usize {
    let larger = |best: usize, i: usize| if values[i] > values[best] { i } else { best };
    (0..values.len()).fold(0, larger)
}

fn finite(run: &Run) -> Check {
    let all = [run.seen.values(Tap::Logits, 0), &run.logits, &run.logits_decoded].concat();
    let wrong = all.iter().filter(|v| !v.is_finite()).count();
    Check::none_wrong(Text::new("Mọi logit là số hữu hạn", "All logits are finite numbers"), wrong, all.len())
}

fn logits_again(run: &Run, last: usize) -> Check {
    let (config, head) = (run.config(), &run.model.head);
    let (streams, pre) = (run.seen.row(Tap::Streams, last, run.at), run.seen.row(Tap::FfnPre, last, run.at));
    let mut x = vec![0.0; config.dim];
    for (stream, &w) in streams.chunks_exact(config.dim).zip(pre) {
        x.iter_mut().zip(stream).for_each(|(x, &v)| *x += f64::from(w) * f64::from(v));
    }
    let x = rms_norm(&x, &head.norm, config.norm_eps);
    let logits = wide(&head.head.matvec(&narrow(&x)));
    let what = Text::new(
        "Logit tính lại được từ bốn luồng của lớp cuối: gộp, chuẩn hoá, nhân",
        "Logits, computed again from the last layer's streams: collapse, norm, product",
    );
    Check::within(what, distance(run.seen.row(Tap::Logits, 0, 0), &logits), SAME)
}

fn next_is_best(run: &Run) -> Check {
    let better =
        run.logits.iter().filter(|&&l| l > run.logits.get(run.next as usize).copied().unwrap_or(f32::NEG_INFINITY));
    let count = better.count();
    let what = Text::new(
        "Token tiếp theo là argmax của logit cuối prompt",
        "The next token is the argmax of the prompt's last logits",
    );
    let token = labels::token(run, run.next);
    let numbers = Text::of(
        format!("id {} {token}; {count} token có logit cao hơn", run.next),
        format!("id {} {token}; {count} tokens have a higher logit", run.next),
    );
    Check::new(what, count == 0 && !run.logits.is_empty(), numbers)
}

fn draft_checks(run: &Run) -> Vec<Check> {
    let (Some((draft, unchanged)), Some(drafter)) = (&run.draft, &run.model.drafter) else { return Vec::new() };
    let (vocab, block) = (run.config().vocab_size, run.config().dspark_block_size);
    let mut wrong = 0;
    let mut error = 0.0;
    let mut before = draft.anchor;
    let rows = draft.logits.chunks_exact(vocab).zip(draft.base_logits.chunks_exact(vocab));
    for ((logits, base), &id) in rows.zip(&draft.ids) {
        wrong += usize::from(best(logits) != id as usize);
        let mut embedded = vec![0.0; drafter.markov_embed.cols()];
        drafter.markov_embed.decode_row(before as usize, &mut embedded);
        let markov = wide(&drafter.markov_head.matvec(&embedded));
        let expected: Vec<f64> = base.iter().zip(markov).map(|(&b, m)| f64::from(b) + m).collect();
        error = worse(error, distance(logits, &expected));
        before = id;
    }
    let count = draft.ids.len();
    let numbers = Text::of(
        format!("{count} token nháp, sai {wrong}; cần {block}"),
        format!("{count} draft tokens, {wrong} wrong; needed {block}"),
    );
    let state = Text::of(
        format!("vị trí vẫn là {}", run.state.position),
        format!("the position is still {}", run.state.position),
    );
    vec![
        Check::new(
            Text::of(
                format!("Bản nháp có {block} token, mỗi token là argmax của logit của nó"),
                format!("The draft has {block} tokens, each the argmax of its logits"),
            ),
            wrong == 0 && count == block,
            numbers,
        ),
        Check::within(
            Text::new(
                "Hiệu chỉnh Markov là M_head M_embed của token ngay trước",
                "The Markov correction is M_head M_embed of the token before",
            ),
            error,
            SAME,
        ),
        Check::new(
            Text::new(
                "Nháp hai lần cho cùng kết quả và không đổi trạng thái",
                "Drafting twice gives the same and leaves the state alone",
            ),
            *unchanged,
            state,
        ),
    ]
}
