//! Tokens in readable form.

use super::content::TokenLabel;
use super::run::Run;
use crate::image::TokenType;

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

/// A token: text in quotes, or its bytes where they are no text by themselves.
pub(super) fn token(run: &Run, id: u32) -> String {
    let Some(bytes) = run.tokenizer.token_bytes(id) else { return "?".into() };
    if id == run.config().bos_token_id {
        return "BOS".into();
    }
    if id == run.config().eos_token_id {
        return "EOS".into();
    }
    let printable = |text: &str| !text.chars().any(char::is_control);
    match std::str::from_utf8(bytes) {
        Ok(text) if printable(text) => quoted(text),
        Ok(text) => quoted(&text.escape_debug().to_string()),
        Err(_) => bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(" "),
    }
}

fn quoted(text: &str) -> String {
    if text.chars().count() <= LONGEST {
        return format!("“{text}”");
    }
    format!("“{}…”", text.chars().take(LONGEST - 1).collect::<String>())
}
