//! What a page shows besides the lab itself: which model and engine it talks to, and what FP4 costs.
//!
//! Shapes are those of the contract between the page and the core: JSON with camelCase keys, sentences in both languages.

pub use super::labels::{candidates, name};

use super::content::Text;
use super::figure::Candidate;
use super::prompt::MAX_POSITIONS;
use super::run::Run;
use crate::blocks::ORDER;
use crate::blocks::b3a_encoder_decoder::DecoderTail;
use crate::blocks::tap::Silent;
use crate::config::{Config, Role};
use crate::error::{Error, Result};
use crate::model::Prefill;
use crate::numerics::ops::{argmax, nmse};
use crate::numerics::precision::Precision;
use serde::Serialize;

/// Most characters of a text that a page should hand over: far more than [`MAX_POSITIONS`] tokens of any text that people write.
pub const MAX_CHARACTERS: usize = 8 * MAX_POSITIONS;

/// What the page talks to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Info {
    /// Version of this package.
    pub build: &'static str,
    /// What computes.
    pub backend: Backend,
    /// Name of the graphics adapter, or of what stands in for it.
    pub adapter: String,
    /// Whether the adapter is a CPU that plays one.
    pub software: bool,
    /// Why this backend.
    pub reason: Text,
    /// The text that is run when the reader brings none.
    pub sentence: Text,
    /// How much a run may be asked for.
    pub limits: Limits,
    /// Bytes of weights that writing one token reads (section 11.5); over its time they are the rate of reading.
    pub token_bytes: u64,
    /// The model.
    pub model: Model,
}

/// What computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// WebGPU, or the same shaders natively.
    Gpu,
    /// The CPU reference.
    Cpu,
    /// Nothing: numbers of an earlier run.
    Recorded,
}

/// How much a run may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Positions of a prompt.
    pub positions: usize,
    /// Characters of its text.
    pub characters: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { positions: MAX_POSITIONS, characters: MAX_CHARACTERS }
    }
}

/// The model, as far as a page draws it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// What it is, in sentences.
    pub about: Vec<Text>,
    /// Its config.json.
    pub config: serde_json::Value,
    /// The ruler: one mark per backbone layer.
    pub layers: Vec<LayerMark>,
    /// The diagram: the ten blocks.
    pub map: Vec<BlockMark>,
}

/// A backbone layer on the ruler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LayerMark {
    /// The layer.
    pub layer: usize,
    /// `encoder` before the last KV source, `decoder` from there on.
    pub side: &'static str,
    /// Whether an n-gram memory stands in front.
    pub engram: bool,
    /// Tokens per entry that it reads; 0 if it reads none.
    pub ratio: usize,
    /// `window`, `full`, `reindex` or `reuse`.
    pub role: &'static str,
    /// Layer whose entries it reads.
    pub kv_source: Option<usize>,
    /// Layer whose selection it uses.
    pub index_source: Option<usize>,
    /// Whether DSpark reads its input.
    pub target: bool,
}

/// A block of the diagram.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockMark {
    /// Code of the block.
    pub code: &'static str,
    /// Its name.
    pub name: Text,
    /// Column, 1 to 4.
    pub column: u8,
    /// Focus groups that it belongs to.
    pub focus: &'static [&'static str],
}

/// The model of a config.
///
/// # Errors
/// [`Error::Integrity`] if its config.json cannot be read again.
pub fn model(config: &Config) -> Result<Model> {
    let json = serde_json::from_str(&config.to_json());
    Ok(Model {
        about: super::about_model(config),
        config: json.map_err(|error| Error::Integrity(format!("the model's config as JSON: {error}")))?,
        layers: (0..config.n_layers).map(|layer| layer_mark(config, layer)).collect(),
        map: ORDER.iter().map(block_mark).collect(),
    })
}

fn layer_mark(config: &Config, layer: usize) -> LayerMark {
    let decoder = config.last_kv_source().unwrap_or(config.n_layers);
    LayerMark {
        layer,
        side: if layer < decoder { "encoder" } else { "decoder" },
        engram: config.engram_layer_ids.contains(&layer),
        ratio: config.ratio(layer),
        role: match config.role(layer) {
            Role::Window => "window",
            Role::Full => "full",
            Role::Reindex => "reindex",
            Role::Reuse => "reuse",
        },
        kv_source: config.kv_source(layer),
        index_source: config.index_source(layer),
        target: config.dspark_target_layer_ids.contains(&layer),
    }
}

fn block_mark(block: &crate::blocks::Block) -> BlockMark {
    BlockMark { code: block.code, name: Text::new(block.name_vi, block.name), column: block.column, focus: block.focus }
}

/// What quantising the caches changes in the logits behind a prompt.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KvComparison {
    /// Whether the best token is the same.
    pub argmax_same: bool,
    /// Largest difference of a logit.
    pub max_logit: f64,
    /// Normalised mean squared error of the quantised run's logits.
    pub nmse: f64,
    /// The five best tokens with caches in f32.
    pub before: Vec<Candidate>,
    /// The five best tokens with caches as released: FP4 entries and keys, FP8 windows.
    pub after: Vec<Candidate>,
}

/// Runs the prompt of `run` once more, on the CPU, with the caches in f32 (or as released, if the run had f32), and compares the last logits.
///
/// # Errors
/// As [`crate::model::Reference::prefill`].
pub async fn compare_kv(run: &Run) -> Result<KvComparison> {
    let released = run.model.context.kv == Precision::Released;
    let model = run.model.with_kv(if released { Precision::F32 } else { Precision::Released });
    let how = Prefill { chunk: run.prompt.len(), tail: DecoderTail::All, all_logits: false };
    let second = model.prefill(&mut model.state(), &run.prompt, how, &mut Silent).await?.logits;
    let (exact, quantised) = if released { (&second, &run.logits) } else { (&run.logits, &second) };
    let top = |logits: &[f32]| candidates(&run.tokenizer, run.config(), logits, 5);
    let differences = exact.iter().zip(quantised).map(|(a, b)| f64::from((a - b).abs()));
    Ok(KvComparison {
        argmax_same: argmax(exact) == argmax(quantised),
        max_logit: differences.fold(0.0, f64::max),
        nmse: nmse(quantised, exact),
        before: top(exact),
        after: top(quantised),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ruler_and_map_of_the_release() {
        let model = model(&Config::flash()).unwrap();
        let of = |role: &str| model.layers.iter().filter(|mark| mark.role == role).map(|mark| mark.layer).collect();
        let (window, full, reindex): (Vec<_>, Vec<_>, Vec<_>) = (of("window"), of("full"), of("reindex"));
        assert_eq!((window, full, reindex), (vec![0, 1], vec![2, 8, 14, 20], vec![24, 28, 32, 36]));
        assert_eq!(model.layers.iter().filter(|mark| mark.side == "encoder").count(), 20);
        assert_eq!((model.layers[30].kv_source, model.layers[30].index_source), (Some(20), Some(28)));
        assert_eq!(model.config["text_config"]["num_hidden_layers"], 40);
        let group = |name: &str| {
            let inside = model.map.iter().filter(|mark| mark.focus.contains(&name));
            inside.map(|mark| mark.code).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            ["prefill", "decode", "kv", "moe"].map(group),
            ["1A 1B 3A 3B 3C 6A", "3A 3C 4A 5A 6B", "3B 3C 4A 6A", "2A 5A"]
        );
        let columns: Vec<u8> = model.map.iter().map(|mark| mark.column).collect();
        assert_eq!(columns, [1, 1, 1, 2, 2, 2, 3, 3, 4, 4]);
    }
}
