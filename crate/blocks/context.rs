//! What every block of one run shares: the config, the roundings, and the two RoPE tables.

use super::mistake::Mistake;
use crate::config::Config;
use crate::numerics::ops::rms_norm;
use crate::numerics::precision::Precision;
use crate::numerics::rope::{self, Rope};

/// Settings of one run.
#[derive(Debug, Clone)]
pub struct Context {
    /// Hyper-parameters.
    pub config: Config,
    /// Roundings between operations.
    pub numerics: Precision,
    /// Roundings of the caches.
    pub kv: Precision,
    /// Score against stale index keys, as the vendor's script does (section 6.7). Only for comparing with that script.
    pub stale_index_keys: bool,
    /// A planted mistake; `None` in every real run.
    pub mistake: Option<Mistake>,
    /// Rotation of window-only layers and of DSpark: base 10,000.
    pub rope_window: Rope,
    /// Rotation of every layer with a compression ratio: base 160,000 with YaRN, at every length.
    pub rope_compressed: Rope,
}

impl Context {
    /// A context with the tables of `config` (section 5.4).
    pub fn new(config: &Config, numerics: Precision, kv: Precision) -> Self {
        Context {
            numerics,
            kv,
            stale_index_keys: false,
            mistake: None,
            rope_window: Rope::plain(config.rope_head_dim, config.rope_theta),
            rope_compressed: Rope::yarn(
                config.rope_head_dim,
                config.compress_rope_theta,
                config.rope_factor,
                config.original_seq_len,
                config.beta_fast,
                config.beta_slow,
            ),
            config: config.clone(),
        }
    }

    /// The same context with a mistake in it. Mistakes in the weights are not planted here.
    pub fn with_mistake(self, mistake: Mistake) -> Self {
        let mut config = self.config;
        mistake.plant_in_config(&mut config);
        Context { mistake: Some(mistake), ..Context::new(&config, self.numerics, self.kv) }
    }

    /// The table of all rotations of backbone layer `layer`.
    pub fn rope(&self, layer: usize) -> &Rope {
        if self.config.ratio(layer) == 0 { &self.rope_window } else { &self.rope_compressed }
    }

    /// RMSNorm of every row in place, rounded (section N.8).
    pub fn norm_rows(&self, rows: &mut [f32], weight: &[f32]) {
        let mut out = vec![0.0; weight.len()];
        for row in rows.chunks_exact_mut(weight.len()) {
            rms_norm(row, weight, self.config.norm_eps, &mut out);
            row.copy_from_slice(&out);
        }
        self.numerics.round(rows);
    }

    /// Rotates the last dims of a row by adjacent pairs (section N.9), not yet rounded.
    pub fn rotate_tail(&self, row: &mut [f32], angles: &[(f32, f32)]) {
        let tail = row.len() - 2 * angles.len();
        if self.mistake == Some(Mistake::RotateHalf) {
            rotate_halves(&mut row[tail..], angles);
        } else {
            rope::rotate(&mut row[tail..], angles);
        }
    }

    /// Undoes [`Self::rotate_tail`].
    pub fn rotate_tail_back(&self, row: &mut [f32], angles: &[(f32, f32)]) {
        let tail = row.len() - 2 * angles.len();
        if self.mistake == Some(Mistake::RotateHalf) {
            let back: Vec<_> = angles.iter().map(|&(cos, sin)| (cos, -sin)).collect();
            rotate_halves(&mut row[tail..], &back);
        } else {
            rope::rotate_back(&mut row[tail..], angles);
        }
    }
}

/// The other convention of RoPE: element `i` turns with element `i + half`. Right for the ViT (section 1.5), wrong for the text model.
pub(super) fn rotate_halves(x: &mut [f32], angles: &[(f32, f32)]) {
    let (first, second) = x.split_at_mut(angles.len());
    for ((a, b), &(cos, sin)) in first.iter_mut().zip(second).zip(angles) {
        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
    }
}
