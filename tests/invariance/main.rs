//! What must not change the result: how a sequence is cut into calls and chunks, how long the decoder's tail is beyond the exact length, how
//! the caches are stored. Everything here is bit for bit, in both numerics, on the model of appendix E and on a golden checkpoint.

#[path = "../support/mod.rs"]
mod support;

mod cache;
mod chunks;
mod requests;
mod rollback;
mod tail;

use flash890::blocks::b1a_input::Prompt;
use flash890::blocks::b3a_encoder_decoder::DecoderTail;
use flash890::blocks::b6a_kv_cache::State;
use flash890::blocks::context::Context;
use flash890::blocks::tap::Silent;
use flash890::image::TokenType;
use flash890::model::{Output, Prefill, Reference};
use flash890::numerics::hash::Stream;
use flash890::numerics::precision::Precision;
use flash890::weights::Checkpoint;
use pollster::block_on;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use support::appendix_e;

/// Model of appendix E with a vision tower, in f32 and in released numerics.
static TINY: LazyLock<[Reference; 2]> = LazyLock::new(|| {
    let spec = appendix_e::spec_with_vision();
    let checkpoint = appendix_e::checkpoint(&spec);
    [Precision::F32, Precision::Released].map(|p| appendix_e::load(&checkpoint, Context::new(&spec.config, p, p)))
});

/// The golden checkpoint of twelve layers, in f32 and in released numerics.
static TWELVE: LazyLock<[Reference; 2]> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/t12");
    let checkpoint = Arc::new(block_on(Checkpoint::open_dir(&folder)).unwrap());
    [Precision::F32, Precision::Released].map(|p| appendix_e::load(&checkpoint, Context::new(&checkpoint.config, p, p)))
});

/// Both models in both numerics.
fn models() -> impl Iterator<Item = &'static Reference> {
    TINY.iter().chain(TWELVE.iter())
}

fn how(chunk: usize, tail: DecoderTail) -> Prefill {
    Prefill { chunk, tail, all_logits: true }
}

fn feed(model: &Reference, state: &mut State, prompt: &Prompt, how: Prefill) -> Output {
    block_on(model.prefill(state, prompt, how, &mut Silent)).unwrap()
}

/// The whole prompt in one call and one chunk: logits of every row, and the state.
fn one_piece(model: &Reference, prompt: &Prompt) -> (Output, State) {
    let mut state = model.state();
    let output = feed(model, &mut state, prompt, how(prompt.len(), DecoderTail::All));
    (output, state)
}

/// `n` ids that no rule orders.
fn ids(model: &Reference, n: usize, name: &str) -> Vec<u32> {
    let (stream, vocab) = (Stream::new(name), model.config().vocab_size as u64);
    (0..n as u64).map(|i| (stream.at(i) % vocab) as u32).collect()
}

fn text(model: &Reference, n: usize) -> Prompt {
    Prompt::text(ids(model, n, "invariance"))
}

/// Text, a picture of two rows of three with its marks at positions 5 to 14, and text: 21 positions.
fn with_picture(model: &Reference) -> Prompt {
    use TokenType::{End, Image, NewLine, Start};
    let dim = model.config().dim as u64;
    let stream = Stream::new("picture");
    let rows: Vec<f32> = (0..6 * dim).map(|i| flash890::numerics::bf16::round(stream.unit(i))).collect();
    let types = [Start, Image, Image, Image, NewLine, Image, Image, Image, NewLine, End];
    let ids = ids(model, 11, "around a picture");
    let mut prompt = Prompt::text(ids[..5].to_vec());
    prompt.push_image(model.config().image_token_id, &types, &rows);
    prompt.push_text(&ids[5..]);
    prompt
}

/// Positions `range` of a prompt as a prompt of their own.
fn piece(model: &Reference, prompt: &Prompt, range: Range<usize>) -> Prompt {
    let dim = model.config().dim;
    let images = |types: &[TokenType]| types.iter().filter(|&&t| t == TokenType::Image).count() * dim;
    let first = images(&prompt.types[..range.start]);
    let rows = first..first + images(&prompt.types[range.clone()]);
    Prompt {
        ids: prompt.ids[range.clone()].to_vec(),
        types: prompt.types[range].to_vec(),
        image_rows: prompt.image_rows[rows].to_vec(),
    }
}
