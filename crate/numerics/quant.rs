//! The three quantisers of activations and caches (sections N.3 to N.5 of the specification).
//!
//! | | group | element | scale | floor of the largest magnitude | used for |
//! |---|---|---|---|---|---|
//! | `fp8` | 32 | E4M3 byte | E8M0 | 1e-4 | inputs of FP8 and FP4 linears, window keys |
//! | `kv4` | 16 | E2M1 nibble | E4M3 | 6 * 2^-9 | compressed entries |
//! | `idx4` | 32 | E2M1 nibble | E8M0 | 6 * 2^-126 | index queries and keys |
//!
//! A row is any number of groups. `quantise_*` writes codes and scales, `dequantise_*` reads them back, `fake_*` does both in place. Every
//! dequantised value has at most six significant bits, so the rounding to bf16 that the specification names changes nothing and is not done.
//! All three expect finite input.
//!
//! # Panics
//!
//! Every function panics when a row is not a whole number of groups or an output slice has another length than the row asks for.

use super::{e2m1, e4m3, e8m0};

/// Elements per scale of `fp8`.
pub const FP8_GROUP: usize = 32;
/// Elements per scale of `kv4`.
pub const KV4_GROUP: usize = 16;
/// Elements per scale of `idx4`.
pub const IDX4_GROUP: usize = 32;

const FP8_FLOOR: f32 = 1e-4;
const KV4_FLOOR: f32 = 6.0 / 512.0;
const IDX4_FLOOR: f32 = 6.0 * f32::MIN_POSITIVE;

/// `fp8`: `codes` takes one byte per element, `scales` one E8M0 byte per 32 (N.3).
pub fn quantise_fp8(x: &[f32], codes: &mut [u8], scales: &mut [u8]) {
    check(x.len(), codes.len(), scales.len(), FP8_GROUP, 1);
    let groups = x.chunks_exact(FP8_GROUP).zip(codes.chunks_exact_mut(FP8_GROUP));
    for ((x, codes), scale) in groups.zip(scales) {
        *scale = quantise_fp8_group(x, codes);
    }
}

/// `fp8`: values of `codes` and `scales` into `out`.
pub fn dequantise_fp8(codes: &[u8], scales: &[u8], out: &mut [f32]) {
    check(out.len(), codes.len(), scales.len(), FP8_GROUP, 1);
    let groups = codes.chunks_exact(FP8_GROUP).zip(out.chunks_exact_mut(FP8_GROUP));
    for ((codes, out), &scale) in groups.zip(scales) {
        dequantise_fp8_group(codes, e8m0::decode(scale), out);
    }
}

/// `fp8`: replaces `x` by what quantising and dequantising makes of it.
pub fn fake_fp8(x: &mut [f32]) {
    assert_eq!(x.len() % FP8_GROUP, 0, "a row is a whole number of groups");
    let mut codes = [0; FP8_GROUP];
    for group in x.chunks_exact_mut(FP8_GROUP) {
        let scale = quantise_fp8_group(group, &mut codes);
        dequantise_fp8_group(&codes, e8m0::decode(scale), group);
    }
}

/// `kv4`: `codes` takes one byte per two elements, `scales` one E4M3 byte per 16 (N.4).
pub fn quantise_kv4(x: &[f32], codes: &mut [u8], scales: &mut [u8]) {
    check(x.len(), codes.len(), scales.len(), KV4_GROUP, 2);
    let groups = x.chunks_exact(KV4_GROUP).zip(codes.chunks_exact_mut(KV4_GROUP / 2));
    for ((x, codes), scale) in groups.zip(scales) {
        *scale = quantise_kv4_group(x, codes);
    }
}

/// `kv4`: values of `codes` and `scales` into `out`.
pub fn dequantise_kv4(codes: &[u8], scales: &[u8], out: &mut [f32]) {
    check(out.len(), codes.len(), scales.len(), KV4_GROUP, 2);
    let groups = codes.chunks_exact(KV4_GROUP / 2).zip(out.chunks_exact_mut(KV4_GROUP));
    for ((codes, out), &scale) in groups.zip(scales) {
        dequantise_e2m1_group(codes, e4m3::decode(scale), out);
    }
}

