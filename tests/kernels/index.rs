//! The indexer: scores, candidate blocks, and the exact selection.

use super::support::*;
use flash890::blocks::b3c_window_indexer as indexer;
use flash890::blocks::b6a_kv_cache::{Format, Plane};
use flash890::config::Config;
use flash890::kernels::index::{candidate_blocks, index_scores, top_k};
use flash890::numerics::ops;
use flash890::numerics::precision::Precision;

/// What the kernels write where an entry is not to be chosen.
const NEVER: f32 = -3e38;

/// Scores with many ties, both zeros, and places that are never chosen.
fn scores(name: &str, n: usize) -> Vec<f32> {
    let kinds = integers(name, n, 1000);
    let fine = numbers(name, n, 1e-3);
    let of = |(kind, fine): (u32, f32)| match kind % 10 {
        0 => NEVER,
        1 => 0.0,
        2 => -0.0,
        3..=6 => (kind / 10 % 7) as f32 - 3.0,
        7 => -1e30,
        _ => fine,
    };
    kinds.into_iter().zip(fine).map(of).collect()
}

/// The reference's choice, ascending, filled up with "none".
fn chosen(scores: &[f32], k: usize) -> Vec<u32> {
    let scores: Vec<f32> = scores.iter().map(|&s| if s <= NEVER { f32::NEG_INFINITY } else { s }).collect();
    let mut ids: Vec<u32> = ops::top_k(&scores, k).into_iter().map(|i| i as u32).collect();
    ids.sort_unstable();
    ids.resize(k, top_k::NONE);
    ids
}

/// The kernel's choice for rows `[n, width]` at positions from `start` on.
fn select(scores: &[f32], [n, width]: [usize; 2], k: usize, start: usize, ratio: usize) -> Vec<u32> {
    let (input, ids) = (f32s(&[n, width], scores), output_u32(&[n, k]));
    run(|planner| top_k::record(planner, &input, &ids, &call(start, n, 0), ratio));
    read_u32(&ids)
}

/// Every number of visible entries from 1 to 2000, as 2000 queries of one call; 0 too, with the ratio of a pair.
#[test]
fn every_width_up_to_2000() {
    let n = 2000;
    let all = scores("widths", n * n);
    for k in [1, 7, 512] {
        let ids = select(&all, [n, n], k, 0, 1);
        for (row, ids) in ids.chunks_exact(k).enumerate() {
            assert_eq!(ids, chosen(&all[row * n..][..row + 1], k), "{} entries, {k} of them", row + 1);
        }
    }
    let ids = select(&all[..6 * n], [6, n], 4, 0, 2);
    for (row, ids) in ids.chunks_exact(4).enumerate() {
        assert_eq!(ids, chosen(&all[row * n..][..row.div_ceil(2)], 4), "position {row} at ratio 2");
    }
}

#[test]
fn a_wide_row_and_more_wanted_than_there_is() {
    let width = 70_000;
    let all = scores("wide", width);
    for k in [1, 512, 2048] {
        assert_eq!(select(&all, [1, width], k, width - 1, 1), chosen(&all, k));
    }
    // Even ones only; all equal; nothing to choose at all.
    let few: Vec<f32> = (0..300).map(|i| if i % 2 == 0 { i as f32 } else { NEVER }).collect();
    assert_eq!(select(&few, [1, 300], 512, 299, 1), chosen(&few, 512));
    assert_eq!(select(&[-2.5; 300], [1, 300], 100, 299, 1), (0..100).collect::<Vec<u32>>());
    assert_eq!(select(&[NEVER; 300], [1, 300], 5, 299, 1), [top_k::NONE; 5]);
    assert_eq!(select(&[1.0; 8], [1, 8], 3, 0, 2), [top_k::NONE; 3]);
}

/// Neighbouring numbers, large and tiny, negative and positive: all 32 bits count.
#[test]
fn neighbouring_scores_are_told_apart() {
    let mut values: Vec<f32> = [1.0f32, -1.0, 1e-38, -1e-38, 3e37, -2.9e38, 0.0]
        .iter()
        .flat_map(|&v| [v.next_down(), v, v.next_up()])
        .filter(|v| v.is_normal() || *v == 0.0)
        .collect();
    let count = values.len();
    for turn in 0..count {
        values.rotate_left(1);
        for k in 1..count {
            assert_eq!(select(&values, [1, count], k, count - 1, 1), chosen(&values, k), "turn {turn}, {k} of them");
        }
    }
}

