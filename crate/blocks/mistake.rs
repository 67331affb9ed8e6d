//! Mistakes that are easy to make, planted on purpose.
//!
//! Appendix E of the specification lists what the tiny model's logits look like after each of them. A parity harness that cannot fail proves
//! nothing, so `flash890 parity --plant NAME` and the tests switch one on and expect the harness to notice.

use crate::config::Config;

/// One wrong way to read the architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// Sum over the second index of `comb` when the streams are expanded (P-02).
    CombTransposed,
    /// Collapse a sub-layer's input with its own `pre` instead of the one before (P-03).
    PreNotLagged,
    /// Rotate halves instead of adjacent pairs (P-06).
    RotateHalf,
    /// Leave the output of attention rotated.
    NoInverseRope,
    /// Use base 10,000 without YaRN in every layer (P-05).
    OneRopeBase,
    /// Store compressed entries without rotation (P-05).
    EntriesNotRotated,
    /// Rotate entry `j` at position `j` instead of `j * ratio`.
    EntriesRotatedAtIndex,
    /// Normalise each head of the query, as V4 did (P-04).
    QueryHeadNorm,
    /// Leave the sink out of the softmax denominator.
    NoSink,
    /// Apply the routing weight after `w2` (P-34).
    RouteWeightAfterW2,
    /// Leave out the clamp of SwiGLU (P-33).
    NoSwigluClamp,
    /// Read the high nibble of an FP4 byte as the even column.
    NibblesSwapped,
}

impl Mistake {
    /// All of them, in the order of appendix E.
    pub const ALL: [Mistake; 12] = [
        Mistake::CombTransposed,
        Mistake::PreNotLagged,
        Mistake::RotateHalf,
        Mistake::NoInverseRope,
        Mistake::OneRopeBase,
        Mistake::EntriesNotRotated,
        Mistake::EntriesRotatedAtIndex,
        Mistake::QueryHeadNorm,
        Mistake::NoSink,
        Mistake::RouteWeightAfterW2,
        Mistake::NoSwigluClamp,
        Mistake::NibblesSwapped,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mistake::CombTransposed => "comb-transposed",
            Mistake::PreNotLagged => "pre-not-lagged",
            Mistake::RotateHalf => "rotate-half",
            Mistake::NoInverseRope => "no-inverse-rope",
            Mistake::OneRopeBase => "one-rope-base",
            Mistake::EntriesNotRotated => "entries-not-rotated",
            Mistake::EntriesRotatedAtIndex => "entries-rotated-at-index",
            Mistake::QueryHeadNorm => "query-head-norm",
            Mistake::NoSink => "no-sink",
            Mistake::RouteWeightAfterW2 => "route-weight-after-w2",
            Mistake::NoSwigluClamp => "no-swiglu-clamp",
            Mistake::NibblesSwapped => "nibbles-swapped",
        }
    }

    /// The mistake of that name.
    pub fn from_name(name: &str) -> Option<Mistake> {
        Mistake::ALL.into_iter().find(|mistake| mistake.name() == name)
    }

    /// Plants those mistakes that are wrong values rather than wrong code.
    pub fn plant_in_config(self, config: &mut Config) {
        match self {
            Mistake::OneRopeBase => {
                config.compress_rope_theta = config.rope_theta;
                config.rope_factor = 1.0;
            }
            Mistake::NoSwigluClamp => config.swiglu_limit = f32::MAX,
            _ => {}
        }
    }
}