/// `kv4`: replaces `x` by what quantising and dequantising makes of it.
pub fn fake_kv4(x: &mut [f32]) {
    assert_eq!(x.len() % KV4_GROUP, 0, "a row is a whole number of groups");
    let mut codes = [0; KV4_GROUP / 2];
    for group in x.chunks_exact_mut(KV4_GROUP) {
        let scale = quantise_kv4_group(group, &mut codes);
        dequantise_e2m1_group(&codes, e4m3::decode(scale), group);
    }
}

/// `idx4`: `codes` takes one byte per two elements, `scales` one E8M0 byte per 32 (N.5).
pub fn quantise_idx4(x: &[f32], codes: &mut [u8], scales: &mut [u8]) {
    check(x.len(), codes.len(), scales.len(), IDX4_GROUP, 2);
    let groups = x.chunks_exact(IDX4_GROUP).zip(codes.chunks_exact_mut(IDX4_GROUP / 2));
    for ((x, codes), scale) in groups.zip(scales) {
        *scale = quantise_idx4_group(x, codes);
    }
}

/// `idx4`: values of `codes` and `scales` into `out`.
pub fn dequantise_idx4(codes: &[u8], scales: &[u8], out: &mut [f32]) {
    check(out.len(), codes.len(), scales.len(), IDX4_GROUP, 2);
    let groups = codes.chunks_exact(IDX4_GROUP / 2).zip(out.chunks_exact_mut(IDX4_GROUP));
    for ((codes, out), &scale) in groups.zip(scales) {
        dequantise_e2m1_group(codes, e8m0::decode(scale), out);
    }
}

/// `idx4`: replaces `x` by what quantising and dequantising makes of it.
pub fn fake_idx4(x: &mut [f32]) {
    assert_eq!(x.len() % IDX4_GROUP, 0, "a row is a whole number of groups");
    let mut codes = [0; IDX4_GROUP / 2];
    for group in x.chunks_exact_mut(IDX4_GROUP) {
        let scale = quantise_idx4_group(group, &mut codes);
        dequantise_e2m1_group(&codes, e8m0::decode(scale), group);
    }
}

fn check(elements: usize, codes: usize, scales: usize, group: usize, elements_per_code: usize) {
    assert_eq!(elements % group, 0, "a row is a whole number of groups of {group}");
    assert_eq!(codes, elements / elements_per_code, "code bytes of a row");
    assert_eq!(scales, elements / group, "scale bytes of a row");
}

/// Largest magnitude of a group, at least `floor`: a group of zeros needs a scale too.
fn amax(x: &[f32], floor: f32) -> f32 {
    x.iter().fold(floor, |largest, value| largest.max(value.abs()))
}

fn quantise_fp8_group(x: &[f32], codes: &mut [u8]) -> u8 {
    let (scale, byte) = e8m0::pow2scale(amax(x, FP8_FLOOR), e8m0::INV_448);
    for (code, value) in codes.iter_mut().zip(x) {
        *code = e4m3::encode(value / scale);
    }
    byte
}

fn dequantise_fp8_group(codes: &[u8], scale: f32, out: &mut [f32]) {
    for (value, &code) in out.iter_mut().zip(codes) {
        *value = e4m3::decode(code) * scale;
    }
}

fn quantise_kv4_group(x: &[f32], codes: &mut [u8]) -> u8 {
    let byte = e4m3::encode(amax(x, KV4_FLOOR) / 6.0);
    quantise_e2m1_group(x, e4m3::decode(byte), codes);
    byte
}

fn quantise_idx4_group(x: &[f32], codes: &mut [u8]) -> u8 {
    let (scale, byte) = e8m0::pow2scale(amax(x, IDX4_FLOOR), e8m0::INV_6);
    quantise_e2m1_group(x, scale, codes);
    byte
}

fn quantise_e2m1_group(x: &[f32], scale: f32, codes: &mut [u8]) {
    for (byte, pair) in codes.iter_mut().zip(x.chunks_exact(2)) {
        *byte = e2m1::pack(e2m1::encode(pair[0] / scale), e2m1::encode(pair[1] / scale));
    }
}

fn dequantise_e2m1_group(codes: &[u8], scale: f32, out: &mut [f32]) {
    for (pair, &byte) in out.chunks_exact_mut(2).zip(codes) {
        let [even, odd] = e2m1::PAIRS[byte as usize];
        pair[0] = even * scale;
        pair[1] = odd * scale;
    }
}

#[cfg(test)]
mod tests;
