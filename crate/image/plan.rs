//! The resize plan: how large a picture becomes, and how many tokens it costs (section 1.2).
//!
//! All arithmetic is f64 in the order of the specification, because the floors and the rounding of halves sit on
//! boundaries: a reordering that looks harmless moves a canvas by a whole patch.

use super::{MAX_PIXELS, check_size};
use crate::config::VisionConfig;
use crate::{Error, Result};

/// What becomes of a picture of a given size. Sizes and offsets are in pixels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Width of the canvas, a multiple of the patch size.
    pub canvas_width: usize,
    /// Height of the canvas, a multiple of the patch size.
    pub canvas_height: usize,
    /// Rows of patches, the ViT's grid.
    pub patch_rows: usize,
    /// Columns of patches.
    pub patch_cols: usize,
    /// Rows of image tokens: `downsample_ratio` rows of patches each, the last one filled up.
    pub token_rows: usize,
    /// Columns of image tokens.
    pub token_cols: usize,
    /// Positions in the prompt: `token_rows * (token_cols + 1) + 2`, the 1 a NEW_LINE, the 2 START and END.
    pub tokens: usize,
    /// Width of the resized picture on the canvas.
    pub content_width: usize,
    /// Height of the resized picture on the canvas.
    pub content_height: usize,
    /// Columns of grey at the left of the content.
    pub offset_x: usize,
    /// Rows of grey above the content.
    pub offset_y: usize,
}

/// Plans a picture of `width` by `height` pixels.
///
/// # Errors
/// [`Error::Picture`] when a side is zero, when the size passes [`MAX_SIDE`](super::MAX_SIDE) or [`MAX_PIXELS`], when
/// the picture is so thin that its content would have no pixels, or when the config sets `max_wh_ratio` and the picture
/// passes it. [`Error::Config`] when a vision parameter leaves no room for a picture.
pub fn plan(width: usize, height: usize, config: &VisionConfig) -> Result<Plan> {
    check_config(config)?;
    check_size(width, height)?;
    check_ratio(width, height, config)?;
    let (canvas_width, canvas_height) = canvas(width, height, config);
    let (patch_cols, patch_rows) = (canvas_width / config.patch_size, canvas_height / config.patch_size);
    let (token_rows, token_cols, tokens) = token_grid(canvas_width, canvas_height, config);
    if tokens > config.max_n_token {
        let most = config.max_n_token;
        return Err(Error::Picture(format!(
            "{width}x{height} would take {tokens} tokens on a canvas of {canvas_width}x{canvas_height}; allowed: {most}"
        )));
    }
    let (content_width, content_height) = content(width, height, canvas_width, canvas_height);
    if content_width == 0 || content_height == 0 {
        return Err(Error::Picture(format!(
            "{width}x{height} is too thin: on its canvas of {canvas_width}x{canvas_height} it would be \
             {content_width}x{content_height}; needed: at least one pixel each way"
        )));
    }
    Ok(Plan {
        canvas_width,
        canvas_height,
        patch_rows,
        patch_cols,
        token_rows,
        token_cols,
        tokens,
        content_width,
        content_height,
        offset_x: ((canvas_width - content_width) as f64 * 0.5).round_ties_even() as usize,
        offset_y: ((canvas_height - content_height) as f64 * 0.5).round_ties_even() as usize,
    })
}

/// START, one IMAGE, its NEW_LINE and END.
const MIN_TOKENS: usize = 4;

/// Refuses parameters with which the arithmetic below would divide by zero or overflow.
fn check_config(config: &VisionConfig) -> Result<()> {
    let problem = |key: &str, found: &dyn std::fmt::Display, allowed: String| {
        Err(Error::config(format!("vision_config.{key}"), format!("{found} found; needed: {allowed}")))
    };
    for (key, found) in [("patch_size", config.patch_size), ("downsample_ratio", config.downsample_ratio)] {
        if !(1..=1024).contains(&found) {
            return problem(key, &found, "1 to 1024".to_string());
        }
    }
    let cell = config.patch_size * config.downsample_ratio;
    let most = MAX_PIXELS / (cell * cell);
    if !(MIN_TOKENS..=most).contains(&config.max_n_token) {
        let allowed = format!("{MIN_TOKENS} to {most}, with {cell}x{cell} pixels per token");
        return problem("max_image_tokens", &config.max_n_token, allowed);
    }
    if config.min_pixels > MAX_PIXELS as u64 {
        return problem("min_pixels", &config.min_pixels, format!("at most {MAX_PIXELS}"));
    }
    Ok(())
}

