//! One file per block of the architecture, in the order of the course.
//!
//! Each file holds the block's formula, its weights, and its reference implementation on the CPU. The functions take slices, rows first:
//! `n` is always the number of tokens in the call. They know nothing of files, devices or the layer they are called from.

pub mod b1a_input;
pub mod b1b_engram;
pub mod b2a_hyper_connection;
pub mod b3a_encoder_decoder;
pub mod b3b_compressor;
pub mod b3c_window_indexer;
pub mod b4a_latent_attention;
pub mod b5a_experts;
pub mod b6a_kv_cache;
pub mod b6b_head_dspark;
pub mod context;
pub mod layer;
pub mod mistake;
pub mod rollback;
pub mod tap;

/// One block of the architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Code in the diagram, for example `3C`.
    pub code: &'static str,
    /// Stem of the block's file in `crate/blocks`.
    pub file: &'static str,
    /// English name.
    pub name: &'static str,
    /// Vietnamese name.
    pub name_vi: &'static str,
    /// Column of the diagram, 1 to 4.
    pub column: u8,
    /// Groups that can be brought into focus in the diagram, to which the block belongs: `prefill`, `decode`, `kv`, `moe`.
    pub focus: &'static [&'static str],
}

/// The ten blocks in the order in which a token meets them. README, lab and tests read the order from here.
pub const ORDER: [Block; 10] = [
    Block {
        code: "1A",
        file: "b1a_input",
        name: "Input: text and picture",
        name_vi: "Đầu vào: chữ và ảnh",
        column: 1,
        focus: &["prefill"],
    },
    Block {
        code: "1B",
        file: "b1b_engram",
        name: "Engram n-gram memory",
        name_vi: "Bộ nhớ n-gram Engram",
        column: 1,
        focus: &["prefill"],
    },
    Block {
        code: "2A",
        file: "b2a_hyper_connection",
        name: "Four-stream mHC",
        name_vi: "mHC bốn luồng",
        column: 1,
        focus: &["moe"],
    },
    Block {
        code: "3A",
        file: "b3a_encoder_decoder",
        name: "Causal encoder-decoder",
        name_vi: "Bộ mã hoá - giải mã nhân quả",
        column: 2,
        focus: &["prefill", "decode"],
    },
    Block {
        code: "3B",
        file: "b3b_compressor",
        name: "CSA2 compressor",
        name_vi: "Bộ nén CSA2",
        column: 2,
        focus: &["prefill", "kv"],
    },
    Block {
        code: "3C",
        file: "b3c_window_indexer",
        name: "Window ring and indexer",
        name_vi: "Vòng cửa sổ và bộ chỉ mục",
        column: 2,
        focus: &["prefill", "decode", "kv"],
    },
    Block {
        code: "4A",
        file: "b4a_latent_attention",
        name: "Latent attention",
        name_vi: "Chú ý trên vectơ ẩn",
        column: 3,
        focus: &["decode", "kv"],
    },
    Block {
        code: "6A",
        file: "b6a_kv_cache",
        name: "FP4 KV cache",
        name_vi: "Bộ đệm KV dạng FP4",
        column: 3,
        focus: &["prefill", "kv"],
    },
    Block {
        code: "5A",
        file: "b5a_experts",
        name: "Mixture of experts",
        name_vi: "Hỗn hợp chuyên gia",
        column: 4,
        focus: &["decode", "moe"],
    },
    Block {
        code: "6B",
        file: "b6b_head_dspark",
        name: "Head and DSpark draft",
        name_vi: "Đầu ra và bản nháp DSpark",
        column: 4,
        focus: &["decode"],
    },
];
