//! What several integration tests share.

pub(crate) mod appendix_e;
