//! Shared WGSL functions, appended to the kernels that use them.

use crate::numerics::precision::Precision;

/// The largest value of a workgroup and its id.
pub const BEST: &str = crate::wgsl!("../../shaders/include/best.wgsl");
/// The `Call` struct.
pub const CALL: &str = crate::wgsl!("../../shaders/include/call.wgsl");
/// E4M3, E2M1, E8M0 and bf16 to f32.
pub const DECODE: &str = crate::wgsl!("../../shaders/include/decode.wgsl");
/// Noting numbers that are not finite.
pub const FAULT: &str = crate::wgsl!("../../shaders/include/fault.wgsl");
/// The FP8 grid across neighbouring threads.
pub const GROUP: &str = crate::wgsl!("../../shaders/include/group.wgsl");
/// Noise for sampling by argmax.
pub const GUMBEL: &str = crate::wgsl!("../../shaders/include/gumbel.wgsl");
/// The loop of the linear kernels.
pub const LINEAR: &str = crate::wgsl!("../../shaders/include/linear.wgsl");
/// Which rows an expert computes.
pub const MEMBERS: &str = crate::wgsl!("../../shaders/include/members.wgsl");
/// Reading rows of the KV cache.
pub const PLANE: &str = crate::wgsl!("../../shaders/include/plane.wgsl");
/// f32 to E4M3, E2M1 and power-of-two scales.
pub const QUANTISE: &str = crate::wgsl!("../../shaders/include/quantise.wgsl");
/// Sums and maxima over a workgroup.
pub const REDUCE: &str = crate::wgsl!("../../shaders/include/reduce.wgsl");
/// bf16 rounding where the numerics ask for it: override `ROUND`.
pub const ROUND: &str = crate::wgsl!("../../shaders/include/round.wgsl");
/// The k-th best of many scores.
pub const SELECT: &str = crate::wgsl!("../../shaders/include/select.wgsl");
/// Rows to the bytes of the KV cache.
pub const STORE: &str = crate::wgsl!("../../shaders/include/store.wgsl");

/// The value of override `ROUND`.
pub fn round_flag(numerics: Precision) -> u32 {
    u32::from(numerics == Precision::Released)
}
