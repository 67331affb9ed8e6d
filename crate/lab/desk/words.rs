//! What a page and the desk say to each other, as JSON with camelCase keys; the table in `web/engine.js` is the other side.

use crate::lab::figure::Candidate;
use serde::{Deserialize, Serialize};

/// What the page asks for when it opens the lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wish {
    /// A real GPU where there is one; otherwise what a short measurement finds quicker.
    #[default]
    Auto,
    /// A GPU, or an adapter that runs shaders on the processor.
    Gpu,
    /// The CPU reference.
    Cpu,
}

/// A prompt to run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRequest {
    /// The text behind `BOS` and the picture.
    pub text: String,
    /// `disc` and `grid` are drawn by the lab, `own` comes with the call.
    #[serde(default)]
    pub picture: Option<String>,
    /// Position to follow; the last if there is none.
    #[serde(default)]
    pub token: Option<usize>,
    /// Layer to look into; where encoder and decoder meet if there is none.
    #[serde(default)]
    pub layer: Option<usize>,
    /// `released`, or `f32` for caches that are not quantised.
    #[serde(default)]
    pub kv: Kv,
}

/// How a run keeps its caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kv {
    /// FP4 entries and keys, FP8 windows.
    #[default]
    Released,
    /// Unquantised.
    F32,
}

/// From where the prompt is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct Where {
    /// Position; may be one that was generated. As before if there is none.
    #[serde(default)]
    pub token: Option<usize>,
    /// Layer; as before if there is none.
    #[serde(default)]
    pub layer: Option<usize>,
}

/// How the next token is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
pub struct How {
    /// 0, the default, takes the best token.
    #[serde(default)]
    pub temperature: f64,
    /// Seed of the draw.
    #[serde(default)]
    pub seed: u64,
}

/// One token more.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its position.
    pub position: usize,
    /// Its id.
    pub id: u32,
    /// In readable form.
    pub label: String,
    /// Whether nothing can follow: it ends the text, or the lab's positions are used up.
    pub finished: bool,
    /// Seconds that running it through the model took.
    pub seconds: f64,
    /// What it was chosen from: the ten best tokens.
    pub top: Vec<Candidate>,
    /// Bytes of global KV with it.
    pub kv_bytes: usize,
    /// Layers that ran for it: all, as a token is written.
    pub layers: usize,
    /// Dispatches on the GPU, the head's included.
    pub dispatches: Option<usize>,
}

/// A recorded tensor that can be asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TapInfo {
    /// Name of the tap.
    pub tap: &'static str,
    /// Layer.
    pub layer: usize,
    /// Shape, rows first.
    pub shape: Vec<usize>,
    /// `f32` or `i64`.
    pub kind: &'static str,
    /// `gpu` or `cpu`.
    pub source: &'static str,
}

/// Slots for experts that do not all stay in memory.
#[derive(Debug, Clone, Copy)]
pub struct SlotCount {
    /// How many, of all layers together.
    pub count: usize,
    /// Seconds from any fixed moment on.
    pub clock: fn() -> f64,
}

/// What a host brings along.
pub struct Host {
    /// Seconds from any fixed moment on.
    pub clock: Box<dyn Fn() -> f64>,
    /// Hears of events: `progress` with a stage, `lost` with a reason, `recovered`.
    pub tell: Box<dyn Fn(Event<'_>)>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Host")
    }
}

/// Something that happens during a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A part of the work: its name, how much is done, of how much.
    Progress(&'a str, usize, usize),
    /// The part of a checkpoint on a server that is read now.
    Reading(&'a str),
    /// The device is gone, with the reason; it will be opened again.
    Lost(&'a str),
    /// A new device has taken over.
    Recovered,
}
