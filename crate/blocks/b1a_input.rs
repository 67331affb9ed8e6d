//! # 1A: the input: token embedding, vision tower, aligner
//!
//! A text token is one row of the embedding table. A picture becomes patches of 14 x 14 pixels; a ViT turns each into a vector, and an
//! aligner folds every 3 x 3 of them into one row of the model's width:
//!
//! ```text
//! patches [rows * cols, 588] -> W p + b -> 32 x { x += attention(rms_norm(x)); x += mlp(rms_norm(x)) } -> rms_norm   [rows * cols, 1024]
//! unfold 3 x 3, channel by channel [cells, 9 * 1024] -> W_1, gelu, W_2                                              [cells, dim]
//! ```
//!
//! The rows replace the embeddings of the image's positions; START, NEW_LINE and END are three learned rows. Specification: section 1.

use super::context::{Context, rotate_halves};
use crate::config::VisionConfig;
use crate::error::{Error, Result};
use crate::image::{Patches, TokenType};
use crate::numerics::linear::{Matrix, dot};
use crate::numerics::ops::{gelu, rms_norm, silu, softmax};
use crate::numerics::precision::Precision;
use crate::numerics::rope::vision_frequencies;
use rayon::prelude::*;

/// Epsilon of the ViT's norms (section N.8).
pub(crate) const VIT_EPS: f32 = 1e-6;

/// A prompt: ids, what each position is, and the rows that pictures bring.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prompt {
    /// Token ids `[n]`; every image position carries the image id.
    pub ids: Vec<u32>,
    /// Token types `[n]`.
    pub types: Vec<TokenType>,
    /// Aligner rows of all pictures in order of their IMAGE positions `[images, dim]`.
    pub image_rows: Vec<f32>,
}

impl Prompt {
    /// A prompt of text only.
    pub fn text(ids: Vec<u32>) -> Self {
        Prompt { types: vec![TokenType::Text; ids.len()], ids, image_rows: Vec::new() }
    }

    /// Positions of the prompt.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there is no position.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Appends another prompt.
    pub fn append(&mut self, other: &Prompt) {
        self.ids.extend(&other.ids);
        self.types.extend(&other.types);
        self.image_rows.extend(&other.image_rows);
    }

    /// Positions `range` as a prompt of their own; rows of pictures have `dim` elements.
    pub fn piece(&self, range: std::ops::Range<usize>, dim: usize) -> Prompt {
        let images = |types: &[TokenType]| types.iter().filter(|&&t| t == TokenType::Image).count() * dim;
        // A sequence that came from a snapshot may have lost its rows.
        let first = images(&self.types[..range.start]).min(self.image_rows.len());
        let last = (first + images(&self.types[range.clone()])).min(self.image_rows.len());
        Prompt {
            ids: self.ids[range.clone()].to_vec(),
            types: self.types[range].to_vec(),
            image_rows: self.image_rows[first..last].to_vec(),
        }
    }

    /// Appends text.
    pub fn push_text(&mut self, ids: &[u32]) {
        self.ids.extend(ids);
        self.types.resize(self.ids.len(), TokenType::Text);
    }

    /// Appends a picture: its token types and aligner rows `[image positions, dim]`.
    pub fn push_image(&mut self, image_token_id: u32, types: &[TokenType], rows: &[f32]) {
        self.types.extend(types);
        self.ids.resize(self.types.len(), image_token_id);
        self.image_rows.extend(rows);
    }
}

/// Weights of the embedding.
#[derive(Debug, Clone)]
pub struct Weights {
    /// Embedding table `[vocab, dim]`, bf16.
    pub embed: Matrix,
    /// Learned rows for START, NEW_LINE, END, each `[dim]`; `None` in a text-only checkpoint.
    pub image_marks: Option<[Vec<f32>; 3]>,
    /// Vision tower and aligner.
    pub vision: Option<Vision>,
}

/// Weights of the vision tower and the aligner.
#[derive(Debug, Clone)]
pub struct Vision {
    /// Patch projection `[width, 3 * patch^2]` and bias.
    pub patch_embed: (Matrix, Vec<f32>),
    /// ViT blocks.
    pub blocks: Vec<VitBlock>,
    /// Final norm `[width]`.
    pub norm: Vec<f32>,
    /// Aligner's first layer `[dim, cell^2 * width]` and bias.
    pub aligner_w1: (Matrix, Vec<f32>),
    /// Aligner's second layer `[dim, dim]` and bias.
    pub aligner_w2: (Matrix, Vec<f32>),
}

/// Weights of one ViT block of width `w`.
#[derive(Debug, Clone)]
pub struct VitBlock {
    /// Norm before attention `[w]`.
    pub norm1: Vec<f32>,
    /// Norm before the MLP `[w]`.
    pub norm2: Vec<f32>,
    /// Query, key and value `[3 w, w]` and bias.
    pub wqkv: (Matrix, Vec<f32>),
    /// Output `[w, w]` and bias.
    pub wo: (Matrix, Vec<f32>),
    /// Gate and up `[2 inter, w]`.
    pub w1: Matrix,
    /// Down `[w, inter]`.
    pub w2: Matrix,
}

