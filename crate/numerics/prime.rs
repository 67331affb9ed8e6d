//! Primes: moduli of the n-gram hash (section 2.2 of the specification).

/// Largest prime below 2^64.
const LARGEST: u64 = u64::MAX - 58;

/// Bases that make the Miller-Rabin test exact for every 64-bit number.
const WITNESSES: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];

/// Whether `n` is a prime; exact for every `n`.
pub fn is_prime(n: u64) -> bool {
    if n < 2 {
        return false;
    }
    if let Some(divisor) = WITNESSES.into_iter().find(|divisor| n.is_multiple_of(*divisor)) {
        return n == divisor;
    }
    let twos = (n - 1).trailing_zeros();
    WITNESSES.into_iter().all(|base| passes(n, base, (n - 1) >> twos, twos))
}

/// The smallest prime greater than `after`. No prime above 2^64 - 59 fits in 64 bits: from there on the answer stays 2^64 - 59.
pub fn next_prime(after: u64) -> u64 {
    (after..LARGEST).map(|n| n + 1).find(|&n| is_prime(n)).unwrap_or(LARGEST)
}

/// One Miller-Rabin round: with `n - 1 = odd * 2^twos`, base^odd is 1, or some square of it on the way is -1 (mod n).
fn passes(n: u64, base: u64, odd: u64, twos: u32) -> bool {
    let mut x = power(base, odd, n);
    if x == 1 {
        return true;
    }
    for _ in 0..twos {
        if x == n - 1 {
            return true;
        }
        x = multiply(x, x, n);
    }
    false
}

fn power(mut base: u64, mut exponent: u64, modulus: u64) -> u64 {
    let mut result = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, base, modulus);
        }
        base = multiply(base, base, modulus);
        exponent >>= 1;
    }
    result
}

fn multiply(a: u64, b: u64, modulus: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(modulus)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_sieve() {
        const N: usize = 100_000;
        let mut prime = vec![true; N];
        prime[..2].fill(false);
        for divisor in 2..N {
            if prime[divisor] {
                (2 * divisor..N).step_by(divisor).for_each(|multiple| prime[multiple] = false);
            }
        }
        for (n, &expected) in prime.iter().enumerate() {
            assert_eq!(is_prime(n as u64), expected, "{n}");
        }
    }

    #[test]
    fn hard_cases() {
        // Strong pseudoprimes to the first 9 and the first 4 prime bases, and a Carmichael number.
        for composite in [3_825_123_056_546_413_051, 3_215_031_751, 561, (1u64 << 32) - 1, u64::MAX] {
            assert!(!is_prime(composite), "{composite}");
        }
        for prime in [(1 << 61) - 1, 4_294_967_291, LARGEST] {
            assert!(is_prime(prime), "{prime}");
        }
    }

    #[test]
    fn ends_of_the_range() {
        assert_eq!(next_prime(0), 2);
        assert_eq!(next_prime(2), 3);
        assert_eq!(next_prime(LARGEST - 1), LARGEST);
        assert_eq!(next_prime(LARGEST), LARGEST);
        assert_eq!(next_prime(u64::MAX), LARGEST);
    }

    /// All 48 moduli of the released n-gram memory ascend from 16,000,000 (section 2.2): 24 for layer 1, then 24 for layer 14.
    #[test]
    fn released_moduli() {
        let beyond_16_million: [u64; 48] = [
            57, 79, 81, 97, 121, 129, 133, 183, 189, 207, 211, 253, 277, 289, 307, 321, 339, 381, 393, 399, 403, 409,
            447, 463, 477, 487, 499, 507, 511, 573, 609, 627, 667, 669, 693, 697, 711, 729, 759, 769, 781, 799, 813,
            819, 841, 877, 879, 889,
        ];
        let mut last = 16_000_000 - 1;
        let moduli = beyond_16_million.map(|_| {
            last = next_prime(last);
            last
        });
        assert_eq!(moduli, beyond_16_million.map(|offset| 16_000_000 + offset));
        assert_eq!(moduli[..24].iter().sum::<u64>(), 384_006_168);
        assert_eq!(moduli[24..].iter().sum::<u64>(), 384_016_682);
    }
}
