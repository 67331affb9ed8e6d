//! The comparisons of a parity report. Each returns a [`Check`] with its limit set.

use super::{Check, limits};
use crate::numerics::ops::nmse;
use crate::numerics::quant;

fn check(case: &str, tap: &str, layer: Option<usize>, measure: &'static str) -> Check {
    let (case, tap) = (case.to_string(), tap.to_string());
    Check { case, tap, layer, error: f64::INFINITY, measure, limit: Some(0.0), worst: String::new() }
}

/// The largest NMSE among rows of `width`.
pub(super) fn worst_row(
    case: &str,
    tap: &str,
    layer: Option<usize>,
    own: &[f32],
    golden: &[f32],
    width: usize,
    limit: Option<f64>,
) -> Check {
    let mut check = Check { limit, ..check(case, tap, layer, "NMSE, worst row") };
    if own.len() != golden.len() {
        check.worst = format!("{} values, golden has {}", own.len(), golden.len());
        return check;
    }
    check.error = 0.0;
    for (row, (a, b)) in own.chunks_exact(width).zip(golden.chunks_exact(width)).enumerate() {
        let error = nmse(a, b);
        if error > check.error || error.is_nan() {
            check.error = error;
            let place = (0..width).max_by(|&i, &j| (a[i] - b[i]).abs().total_cmp(&(a[j] - b[j]).abs())).unwrap_or(0);
            check.worst = format!("row {row}, element {place}: {} against {}", a[place], b[place]);
        }
    }
    check
}

/// How many values differ; none may.
pub(super) fn equal(case: &str, tap: &str, layer: Option<usize>, own: &[i64], golden: &[i64]) -> Check {
    let mut check = check(case, tap, layer, "values that differ");
    if own.len() != golden.len() {
        check.worst = format!("{} values, golden has {}", own.len(), golden.len());
        return check;
    }
    check.error = own.iter().zip(golden).filter(|(a, b)| a != b).count() as f64;
    if let Some(place) = (0..own.len()).find(|&i| own[i] != golden[i]) {
        check.worst = format!("first at {place}: {} against {}", own[place], golden[place]);
    }
    check
}

/// How many rows select another set; -1 means none. The two may be padded to different widths.
pub(super) fn sets(
    case: &str,
    layer: usize,
    own: &[i64],
    own_width: usize,
    golden: &[i64],
    golden_width: usize,
) -> Check {
    let mut check = check(case, "3c.topk_ids", Some(layer), "rows that select another set");
    let (rows, expected) = (own.len() / own_width, golden.len() / golden_width);
    if rows != expected {
        check.worst = format!("{rows} rows, golden has {expected}");
        return check;
    }
    check.error = 0.0;
    for (row, (a, b)) in own.chunks_exact(own_width).zip(golden.chunks_exact(golden_width)).enumerate() {
        let (a, b) = (chosen(a), chosen(b));
        if a != b {
            check.error += 1.0;
            if check.worst.is_empty() {
                check.worst = format!("first at row {row}: {a:?} against {b:?}");
            }
        }
    }
    check
}

/// What a padded row selects, ascending.
pub(super) fn chosen(row: &[i64]) -> Vec<i64> {
    let mut chosen: Vec<i64> = row.iter().copied().filter(|&j| j >= 0).collect();
    chosen.sort_unstable();
    chosen
}

