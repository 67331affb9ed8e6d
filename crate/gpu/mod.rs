//! The GPU, as far as it knows nothing of the model: a device, typed buffers, kernels, and plans that are recorded once and encoded per token.
//!
//! | module | what it holds |
//! |---|---|
//! | [`device`] | choosing an adapter, its limits, errors and loss |
//! | [`buffer`] | a tensor in GPU memory: shape, element, label |
//! | [`mod@uniform`] | small parameter structs, mirrored in WGSL |
//! | [`kernel`] | a WGSL file with what Rust believes about its bindings |
//! | [`plan`] | dispatches as data: built once, encoded per token |
//! | [`fault`] | one word that remembers where a number stopped being finite |
//! | [`pace`] | how many submits a long plan takes on a slow adapter |
//! | [`readback`] | the one place where bytes come back |

pub mod buffer;
pub mod device;
pub mod fault;
pub mod kernel;
pub mod pace;
pub mod plan;
pub mod readback;
pub mod uniform;

pub use buffer::{Element, Tensor};
pub use device::{AdapterSummary, Choice, Gpu, Tier, Traffic};
pub use kernel::{Binding, Kernel, read, read_write, uniform};
pub use plan::{Plan, Planner};
pub use uniform::Uniform;
