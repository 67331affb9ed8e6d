//! Weights from names: the hash rule of appendix E.1.

use super::super::Dtype;
use super::super::contract::TensorSpec;
use crate::numerics::hash::Stream;
use crate::numerics::{bf16, e4m3};
use crate::{Error, Result};

/// Norm weights and Engram gate weights are `1 + 0.25 u`.
const NORM_SPREAD: f32 = 0.25;
/// Exponent of every scale of an Engram table.
const TABLE_EXPONENT: i32 = -8;
/// Bias of an E8M0 byte.
const E8M0_BIAS: i32 = 127;

/// How large weights are, by kind. A kind is a piece of a tensor name; the first entry whose piece occurs in the name counts.
///
/// With `u` in [-1, 1) and `z` 64 random bits of the element:
///
/// | tensor | value |
/// |---|---|
/// | BF16, F32 | `u * amplitude`, rounded to the type |
/// | norms, Engram `q_weight` and `k_weight` | `1 + 0.25 u` |
/// | E4M3 codes | `u * 256`, rounded |
/// | packed E2M1 codes | low byte of `z` |
/// | scales | `2^(exponent + (z & 1))` |
/// | Engram table | as E4M3, every scale `2^-8` |
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Amplitudes of BF16 and F32 tensors.
    pub amplitudes: Vec<(&'static str, f32)>,
    /// Exponents of the scales of FP8 and FP4 linears.
    pub exponents: Vec<(&'static str, i32)>,
}

impl Rules {
    /// The rules of appendices E.1 and E.3.
    pub fn appendix_e() -> Rules {
        Rules {
            amplitudes: vec![
                ("markov_head.", 0.5),
                ("confidence_head.", 0.3),
                ("vision.patch_embed.", 0.1),
                (".wqkv.bias", 0.1),
                (".wo.bias", 0.1),
                ("vision.", 0.2),
                ("aligner.w1.weight", 0.05),
                ("aligner.w2.weight", 0.2),
                ("aligner.", 0.1),
                ("image_", 1.0),
                ("embed.weight", 1.0),
                ("head.weight", 0.3),
                ("compressor.w", 0.2),
                ("indexer.wk", 0.2),
                ("indexer.weights_proj", 0.2),
                ("attn_sink", 1.0),
                ("hc_attn_fn", 0.1),
                ("hc_ffn_fn", 0.1),
                ("hc_attn_scale", 1.0),
                ("hc_ffn_scale", 1.0),
                ("hc_attn_base", 1.0),
                ("hc_ffn_base", 1.0),
                ("gate.", 0.3),
            ],
            exponents: vec![
                ("indexer.wq_b.", -9),
                ("attn.wq_a.", -10),
                ("attn.wq_b.", -9),
                ("attn.wkv.", -10),
                ("attn.wo_a.", -10),
                ("attn.wo_b.", -9),
                ("ffn.experts.", -4),
                ("ffn.shared_experts.", -10),
                ("engram.wkv.", -10),
                ("main_proj.", -10),
            ],
        }
    }

    /// These rules with some entries in front, which therefore count first.
    pub fn with(mut self, amplitudes: &[(&'static str, f32)], exponents: &[(&'static str, i32)]) -> Rules {
        self.amplitudes.splice(0..0, amplitudes.iter().copied());
        self.exponents.splice(0..0, exponents.iter().copied());
        self
    }

    /// The stored bytes of one tensor.
    ///
    /// # Errors
    /// [`Error::Tensor`] if no rule speaks of it.
    pub fn fill(&self, spec: &TensorSpec) -> Result<Vec<u8>> {
        let name = spec.name.as_str();
        let (stream, count) = (Stream::new(name), spec.elements());
        let bytes = match spec.dtype {
            Dtype::F8_E4M3 => (0..count).map(|i| e4m3::encode(stream.unit(i) * 256.0)).collect(),
            Dtype::I8 => (0..count).map(|i| (stream.at(i) & 255) as u8).collect(),
            Dtype::F8_E8M0 if name.ends_with("engram.embed.scale") => {
                vec![scale_byte(name, TABLE_EXPONENT)?; count as usize]
            }
            Dtype::F8_E8M0 => {
                let low = scale_byte(name, find(&self.exponents, name)?)?;
                (0..count).map(|i| low + (stream.at(i) & 1) as u8).collect()
            }
            Dtype::BF16 if is_norm(name) => bf16_bytes(count, |i| 1.0 + NORM_SPREAD * stream.unit(i)),
            Dtype::BF16 => {
                let amplitude = find(&self.amplitudes, name)?;
                bf16_bytes(count, |i| stream.unit(i) * amplitude)
            }
            Dtype::F32 => {
                let amplitude = find(&self.amplitudes, name)?;
                (0..count).flat_map(|i| (stream.unit(i) * amplitude).to_le_bytes()).collect()
            }
            other => return Err(Error::tensor(name, format!("no rule makes {other}"))),
        };
        Ok(bytes)
    }
}

/// Weights that multiply something of unit size stay around one.
fn is_norm(name: &str) -> bool {
    let last_two = name.rsplit('.').take(2).any(|piece| piece.contains("norm"));
    last_two || name.ends_with("engram.q_weight") || name.ends_with("engram.k_weight")
}

fn bf16_bytes(count: u64, value: impl Fn(u64) -> f32) -> Vec<u8> {
    (0..count).flat_map(|i| bf16::encode(value(i)).to_le_bytes()).collect()
}

fn find<T: Copy>(rules: &[(&str, T)], name: &str) -> Result<T> {
    let rule = rules.iter().find(|(piece, _)| name.contains(piece));
    rule.map(|&(_, value)| value).ok_or_else(|| Error::tensor(name, "no rule says how large its values are"))
}

/// The byte of `2^exponent`; the next one up must also be a number.
fn scale_byte(name: &str, exponent: i32) -> Result<u8> {
    match u8::try_from(exponent + E8M0_BIAS) {
        Ok(byte) if byte < 254 => Ok(byte),
        _ => Err(Error::tensor(name, format!("needed an exponent of -127 to 126, found {exponent}"))),
    }
}