/// The release sets no `max_wh_ratio`, so no published model fixes what such a picture becomes: refused, not guessed.
fn check_ratio(width: usize, height: usize, config: &VisionConfig) -> Result<()> {
    let Some(most) = config.max_wh_ratio else { return Ok(()) };
    let ratio = width.max(height) as f64 / width.min(height) as f64;
    if ratio > most {
        return Err(Error::Picture(format!(
            "{width}x{height} has a ratio of {ratio:.1} between its sides; allowed by max_wh_ratio: {most}"
        )));
    }
    Ok(())
}

/// Width and height of the canvas: whole patches, not too few pixels, not too many tokens.
fn canvas(width: usize, height: usize, config: &VisionConfig) -> (usize, usize) {
    let (mut width, mut height) = (width as f64, height as f64);
    let min_pixels = config.min_pixels as f64;
    if width * height < min_pixels {
        let enlarge = (min_pixels / (width * height)).sqrt();
        width = (width * enlarge).trunc();
        height = (height * enlarge).trunc();
    }
    let patch = config.patch_size as f64;
    let canvas =
        ((width / patch).ceil() as usize * config.patch_size, (height / patch).ceil() as usize * config.patch_size);
    let (.., tokens) = token_grid(canvas.0, canvas.1, config);
    if tokens <= config.max_n_token { canvas } else { shrunk_canvas(width, height, config) }
}

/// The canvas of a picture that would take too many tokens. With `rows = ratio * cols`, START and END set apart, the
/// budget is `rows * (cols + 1) = max_n_token - 2`: a quadratic in `cols`. A picture too thin for one cell that way
/// gets one row or column of cells.
fn shrunk_canvas(width: f64, height: f64, config: &VisionConfig) -> (usize, usize) {
    let patch = config.patch_size as f64;
    let cell = config.patch_size * config.downsample_ratio;
    let budget = config.max_n_token - 2;
    let ratio = height / width;
    let cols = (budget as f64 / ratio + 0.25).sqrt() - 0.5;
    let rows = cols * ratio;
    if cols < 1.0 {
        (cell, budget / 2 * cell)
    } else if rows < 1.0 {
        ((budget - 1) * cell, cell)
    } else {
        let cell = cell as f64;
        let shrink = (cols.floor() * cell / width).min(rows.floor() * cell / height);
        let whole_patches = |side: f64| (side * shrink / patch).floor() as usize * config.patch_size;
        (whole_patches(width), whole_patches(height))
    }
}

/// Token rows, token columns, and positions in the prompt, of a canvas.
fn token_grid(canvas_width: usize, canvas_height: usize, config: &VisionConfig) -> (usize, usize, usize) {
    let rows = (canvas_height / config.patch_size).div_ceil(config.downsample_ratio);
    let cols = (canvas_width / config.patch_size).div_ceil(config.downsample_ratio);
    // Only a canvas that will be refused saturates.
    (rows, cols, rows.saturating_mul(cols + 1).saturating_add(2))
}

/// Size of the picture inside the canvas: as large as fits, the ratio of its sides kept. Halves round to even.
fn content(width: usize, height: usize, canvas_width: usize, canvas_height: usize) -> (usize, usize) {
    let (w, h) = (width as f64, height as f64);
    let (canvas_w, canvas_h) = (canvas_width as f64, canvas_height as f64);
    let (ratio, canvas_ratio) = (w / h, canvas_w / canvas_h);
    if ratio == canvas_ratio {
        (canvas_width, canvas_height)
    } else if ratio > canvas_ratio {
        (canvas_width, (h / w * canvas_w).round_ties_even() as usize)
    } else {
        ((w / h * canvas_h).round_ties_even() as usize, canvas_height)
    }
}
