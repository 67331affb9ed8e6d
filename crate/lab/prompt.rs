//! What the lab runs: `BOS`, a picture, a text.

use crate::blocks::b1a_input::{self as input, Prompt};
use crate::error::{Error, Result};
use crate::image::{self, Plan, Rgb, TokenType};
use crate::model::Reference;
use crate::text::Tokenizer;

/// Most positions that the lab follows; more would take minutes on a CPU and show nothing new.
pub const MAX_POSITIONS: usize = 1024;

/// The picture in front of the text.
#[derive(Debug, Clone, PartialEq)]
pub enum Picture {
    /// None.
    None,
    /// A small one that the lab draws itself, if the model can see.
    Generated,
    /// The reader's own.
    Given(Rgb),
}

/// What to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The text, which stands behind `BOS` and the picture as it is, without chat marks.
    pub text: String,
    /// The picture.
    pub picture: Picture,
    /// Position to follow; the last if there is none.
    pub token: Option<usize>,
}

/// What became of the picture.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Width and height in pixels.
    pub size: (usize, usize),
    /// Whether the lab drew it.
    pub generated: bool,
    /// How it was cut.
    pub plan: Plan,
    /// The picture as it was cut: resized, on its canvas.
    pub fitted: Rgb,
    /// Aligner rows of its IMAGE positions `[cells, dim]`.
    pub rows: Vec<f32>,
}

/// `BOS`, the picture, the text.
pub(super) fn build(model: &Reference, tokenizer: &Tokenizer, request: &Request) -> Result<(Prompt, Option<Seen>)> {
    let config = model.config();
    let mut prompt = Prompt::text(vec![config.bos_token_id]);
    let picture = match (&request.picture, &config.vision) {
        (Picture::Generated, Some(_)) => Some((generated_picture(), true)),
        (Picture::Given(picture), _) => Some((picture.clone(), false)),
        _ => None,
    };
    let text = tokenizer.encode_plain(&request.text);
    let mut seen = None;
    if let Some((picture, generated)) = picture {
        let Some(vision) = &config.vision else {
            return Err(Error::Usage("this model has no vision tower: it takes no picture".into()));
        };
        let plan = image::plan(picture.width, picture.height, vision)?;
        check_length(1 + plan.tokens + text.len())?;
        let fitted = image::fit(&picture, &plan);
        let patches = image::patches(&fitted, vision, true);
        let rows = input::image_rows(&model.context, &model.input, &patches)?;
        prompt.push_image(config.image_token_id, &image::token_types(&plan), &rows);
        seen = Some(Seen { size: (picture.width, picture.height), generated, plan, fitted, rows });
    }
    check_length(prompt.len() + text.len())?;
    prompt.push_text(&text);
    Ok((prompt, seen))
}

fn check_length(positions: usize) -> Result<()> {
    if positions <= MAX_POSITIONS {
        return Ok(());
    }
    Err(Error::Usage(format!("the lab follows at most {MAX_POSITIONS} positions, this prompt has {positions}")))
}

/// A colour ramp with a disc on it, 126 x 84 pixels.
fn generated_picture() -> Rgb {
    let (width, height) = (126usize, 84usize);
    let mut data = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width {
            let inside = x.abs_diff(80).pow(2) + y.abs_diff(36).pow(2) < 24 * 24;
            data.extend([(2 * x) as u8, (3 * y) as u8, if inside { 230 } else { 40 }]);
        }
    }
    Rgb { width, height, data }
}

/// Cuts a prompt in front of position `place`.
pub(super) fn cut(prompt: &Prompt, place: usize, dim: usize) -> (Prompt, Prompt) {
    let images = prompt.types[..place].iter().filter(|&&t| t == TokenType::Image).count() * dim;
    let part = |range: std::ops::Range<usize>, rows: &[f32]| Prompt {
        ids: prompt.ids[range.clone()].to_vec(),
        types: prompt.types[range].to_vec(),
        image_rows: rows.to_vec(),
    };
    let (before, after) = prompt.image_rows.split_at(images);
    (part(0..place, before), part(place..prompt.len(), after))
}
