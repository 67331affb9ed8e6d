//! The hash that fills test models: any element of any tensor follows from the tensor's name (appendix E.1 of the specification).

/// FNV-1a, 64 bits, of the UTF-8 bytes of `text`.
pub fn fnv1a64(text: &str) -> u64 {
    fnv1a64_of(text.as_bytes())
}

/// FNV-1a, 64 bits, of `bytes`. Every step is a bijection of the hash: two texts of one length that differ in one byte never have the same.
pub fn fnv1a64_of(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3))
}

/// The pseudo-random numbers of one tensor, addressable by element.
#[derive(Debug, Clone, Copy)]
pub struct Stream {
    seed: u64,
}

impl Stream {
    /// The stream of the tensor called `name`.
    pub fn new(name: &str) -> Self {
        Stream { seed: fnv1a64(name) }
    }

    /// 64 random bits of element `i` (the `z` of E.1): the i-th output of SplitMix64 from the name's hash.
    #[inline]
    pub fn at(&self, i: u64) -> u64 {
        let z = self.seed.wrapping_add(i.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Element `i` as a number in [-1, 1), a multiple of 2^-23 (the `u` of E.1).
    #[inline]
    pub fn unit(&self, i: u64) -> f32 {
        (self.at(i) >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_vectors() {
        assert_eq!(fnv1a64(""), 0xCBF2_9CE4_8422_2325);
        assert_eq!(fnv1a64("a"), 0xAF63_DC4C_8601_EC8C);
        assert_eq!(fnv1a64("foobar"), 0x8594_4171_F739_67E8);
    }

    /// SplitMix64 with seed 0, whose first outputs are widely published.
    #[test]
    fn splitmix_vectors() {
        let stream = Stream { seed: 0 };
        assert_eq!(
            [0, 1, 2].map(|i| stream.at(i)),
            [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F]
        );
        assert_eq!(stream.unit(0), (0xE2_20A8 as f32) / 8_388_608.0 - 1.0);
    }

    #[test]
    fn units_fill_their_range() {
        let stream = Stream::new("embed.weight");
        let units: Vec<f32> = (0..10_000).map(|i| stream.unit(i)).collect();
        assert!(units.iter().all(|u| (-1.0..1.0).contains(u)));
        let mean = units.iter().sum::<f32>() / units.len() as f32;
        assert!(mean.abs() < 0.03, "{mean}");
        assert!(units.iter().any(|&u| u < -0.99) && units.iter().any(|&u| u > 0.99));
    }
}
