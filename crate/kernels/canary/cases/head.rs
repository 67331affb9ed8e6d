//! The choice of a token, and the correction of a draft.

use super::{ROWS, WIDTH, f32s, numbers, u32s, zeros, zeros_u32};
use crate::Result;
use crate::gpu::{Planner, Tensor};
use crate::kernels::canary::Case;
use crate::kernels::head::choose::{self, Draw};
use crate::kernels::head::{argmax, confidence, markov};
use crate::numerics::precision::Precision::F32;
use crate::numerics::{bf16, gumbel, ops};

/// Logits; more than one piece of both stages.
const VOCAB: usize = 1100;
/// Width of a Markov embedding.
const RANK: usize = 16;

pub(super) fn record(planner: &mut Planner<'_>, call: &Tensor) -> Result<Vec<Case>> {
    let mut cases = vec![chosen(planner, call)?];
    cases.extend(drafted(planner, call)?);
    Ok(cases)
}

fn draw(planner: &Planner<'_>, temperature: f32, seed: u64) -> Result<Tensor> {
    let draw = Tensor::uniform(planner.gpu, "canary draw", 4)?;
    Draw::new(temperature, seed).write(planner.gpu, &draw);
    Ok(draw)
}

/// The largest logit, and a draw.
fn chosen(planner: &mut Planner<'_>, call: &Tensor) -> Result<Case> {
    let logits: Vec<f32> = numbers("canary logits", VOCAB).iter().map(|v| 4.0 * v).collect();
    let seed = 0x1234_5678_9abc_def0;
    let expected = vec![ops::argmax(&logits) as u32, gumbel::choose(&logits, 0.8, seed, ROWS as u32)];
    let logits = f32s(planner, &[1, VOCAB], &logits)?;
    let pieces = VOCAB.div_ceil(choose::PIECE);
    let (values, ids) = (zeros(planner, &[pieces])?, zeros_u32(planner, &[pieces])?);
    let output = zeros_u32(planner, &[2])?;
    for (row, temperature) in [0.0, 0.8].into_iter().enumerate() {
        let draw = draw(planner, temperature, seed)?;
        choose::record(planner, [&logits, &values, &ids], [call, &draw], 0)?;
        argmax::record(planner, [&values, &ids, &output], row)?;
    }
    Ok(Case::u32("choose with argmax", output, expected))
}

/// A block of one row: its token, and how sure the drafter is.
fn drafted(planner: &mut Planner<'_>, call: &Tensor) -> Result<Vec<Case>> {
    let words =
        |seed: &str, count: usize| -> Vec<u16> { numbers(seed, count).iter().map(|&v| bf16::encode(v)).collect() };
    let [embed, head] = ["canary embed", "canary head"].map(|seed| words(seed, VOCAB * RANK));
    let weight = numbers("canary confidence", WIDTH + RANK);
    let decoded = |words: &[u16]| -> Vec<f32> { words.iter().map(|&v| bf16::decode(v)).collect() };
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let (anchor, base, x) = (3, numbers("canary logits", VOCAB), numbers("canary streams", WIDTH));
    let before = decoded(&embed[anchor * RANK..][..RANK]);
    let corrected: Vec<f32> =
        base.iter().zip(head.chunks_exact(RANK)).map(|(base, row)| base + dot(&decoded(row), &before)).collect();
    let id = ops::argmax(&corrected) as u32;
    let logit = dot(&weight, &[&x[..], &before].concat());

    let bytes = |words: &[u16], rows: usize| {
        Tensor::bytes(planner.gpu, "canary", &[rows, 2 * words.len() / rows], bytemuck::cast_slice(words))
    };
    let (embed, head) = (bytes(&embed, VOCAB)?, bytes(&head, VOCAB)?);
    let weight = f32s(planner, &[WIDTH + RANK], &weight)?;
    let pieces = VOCAB.div_ceil(markov::PIECE);
    let (values, ids) = (zeros(planner, &[pieces])?, zeros_u32(planner, &[pieces])?);
    let (base, anchor) = (f32s(planner, &[1, VOCAB], &base)?, u32s(planner, &[1], &[anchor as u32])?);
    let (drafted, proposal, draw) = (zeros_u32(planner, &[1])?, zeros_u32(planner, &[2, 1])?, draw(planner, 0.0, 0)?);
    markov::record(planner, [&base, &embed, &head, &anchor, &drafted, &values, &ids], [call, &draw], 0)?;
    argmax::record(planner, [&values, &ids, &drafted], 0)?;
    let (streams, pre) = (f32s(planner, &[1, 1, WIDTH], &x)?, f32s(planner, &[1, 1], &[1.0])?);
    confidence::record(planner, [&streams, &pre, &weight, &embed, &anchor, &drafted, &proposal], F32)?;
    Ok(vec![
        Case::u32("markov with argmax", drafted, vec![id]),
        // The id's bits are next to nothing as a number; the case before has compared it.
        Case::f32("confidence", proposal, vec![f32::from_bits(id), logit]),
    ])
}
