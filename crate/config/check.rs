//! Bounds and cross-checks: what passes here can be built, whatever file it came from.

use super::engram::MAX_NGRAM;
use super::{Config, VisionConfig};
use crate::{Error, Result};

/// Token ids are u32 and one row of logits is f32: 16 M tokens are 64 MiB per row, a hundred times the release.
const MAX_VOCAB: usize = 1 << 24;
/// Any width, rank or inner width; two hundred times the release, and the product of two still fits in 64 bits with room.
const MAX_WIDTH: usize = 1 << 20;
/// Layers and stages: 25 times the release.
const MAX_LAYERS: usize = 1024;
/// Heads of any kind: 64 times the release.
const MAX_HEADS: usize = 4096;
/// RoPE forms its angles from the position as a 32-bit float (section N.9): beyond 2^24 two positions share one angle.
const MAX_POSITIONS: usize = 1 << 24;
/// Routed experts of a layer; ids are packed in 16 bits.
const MAX_EXPERTS: usize = 1 << 16;
/// Tensors that a config may ask for: 40 times the release. Without it, two large factors ask for terabytes of names.
const MAX_TENSORS: usize = 4_000_000;
/// Product of two sizes that make one side of a matrix (heads times head width and the like): shapes must fit in 32 bits, as in the browser.
const MAX_SIDE: u64 = 1 << 30;
/// Sliding window: 8,000 times the release.
const MAX_WINDOW: usize = 1 << 20;
/// Residual streams: Sinkhorn works on a square of this size, kept in registers.
const MAX_STREAMS: usize = 16;
/// Sinkhorn iterations: 50 times the release.
const MAX_SINKHORN: usize = 1000;
/// Pixels along a patch and patches along an image token.
const MAX_PATCH: usize = 256;
/// Pixels below which a picture is enlarged: 2^32 is a picture of 65,536 by 65,536.
const MAX_PIXELS: u64 = 1 << 32;
/// RoPE bases: with a larger one the slowest frequency of the release's 32 pairs vanishes next to 2^-40.
const MAX_ROPE_BASE: f64 = 1e12;
/// Any other factor, clamp or epsilon; sums of squares of larger ones leave the range of a 32-bit float.
const MAX_FACTOR: f64 = 1e9;
/// Quantisers, tiles and packed nibbles work on groups of this many elements along a row (sections N.1 to N.6).
const GROUP: usize = 32;

impl Config {
    /// Refuses absurd and contradictory values; [`Config::from_json`] calls it, a config made in code should be passed through it too.
    ///
    /// # Errors
    /// [`Error::Config`] with the vendor's name of the value, what was needed and what was found.
    pub fn check(&self) -> Result<()> {
        self.check_sizes()?;
        self.check_sides()?;
        self.check_floats()?;
        self.check_attention()?;
        self.check_schedule()?;
        self.check_candidates()?;
        self.check_engram()?;
        self.check_experts()?;
        self.check_tokens()?;
        self.check_dspark()?;
        match &self.vision {
            Some(vision) => vision.check(),
            None => Ok(()),
        }
    }

