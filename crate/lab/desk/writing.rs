//! The text behind the prompt, token by token.

use super::{How, Step};
use crate::error::{Error, Result};
use crate::generate::{Sampler, Sampling};
use crate::lab::page::{self, Limits};
use crate::lab::run::Run;
use crate::model::Prefill;
use crate::model::engine::{Engine, EngineState};
use crate::text::Tokenizer;

/// The text behind the prompt, as far as it was written.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) state: EngineState,
    pub(super) logits: Vec<f32>,
    pub(super) ids: Vec<u32>,
}

/// The state behind the prompt, and the logits there.
pub(super) async fn begin(engine: &Engine, run: &Run) -> Result<Writing> {
    let mut state = engine.state()?;
    let prompt = run.own_prompt();
    let logits = engine.prefill(&mut state, &prompt, Prefill { all_logits: false, ..Prefill::default() }).await?.logits;
    Ok(Writing { state, logits, ids: Vec::new() })
}

/// Chooses a token and runs it.
pub(super) async fn write(
    engine: &Engine,
    tokenizer: &Tokenizer,
    writing: &mut Writing,
    how: How,
    clock: &dyn Fn() -> f64,
) -> Result<Step> {
    let (config, position) = (engine.config(), writing.state.position());
    let most = Limits::default().positions.min(config.max_position_embeddings);
    if position >= most {
        return Err(Error::Prompt(format!("all {most} positions of the lab are used")));
    }
    // Each position has its own draw, so that a token can be written again.
    let sampler = Sampler::new(Sampling { temperature: how.temperature, top_p: 1.0, seed: how.seed })?;
    let id = sampler.sample(&writing.logits, position)?;
    let top = page::candidates(tokenizer, config, &writing.logits, 10);
    let begin = clock();
    writing.logits = engine.decode(&mut writing.state, id).await?;
    writing.ids.push(id);
    Ok(Step {
        position,
        id,
        label: page::name(tokenizer, config, id),
        finished: id == config.eos_token_id || position + 1 >= most,
        seconds: clock() - begin,
        top,
        kv_bytes: writing.state.kv_bytes(),
        layers: config.n_layers,
        dispatches: None,
    })
}
