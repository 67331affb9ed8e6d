//! Text and pictures to the pieces that a session reads.

use crate::config::{Config, VisionConfig};
use crate::image::{self, Patches, Rgb, TokenType};
use crate::text::Tokenizer;
use crate::text::prompt::Piece;
use crate::{Error, Result};

/// A picture ready for the vision tower.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// What each of its positions is (section 1.4).
    pub types: Vec<TokenType>,
    /// The vision tower's input.
    pub patches: Patches,
}

impl Picture {
    /// Plans, resizes and cuts a picture. Pixels are rounded to bf16, as the released model has them.
    ///
    /// # Errors
    /// As [`image::plan`].
    pub fn new(rgb: &Rgb, config: &VisionConfig) -> Result<Self> {
        let plan = image::plan(rgb.width, rgb.height, config)?;
        let patches = image::patches(&image::fit(rgb, &plan), config, true);
        Ok(Picture { types: image::token_types(&plan), patches })
    }
}

/// Text without the chat form: BOS, `pictures` pictures, then the text. Spellings of control tokens in the text are control tokens, so this is
/// for text of the model's owner; what users write belongs into [`crate::text::prompt::render`].
///
/// # Errors
/// [`Error::Prompt`] if there is neither text nor picture, or if the text spells the token that stands for a picture.
pub fn plain(text: &str, pictures: usize, tokenizer: &Tokenizer, config: &Config) -> Result<Vec<Piece>> {
    if text.is_empty() && pictures == 0 {
        return Err(Error::Prompt("empty: needed some text or a picture".into()));
    }
    let ids = tokenizer.encode(text);
    if ids.contains(&config.image_token_id) {
        return Err(Error::Prompt(
            "the text spells the token that stands for a picture; pictures come as files".into(),
        ));
    }
    let mut pieces = vec![Piece::Ids(vec![config.bos_token_id])];
    pieces.extend((0..pictures).map(Piece::Image));
    match pieces.last_mut() {
        Some(Piece::Ids(before)) => before.extend(ids),
        _ => pieces.push(Piece::Ids(ids)),
    }
    Ok(pieces)
}

/// Positions of all pieces, and of pictures.
pub(super) fn count(pieces: &[Piece], pictures: &[Picture]) -> Result<(usize, usize)> {
    let (mut positions, mut image_tokens) = (0, 0);
    for piece in pieces {
        match piece {
            Piece::Ids(ids) => positions += ids.len(),
            Piece::Image(index) => {
                let all = pictures.len();
                let missing = || Error::Prompt(format!("picture {index}: needed a place in the list of {all}"));
                image_tokens += pictures.get(*index).ok_or_else(missing)?.types.len();
            }
        }
    }
    Ok((positions + image_tokens, image_tokens))
}