    fn check_sizes(&self) -> Result<()> {
        for (key, value, most) in [
            ("vocab_size", self.vocab_size, MAX_VOCAB),
            ("dim", self.dim, MAX_WIDTH),
            ("n_layers", self.n_layers, MAX_LAYERS),
            ("n_heads", self.n_heads, MAX_HEADS),
            ("head_dim", self.head_dim, MAX_WIDTH),
            ("rope_head_dim", self.rope_head_dim, MAX_WIDTH),
            ("q_lora_rank", self.q_lora_rank, MAX_WIDTH),
            ("o_groups", self.o_groups, MAX_HEADS),
            ("o_lora_rank", self.o_lora_rank, MAX_WIDTH),
            ("window_size", self.window_size, MAX_WINDOW),
            ("max_position_embeddings", self.max_position_embeddings, MAX_POSITIONS),
            ("n_routed_experts", self.n_routed_experts, MAX_EXPERTS),
            ("n_activated_experts", self.n_activated_experts, MAX_EXPERTS),
            ("moe_inter_dim", self.moe_inter_dim, MAX_WIDTH),
            ("original_seq_len", self.original_seq_len, MAX_POSITIONS),
            ("index_n_heads", self.index_n_heads, MAX_HEADS),
            ("index_head_dim", self.index_head_dim, MAX_WIDTH),
            ("index_topk", self.index_topk, MAX_POSITIONS),
            ("candidate_topk_blocks", self.candidate_topk_blocks, MAX_POSITIONS),
            ("candidate_block_size", self.candidate_block_size, MAX_POSITIONS),
            ("hc_mult", self.hc_mult, MAX_STREAMS),
            ("hc_sinkhorn_iters", self.hc_sinkhorn_iters, MAX_SINKHORN),
            ("engram_n_heads", self.engram_n_heads, MAX_HEADS),
            ("engram_head_dim", self.engram_head_dim, MAX_WIDTH),
            ("dspark_block_size", self.dspark_block_size, MAX_HEADS),
            ("dspark_markov_rank", self.dspark_markov_rank, MAX_WIDTH),
            ("dspark_n_routed_experts", self.dspark_n_routed_experts, MAX_EXPERTS),
            ("dspark_n_activated_experts", self.dspark_n_activated_experts, MAX_EXPERTS),
        ] {
            between(key, value, 1, most)?;
        }
        between("n_mtp_layers", self.n_mtp_layers, 0, MAX_LAYERS)?;
        for (key, value) in [
            ("dim", self.dim),
            ("head_dim", self.head_dim),
            ("q_lora_rank", self.q_lora_rank),
            ("o_lora_rank", self.o_lora_rank),
            ("moe_inter_dim", self.moe_inter_dim),
            ("index_head_dim", self.index_head_dim),
            ("engram_head_dim", self.engram_head_dim),
        ] {
            if value % GROUP != 0 {
                return Err(Error::config(
                    key,
                    format!("needed a multiple of {GROUP} (quantisation groups), found {value}"),
                ));
            }
        }
        Ok(())
    }

    /// Sides of matrices that are products; each factor has passed its own bound.
    fn check_sides(&self) -> Result<()> {
        for (key, factors) in [
            ("n_heads", [self.n_heads, self.head_dim]),
            ("o_groups", [self.o_groups, self.o_lora_rank]),
            ("index_n_heads", [self.index_n_heads, self.index_head_dim]),
            ("engram_n_heads", [self.engram_n_heads * self.engram_max_ngram_size.min(MAX_NGRAM), self.engram_head_dim]),
        ] {
            side(key, factors)?;
        }
        Ok(())
    }

    fn check_floats(&self) -> Result<()> {
        for (key, value) in [
            ("norm_eps", f64::from(self.norm_eps)),
            ("route_scale", f64::from(self.route_scale)),
            ("swiglu_limit", f64::from(self.swiglu_limit)),
            ("hc_eps", f64::from(self.hc_eps)),
            ("beta_slow", self.beta_slow),
        ] {
            positive(key, value)?;
        }
        rope_base("rope_theta", self.rope_theta)?;
        rope_base("compress_rope_theta", self.compress_rope_theta)?;
        if !(1.0..=MAX_FACTOR).contains(&self.rope_factor) {
            let problem = format!("needed 1 to {MAX_FACTOR}, found {}", self.rope_factor);
            return Err(Error::config("rope_factor", problem));
        }
        if !(self.beta_fast > self.beta_slow && self.beta_fast <= MAX_FACTOR) {
            let problem = format!("needed more than beta_slow ({}), found {}", self.beta_slow, self.beta_fast);
            return Err(Error::config("beta_fast", problem));
        }
        Ok(())
    }

    fn check_attention(&self) -> Result<()> {
        if !self.n_heads.is_multiple_of(self.o_groups) {
            let problem = format!("needed a divisor of n_heads ({}), found {}", self.n_heads, self.o_groups);
            return Err(Error::config("o_groups", problem));
        }
        let rope = self.rope_head_dim;
        if !rope.is_multiple_of(2) {
            return Err(Error::config("rope_head_dim", format!("needed an even number (pairs rotate), found {rope}")));
        }
        let least = self.head_dim.min(self.index_head_dim);
        if rope > least {
            let problem = format!("needed at most head_dim and index_head_dim ({least}), found {rope}");
            return Err(Error::config("rope_head_dim", problem));
        }
        Ok(())
    }

