//! What a checkpoint needs of a machine, from its config alone: bytes that have to lie in memory, and bytes that each token reads (sections
//! 11.1 and 11.5).

use super::contract::{Part, TensorSpec, contract};
use crate::config::Config;

/// Bytes of a model by what becomes of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// All tensors together.
    pub total: u64,
    /// Routed experts, backbone and DSpark.
    pub experts: u64,
    /// Tables of the n-gram memory. They are never loaded: each token reads a few rows.
    pub tables: u64,
    /// The largest tensor outside of the tables, and that of all experts of a layer together: what has to fit into one binding of a GPU.
    pub largest_binding: u64,
    /// What decoding one token reads.
    pub token: PerToken,
}

/// Bytes that decoding one token reads, without KV cache and drafts (section 11.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PerToken {
    /// Layers without routed experts.
    pub dense: u64,
    /// Routed experts that are chosen.
    pub experts: u64,
    /// Output head.
    pub head: u64,
    /// Rows of the n-gram tables, codes and scales.
    pub table_rows: u64,
    /// The token's embedding, and the final norm.
    pub rest: u64,
}

impl PerToken {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.dense + self.experts + self.head + self.table_rows + self.rest
    }
}

impl Needs {
    /// What a model of this config needs.
    pub fn of(config: &Config) -> Needs {
        let specs = contract(config);
        let sum = |of: &dyn Fn(&TensorSpec) -> bool| specs.iter().filter(|spec| of(spec)).map(TensorSpec::bytes).sum();
        let tables = sum(&|spec| spec.part == Part::EngramTables);
        let experts = sum(&|spec| matches!(spec.part, Part::RoutedExperts | Part::DraftExperts));
        let alone = specs.iter().filter(|spec| spec.part != Part::EngramTables).map(TensorSpec::bytes).max();
        Needs {
            total: sum(&|_| true),
            experts,
            tables,
            largest_binding: alone.unwrap_or(0).max(experts_binding(config)),
            token: per_token(config, &specs),
        }
    }

    /// Bytes that the engines of this version load: everything but the tables.
    pub fn loaded(&self) -> u64 {
        self.total - self.tables
    }
}

/// Both input projections of all experts of a layer lie in one buffer; two codes share a byte.
fn experts_binding(config: &Config) -> u64 {
    let elements = [config.n_routed_experts, 2 * config.moe_inter_dim, config.dim].map(|dim| dim as u64);
    elements.iter().product::<u64>() / 2
}

fn per_token(config: &Config, specs: &[TensorSpec]) -> PerToken {
    let mut token = PerToken::default();
    let mut all_experts = 0;
    for spec in specs {
        match spec.part {
            Part::RoutedExperts => all_experts += spec.bytes(),
            Part::Head => token.head += spec.bytes(),
            Part::Norms if spec.name == "norm.weight" => token.rest += spec.bytes(),
            Part::Embedding => token.rest += spec.bytes() / config.vocab_size.max(1) as u64,
            Part::EngramTables => {
                let rows = spec.shape.first().map_or(1, |&rows| rows.max(1) as u64);
                token.table_rows += spec.bytes() / rows * config.engram_columns() as u64;
            }
            Part::Attention
            | Part::SharedExperts
            | Part::EngramProjections
            | Part::Routers
            | Part::HyperConnections
            | Part::Indexers
            | Part::Compressors
            | Part::Norms => token.dense += spec.bytes(),
            Part::DraftExperts | Part::DraftRest | Part::Vision | Part::Aligner | Part::ImageVectors => {}
        }
    }
    token.experts = all_experts / config.n_routed_experts.max(1) as u64 * config.n_activated_experts as u64;
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of sections 11.1 and 11.5.
    #[test]
    fn the_release_needs_what_the_specification_counts() {
        let needs = Needs::of(&Config::flash());
        assert_eq!(needs.total, 510_286_023_000);
        assert_eq!(needs.tables, 202_758_032_400);
        assert_eq!(needs.experts, 288_777_830_400 + 7_219_445_760);
        assert_eq!(needs.loaded(), 307_527_990_600);
        let token = needs.token;
        assert_eq!(token.dense, 7_199_083_968);
        assert_eq!(token.experts, 4_512_153_600);
        assert_eq!(token.head, 1_323_827_200);
        assert_eq!(token.table_rows, 12_672);
        assert_eq!(token.rest, 20_480);
        assert_eq!(token.total(), 13_035_097_920);
        assert_eq!(needs.largest_binding, 384 * 4608 * 2560);
    }

    #[test]
    fn a_small_model_reads_less_than_it_has() {
        let needs = Needs::of(&Config::lab());
        assert!(needs.token.total() < needs.loaded() && needs.loaded() < needs.total);
    }
}
