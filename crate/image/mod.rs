//! A picture on its way to the vision tower: bytes to RGB, RGB to a canvas, canvas to patches, and the places the
//! picture takes in the prompt (sections 1.2 to 1.4 of the specification).
//!
//! ```text
//! bytes --decode--> Rgb --fit--> canvas --patches--> [patch_rows * patch_cols, 3 * P * P] --> ViT (block 1A)
//!                    |            ^
//!                    +---plan-----+--token_types--> START (IMAGE.. NEW_LINE).. END
//! ```
//!
//! Only [`decode()`] depends on a decoder library. A browser could decode by itself, but may convert colours on the way; so the same
//! decoder runs there, and everything is equal on both, to the bit.
//!
//! ```
//! use flash890::image::{Rgb, fit, patches, plan, token_types};
//! # use flash890::config::VisionConfig;
//! # let config = VisionConfig {
//! #     n_layers: 32, dim: 1024, n_heads: 16, inter_dim: 2816, patch_size: 14, downsample_ratio: 3, max_n_token: 1024,
//! #     min_pixels: 295_936, max_wh_ratio: None, rope_theta: 10_000.0,
//! # };
//! let grey = Rgb::new(640, 480, vec![90; 640 * 480 * 3])?;
//! let plan = plan(grey.width, grey.height, &config)?;
//! assert_eq!((plan.canvas_width, plan.canvas_height, plan.tokens), (644, 490, 206));
//! let patches = patches(&fit(&grey, &plan), &config, true);
//! assert_eq!(patches.values.len(), plan.patch_rows * plan.patch_cols * 3 * 14 * 14);
//! assert_eq!(token_types(&plan).len(), plan.tokens);
//! # Ok::<(), flash890::Error>(())
//! ```

mod bicubic;
mod decode;
mod layout;
mod patches;
mod plan;

pub use bicubic::{fit, resize};
pub use decode::decode;
pub use layout::{TokenType, token_types};
pub use patches::{Patches, patches};
pub use plan::{Plan, plan};

use crate::{Error, Result};

/// Longest side of a picture that is accepted, in pixels.
pub const MAX_SIDE: usize = 100_000;

/// Most pixels of a picture that are accepted: 300 MB of RGB.
pub const MAX_PIXELS: usize = 100_000_000;

/// A picture of 8-bit RGB.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rgb {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// `[height, width, 3]`: rows from the top, pixels from the left, red green blue interleaved.
    pub data: Vec<u8>,
}

impl Rgb {
    /// Wraps `[height, width, 3]` bytes.
    ///
    /// # Errors
    /// [`Error::Picture`] when a side is zero, the size passes [`MAX_SIDE`] or [`MAX_PIXELS`], or `data` is not
    /// `width * height * 3` bytes long.
    pub fn new(width: usize, height: usize, data: Vec<u8>) -> Result<Self> {
        check_size(width, height)?;
        let needed = width * height * 3;
        if data.len() != needed {
            let found = data.len();
            return Err(Error::Picture(format!("{width}x{height} RGB needs {needed} bytes, found {found}")));
        }
        Ok(Rgb { width, height, data })
    }
}

/// Refuses pictures without pixels, and those too large to be worth any memory. Passing means that `width * height * 3`
/// fits a 32-bit `usize`.
fn check_size(width: usize, height: usize) -> Result<()> {
    if width == 0 || height == 0 {
        return Err(Error::Picture(format!("{width}x{height} has no pixels; needed: at least 1x1")));
    }
    // The sides first: their product then fits 64 bits, where `usize` of wasm32 could wrap.
    let too_large = width > MAX_SIDE || height > MAX_SIDE || width as u64 * height as u64 > MAX_PIXELS as u64;
    if too_large {
        return Err(Error::Picture(format!(
            "{width}x{height} is too large; allowed: sides up to {MAX_SIDE} and {MAX_PIXELS} pixels in all"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