/// Blocks that the kernel keeps, for rows `[n, width]` at positions from `start` on.
fn pool(scores: &[f32], [n, width]: [usize; 2], size: usize, keep: usize, start: usize, ratio: usize) -> Vec<Vec<u32>> {
    let config = Config { candidate_block_size: size, candidate_topk_blocks: keep, ..Config::flash() };
    let blocks = width.div_ceil(size);
    let (input, best, kept) = (f32s(&[n, width], scores), output(&[n, blocks]), output_u32(&[n, blocks]));
    run(|planner| candidate_blocks::record(planner, [&input, &best, &kept], &call(start, n, 0), &config, ratio));
    let rows = read_u32(&kept);
    rows.chunks_exact(blocks).map(|row| (0..blocks as u32).filter(|&b| row[b as usize] == 1).collect()).collect()
}

/// Both examples of section 6.5.
#[test]
fn newest_block_is_always_a_candidate() {
    let scores = [0.1, 0.9, 0.2, 0.3, 0.8, 0.0, 0.0, 0.0, 0.05, 0.02, 0.7, 0.6, 0.4, 0.3];
    assert_eq!(pool(&scores, [1, 14], 4, 2, 13, 1), [[0, 3]]);
    let scores = [0.1, 0.9, 0.2, 0.8, 0.0, 0.0, 0.05, 0.02, 0.7, 0.6];
    assert_eq!(pool(&scores, [1, 10], 4, 2, 9, 1), [[0, 2]]);
    assert_eq!(pool(&[1.0; 8], [1, 8], 4, 2, 0, 2), [Vec::<u32>::new()], "nothing is visible yet");
}

#[test]
fn candidate_blocks_of_every_length() {
    let (n, width) = (150, 170);
    let all: Vec<f32> = scores("blocks", n * width).into_iter().map(|s| if s <= NEVER { -7.0 } else { s }).collect();
    for (size, keep) in [(1, 3), (2, 5), (8, 4), (8, 30)] {
        for (start, ratio) in [(20, 1), (3, 2)] {
            let pools = pool(&all, [n, width], size, keep, start, ratio);
            for (row, kept) in pools.iter().enumerate() {
                let seen = indexer::visible(start + row, ratio, width);
                let expected = indexer::candidate_blocks(&all[row * width..][..seen], size, keep);
                assert_eq!(*kept, expected, "{seen} entries, blocks of {size}, {keep} kept");
            }
        }
    }
}

/// Scores of all formats in both numerics, with and without a pool, at both ratios.
#[test]
fn scores_of_visible_entries() {
    let (n, heads, width, entries, capacity, start) = (5, 6, 64, 77, 80, 70);
    let config = Config { index_n_heads: heads, index_head_dim: width, candidate_block_size: 8, ..Config::flash() };
    let factor = (1.0 / ((heads * width) as f64).sqrt()) as f32;
    for (numerics, format) in
        [Precision::F32, Precision::Released].into_iter().flat_map(|p| [(p, Format::F32), (p, Format::Idx4)])
    {
        let mut keys = Plane::new(format, width);
        keys.extend(&numbers("keys", entries * width, 2.0));
        let (mut q, mut w) = (numbers("q", n * heads * width, 2.0), numbers("w", n * heads, 1.0));
        numerics.round(&mut q);
        numerics.round(&mut w);
        let plane = upload(&keys, capacity);
        let blocks = capacity.div_ceil(8);
        let kept = integers("pool", n * blocks, 2);
        for (ratio, pooled) in [(1, false), (2, false), (1, true), (2, true)] {
            let (q_tensor, w_tensor) = (f32s(&[n, heads, width], &q), f32s(&[n, heads], &w));
            let (pool, out) = (u32s(&[n, blocks], &kept), output(&[n, capacity]));
            let tensors = [&q_tensor, &w_tensor, &pool, &out];
            let call = call(start, n, 0);
            run(|planner| index_scores::record(planner, tensors, &plane, &call, &config, ratio, pooled, numerics));
            let all = read(&out);
            let rows = keys.read_from(0);
            for token in 0..n {
                let seen = indexer::visible(start + token, ratio, entries);
                let mut w: Vec<f32> = w[token * heads..][..heads].iter().map(|w| w * factor).collect();
                numerics.round(&mut w);
                let mut row = all[token * capacity..][..capacity].to_vec();
                let mut expected = vec![NEVER; capacity];
                for j in (0..seen).filter(|j| !pooled || kept[token * blocks + j / 8] == 1) {
                    let q = &q[token * heads * width..][..heads * width];
                    expected[j] = indexer::score(numerics, q, &w, &rows[j * width..][..width]);
                }
                let never = |row: &[f32]| row.iter().map(|&s| s == NEVER).collect::<Vec<bool>>();
                assert_eq!(never(&row), never(&expected));
                row.retain(|&s| s != NEVER);
                expected.retain(|&s| s != NEVER);
                match numerics {
                    Precision::F32 => assert_close(&row, &expected, SUMS),
                    // Each product is rounded before the sum: one of six that falls on the other side moves the score by a step of its own.
                    Precision::Released => assert_close(&row, &expected, 1e-5),
                }
            }
        }
    }
}
