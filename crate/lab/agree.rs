//! GPU against CPU reference, tap by tap, on any prompt.

use super::content::Text;
use crate::blocks::b1a_input::Prompt;
use crate::blocks::tap::{Recorded, Recorder, Tap};
use crate::error::Result;
use crate::model::gpu::{GpuModel, Trace};
use crate::model::{Prefill, Reference};
use crate::numerics::ops::nmse;
use serde::Serialize;
use std::collections::BTreeSet;

/// Largest NMSE of real numbers. Sums in another order were seen within 1e-10 after 40 layers.
pub const LIMIT: f64 = 1e-8;

/// Most rows that are compared: queries and heads of all rows and layers lie in memory twice.
const MOST_ROWS: usize = 64;

/// One tensor on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Name of the tap.
    pub tap: &'static str,
    /// Layer.
    pub layer: usize,
    /// Error; of selections, the share of rows that chose another set.
    pub nmse: f64,
    /// Largest error that passes.
    pub limit: f64,
    /// Whether it does.
    pub passed: bool,
}

/// All of them, or the reason why there are none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parity {
    /// In the order in which a token meets them, layer by layer.
    pub rows: Option<Vec<Row>>,
    /// Why there are none.
    pub reason: Option<Text>,
}

impl Parity {
    /// Nothing to compare.
    pub fn without_gpu() -> Parity {
        let reason = Text::new("không có GPU để so sánh", "there is no GPU to compare");
        Parity { rows: None, reason: Some(reason) }
    }
}

/// Runs the first rows of `prompt` on both, with the caches that the models have, and compares every tap that both show.
///
/// # Errors
/// As [`Reference::prefill`] and [`GpuModel::prefill`].
pub async fn compare(reference: &Reference, gpu: &GpuModel, prompt: &Prompt) -> Result<Parity> {
    let (prompt, _) = super::prompt::cut(prompt, prompt.len().min(MOST_ROWS), reference.config().dim);
    let how = Prefill { chunk: prompt.len(), ..Prefill::default() };
    let mut theirs = Recorder::new(|_, _| true);
    reference.prefill(&mut reference.state(), &prompt, how, &mut theirs).await?;
    let names: Vec<&str> = Tap::ALL.iter().map(|tap| tap.name()).collect();
    let (mut state, mut trace) = (gpu.state()?, Trace::default());
    gpu.prefill_traced(&mut state, &prompt, how, &names, &mut trace).await?;
    let mut own = Recorder::new(|_, _| true);
    trace.replay(gpu.config(), &mut own);
    let both =
        |(&(tap, layer), own): (&(Tap, usize), &Recorded)| Some((tap, layer, distance(own, theirs.get(tap, layer)?)));
    let mut rows: Vec<Row> = (own.tensors.iter().filter_map(both))
        .map(|(tap, layer, (nmse, limit))| Row { tap: tap.name(), layer, nmse, limit, passed: nmse <= limit })
        .collect();
    let place = |name| Tap::ALL.iter().position(|tap| tap.name() == name);
    rows.sort_by_key(|row| (row.layer, place(row.tap)));
    Ok(Parity { rows: Some(rows), reason: None })
}

/// Error and limit. Masked scores have to be masked on both sides.
fn distance(own: &Recorded, theirs: &Recorded) -> (f64, f64) {
    if own.shape != theirs.shape {
        return (f64::INFINITY, LIMIT);
    }
    if own.i64.is_empty() {
        let kept = |values: &[f32]| values.iter().copied().filter(|v| v.is_finite()).collect::<Vec<f32>>();
        let (own, theirs) = (kept(&own.f32), kept(&theirs.f32));
        return (if own.len() == theirs.len() { nmse(&own, &theirs) } else { f64::INFINITY }, LIMIT);
    }
    let width: usize = own.shape[1..].iter().product::<usize>().max(1);
    let sets =
        |all: &[i64]| all.chunks(width).map(|row| row.iter().copied().collect::<BTreeSet<_>>()).collect::<Vec<_>>();
    let (own, theirs) = (sets(&own.i64), sets(&theirs.i64));
    let other = own.iter().zip(&theirs).filter(|(own, theirs)| own != theirs).count();
    (other as f64 / own.len().max(1) as f64, 0.0)
}
