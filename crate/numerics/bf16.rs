//! bfloat16: the upper half of an f32, rounded to nearest, ties to even (sections N.1 and W.2 of the specification).

/// Bits of the bfloat16 nearest to `x`, ties to even.
///
/// Values beyond the largest bfloat16 become infinite. A NaN stays a NaN: its quiet bit is set, since all payload may lie in the lost half.
#[inline]
pub fn encode(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x0040;
    }
    ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) as u16
}

/// The value of bfloat16 bits; exact.
#[inline]
pub fn decode(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// `x` rounded to the nearest bfloat16, as f32: every "bf16(..)" of the specification.
#[inline]
pub fn round(x: f32) -> f32 {
    decode(encode(x))
}

/// [`round`] on every element, in place.
pub fn round_all(x: &mut [f32]) {
    for value in x {
        *value = round(*value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ties_go_to_even() {
        assert_eq!(encode(f32::from_bits(0x3F80_8000)), 0x3F80);
        assert_eq!(encode(f32::from_bits(0x3F81_8000)), 0x3F82);
        assert_eq!(encode(f32::from_bits(0x3F80_8001)), 0x3F81);
        assert_eq!(encode(f32::from_bits(0x3F80_7FFF)), 0x3F80);
        assert_eq!(encode(f32::from_bits(0xBF81_8000)), 0xBF82);
    }

    #[test]
    fn ends_of_the_range() {
        assert_eq!(encode(0.0), 0);
        assert_eq!(encode(-0.0), 0x8000);
        assert_eq!(encode(f32::MAX), 0x7F80);
        assert_eq!(round(f32::INFINITY), f32::INFINITY);
        assert_eq!(encode(f32::from_bits(0x0000_8000)), 0, "half of the smallest subnormal is a tie to zero");
        assert!(round(f32::NAN).is_nan());
        assert!(round(f32::from_bits(0x7F80_0001)).is_nan(), "payload in the lost half only");
        assert!(round(f32::from_bits(0xFFFF_FFFF)).is_nan());
    }

    #[test]
    fn worked_values() {
        let mut x = [0.1, 1.6, 0.001, -0.3];
        round_all(&mut x);
        assert_eq!(x, [0.100_097_656, 1.601_562_5, 0.000_999_450_7, -0.300_781_25]);
    }

    #[test]
    fn all_codes_survive() {
        for bits in 0..=u16::MAX {
            let value = decode(bits);
            if !value.is_nan() {
                assert_eq!(encode(value), bits);
            }
        }
    }

    proptest! {
        #[test]
        fn agrees_with_half(bits: u32) {
            let x = f32::from_bits(bits);
            prop_assert_eq!(encode(x), half::bf16::from_f32(x).to_bits());
        }
    }
}
