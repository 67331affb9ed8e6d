//! One word that remembers where a number stopped being finite.
//!
//! What is not a number can vanish again: a clamp, a router or a storage format turns it into some number, and the answer is wrong without a
//! word. So kernels look at what they compute (`watch` in shaders/include/fault.wgsl) and note what is not finite in one word: the place in the
//! model, and the element. The smallest note stays, which names the first block where it happened. Nothing is read back on the way: the
//! word comes with the result of the call.

use super::buffer::Tensor;
use super::device::Gpu;
use crate::Result;

/// The word when all is well.
pub const NONE: u32 = u32::MAX;

/// Bits of the element; later elements are noted as the last.
const ELEMENT_BITS: u32 = 20;

/// The largest number of a place.
pub const LAST_PLACE: u32 = (1 << (32 - ELEMENT_BITS)) - 2;

/// A word that has noted nothing, `[1]`.
///
/// # Errors
/// None on a working device.
pub fn word(gpu: &Gpu) -> Result<Tensor> {
    Tensor::u32(gpu, "first fault", &[1], &[NONE])
}

/// Forgets what was noted, before a call begins.
pub fn clear(gpu: &Gpu, word: &Tensor) {
    gpu.queue.write_buffer(&word.buffer, 0, &NONE.to_le_bytes());
}

/// Place and element that a word names; the element counts in the tensor in which the number arose.
pub fn noted(word: u32) -> Option<(usize, usize)> {
    (word != NONE).then_some(((word >> ELEMENT_BITS) as usize, (word & ((1 << ELEMENT_BITS) - 1)) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_ordered_by_place() {
        assert_eq!(noted(NONE), None);
        assert_eq!(noted(3 << 20 | 7), Some((3, 7)));
        let last = LAST_PLACE << ELEMENT_BITS | ((1 << ELEMENT_BITS) - 1);
        assert!(last < NONE && noted(last).unwrap().0 == LAST_PLACE as usize);
    }
}