    fn check_experts(&self) -> Result<()> {
        if self.n_shared_experts != 1 {
            return Err(Error::config("n_shared_experts", format!("needed 1, found {}", self.n_shared_experts)));
        }
        for (key, active, all) in [
            ("n_activated_experts", self.n_activated_experts, self.n_routed_experts),
            ("dspark_n_activated_experts", self.dspark_n_activated_experts, self.dspark_n_routed_experts),
        ] {
            if active > all {
                return Err(Error::config(
                    key,
                    format!("needed at most the number of routed experts ({all}), found {active}"),
                ));
            }
        }
        let experts = self.n_layers * self.n_routed_experts + self.n_mtp_layers * self.dspark_n_routed_experts;
        if experts * 6 > MAX_TENSORS {
            return Err(Error::config(
                "n_routed_experts",
                format!("{experts} experts need more than {MAX_TENSORS} tensors"),
            ));
        }
        Ok(())
    }

    fn check_tokens(&self) -> Result<()> {
        for (key, id) in [
            ("bos_token_id", self.bos_token_id),
            ("eos_token_id", self.eos_token_id),
            ("image_token_id", self.image_token_id),
            ("engram_pad_id", self.engram_pad_id),
            ("dspark_noise_token_id", self.dspark_noise_token_id),
        ] {
            if id as usize >= self.vocab_size {
                return Err(Error::config(
                    key,
                    format!("needed an id below vocab_size ({}), found {id}", self.vocab_size),
                ));
            }
        }
        Ok(())
    }
}

impl VisionConfig {
    fn check(&self) -> Result<()> {
        for (key, value, most) in [
            ("vision_n_layers", self.n_layers, MAX_LAYERS),
            ("vision_dim", self.dim, MAX_WIDTH),
            ("vision_n_heads", self.n_heads, MAX_HEADS),
            ("vision_inter_dim", self.inter_dim, MAX_WIDTH),
            ("vision_patch_size", self.patch_size, MAX_PATCH),
            ("vision_downsample_ratio", self.downsample_ratio, MAX_PATCH),
        ] {
            between(key, value, 1, most)?;
        }
        side("vision_downsample_ratio", [self.downsample_ratio * self.downsample_ratio, self.dim])?;
        // START, one image token, NEW_LINE and END are the smallest image there is.
        between("vision_max_n_token", self.max_n_token, 4, MAX_POSITIONS)?;
        if self.min_pixels == 0 || self.min_pixels > MAX_PIXELS {
            return Err(Error::config(
                "vision_min_pixels",
                format!("needed 1 to {MAX_PIXELS}, found {}", self.min_pixels),
            ));
        }
        if !self.dim.is_multiple_of(self.n_heads) || !(self.dim / self.n_heads).is_multiple_of(4) {
            let problem = format!(
                "needed heads of a multiple of 4 dims (rows and columns rotate in pairs), found {} heads for width {}",
                self.n_heads, self.dim
            );
            return Err(Error::config("vision_n_heads", problem));
        }
        if self.max_wh_ratio.is_some_and(|ratio| !(ratio >= 1.0 && ratio.is_finite())) {
            return Err(Error::config(
                "vision_max_wh_ratio",
                format!("needed null or at least 1, found {:?}", self.max_wh_ratio),
            ));
        }
        rope_base("vision_rope_theta", self.rope_theta)
    }
}

pub(super) fn between(key: &str, value: usize, least: usize, most: usize) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::config(key, format!("needed {least} to {most}, found {value}")))
}

fn positive(key: &str, value: f64) -> Result<()> {
    // A subnormal epsilon would be flushed to zero by some GPUs, and then divides by zero.
    if (f64::from(f32::MIN_POSITIVE)..=MAX_FACTOR).contains(&value) {
        return Ok(());
    }
    Err(Error::config(key, format!("needed a positive number up to {MAX_FACTOR}, found {value}")))
}

fn side(key: &str, factors: [usize; 2]) -> Result<()> {
    let [a, b] = factors.map(|factor| factor as u64);
    if a * b <= MAX_SIDE {
        return Ok(());
    }
    Err(Error::config(key, format!("needed a matrix side of at most {MAX_SIDE}, found {a} times {b}")))
}

fn rope_base(key: &str, value: f64) -> Result<()> {
    if value > 1.0 && value <= MAX_ROPE_BASE {
        return Ok(());
    }
    Err(Error::config(key, format!("needed a base above 1, at most {MAX_ROPE_BASE}, found {value}")))
}