/// Embeds positions `range` of a prompt as `[range, dim]`; `first_image_row` counts the IMAGE positions before the range.
///
/// # Errors
/// An id beyond the vocabulary, or image positions without rows.
pub fn embed(
    weights: &Weights,
    prompt: &Prompt,
    range: std::ops::Range<usize>,
    first_image_row: usize,
) -> Result<Vec<f32>> {
    let dim = weights.embed.cols();
    let mut out = vec![0.0; range.len() * dim];
    let mut image_rows = prompt.image_rows.chunks_exact(dim).skip(first_image_row);
    for (out, position) in out.chunks_exact_mut(dim).zip(range) {
        let mark = match prompt.types[position] {
            TokenType::Text => {
                let id = prompt.ids[position] as usize;
                if id >= weights.embed.rows() {
                    let vocab = weights.embed.rows();
                    return Err(Error::Prompt(format!(
                        "token id {id} at position {position}: the vocabulary has {vocab} entries"
                    )));
                }
                weights.embed.decode_row(id, out);
                continue;
            }
            TokenType::Image => {
                let row = image_rows.next().ok_or_else(|| {
                    let found = prompt.image_rows.len() / dim;
                    Error::Prompt(format!(
                        "position {position} is an image token, but there are only {found} image rows"
                    ))
                })?;
                out.copy_from_slice(row);
                continue;
            }
            TokenType::Start => 0,
            TokenType::NewLine => 1,
            TokenType::End => 2,
        };
        let marks = weights.image_marks.as_ref().ok_or_else(|| no_vision(position))?;
        out.copy_from_slice(&marks[mark]);
    }
    Ok(out)
}

fn no_vision(position: usize) -> Error {
    Error::Prompt(format!("position {position} belongs to a picture, but this checkpoint has no vision tower"))
}

/// `W x + b`, rounded once (section 1.5: one rounding at each module's output).
fn linear(numerics: Precision, (weight, bias): &(Matrix, Vec<f32>), x: &[f32], n: usize) -> Vec<f32> {
    let mut y = weight.matmul(x, n);
    y.chunks_exact_mut(bias.len()).for_each(|row| row.iter_mut().zip(bias).for_each(|(y, b)| *y += b));
    numerics.round(&mut y);
    y
}

/// Stages of the vision tower, for tests and the lab.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Patch embedding `[patches, width]`.
    pub patch_embedding: Vec<f32>,
    /// Output of each block `[patches, width]`.
    pub blocks: Vec<Vec<f32>>,
    /// After the final norm `[patches, width]`.
    pub vit: Vec<f32>,
    /// Aligner input `[cells, cell^2 * width]`.
    pub unfolded: Vec<f32>,
    /// Aligner output `[cells, dim]`.
    pub aligned: Vec<f32>,
}

/// Runs the vision tower and the aligner over the patches of one picture.
pub fn see(numerics: Precision, config: &VisionConfig, vision: &Vision, patches: &Patches) -> Seen {
    let n = patches.rows * patches.cols;
    let mut pixels = patches.values.clone();
    numerics.round(&mut pixels);
    let mut x = linear(numerics, &vision.patch_embed, &pixels, n);
    let mut seen = Seen { patch_embedding: x.clone(), ..Seen::default() };
    let angles = grid_angles(config, patches.rows, patches.cols);
    for block in &vision.blocks {
        let y = attention(numerics, config, block, &normed(numerics, &x, &block.norm1), &angles);
        x.iter_mut().zip(&y).for_each(|(x, y)| *x += y);
        numerics.round(&mut x);
        let y = mlp(numerics, block, &normed(numerics, &x, &block.norm2), n);
        x.iter_mut().zip(&y).for_each(|(x, y)| *x += y);
        numerics.round(&mut x);
        seen.blocks.push(x.clone());
    }
    seen.vit = normed(numerics, &x, &vision.norm);
    seen.unfolded = unfold(&seen.vit, patches.rows, patches.cols, config.dim, config.downsample_ratio);
    let cells = patches.rows.div_ceil(config.downsample_ratio) * patches.cols.div_ceil(config.downsample_ratio);
    let mut hidden = linear(numerics, &vision.aligner_w1, &seen.unfolded, cells);
    hidden.iter_mut().for_each(|v| *v = gelu(*v));
    numerics.round(&mut hidden);
    seen.aligned = linear(numerics, &vision.aligner_w2, &hidden, cells);
    seen
}

fn normed(numerics: Precision, x: &[f32], weight: &[f32]) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    for (row, out) in x.chunks_exact(weight.len()).zip(out.chunks_exact_mut(weight.len())) {
        rms_norm(row, weight, VIT_EPS, out);
    }
    numerics.round(&mut out);
    out
}

