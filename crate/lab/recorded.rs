//! A run as a file: what a page shows before its own engine is there, or without one.

use super::content::{Lab, Text};
use super::page::{Backend, Info, Limits, model};
use super::report;
use super::run::Run;
use crate::error::{Error, Result};
use crate::weights::needs::Needs;
use serde::Serialize;
use serde_json::{Number, Value};

/// Layers that are recorded, as far as the model has them: one of each role, and those where something begins.
pub const LAYERS: [usize; 7] = [1, 2, 8, 14, 20, 24, 39];

/// Significant digits that numbers keep in the file.
const DIGITS: usize = 5;

/// The file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedRun {
    /// Always true: the mark by which a page knows such a file.
    pub recorded: bool,
    /// What ran.
    pub info: Info,
    /// The prompt as it looks from each layer.
    pub labs: Vec<RecordedLab>,
    /// Whole tensors; none are kept.
    pub tensors: Vec<Value>,
}

/// The lab of one token in one layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedLab {
    /// The followed token.
    pub token: usize,
    /// The layer.
    pub layer: usize,
    /// The lab.
    pub lab: Lab,
}

/// Looks at `run`, whose text is `sentence`, from each of [`LAYERS`]. The run keeps the layer that it had.
///
/// # Errors
/// As [`model`].
pub fn record(run: &mut Run, sentence: &str) -> Result<RecordedRun> {
    let (chosen, layers) = (run.layer, run.config().n_layers);
    let mut labs = Vec::new();
    for layer in LAYERS.into_iter().filter(|&layer| layer < layers) {
        run.look_at(layer)?;
        labs.push(RecordedLab { token: run.at, layer, lab: report(run, None) });
    }
    run.look_at(chosen)?;
    let info = Info {
        build: env!("CARGO_PKG_VERSION"),
        backend: Backend::Recorded,
        adapter: "CPU reference".into(),
        software: true,
        reason: Text::new(
            "bản ghi của một lần chạy bằng CPU tham chiếu, kèm theo trang",
            "a run of the CPU reference, recorded with the page",
        ),
        sentence: Text::same(sentence),
        limits: Limits::default(),
        token_bytes: Needs::of(run.config()).token.total(),
        model: model(run.config())?,
    };
    Ok(RecordedRun { recorded: true, info, labs, tensors: Vec::new() })
}

impl RecordedRun {
    /// The file's JSON, in one line, numbers with five significant digits.
    ///
    /// # Errors
    /// [`Error::Integrity`] if something has no JSON form.
    pub fn to_json(&self) -> Result<String> {
        let mut value = serde_json::to_value(self)
            .map_err(|error| Error::Integrity(format!("the recorded run as JSON: {error}")))?;
        if let Some(labs) = value.get_mut("labs") {
            shorten(labs);
        }
        Ok(format!("{value}\n"))
    }
}

/// Rounds every number that is not whole.
fn shorten(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let short = number.as_f64().and_then(|exact| format!("{exact:.0$e}", DIGITS - 1).parse().ok());
            if let Some(short) = short.and_then(Number::from_f64) {
                *number = short;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_digits() {
        let mut value =
            serde_json::json!({ "a": [0.1f32, 1.0 / 3.0, -123_456.7, 1.5e-20, 0.0], "b": 1_234_567, "c": "0.123456" });
        shorten(&mut value);
        let expected =
            serde_json::json!({ "a": [0.1, 0.33333, -123_460.0, 1.5e-20, 0.0], "b": 1_234_567, "c": "0.123456" });
        assert_eq!(value, expected);
    }
}
