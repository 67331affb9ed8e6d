//! E2M1, the 4-bit float of the FP4 weights and caches: `s ee m` (section N.1 of the specification).
//!
//! Two codes share a byte. The low nibble is the even column, the high nibble the odd one.

/// Largest value.
pub const MAX: f32 = 6.0;

const VALUES: [f32; 16] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// The two values of every packed byte, low nibble first.
pub static PAIRS: [[f32; 2]; 256] = build_pairs();

const fn build_pairs() -> [[f32; 2]; 256] {
    let mut pairs = [[0.0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [VALUES[byte & 15], VALUES[byte >> 4]];
        byte += 1;
    }
    pairs
}

/// The value of a code; only the low four bits of `code` count.
#[inline]
pub fn decode(code: u8) -> f32 {
    VALUES[(code & 15) as usize]
}

/// Code nearest to `x`, 0 to 15: clamped to ±6, ties to the even code. Zero keeps its sign (code 8 is -0), NaN gives a zero.
#[inline]
pub fn encode(x: f32) -> u8 {
    let a = x.abs();
    // One comparison per midpoint. A midpoint itself belongs to the even one of its two codes, hence > and >= in turn.
    let code = u8::from(a > 0.25)
        + u8::from(a >= 0.75)
        + u8::from(a > 1.25)
        + u8::from(a >= 1.75)
        + u8::from(a > 2.5)
        + u8::from(a >= 3.5)
        + u8::from(a > 5.0);
    code | if x.is_sign_negative() { 8 } else { 0 }
}

/// Packs two codes into a byte, `even` into the low nibble.
#[inline]
pub fn pack(even: u8, odd: u8) -> u8 {
    (even & 15) | (odd << 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tie_table() {
        for (tie, rounded) in
            [(0.25, 0.0), (0.75, 1.0), (1.25, 1.0), (1.75, 2.0), (2.5, 2.0), (3.5, 4.0), (5.0, 4.0f32)]
        {
            assert_eq!(decode(encode(tie)), rounded, "{tie}");
            assert_eq!(decode(encode(-tie)).to_bits(), (-rounded).to_bits(), "-{tie}");
        }
        assert_eq!(encode(-0.25), 8);
    }

    #[test]
    fn codes_and_bytes() {
        for code in 0..16 {
            assert_eq!(encode(decode(code)), code);
            for other in 0..16 {
                let pair = PAIRS[pack(code, other) as usize];
                assert_eq!(pair.map(f32::to_bits), [decode(code).to_bits(), decode(other).to_bits()]);
            }
        }
        assert_eq!(decode(8).to_bits(), 0x8000_0000);
        assert_eq!(encode(f32::INFINITY), 7);
        assert_eq!(encode(-1e9), 15);
        assert_eq!(encode(f32::NAN) & 7, 0);
    }

    /// Bytes of `layers.0.ffn.experts.0.w1.weight`, row 0, with their scale 2^-7 (section 13.3).
    #[test]
    fn real_weights() {
        let bytes = [0xa0, 0xa8, 0xec, 0x4a, 0xad, 0xaf, 0x42, 0xaa, 0xcc, 0x82, 0x25, 0x6f, 0xfa, 0x05, 0x45, 0x44];
        let scale = crate::numerics::e8m0::decode(0x78);
        let values: Vec<f32> = bytes.iter().flat_map(|&byte: &u8| PAIRS[byte as usize]).map(|v| v * scale).collect();
        let unit = 2f32.powi(-7);
        let expected = [
            0.0, -1.0, 0.0, -1.0, -2.0, -4.0, -1.0, 2.0, -3.0, -1.0, -6.0, -1.0, 1.0, 2.0, -1.0, -1.0, -2.0, -2.0, 1.0,
            0.0, 3.0, 1.0, -6.0, 4.0, -1.0, -6.0, 3.0, 0.0, 3.0, 2.0, 2.0, 2.0,
        ]
        .map(|v: f32| v * unit);
        assert_eq!(values, expected);
    }

    proptest! {
        #[test]
        fn nearest(x in -7f32..7.0) {
            let clamped = x.clamp(-MAX, MAX);
            let error = (decode(encode(x)) - clamped).abs();
            prop_assert!(VALUES.iter().all(|value| error <= (value - clamped).abs()));
        }
    }
}
