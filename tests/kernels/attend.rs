//! Attention over window and entries, in every storage format.

use super::support::*;
use flash890::blocks::b3c_window_indexer::window;
use flash890::blocks::b4a_latent_attention::attend;
use flash890::blocks::b6a_kv_cache::{Format, Plane};
use flash890::config::Config;
use flash890::kernels::attend::attention::{self, Sees};
use flash890::numerics::precision::Precision;

const NONE: u32 = u32::MAX;

/// One comparison: `n` queries from `start` on, window rows from `oldest` on, `k` ids per query.
struct Case {
    start: usize,
    n: usize,
    oldest: usize,
    ids: Vec<u32>,
    sink: [f32; 3],
}

fn compare(case: &Case, numerics: Precision, ring_format: Format, entry_format: Format) {
    let (heads, width, slots, entries) = (3, 96, 13, 50);
    let config = Config { n_heads: heads, head_dim: width, window_size: 8, ..Config::flash() };
    let scale = (1.0 / (width as f64).sqrt()) as f32;
    let mut ring = Plane::new(ring_format, width);
    ring.extend(&numbers("ring", slots * width, 2.0));
    let mut cache = Plane::new(entry_format, width);
    cache.extend(&numbers("entries", entries * width, 2.0));
    let mut q = numbers("q", case.n * heads * width, 2.0);
    numerics.round(&mut q);

    let k = case.ids.len() / case.n;
    let mut expected = vec![0.0; q.len()];
    for token in 0..case.n {
        let mut seen = Vec::new();
        let mut row = vec![0.0; width];
        for position in window(case.start + token, config.window_size, case.oldest) {
            ring.read(position % slots, &mut row);
            seen.extend_from_slice(&row);
        }
        for &id in case.ids[token * k..][..k].iter().filter(|&&id| id != NONE) {
            cache.read(id as usize, &mut row);
            seen.extend_from_slice(&row);
        }
        for head in 0..heads {
            let at = (token * heads + head) * width;
            attend(numerics, scale, &q[at..][..width], &seen, case.sink[head], &mut expected[at..][..width]);
        }
    }

    let (ring, cache) = (upload(&ring, slots), upload(&cache, entries));
    let (q, sink) = (f32s(&[case.n, heads, width], &q), f32s(&[heads], &case.sink));
    let ids = if k == 0 { u32s(&[1], &[7]) } else { u32s(&[case.n, k], &case.ids) };
    let out = output(&[case.n, heads, width]);
    let call = call(case.start, case.n, case.oldest);
    let sees = if k == 0 { Sees::Window } else { Sees::Selected(k) };
    run(|planner| attention::record(planner, [&q, &ids, &sink, &out], (&ring, &cache), &call, &config, sees, numerics));
    match numerics {
        Precision::F32 => assert_close(&read(&out), &expected, SUMS),
        // Probabilities are rounded relative to the largest one, which the online softmax knows only from the second block of 64 rows on; here
        // there is one block. What is left is a probability that falls on the other side.
        Precision::Released => assert_close(&read(&out), &expected, 1e-5),
    }
}

fn in_all_formats(case: &Case) {
    for numerics in [Precision::F32, Precision::Released] {
        for ring in [Format::F32, Format::Fp8] {
            for entries in [Format::F32, Format::Kv4] {
                compare(case, numerics, ring, entries);
            }
        }
    }
}

#[test]
fn window_wraps_around_the_ring() {
    let ids = integers("ids", 5 * 6, 50);
    in_all_formats(&Case { start: 24, n: 5, oldest: 0, ids, sink: [0.3, -2.0, 1.0] });
}

#[test]
fn first_tokens_see_little() {
    let ids = [vec![NONE; 4], vec![0, NONE, NONE, NONE], vec![0, 1, NONE, NONE]].concat();
    in_all_formats(&Case { start: 0, n: 3, oldest: 0, ids, sink: [0.0; 3] });
}

#[test]
fn windows_of_layers_without_entries() {
    in_all_formats(&Case { start: 11, n: 4, oldest: 0, ids: Vec::new(), sink: [0.3, -2.0, 1.0] });
}

/// A window that begins late, behind a gap, with single entries between "none"s; sinks far above and below every score.
#[test]
fn windows_behind_a_gap_and_extreme_sinks() {
    let ids = [vec![NONE, 5, NONE, 49, NONE, 31, 2], vec![NONE; 7]].concat();
    in_all_formats(&Case { start: 40, n: 2, oldest: 39, ids, sink: [40.0, -60.0, 5.0] });
}

#[test]
fn longest_list_is_limited() {
    let config = Config { window_size: 600, ..Config::flash() };
    let plane = upload(&Plane::new(Format::F32, config.head_dim), 1);
    let entries = upload(&Plane::new(Format::F32, config.head_dim), 1);
    let tensors = [output(&[1, 1]), output(&[1]), output(&[1]), output(&[1])];
    let call = call(0, 1, 0);
    let mut refused = None;
    run(|planner| {
        let tensors = [&tensors[0], &tensors[1], &tensors[2], &tensors[3]];
        let planes = (&plane, &entries);
        refused =
            attention::record(planner, tensors, planes, &call, &config, Sees::Selected(512), Precision::F32).err();
        Ok(())
    });
    let said = refused.unwrap().to_string();
    assert!(said.contains("1112 rows") && said.contains("1024 rows"), "{said}");
}
