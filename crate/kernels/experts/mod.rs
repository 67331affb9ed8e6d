//! 5A: the mixture of experts.

pub mod experts_down;
pub mod experts_up;
pub mod route;
pub mod swiglu;
