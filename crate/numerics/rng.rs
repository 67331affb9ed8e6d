//! NumPy's default generator, as far as the n-gram hash constants need it (section 2.2 of the specification).
//!
//! `numpy.random.default_rng(seed)` is a PCG64 (128-bit state, XSL-RR output) whose state comes from a `SeedSequence`. [`Pcg64`] gives the same
//! numbers in the same order.

/// Multiplier of the 128-bit linear congruential step.
const MULTIPLIER: u128 = 0x2360_ED05_1FC6_5DA4_4385_DF64_9FCC_F645;

/// PCG64 in the state of a fresh `default_rng(seed)`.
#[derive(Debug, Clone)]
pub struct Pcg64 {
    state: u128,
    increment: u128,
    /// Upper half of a 64-bit draw whose lower half was given out as a 32-bit draw.
    spare: Option<u32>,
}

impl Pcg64 {
    /// The generator of `numpy.random.default_rng(seed)`.
    pub fn new(seed: u64) -> Self {
        let words = seed_words(seed);
        let pair = |high: u64, low: u64| u128::from(high) << 64 | u128::from(low);
        let increment = pair(words[2], words[3]) << 1 | 1;
        let mut rng = Pcg64 { state: 0, increment, spare: None };
        rng.step();
        rng.state = rng.state.wrapping_add(pair(words[0], words[1]));
        rng.step();
        rng
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.step();
        let folded = (self.state >> 64) as u64 ^ self.state as u64;
        folded.rotate_right((self.state >> 122) as u32)
    }

    /// An integer in `0..bound`, as `Generator.integers(0, bound, dtype=int64)` draws it; a bound of 0 stands for 2^64.
    ///
    /// Lemire's method: the high half of `bits * bound`, redrawn where that would be biased. NumPy spends 32 bits on bounds up to 2^32 and
    /// keeps the other half of the 64-bit draw for the next such call; a bound of 1 draws nothing.
    pub fn integers(&mut self, bound: u64) -> u64 {
        let last = bound.wrapping_sub(1);
        match u32::try_from(last) {
            Ok(0) => 0,
            Ok(u32::MAX) => u64::from(self.next_u32()),
            Ok(last) => u64::from(self.below_u32(last + 1)),
            Err(_) if bound == 0 => self.next_u64(),
            Err(_) => self.below_u64(bound),
        }
    }

    fn step(&mut self) {
        self.state = self.state.wrapping_mul(MULTIPLIER).wrapping_add(self.increment);
    }

    fn next_u32(&mut self) -> u32 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let bits = self.next_u64();
        self.spare = Some((bits >> 32) as u32);
        bits as u32
    }

    fn below_u32(&mut self, bound: u32) -> u32 {
        let biased = bound.wrapping_neg() % bound;
        loop {
            let product = u64::from(self.next_u32()) * u64::from(bound);
            if product as u32 >= biased {
                return (product >> 32) as u32;
            }
        }
    }

    fn below_u64(&mut self, bound: u64) -> u64 {
        let biased = bound.wrapping_neg() % bound;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            if product as u64 >= biased {
                return (product >> 64) as u64;
            }
        }
    }
}

/// `SeedSequence(seed).generate_state(4, uint64)`: the seed's 32-bit halves are hashed into a pool of four words, the pool is mixed, and the
/// output is hashed from the pool.
fn seed_words(seed: u64) -> [u64; 4] {
    let mut hash = HashConstant { value: 0x43B0_D7E5, multiplier: 0x931E_8875 };
    let mut pool = [seed as u32, (seed >> 32) as u32, 0, 0].map(|word| hash.apply(word));
    for source in 0..4 {
        for target in (0..4).filter(|&target| target != source) {
            let hashed = hash.apply(pool[source]);
            pool[target] = mix(pool[target], hashed);
        }
    }
    let mut hash = HashConstant { value: 0x8B51_F9DD, multiplier: 0x58F3_8DED };
    let mut output = |i: usize| u64::from(hash.apply(pool[i % 4]));
    std::array::from_fn(|word| output(2 * word) | output(2 * word + 1) << 32)
}

/// The running constant of the seed hash; every use moves it on.
struct HashConstant {
    value: u32,
    multiplier: u32,
}

impl HashConstant {
    fn apply(&mut self, word: u32) -> u32 {
        let word = word ^ self.value;
        self.value = self.value.wrapping_mul(self.multiplier);
        let word = word.wrapping_mul(self.value);
        word ^ word >> 16
    }
}

fn mix(x: u32, y: u32) -> u32 {
    let mixed = x.wrapping_mul(0xCA01_F9DD).wrapping_sub(y.wrapping_mul(0x4973_F715));
    mixed ^ mixed >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `numpy.random.PCG64(seed).random_raw(3)`.
    #[test]
    fn raw_draws() {
        for (seed, draws) in [
            (0, [0xa30f_ebcf_d9c2_825f, 0x4510_bdf8_82d9_d721, 0x0a7d_3da9_4ecd_e8b8]),
            (42, [0xc621_fbcd_16d9_2688, 0x705a_5661_a791_ffc1, 0xdbcd_12c2_6eda_1624]),
            ((1 << 40) + 7, [0xd46e_9e20_34de_21aa, 0x415b_adc9_9c08_7675, 0x275e_d40f_045a_cb84u64]),
        ] {
            let mut rng = Pcg64::new(seed);
            assert_eq!([rng.next_u64(), rng.next_u64(), rng.next_u64()], draws, "seed {seed}");
        }
    }

    /// One `numpy.random.default_rng(7)`, called with bounds on both sides of 2^32: the spare half of a 32-bit draw outlives 64-bit draws.
    #[test]
    fn bounded_draws() {
        let mut rng = Pcg64::new(7);
        for (bound, expected) in [
            (10, 9),
            (10, 6),
            (10, 6),
            (10, 8),
            (10, 5),
            (1 << 40, 247_617_924_053),
            (3, 2),
            (1 << 32, 238_506_309),
            ((1 << 63) - 1, 8_057_108_420_966_028_185),
            (1, 0),
            (3_000_000_001, 900_498_854),
            (3_000_000_001, 1_499_360_358),
            (3_000_000_001, 2_463_685_255),
        ] {
            assert_eq!(rng.integers(bound), expected, "bound {bound}");
        }
    }

    /// The multipliers of the n-gram hash (section 2.2): seed 10007 times the layer, multiplier 2 * draw + 1.
    #[test]
    fn hash_multipliers() {
        let bound = (i64::MAX as u64 / 99_092) / 2;
        assert_eq!(bound, 46_539_438_283_891);
        for (layer, multipliers) in [
            (1, [76_632_096_046_245, 4_839_876_093_313, 35_959_672_319_349, 73_987_337_458_391]),
            (14, [67_716_810_739_261, 51_510_806_800_915, 30_921_347_202_721, 82_619_226_485_591u64]),
        ] {
            let mut rng = Pcg64::new(10_007 * layer);
            assert_eq!(multipliers.map(|_| 2 * rng.integers(bound) + 1), multipliers, "layer {layer}");
        }
    }
}
