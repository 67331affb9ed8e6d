//! The lab model: what fills [`Config::lab`].

use super::tokenizer::{lab_token_map, lab_tokenizer_json};
use super::{Rules, TinySpec};
use crate::config::Config;

impl TinySpec {
    /// The lab checkpoint: the rules of appendix E with everything that a block adds to the residual made about ten times smaller.
    ///
    /// With the appendix's own sizes a rounding difference grows from layer to layer until some expert or index entry is chosen differently; here
    /// every block adds about half the size of an embedding row and two correct engines agree to the end. Scales are powers of two, so "ten times"
    /// is 2^3 or 2^4, and the head width of 512 instead of 64 takes another 2^2 from `wo_a`. Engram keys are normalised, so damping `engram.wkv` only makes its value smaller.
    pub fn lab() -> TinySpec {
        let amplitudes = [
            ("hc_attn_fn", 0.05),
            ("hc_ffn_fn", 0.05),
            ("hc_attn_scale", 0.5),
            ("hc_ffn_scale", 0.5),
            ("hc_attn_base", 0.5),
            ("hc_ffn_base", 0.5),
            // Spread about as far as the scores are: few tokens stand between two experts, and every expert still has its tokens.
            ("gate.bias", 0.5),
            ("attn_sink", 0.5),
        ];
        let exponents = [
            ("attn.wq_b.", -10),
            ("attn.wo_a.", -12),
            ("attn.wo_b.", -12),
            ("ffn.shared_experts.w2.", -13),
            ("engram.wkv.", -13),
            (".w2.", -8),
        ];
        TinySpec {
            config: Config::lab(),
            rules: Rules::appendix_e().with(&amplitudes, &exponents),
            token_map: lab_token_map(),
            multipliers: None,
            tokenizer: Some(lab_tokenizer_json()),
            shards: 3,
        }
    }
}