/// [`sets`], but a row is only counted if the scores of what differs are further apart than rounding explains.
pub(super) fn sets_by_score(
    mut check: Check,
    own: &[i64],
    golden: &[i64],
    golden_width: usize,
    scores: &[f32],
) -> Check {
    let rows = golden.len() / golden_width;
    if rows == 0 || !check.error.is_finite() {
        return check;
    }
    let (own_width, entries) = (own.len() / rows, scores.len() / rows);
    let differs = |row: &usize| {
        let (a, b) =
            (chosen(&own[row * own_width..][..own_width]), chosen(&golden[row * golden_width..][..golden_width]));
        let score = |&j: &i64| scores[row * entries..][..entries].get(j as usize).copied().unwrap_or(f32::NEG_INFINITY);
        let scale = a.iter().chain(&b).map(score).map(f32::abs).fold(f32::MIN_POSITIVE, f32::max);
        let only_own = a.iter().filter(|j| !b.contains(j)).map(score).fold(f32::NEG_INFINITY, f32::max);
        let only_golden = b.iter().filter(|j| !a.contains(j)).map(score).fold(f32::INFINITY, f32::min);
        a.len() != b.len() || (a != b && (only_own - only_golden).abs() > limits::SCORE * scale)
    };
    check.error = (0..rows).filter(differs).count() as f64;
    check
}

/// Share of 4-bit codes that differ, from the values that readers see; more than one step apart counts as all.
pub(super) fn codes(case: &str, tap: &str, layer: usize, own: &[f32], golden: &[f32]) -> Check {
    let mut check =
        Check { limit: Some(limits::CODES), ..check(case, tap, Some(layer), "share of 4-bit codes that differ") };
    if own.len() != golden.len() {
        check.worst = format!("{} values, golden has {}", own.len(), golden.len());
        return check;
    }
    let mut differing = 0usize;
    let mut far = false;
    // The widest step between E2M1 codes is from 4 to 6: a third of the group's largest value.
    for (group, (a, b)) in own.chunks(quant::KV4_GROUP).zip(golden.chunks(quant::KV4_GROUP)).enumerate() {
        let step = b.iter().chain(a).fold(0.0f32, |max, v| max.max(v.abs())) / 3.0 * 1.001;
        for (place, (a, b)) in a.iter().zip(b).enumerate() {
            if a != b {
                differing += 1;
                let is_far = (a - b).abs() > step || a.is_nan();
                if check.worst.is_empty() || (is_far && !far) {
                    check.worst = format!("element {}: {a} against {b}", group * quant::KV4_GROUP + place);
                }
                far = far || is_far;
            }
        }
    }
    check.error = if far { 1.0 } else { differing as f64 / own.len().max(1) as f64 };
    check
}

/// Chosen experts as sets, and their weights by expert: rows that choose other experts, then the NMSE of the weights of the rest.
pub(super) fn experts(
    case: &str,
    layer: usize,
    own: (&[i64], &[f32]),
    golden: (&[i64], &[f32]),
    k: usize,
    near: impl Fn(usize, &[i64], &[i64]) -> bool,
) -> [Check; 2] {
    let mut ids = check(case, "5a.expert_ids", Some(layer), "rows that choose other experts");
    let mut weights = check(case, "5a.expert_weights", Some(layer), "NMSE, worst row");
    weights.limit = Some(limits::LAYER);
    if own.0.len() != golden.0.len() {
        return [ids, weights];
    }
    (ids.error, weights.error) = (0.0, 0.0);
    for row in 0..own.0.len() / k {
        let sorted = |ids: &[i64], w: &[f32]| {
            let mut pairs: Vec<(i64, f32)> =
                ids[row * k..][..k].iter().copied().zip(w[row * k..][..k].iter().copied()).collect();
            pairs.sort_by_key(|&(id, _)| id);
            pairs.into_iter().unzip::<i64, f32, Vec<_>, Vec<_>>()
        };
        let ((own_ids, own_w), (golden_ids, golden_w)) = (sorted(own.0, own.1), sorted(golden.0, golden.1));
        if own_ids == golden_ids {
            let error = nmse(&own_w, &golden_w);
            if error > weights.error || error.is_nan() {
                weights.error = error;
                weights.worst = format!("row {row}: {own_w:?} against {golden_w:?}");
            }
        } else if !near(row, &own_ids, &golden_ids) {
            ids.error += 1.0;
            ids.worst = format!("row {row}: {own_ids:?} against {golden_ids:?}");
        }
    }
    [ids, weights]
}
