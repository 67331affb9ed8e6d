//! The tables of sections 1.2 to 1.4, the golden picture, and bad input.

mod bicubic;
#[cfg(not(target_arch = "wasm32"))]
mod decode;
mod golden;
mod layout;
mod plan;

use super::Rgb;
use crate::config::VisionConfig;

/// The released vision parameters.
fn released() -> VisionConfig {
    VisionConfig {
        n_layers: 32,
        dim: 1024,
        n_heads: 16,
        inter_dim: 2816,
        patch_size: 14,
        downsample_ratio: 3,
        max_n_token: 1024,
        min_pixels: 295_936,
        max_wh_ratio: None,
        rope_theta: 10_000.0,
    }
}

/// The synthetic picture of section 1.3.
fn synthetic(width: usize, height: usize) -> Rgb {
    let mut data = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width {
            data.extend((0..3).map(|channel| ((7 * x + 13 * y + 50 * channel + (x * y) % 31) % 256) as u8));
        }
    }
    Rgb::new(width, height, data).unwrap()
}

/// Reads a file below tests/golden.
fn golden_bytes(path: &str) -> Vec<u8> {
    let path = format!("{}/tests/golden/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}
