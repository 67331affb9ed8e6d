//! Looking at a run: golden files, parity reports, and the lab that follows one token through the ten blocks.
//!
//! The lab in three steps: [`run`] does the arithmetic once and records it, [`chapters`] turn the record into texts, tables and checks in both
//! languages ([`content`]), [`terminal`] prints them. JSON is `content` as it is; a page renders the same.

mod again;
pub mod agree;
pub mod chapters;
pub mod content;
pub mod desk;
pub mod figure;
pub mod golden;
pub mod judging;
mod labels;
pub mod lang;
pub mod on_gpu;
pub mod page;
pub mod parity;
pub mod pictures;
pub mod prompt;
pub mod record;
pub mod recorded;
pub mod run;
pub mod terminal;
pub mod timing;

use crate::config::Config;
use crate::numerics::precision::Precision;
use crate::weights::tiny::TinySpec;
use content::{Lab, Text};
use prompt::Seen;
use run::Run;

/// A sentence to follow when the reader brings none. Long enough, with the picture, for the window of 128 to slide.
pub const SENTENCE: Text = Text::new(
    "Một token đi qua mười khối: nó thành một hàng số, gặp bộ nhớ n-gram, chia làm bốn luồng, được nén cùng token bên cạnh, rồi chọn \
     những gì đáng đọc lại. Bốn lớp ghi, mọi lớp khác chỉ đọc; vì thế cả cuộc trò chuyện dài chỉ để lại 890 byte cho một token",
    "One token passes ten blocks: it becomes a row of numbers, meets the n-gram memory, splits into four streams, is pooled with its \
     neighbour, and chooses what is worth reading again. Four layers write and all others read; so a long talk leaves 890 bytes for a \
     token",
);

/// A sentence of a few tokens, for the recorded run: small enough to be drawn whole.
pub const SHORT_SENTENCE: Text = Text::new("890 byte một token", "890 bytes a token");

/// All chapters of a run, or only that of `block`.
pub fn report(run: &Run, block: Option<&str>) -> Lab {
    let wanted = |code: &str| block.is_none_or(|block| block.eq_ignore_ascii_case(code));
    let codes = crate::blocks::ORDER.iter().map(|block| block.code).filter(|code| wanted(code));
    let chapters: Vec<_> = codes.filter_map(|code| chapters::chapter(run, code)).collect();
    let checks = || chapters.iter().flat_map(|chapter| &chapter.checks);
    Lab {
        about: about(run),
        tokens: (0..run.prompt.len()).map(|p| labels::position(run, p)).collect(),
        followed: run.at,
        layer: run.layer,
        passed: checks().filter(|check| check.passed).count(),
        failed: checks().filter(|check| !check.passed).count(),
        chapters,
    }
}

/// What ran, and how far it can be trusted.
fn about(run: &Run) -> Vec<Text> {
    let mut about = about_model(run.config());
    let kv = match run.model.context.kv {
        Precision::Released => Text::new("bộ đệm KV lượng tử hoá như bản phát hành", "KV cache quantised as released"),
        Precision::F32 => Text::new("bộ đệm KV giữ f32", "KV cache kept in f32"),
    };
    let by = match run.on_gpu {
        true => Text::new("GPU", "the GPU"),
        false => Text::new("CPU (bản tham chiếu)", "the CPU reference"),
    };
    about.push(Text::of(
        format!("tính bằng {} với f32, {}", by.vi, kv.vi),
        format!("computed by {} in f32, {}", by.en, kv.en),
    ));
    if let Some(Seen { generated: true, .. }) = run.picture {
        about.push(Text::new("ảnh do lab tự vẽ", "the picture is drawn by the lab"));
    }
    about
}

/// What a model is, and how far its words can be trusted.
fn about_model(config: &Config) -> Vec<Text> {
    let mut about = vec![Text::of(
        format!(
            "{} lớp, rộng {}, {} chuyên gia, từ vựng {}",
            config.n_layers, config.dim, config.n_routed_experts, config.vocab_size
        ),
        format!(
            "{} layers, width {}, {} experts, vocabulary {}",
            config.n_layers, config.dim, config.n_routed_experts, config.vocab_size
        ),
    )];
    if *config == TinySpec::lab().config {
        about.push(Text::new(
            "trọng số chưa huấn luyện: cấu trúc và phép tính là thật, còn token sinh ra là ngẫu nhiên",
            "untrained weights: structure and arithmetic are real, the tokens that come out are random",
        ));
    }
    about
}
