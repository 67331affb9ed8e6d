//! E4M3, the 8-bit float of the FP8 weights and activations: `s eeee mmm`, bias 7, "fn" variant (section N.1 of the specification).
//!
//! There is no infinity. Exponent 15 holds ordinary values up to 448; only mantissa 7 there (0x7F, 0xFF) is NaN. Exponent 0 holds the
//! subnormals `m * 2^-9`.

/// Largest finite value.
pub const MAX: f32 = 448.0;

/// Code of NaN, as [`encode`] writes it.
pub const NAN: u8 = 0x7F;

/// Value of every code; NaN at 0x7F and 0xFF.
pub static TABLE: [f32; 256] = build_table();

const fn build_table() -> [f32; 256] {
    let mut table = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        table[code] = value(code as u8);
        code += 1;
    }
    table
}

const fn value(code: u8) -> f32 {
    let exponent = (code >> 3) as u32 & 15;
    let mantissa = code as u32 & 7;
    let magnitude = if code & 0x7F == NAN {
        f32::NAN
    } else if exponent == 0 {
        mantissa as f32 / 512.0
    } else {
        f32::from_bits((exponent + 127 - 7) << 23 | mantissa << 20)
    };
    if code & 0x80 == 0 { magnitude } else { -magnitude }
}

/// The value of a code; exact, NaN for 0x7F and 0xFF.
#[inline]
pub fn decode(code: u8) -> f32 {
    TABLE[code as usize]
}

/// Code nearest to `x`: clamped to ±448 first, then rounded to nearest, ties to even. Zero keeps its sign, NaN gives [`NAN`].
#[inline]
pub fn encode(x: f32) -> u8 {
    if x.is_nan() {
        return NAN;
    }
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let magnitude = x.abs().min(MAX);
    let code = if magnitude < 1.0 / 64.0 {
        // The subnormals are multiples of 2^-9. Rounding up to 8 of them gives code 8, which is the smallest normal value.
        (magnitude * 512.0).round_ties_even() as u8
    } else {
        let bits = magnitude.to_bits();
        let rounded = bits + 0x7_FFFF + ((bits >> 20) & 1);
        ((rounded >> 20) - ((127 - 7) << 3)) as u8
    };
    sign | code
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn table_landmarks() {
        assert_eq!(decode(0x00).to_bits(), 0);
        assert_eq!(decode(0x80).to_bits(), 0x8000_0000);
        assert_eq!(decode(0x01), 2f32.powi(-9));
        assert_eq!(decode(0x07), 7.0 / 512.0);
        assert_eq!(decode(0x08), 1.0 / 64.0);
        assert_eq!(decode(0x38), 1.0);
        assert_eq!(decode(0x7E), 448.0);
        assert_eq!(decode(0xFE), -448.0);
        assert!(decode(0x7F).is_nan() && decode(0xFF).is_nan());
        assert_eq!(TABLE.iter().filter(|value| value.is_nan()).count(), 2);
    }

    #[test]
    fn all_codes_survive() {
        for code in (0..=255).filter(|code| code & 0x7F != NAN) {
            assert_eq!(encode(decode(code)), code);
        }
    }

    #[test]
    fn halfway_goes_to_the_even_code() {
        for code in 0..0x7Eu8 {
            let middle = (decode(code) + decode(code + 1)) / 2.0;
            let even = code + (code & 1);
            assert_eq!(encode(middle), even, "between {code:#x} and its successor");
            assert_eq!(encode(-middle), 0x80 | even);
            assert_eq!(encode(middle.next_down()), code);
            assert_eq!(encode(middle.next_up()), code + 1);
        }
    }

    #[test]
    fn clamps_and_keeps_signs() {
        assert_eq!(encode(1e9), 0x7E);
        assert_eq!(encode(f32::NEG_INFINITY), 0xFE);
        assert_eq!(encode(465.0), 0x7E, "beyond the midpoint to the NaN code");
        assert_eq!(encode(-0.0), 0x80);
        assert_eq!(encode(-1e-9), 0x80);
        assert_eq!(encode(f32::NAN), NAN);
        assert_eq!(encode(-f32::NAN), NAN);
    }

    /// Bytes of `layers.0.attn.wkv.weight`, row 0, with the scale 2^-12 of their tile (section 13.3).
    #[test]
    fn real_weights() {
        let codes = [0xd8, 0x71, 0xf2, 0x79, 0x70, 0x69, 0xf0, 0xe5];
        let scale = crate::numerics::e8m0::decode(0x73);
        let expected = [
            -0.003_906_25,
            0.035_156_25,
            -0.039_062_5,
            0.070_312_5,
            0.03125,
            0.017_578_125,
            -0.03125,
            -0.012_695_312_5,
        ];
        assert_eq!(codes.map(|code| decode(code) * scale), expected);
    }

    proptest! {
        #[test]
        fn nearest(x in -500f32..500.0) {
            let error = (decode(encode(x)) - x.clamp(-MAX, MAX)).abs();
            for &value in TABLE.iter().filter(|value| !value.is_nan()) {
                prop_assert!(error <= (value - x.clamp(-MAX, MAX)).abs());
            }
        }
    }
}
