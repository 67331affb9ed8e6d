//! 6B: the next token, and a draft of the ones after it.

mod checks;

use super::begin;
use crate::blocks::b6b_head_dspark::Draft;
use crate::blocks::tap::Tap;
use crate::lab::again;
use crate::lab::content::{Cell, Chapter, Table, Tensor, Text};
use crate::lab::figure::{DraftFigure, DraftToken, Figure, HeadFigure};
use crate::lab::judging::PARTS;
use crate::lab::labels;
use crate::lab::run::Run;
use std::cmp::Ordering;

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
    chapter.checks = checks::all(run);
    chapter.figure = Some(Figure::Head(figure(run)));
    if let Some((draft, _)) = &run.draft {
        let about = Text::new("các token nháp", "draft tokens");
        chapter.outputs.push(Tensor::new("draft.ids", &[draft.ids.len()], about));
        chapter.tables.extend(draft_table(run));
        chapter.tables.extend(rollback_table(run));
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
    let mut table = Table::new(title, run.badge(), columns);
    let top = labels::candidates(&run.tokenizer, run.config(), run.seen.row(Tap::Logits, 0, 0), 5);
    for (rank, token) in top.into_iter().enumerate() {
        let numbers = [Cell::from(token.logit), Cell::from(token.probability)];
        let mut row = vec![(rank + 1).into(), u64::from(token.id).into(), token.label.into()];
        row.extend(numbers);
        table.push(row);
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
    let mut table = Table::new(title, run.badge(), columns);
    let accepted = run.accepted();
    for (i, token) in draft_tokens(run, draft).into_iter().enumerate() {
        table.push(vec![
            i.into(),
            u64::from(token.id).into(),
            token.label.into(),
            token.without_markov.into(),
            token.confidence.into(),
            verdict(&token.main, i, accepted).into(),
        ]);
    }
    Some(table)
}

/// What judging the draft wrote into the state, and what going back left of it.
fn rollback_table(run: &Run) -> Option<Table> {
    let (rows, kept) = (run.verified.len() / run.config().vocab_size, run.accepted() + 1);
    let title = Text::of(
        format!("Rollback: lượt kiểm chạy {rows} token, {} được giữ", kept.min(rows)),
        format!("Rollback: {rows} tokens ran to judge the draft, {} kept", kept.min(rows)),
    );
    let columns = vec![
        Text::new("phần của trạng thái", "part of the state"),
        Text::new("sau prompt", "after the prompt"),
        Text::new("sau lượt kiểm", "after judging"),
        Text::new("sau rollback", "after rollback"),
    ];
    let mut table = Table::new(title, run.badge(), columns);
    for (name, part) in PARTS.into_iter().zip(&run.rolled) {
        let held = [&part.before, &part.judged, &part.kept].map(|held| held.clone().into());
        table.push(std::iter::once(name.into()).chain(held).collect());
    }
    (!run.rolled.is_empty()).then_some(table)
}

/// What became of draft token `place`, and what the main network says there.
fn verdict(main: &str, place: usize, accepted: usize) -> Text {
    let (vi, en) = match place.cmp(&accepted) {
        Ordering::Less => ("chấp nhận", "accepted"),
        Ordering::Equal => ("bác bỏ", "rejected"),
        Ordering::Greater => ("bỏ theo", "rolled back"),
    };
    Text::of(format!("{main}: {vi}"), format!("{main}: {en}"))
}

/// Index of the largest, the first of equals.
fn best(values: &[f32]) -> usize {
    let larger = |best: usize, i: usize| if values[i] > values[best] { i } else { best };
    (0..values.len()).fold(0, larger)
}

fn figure(run: &Run) -> HeadFigure {
    let candidates = |logits: &[f32], count| labels::candidates(&run.tokenizer, run.config(), logits, count);
    let anchor = candidates(&run.logits, 1).pop();
    let draft = run.draft.as_ref().zip(anchor).map(|((draft, _), anchor)| DraftFigure {
        anchor,
        tokens: draft_tokens(run, draft),
        accepted: run.accepted(),
    });
    HeadFigure { top: candidates(run.seen.row(Tap::Logits, 0, 0), 10), draft }
}

fn draft_tokens(run: &Run, draft: &Draft) -> Vec<DraftToken> {
    let (verdicts, vocab) = (run.verdicts(), run.config().vocab_size);
    let rows = draft.ids.iter().zip(&draft.confidence).zip(draft.base_logits.chunks_exact(vocab)).enumerate();
    rows.map(|(place, ((&id, &confidence), base))| {
        let verdict = verdicts.get(place);
        DraftToken {
            id,
            label: labels::token(run, id),
            confidence: again::sigmoid(f64::from(confidence)) as f32,
            without_markov: labels::token(run, best(base) as u32),
            main: verdict.map_or(String::new(), |&main| labels::token(run, main)),
            agrees: verdict == Some(&id),
        }
    })
    .collect()
}
