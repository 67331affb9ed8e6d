//! Speculative decoding: a draft of a few tokens, verified by the model in one call (sections 10.6 to 10.8).
//!
//! ```text
//! d_1 .. d_b   proposed after the anchor t; cut where the chance that all of them survive falls below a threshold
//! c_0 .. c_k   what the model chooses after t, d_1 .. d_k, all in one call of k + 1 rows
//! kept         c_0 .. c_a, a the number of leading i with d_i = c_{i-1}
//! ```
//!
//! A choice is a function of logits, seed and position ([`Sampler`]), and a row has the same logits among others as alone: so the tokens kept
//! are exactly those that decoding one by one gives, drawn ones too, and follow the model's distribution because they are draws from it. The
//! draft draws with the noise of the same position: where its distribution is the model's, so is its token.
//!
//! Section 10.7 names another rule for drawn tokens: accept `d` with the chance `min(1, P(d) / Q(d))`, and draw from what `P` has more than `Q`
//! otherwise. That too follows `P`, but which tokens come out then depends on what was drafted: the same seed would write another text with drafts
//! than without, and than on another backend whose draft differs in a last bit. The rule here, a coupling of both draws by their noise, accepts
//! less often where `P` and `Q` differ much (never less than half as often, and always where they are equal), and buys for it that a draft changes
//! nothing but the time: the text is a function of prompt, seed and sampling. It also needs no probabilities from the GPU, only ids. What it draws
//! is tested against `P` by chi-square.

use super::sampler::Sampler;
use super::score::Score;
use crate::blocks::b1a_input::Prompt;
use crate::blocks::tap::Silent;
use crate::error::{Error, Result};
use crate::model::engine::foreign;
use crate::model::gpu::Proposal;
use crate::model::{Engine, EngineState, Prefill};
use crate::numerics::ops::{argmax, sigmoid};

/// How to speculate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speculation {
    /// A draft is cut where the chance that its tokens all survive falls below this; 0 always verifies the whole block. The report publishes no
    /// value (section 10.7); a half is fastllm's.
    pub confidence: f32,
}

impl Default for Speculation {
    fn default() -> Self {
        Speculation { confidence: 0.5 }
    }
}

/// One step of decoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// The tokens that follow the anchor, at least one. All but the last have run through the model, which waits to be told how many are
    /// kept: [`settle`].
    pub tokens: Vec<u32>,
    /// Drafted tokens that were verified.
    pub drafted: usize,
}

/// Whether a model can draft. One that scores against stale keys as the vendor's script does decodes single tokens in another way than several.
pub fn drafts(engine: &Engine) -> bool {
    match engine {
        Engine::Cpu(model) => model.drafter.is_some() && !model.context.stale_index_keys,
        Engine::Gpu(model) => model.drafts(),
    }
}

/// Feeds `anchor`, the token that was chosen last, and what a draft proposes after it; returns up to `most` tokens that follow. Without `how`
/// nothing is drafted, and one token follows.
///
/// # Errors
/// As [`Engine::prefill`], and what [`Sampler::sample`] says.
pub async fn round(
    engine: &Engine,
    state: &mut EngineState,
    anchor: u32,
    sampler: &Sampler,
    how: Option<Speculation>,
    most: usize,
) -> Result<Round> {
    scored_round(engine, state, anchor, sampler, (how, None), most).await.map(|(round, _)| round)
}

/// [`round`] that also says how probable its tokens were, if it is told how many tokens to name in each [`Score`]. Then a GPU's logits have to
/// be read back.
///
/// # Errors
/// As [`round`].
pub(super) async fn scored_round(
    engine: &Engine,
    state: &mut EngineState,
    anchor: u32,
    sampler: &Sampler,
    (how, scoring): (Option<Speculation>, Option<usize>),
    most: usize,
) -> Result<(Round, Vec<Score>)> {
    // One token follows the last row, and each row needs a position.
    let room = engine.config().max_position_embeddings.saturating_sub(state.position() + 1);
    let most = most.saturating_sub(1).min(room);
    let mut rows = vec![anchor];
    if let Some(how) = how.filter(|_| most > 0)
        && let Some(proposal) = propose(engine, state, anchor, sampler).await?
    {
        rows.extend(confident(&proposal, how.confidence).iter().take(most));
    }
    let (mut tokens, mut scores) = verify(engine, state, &rows, sampler, scoring).await?;
    let drafted = rows.len() - 1;
    let accepted = rows[1..].iter().zip(&tokens).take_while(|(draft, chosen)| draft == chosen).count();
    tokens.truncate(accepted + 1);
    scores.truncate(accepted + 1);
    Ok((Round { tokens, drafted }, scores))
}

