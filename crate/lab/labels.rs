//! Tokens in readable form, alone and as candidates of a row of logits.

use super::content::TokenLabel;
use super::figure::Candidate;
use super::run::Run;
use crate::config::Config;
use crate::image::TokenType;
use crate::numerics::ops::top_k;
use crate::text::Tokenizer;

/// Longest label, in characters.
const LONGEST: usize = 16;

/// What position `position` of the prompt is.
pub(super) fn position(run: &Run, position: usize) -> TokenLabel {
    let id = run.prompt.ids[position];
    let (kind, label) = match run.prompt.types[position] {
        TokenType::Text => ("text", token(run, id)),
        TokenType::Start => ("start", "IMAGE_START".into()),
        TokenType::Image => ("image", "IMAGE".into()),
        TokenType::NewLine => ("newline", "IMAGE_NEW_LINE".into()),
        TokenType::End => ("end", "IMAGE_END".into()),
    };
    TokenLabel { position, id, kind, label }
}

/// [`name`] of a token of the run.
pub(super) fn token(run: &Run, id: u32) -> String {
    name(&run.tokenizer, run.config(), id)
}

/// A token: text in quotes, or its bytes where they are no text by themselves.
pub fn name(tokenizer: &Tokenizer, config: &Config, id: u32) -> String {
    let Some(bytes) = tokenizer.token_bytes(id) else { return "?".into() };
    if id == config.bos_token_id {
        return "BOS".into();
    }
    if id == config.eos_token_id {
        return "EOS".into();
    }
    let printable = |text: &str| !text.chars().any(char::is_control);
    match std::str::from_utf8(bytes) {
        Ok(text) if printable(text) => quoted(text),
        Ok(text) => quoted(&text.escape_debug().to_string()),
        Err(_) => bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(" "),
    }
}

/// The `count` best tokens of `logits` `[vocab]`, best first, of equals the lower id first.
pub fn candidates(tokenizer: &Tokenizer, config: &Config, logits: &[f32], count: usize) -> Vec<Candidate> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f64 = logits.iter().map(|&logit| f64::from(logit - max).exp()).sum();
    let candidate = |id: usize| Candidate {
        id: id as u32,
        label: name(tokenizer, config, id as u32),
        logit: logits[id],
        probability: (f64::from(logits[id] - max).exp() / total) as f32,
    };
    top_k(logits, count).into_iter().map(candidate).collect()
}

fn quoted(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return format!("“{text}”");
    }
    format!("“{}…”", text.chars().take(LONGEST - 1).collect::<String>())
}
