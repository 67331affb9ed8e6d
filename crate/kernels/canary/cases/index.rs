//! Latents, index scores and candidate blocks; rotation and grids.

use super::{ROWS, WIDTH, f32s, numbers, zeros, zeros_u32};
use crate::Result;
use crate::blocks::b3c_window_indexer as indexer;
use crate::blocks::b6a_kv_cache::{Format, Plane};
use crate::config::Config;
use crate::gpu::{Planner, Tensor};
use crate::kernels::cache::{GpuPlane, pool_pairs};
use crate::kernels::call::Call;
use crate::kernels::canary::Case;
use crate::kernels::index::{candidate_blocks, index_scores};
use crate::kernels::norm::{fake_quant, rope};
use crate::numerics::precision::Precision::F32;
use crate::numerics::quant;

/// Entries that all rows see.
const ENTRIES: usize = 24;
/// Index heads.
const HEADS: usize = 3;

pub(super) fn record(planner: &mut Planner<'_>, call: &Tensor) -> Result<Vec<Case>> {
    Ok(vec![scores(planner)?, candidates(planner, call)?, pooled(planner, call)?, grid(planner)?, rotated(planner)?])
}

fn scores(planner: &mut Planner<'_>) -> Result<Case> {
    let config = Config { index_n_heads: HEADS, index_head_dim: WIDTH, ..Config::lab() };
    let mut keys = Plane::new(Format::Idx4, WIDTH);
    keys.extend(&numbers("canary keys", ENTRIES * WIDTH));
    let (q, w) = (numbers("canary index q", ROWS * HEADS * WIDTH), numbers("canary index w", ROWS * HEADS));
    let factor = (1.0 / ((HEADS * WIDTH) as f64).sqrt()) as f32;
    let (rows, scaled): (_, Vec<f32>) = (keys.read_from(0), w.iter().map(|w| w * factor).collect());
    let score = |i: usize| {
        let (token, entry) = (i / ENTRIES, i % ENTRIES);
        let q = &q[token * HEADS * WIDTH..][..HEADS * WIDTH];
        indexer::score(F32, q, &scaled[token * HEADS..][..HEADS], &rows[entry * WIDTH..][..WIDTH])
    };
    let expected = (0..ROWS * ENTRIES).map(score).collect();
    let plane = GpuPlane::new(planner.gpu, "canary keys", Format::Idx4, WIDTH, ENTRIES)?;
    plane.write(planner.gpu, &keys);
    let call = Call::buffer(planner.gpu)?;
    Call::new(ENTRIES, ROWS, 0).write(planner.gpu, &call);
    let (q, w) = (f32s(planner, &[ROWS, HEADS, WIDTH], &q)?, f32s(planner, &[ROWS, HEADS], &w)?);
    let (pool, output) = (zeros_u32(planner, &[ROWS, ENTRIES])?, zeros(planner, &[ROWS, ENTRIES])?);
    index_scores::record(planner, [&q, &w, &pool, &output], &plane, &call, &config, 1, false, F32)?;
    Ok(Case::f32("index_scores", output, expected))
}

/// Blocks of two entries, of which two are kept; the row at position p sees p + 1 entries.
fn candidates(planner: &mut Planner<'_>, call: &Tensor) -> Result<Case> {
    let (size, keep, blocks) = (2, 2, ROWS / 2);
    let config = Config { candidate_block_size: size, candidate_topk_blocks: keep, ..Config::lab() };
    let scores = numbers("canary scores", ROWS * ROWS);
    let mut expected = vec![0; ROWS * blocks];
    for (row, marks) in expected.chunks_exact_mut(blocks).enumerate() {
        let kept = indexer::candidate_blocks(&scores[row * ROWS..][..=row], size, keep);
        kept.into_iter().for_each(|block| marks[block as usize] = 1);
    }
    let (scores, best) = (f32s(planner, &[ROWS, ROWS], &scores)?, zeros(planner, &[ROWS, blocks])?);
    let output = zeros_u32(planner, &[ROWS, blocks])?;
    candidate_blocks::record(planner, [&scores, &best, &output], call, &config, 1)?;
    Ok(Case::u32("candidate_blocks", output, expected))
}

/// Tokens in pairs, none of which waits from before.
fn pooled(planner: &mut Planner<'_>, call: &Tensor) -> Result<Case> {
    let (values, scores) = (numbers("canary values", ROWS * WIDTH), numbers("canary scores", ROWS * WIDTH));
    let mut expected = vec![0.0; ROWS * WIDTH];
    for (i, out) in expected[..ROWS / 2 * WIDTH].iter_mut().enumerate() {
        let first = i / WIDTH * 2 * WIDTH + i % WIDTH;
        let [a, b] = [first, first + WIDTH].map(|at| f64::from(scores[at]).exp());
        let [x, y] = [first, first + WIDTH].map(|at| f64::from(values[at]));
        *out = ((x * a + y * b) / (a + b)) as f32;
    }
    let both: Vec<f32> =
        values.chunks_exact(WIDTH).zip(scores.chunks_exact(WIDTH)).flat_map(|(v, s)| [v, s].concat()).collect();
    let rows = f32s(planner, &[ROWS, 2 * WIDTH], &both)?;
    let (open_value, open_score) = (zeros(planner, &[ROWS, WIDTH])?, zeros(planner, &[ROWS, WIDTH])?);
    let output = zeros(planner, &[ROWS, WIDTH])?;
    pool_pairs::record(planner, [&rows, &open_value, &open_score, &output], call, F32)?;
    Ok(Case::f32("pool_pairs", output, expected))
}

fn grid(planner: &mut Planner<'_>) -> Result<Case> {
    let mut expected = numbers("canary input", ROWS * WIDTH);
    let (x, output) = (f32s(planner, &[ROWS, WIDTH], &expected)?, zeros(planner, &[ROWS, WIDTH])?);
    fake_quant::record(planner, &x, &output)?;
    quant::fake_fp8(&mut expected);
    Ok(Case::f32("fake_quant", output, expected))
}

/// The last dims of every row, back.
fn rotated(planner: &mut Planner<'_>) -> Result<Case> {
    let pairs = WIDTH / 4;
    let turns: Vec<[f32; 2]> = numbers("canary angles", ROWS * pairs).iter().map(|a| [a.cos(), a.sin()]).collect();
    let x = numbers("canary input", ROWS * WIDTH);
    let mut expected = x.clone();
    for (i, &[cos, sin]) in turns.iter().enumerate() {
        let at = i / pairs * WIDTH + WIDTH - 2 * pairs + i % pairs * 2;
        let (a, b) = (x[at], x[at + 1]);
        (expected[at], expected[at + 1]) = (a * cos + b * sin, b * cos - a * sin);
    }
    let (angles, output) =
        (f32s(planner, &[ROWS, pairs, 2], turns.as_flattened())?, f32s(planner, &[ROWS, WIDTH], &x)?);
    rope::record(planner, &angles, &output, [ROWS, 1, WIDTH], true, F32)?;
    Ok(Case::f32("rope", output, expected))
}