/// Keeps the tokens before `position`, of those that the last [`round`] fed.
///
/// # Errors
/// [`Error::Usage`] if `position` is not among them.
pub fn settle(engine: &Engine, state: &mut EngineState, position: usize) -> Result<()> {
    match (engine, state) {
        (Engine::Cpu(_), EngineState::Cpu(state)) if state.is_speculating() => state.settle(position),
        (Engine::Cpu(_), EngineState::Cpu(state)) if state.position == position => Ok(()),
        (Engine::Gpu(model), EngineState::Gpu(state)) => model.settle(state, position),
        (_, state) => Err(Error::Usage(format!("{position} tokens were to be kept of {}", state.position()))),
    }
}

/// The leading tokens of a draft whose chance to survive together is at least `threshold`.
fn confident(proposal: &Proposal, threshold: f32) -> &[u32] {
    let mut chance = 1.0;
    let doubtful = proposal.confidence.iter().position(|&logit| {
        chance *= sigmoid(logit);
        chance < threshold
    });
    &proposal.ids[..doubtful.unwrap_or(proposal.ids.len())]
}

async fn propose(engine: &Engine, state: &mut EngineState, anchor: u32, sampler: &Sampler) -> Result<Option<Proposal>> {
    match (engine, state) {
        (Engine::Cpu(model), EngineState::Cpu(state)) => {
            let first = state.position + 1;
            // A draft without a choice is a bad draft; the model itself will say what is wrong.
            let mut choose =
                |row, logits: &[f32]| sampler.sample(logits, first + row).unwrap_or_else(|_| argmax(logits) as u32);
            let draft = model.draft_with(state, anchor, &mut choose);
            Ok(draft.map(|draft| Proposal { ids: draft.ids, confidence: draft.confidence }))
        }
        (Engine::Gpu(model), EngineState::Gpu(state)) => {
            model.propose(state, anchor, sampler.temperature(), sampler.seed()).await
        }
        _ => Err(foreign()),
    }
}

/// Feeds `rows`, and chooses a token after each; with scores if they are asked for.
async fn verify(
    engine: &Engine,
    state: &mut EngineState,
    rows: &[u32],
    sampler: &Sampler,
    scoring: Option<usize>,
) -> Result<(Vec<u32>, Vec<Score>)> {
    let first = state.position() + 1;
    let how = Prefill { chunk: rows.len(), all_logits: true, ..Prefill::default() };
    let prompt = Prompt::text(rows.to_vec());
    let logits = match (engine, state) {
        (Engine::Cpu(model), EngineState::Cpu(state)) => {
            if rows.len() > 1 {
                state.begin();
            }
            model.prefill(state, &prompt, how, &mut Silent).await?.logits
        }
        (Engine::Gpu(model), EngineState::Gpu(state)) if sampler.is_argmax() && scoring.is_none() => {
            let tokens = model.verify(state, rows, sampler.temperature(), sampler.seed()).await?;
            return Ok((tokens, Vec::new()));
        }
        (Engine::Gpu(model), EngineState::Gpu(state)) => model.prefill(state, &prompt, how).await?.logits,
        _ => return Err(foreign()),
    };
    let rows = || logits.chunks_exact(engine.config().vocab_size);
    let tokens: Vec<u32> =
        rows().enumerate().map(|(row, logits)| sampler.sample(logits, first + row)).collect::<Result<_>>()?;
    let score = |top| rows().zip(&tokens).map(|(logits, &id)| Score::of(logits, id, top)).collect();
    let scores = scoring.map(score).unwrap_or_default();
    Ok((tokens, scores))
}
