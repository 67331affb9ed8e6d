//! Bit-exact number formats and primitives on the CPU (section N of the specification).
//!
//! From the bits upwards:
//!
//! | module | what it holds |
//! |---|---|
//! | [`bf16`], [`e4m3`], [`e2m1`], [`e8m0`] | the four storage formats, encode and decode |
//! | [`quant`] | the three activation and cache quantisers: FP8 per 32, FP4 per 16, FP4 per 32 |
//! | [`linear`] | a weight matrix as the checkpoint stores it, and its products |
//! | [`precision`] | the two ways to round between operations, f32 and released |
//! | [`rope`] | rotation frequencies, plain, YaRN and vision; angles; rotations of adjacent pairs |
//! | [`ops`] | RMSNorm, activations, softmax, selections, error measure |
//! | `parallel` | when to use threads |
//! | [`rng`], [`prime`], [`hash`] | NumPy's generator, primes and the hash that fills test models |
//!
//! Nothing here knows the model. Slice lengths are the caller's contract: a function panics on a wrong one, as indexing does. Whatever comes
//! from a file passes through a constructor that returns an [`Error`](crate::Error) instead.

pub mod bf16;
pub mod e2m1;
pub mod e4m3;
pub mod e8m0;
pub mod gumbel;
pub mod hash;
pub mod linear;
pub mod ops;
pub(crate) mod parallel;
pub mod precision;
pub mod prime;
pub mod quant;
pub mod rng;
pub mod rope;
