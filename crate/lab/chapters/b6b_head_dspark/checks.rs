//! The checks of chapter 6B.

use super::best;
use crate::blocks::tap::Tap;
use crate::lab::again::{SAME, distance, narrow, rms_norm, wide, worse};
use crate::lab::content::{Check, Text};
use crate::lab::labels;
use crate::lab::run::Run;

/// All checks; those of the draft only where there is one.
pub(super) fn all(run: &Run) -> Vec<Check> {
    let mut checks = vec![finite(run), logits_again(run, run.config().n_layers - 1), next_is_best(run)];
    checks.extend(draft_checks(run));
    checks.extend(verdict_is_decoding(run));
    checks.extend(rollback_is_decoding(run));
    checks
}

fn finite(run: &Run) -> Check {
    let all = [run.seen.values(Tap::Logits, 0), &run.logits, &run.logits_decoded, &run.verified].concat();
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

/// Judging a whole draft in one call gives at its first place what decoding the anchor alone gives.
fn verdict_is_decoding(run: &Run) -> Option<Check> {
    let first = run.verified.get(..run.config().vocab_size)?;
    let wrong = first.iter().zip(&run.logits_decoded).filter(|(a, b)| a != b).count();
    let what = Text::new(
        "Lượt kiểm cả bản nháp cho ở chỗ đầu đúng logit của lượt decode một token, từng bit",
        "Judging the whole draft gives, at its first place, the logits of decoding one token, bit for bit",
    );
    Some(Check::none_wrong(what, wrong, run.logits_decoded.len()))
}

/// Going back leaves what decoding the kept tokens one by one leaves.
fn rollback_is_decoding(run: &Run) -> Option<Check> {
    let wrong = run.rolled.iter().filter(|part| !part.same).count();
    let what = Text::new(
        "Sau rollback, mọi phần trạng thái trùng từng bit với decode lần lượt các token được giữ",
        "After the rollback every part of the state is what decoding the kept tokens one by one leaves, bit for bit",
    );
    (!run.rolled.is_empty()).then(|| Check::none_wrong(what, wrong, run.rolled.len()))
}
