//! The ten chapters, one file per block. Each has its texts in both languages, its tables and its checks, all from one [`Run`].
//!
//! A check never compares with a stored number: it computes the same thing a second time, from the block's input and the formula, or counts.

mod b1a_input;
mod b1b_engram;
mod b2a_hyper_connection;
mod b3a_encoder_decoder;
mod b3b_compressor;
mod b3c_window_indexer;
mod b4a_latent_attention;
mod b5a_experts;
mod b6a_kv_cache;
mod b6b_head_dspark;

use super::content::{Chapter, Text};
use super::run::Run;
use crate::blocks::{Block, ORDER};

/// The chapter of a block, or `None` for a code that no block has.
pub fn chapter(run: &Run, code: &str) -> Option<Chapter> {
    let block = find(code)?;
    let chapter = match block.code {
        "1A" => b1a_input::chapter(run),
        "1B" => b1b_engram::chapter(run),
        "2A" => b2a_hyper_connection::chapter(run),
        "3A" => b3a_encoder_decoder::chapter(run),
        "3B" => b3b_compressor::chapter(run),
        "3C" => b3c_window_indexer::chapter(run),
        "4A" => b4a_latent_attention::chapter(run),
        "6A" => b6a_kv_cache::chapter(run),
        "5A" => b5a_experts::chapter(run),
        _ => b6b_head_dspark::chapter(run),
    };
    Some(Chapter { code: block.code, name: Text::new(block.name_vi, block.name), ..chapter })
}

/// The block of a code, in either case.
pub fn find(code: &str) -> Option<&'static Block> {
    ORDER.iter().find(|block| block.code.eq_ignore_ascii_case(code))
}

/// A chapter to fill in. Code and name come from [`ORDER`].
fn begin(look_for: Text, happens: Text, formula: &'static [Text]) -> Chapter {
    Chapter {
        code: "",
        name: Text::new("", ""),
        look_for,
        inputs: Vec::new(),
        happens,
        formula,
        outputs: Vec::new(),
        tables: Vec::new(),
        notes: Vec::new(),
        checks: Vec::new(),
        figure: None,
    }
}

/// Heads of columns that read the same in both languages.
fn same(columns: &[&str]) -> Vec<Text> {
    columns.iter().map(|column| Text::same(*column)).collect()
}
