//! 3C: the indexer.

pub mod candidate_blocks;
pub mod index_scores;
pub mod top_k;