/// Angles of every patch: the first half of a head's pairs turns with the row, the second with the column.
pub(crate) fn grid_angles(config: &VisionConfig, rows: usize, cols: usize) -> Vec<Vec<(f32, f32)>> {
    let frequencies = vision_frequencies(config.dim / config.n_heads, config.rope_theta);
    let turn = |at: usize, f: f32| {
        let angle = f64::from(at as f32 * f);
        (angle.cos() as f32, angle.sin() as f32)
    };
    let patch = |row: usize, col: usize| {
        let of = |at: usize| frequencies.iter().map(move |&f| turn(at, f));
        of(row).chain(of(col)).collect()
    };
    (0..rows).flat_map(|row| (0..cols).map(move |col| (row, col))).map(|(row, col)| patch(row, col)).collect()
}

/// Full attention of every patch over every patch, head by head (section 1.5, step 3).
fn attention(
    numerics: Precision,
    config: &VisionConfig,
    block: &VitBlock,
    x: &[f32],
    angles: &[Vec<(f32, f32)>],
) -> Vec<f32> {
    let (n, width, head) = (angles.len(), config.dim, config.dim / config.n_heads);
    let mut qkv = linear(numerics, &block.wqkv, x, n);
    for (token, angles) in qkv.chunks_exact_mut(3 * width).zip(angles) {
        token[..2 * width].chunks_exact_mut(head).for_each(|head| rotate_halves(head, angles));
    }
    numerics.round(&mut qkv);
    let part = |token: usize, which: usize, h: usize| &qkv[token * 3 * width + which * width + h * head..][..head];
    let scale = 1.0 / (head as f32).sqrt();
    let mut mixed = vec![0.0; n * width];
    mixed.par_chunks_exact_mut(head).enumerate().for_each(|(index, out)| {
        let (token, h) = (index / config.n_heads, index % config.n_heads);
        let q = part(token, 0, h);
        let mut p: Vec<f32> = (0..n).map(|other| scale * dot(q, part(other, 1, h))).collect();
        softmax(&mut p);
        for (other, p) in p.into_iter().enumerate() {
            out.iter_mut().zip(part(other, 2, h)).for_each(|(o, v)| *o += p * v);
        }
    });
    numerics.round(&mut mixed);
    linear(numerics, &block.wo, &mixed, n)
}

/// `w2(bf16(bf16(silu(gate)) * up))` (section 1.5, step 4).
fn mlp(numerics: Precision, block: &VitBlock, x: &[f32], n: usize) -> Vec<f32> {
    let mut both = block.w1.matmul(x, n);
    numerics.round(&mut both);
    let inter = block.w2.cols();
    let mut gate: Vec<f32> = both.chunks_exact(2 * inter).flat_map(|row| &row[..inter]).map(|&g| silu(g)).collect();
    numerics.round(&mut gate);
    let up = both.chunks_exact(2 * inter).flat_map(|row| &row[inter..]);
    gate.iter_mut().zip(up).for_each(|(g, u)| *g *= u);
    numerics.round(&mut gate);
    let mut y = block.w2.matmul(&gate, n);
    numerics.round(&mut y);
    y
}

/// Gathers cells of `ratio x ratio` patches as vectors with index `channel * ratio^2 + ky * ratio + kx`; zeros right and below (section 1.6).
fn unfold(x: &[f32], rows: usize, cols: usize, width: usize, ratio: usize) -> Vec<f32> {
    let (cell_rows, cell_cols) = (rows.div_ceil(ratio), cols.div_ceil(ratio));
    let mut out = vec![0.0; cell_rows * cell_cols * width * ratio * ratio];
    for (index, cell) in out.chunks_exact_mut(width * ratio * ratio).enumerate() {
        for place in 0..ratio * ratio {
            let row = index / cell_cols * ratio + place / ratio;
            let col = index % cell_cols * ratio + place % ratio;
            if row < rows && col < cols {
                let patch = &x[(row * cols + col) * width..][..width];
                patch.iter().enumerate().for_each(|(channel, &v)| cell[channel * ratio * ratio + place] = v);
            }
        }
    }
    out
}

/// Runs a picture's patches through the tower of `weights`; the rows that take the places of its IMAGE positions.
///
/// # Errors
/// A checkpoint without a vision tower.
pub fn image_rows(context: &Context, weights: &Weights, patches: &Patches) -> Result<Vec<f32>> {
    match (&weights.vision, &context.config.vision) {
        (Some(vision), Some(config)) => Ok(see(context.numerics, config, vision, patches).aligned),
        _ => Err(Error::Prompt("the prompt has a picture, but this checkpoint has no vision tower".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfold_is_channel_major_and_pads_right_and_below() {
        // A grid of 1 x 2 patches of width 2 in one cell of 2 x 2.
        let out = unfold(&[1.0, 2.0, 3.0, 4.0], 1, 2, 2, 2);
        assert_eq!(out, [1.0, 3.0, 0.0, 0.0, 2.0, 4.0, 0.0, 0.0]);
    }
}
