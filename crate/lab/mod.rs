//! Looking at a run: golden files, parity reports, and the lab's tables.

pub mod golden;
pub mod lang;
pub mod parity;
