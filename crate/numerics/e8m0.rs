//! E8M0, the power-of-two scales: one byte `b` for `2^(b - 127)`, and the rule that chooses it (sections N.1 and N.2 of the specification).

/// fp32(1/448): what turns the largest magnitude of a group into the scale of an E4M3 group.
pub const INV_448: f32 = f32::from_bits(0x3B12_4925);

/// fp32(1/6): the same for E2M1.
pub const INV_6: f32 = f32::from_bits(0x3E2A_AAAB);

/// The value of a scale byte: `2^(byte - 127)`, NaN for 255. Byte 0, 2^-127, is a subnormal f32 and exact.
#[inline]
pub fn decode(byte: u8) -> f32 {
    match byte {
        0 => f32::from_bits(1 << 22),
        255 => f32::NAN,
        _ => f32::from_bits(u32::from(byte) << 23),
    }
}

/// The smallest power of two that is at least `fp32(amax * r)`, and its byte.
///
/// `r` is [`INV_448`] or [`INV_6`], `amax` finite and not negative. This is the ceiling of log2, taken from the bits of the product, so that
/// it is the same on every machine.
#[inline]
pub fn pow2scale(amax: f32, r: f32) -> (f32, u8) {
    let bits = (amax * r).to_bits();
    let exponent = (bits >> 23) as u8;
    let byte = if bits & 0x7F_FFFF == 0 { exponent } else { exponent.saturating_add(1) };
    (decode(byte), byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants() {
        assert_eq!(INV_448, 1.0 / 448.0);
        assert_eq!(INV_6, 1.0 / 6.0);
    }

    #[test]
    fn decode_all() {
        for byte in 0..255u8 {
            assert_eq!(f64::from(decode(byte)), 2f64.powi(i32::from(byte) - 127));
        }
        assert!(decode(255).is_nan());
    }

    #[test]
    fn scale_table_e4m3() {
        for (amax, exponent, byte) in [
            (448.0, 0, 0x7F),
            (224.0, -1, 0x7E),
            (7.0, -6, 0x79),
            (6.0, -6, 0x79),
            (3.5, -7, 0x78),
            (1.0, -8, 0x77),
            (1e-4, -22, 0x69),
        ] {
            assert_eq!(pow2scale(amax, INV_448), (2f32.powi(exponent), byte), "{amax}");
        }
    }

    #[test]
    fn scale_table_e2m1() {
        for (amax, exponent, byte) in [
            (6.0, 0, 0x7F),
            (3.0, -1, 0x7E),
            (7.0, 1, 0x80),
            (5.0, 0, 0x7F),
            (1.0, -2, 0x7D),
            (0.75, -3, 0x7C),
            (6.0 * f32::MIN_POSITIVE, -126, 0x01),
        ] {
            assert_eq!(pow2scale(amax, INV_6), (2f32.powi(exponent), byte), "{amax}");
        }
    }

    #[test]
    fn just_above_a_power_needs_the_next_one() {
        assert_eq!(pow2scale(1f32.next_up(), 1.0), (2.0, 0x80));
        assert_eq!(pow2scale(1.0, 1.0), (1.0, 0x7F));
        assert_eq!(pow2scale(0.0, 1.0), (decode(0), 0));
    }
}
