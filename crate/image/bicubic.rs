//! Pillow's bicubic resampling, bit for bit (section 1.3), and the fit onto the canvas (section 1.2).
//!
//! The filter has a = -0.5 and widens when a side shrinks, so that it averages instead of skipping pixels. Weights are
//! computed in f64 and turned into fixed point with 22 fraction bits. The horizontal pass comes first, then the
//! vertical one, each rounding to 8 bits; a pass whose side does not change is left out.
//!
//! That order is the specification's, and Pillow's up to version 12. Pillow 13 takes the vertical pass first for some
//! pairs of sizes (when the width grows while the height shrinks, among others); since each pass rounds and clamps,
//! harsh pictures then differ visibly.

use super::{Plan, Rgb};

/// Fraction bits of the fixed-point weights.
const FRACTION_BITS: u32 = 22;

/// Grey of the canvas around the content.
const PAD: u8 = 127;

/// The source pixels that make one output pixel, along one axis.
struct Window {
    /// First source pixel.
    first: usize,
    /// Weight of each source pixel from `first` on, with [`FRACTION_BITS`] fraction bits.
    weights: Vec<i32>,
}

/// Resizes `picture` as `resize((new_width, new_height), BICUBIC)` of Pillow 12 does. A new side of zero gives a
/// picture without pixels.
pub fn resize(picture: &Rgb, new_width: usize, new_height: usize) -> Rgb {
    let wide = if new_width == picture.width { picture.clone() } else { resize_rows(picture, new_width) };
    if new_height == picture.height { wide } else { resize_columns(&wide, new_height) }
}

/// Resizes `picture` to the plan's content size and puts it on a canvas of grey 127, at the plan's offset.
///
/// `plan` must come from [`plan`](super::plan()) for the size of this picture.
pub fn fit(picture: &Rgb, plan: &Plan) -> Rgb {
    let content = resize(picture, plan.content_width, plan.content_height);
    if (content.width, content.height) == (plan.canvas_width, plan.canvas_height) {
        return content;
    }
    let mut data = vec![PAD; plan.canvas_width * plan.canvas_height * 3];
    let row_bytes = content.width * 3;
    for y in 0..content.height {
        let to = ((plan.offset_y + y) * plan.canvas_width + plan.offset_x) * 3;
        data[to..to + row_bytes].copy_from_slice(&content.data[y * row_bytes..(y + 1) * row_bytes]);
    }
    Rgb { width: plan.canvas_width, height: plan.canvas_height, data }
}

/// The horizontal pass: every row becomes `new_width` pixels.
fn resize_rows(picture: &Rgb, new_width: usize) -> Rgb {
    let windows = windows(picture.width, new_width);
    let mut data = Vec::with_capacity(new_width * picture.height * 3);
    for y in 0..picture.height {
        let row = &picture.data[y * picture.width * 3..(y + 1) * picture.width * 3];
        for window in &windows {
            for channel in 0..3 {
                let pixels = row[window.first * 3 + channel..].iter().step_by(3);
                data.push(weighted(pixels, &window.weights));
            }
        }
    }
    Rgb { width: new_width, height: picture.height, data }
}

/// The vertical pass: every column becomes `new_height` pixels.
fn resize_columns(picture: &Rgb, new_height: usize) -> Rgb {
    let row_bytes = picture.width * 3;
    let mut data = Vec::with_capacity(row_bytes * new_height);
    for window in windows(picture.height, new_height) {
        for x in 0..row_bytes {
            let pixels = picture.data[window.first * row_bytes + x..].iter().step_by(row_bytes);
            data.push(weighted(pixels, &window.weights));
        }
    }
    Rgb { width: picture.width, height: new_height, data }
}

/// Weighted sum of bytes in fixed point, rounded and clamped to a byte.
///
/// The sum fits 32 bits: the weights add up to 1, and bicubic's negative ones are small, so the positive ones stay well
/// below 2.
fn weighted<'a>(pixels: impl Iterator<Item = &'a u8>, weights: &[i32]) -> u8 {
    let half = 1 << (FRACTION_BITS - 1);
    let sum = pixels.zip(weights).fold(half, |sum: i32, (&pixel, &weight)| sum + i32::from(pixel) * weight);
    (sum >> FRACTION_BITS).clamp(0, 255) as u8
}

/// The windows of all `out_len` output pixels over `in_len` source pixels.
fn windows(in_len: usize, out_len: usize) -> Vec<Window> {
    let scale = in_len as f64 / out_len as f64;
    let filter_scale = scale.max(1.0);
    let support = 2.0 * filter_scale;
    // Pillow multiplies by the reciprocal; dividing differs in the last bit.
    let per_filter_scale = 1.0 / filter_scale;
    (0..out_len)
        .map(|x| {
            let centre = (x as f64 + 0.5) * scale;
            // Both casts truncate, and take a negative number to 0.
            let first = (centre - support + 0.5) as usize;
            let end = ((centre + support + 0.5) as usize).min(in_len);
            let weights =
                (first..end).map(|j| kernel((j as f64 - centre + 0.5) * per_filter_scale)).collect::<Vec<f64>>();
            let sum: f64 = weights.iter().sum();
            Window { first, weights: weights.iter().map(|weight| fixed_point(weight / sum)).collect() }
        })
        .collect()
}

/// The cubic convolution kernel with a = -0.5, in the order of operations that fixes its last bit.
fn kernel(distance: f64) -> f64 {
    const A: f64 = -0.5;
    let t = distance.abs();
    if t < 1.0 {
        ((A + 2.0) * t - (A + 3.0)) * t * t + 1.0
    } else if t < 2.0 {
        (((t - 5.0) * t + 8.0) * t - 4.0) * A
    } else {
        0.0
    }
}

/// Fixed point, rounded half away from zero.
fn fixed_point(weight: f64) -> i32 {
    let scaled = weight * f64::from(1 << FRACTION_BITS);
    (if weight < 0.0 { scaled - 0.5 } else { scaled + 0.5 }) as i32
}
