//! What is stored is stored in the same bytes, wherever it is quantised.

use super::support::*;
use flash890::blocks::b3b_compressor::{self as compressor, Partial};
use flash890::blocks::b6a_kv_cache::{Format, Plane};
use flash890::blocks::context::Context;
use flash890::config::Config;
use flash890::error::Result;
use flash890::gpu::{Planner, Tensor, readback};
use flash890::kernels::cache::plane_write::{self, IndexQueries, Way};
use flash890::kernels::cache::{GpuPlane, pool_pairs};
use flash890::kernels::norm::rms_norm;
use flash890::numerics::linear::Matrix;
use flash890::numerics::precision::Precision;
use flash890::numerics::quant;
use pollster::block_on;

const FORMATS: [Format; 4] = [Format::F32, Format::Fp8, Format::Kv4, Format::Idx4];

/// Codes and scales of a plane in GPU memory, as [`Plane`] keeps them.
fn stored(plane: &GpuPlane) -> (Vec<u8>, Vec<u8>) {
    let (codes, scales) = Plane::row_bytes(plane.format, plane.width);
    let read = |tensor, bytes| {
        let mut all = block_on(readback::bytes(&GPU, tensor)).unwrap();
        all.truncate(plane.capacity * bytes);
        all
    };
    (read(&plane.codes, codes), read(&plane.scales, scales))
}

fn bytes_of(plane: &Plane) -> (Vec<u8>, Vec<u8>) {
    let codes = if plane.format == Format::F32 { bytemuck::cast_slice(&plane.values) } else { &plane.codes[..] };
    (codes.to_vec(), plane.scales.clone())
}

/// Writes rows as they are: no norm, and no pair that rotates.
fn write(
    planner: &mut Planner<'_>,
    rows: &Tensor,
    plane: &GpuPlane,
    call: &Tensor,
    ratio: usize,
    most: usize,
) -> Result<()> {
    // A binding holds at least one element, even where nobody reads it.
    let angles = Tensor { shape: vec![most, 0, 2], ..output(&[1, 1, 2]) };
    let (q, weight) = (output(&[1]), output(&[1]));
    let numerics = Precision::F32;
    let way = Way {
        angles: &angles,
        q: &q,
        heads: 0,
        index: None,
        keep: false,
        weight: &weight,
        eps: None,
        offset: 0,
        ratio,
        numerics,
    };
    plane_write::record(planner, rows, plane, call, way, most)
}

/// Rows that meet every branch of the quantisers: groups of zeros, below the floor, at the borders between codes, and large.
fn rows(name: &str, n: usize, width: usize) -> Vec<f32> {
    let mut rows = activations(name, n * width);
    let borders = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0];
    for (group, values) in rows.chunks_exact_mut(16).enumerate() {
        match group % 5 {
            0 => values.fill(0.0),
            // The largest is 6 times a power of two, so that the scale is one and the borders are met.
            1 => values.iter_mut().enumerate().for_each(|(i, v)| *v = borders[i % 8] * if i < 8 { 1.0 } else { -1.0 }),
            2 => values.iter_mut().for_each(|v| *v *= 1e-30),
            _ => {}
        }
    }
    rows
}

#[test]
fn rings_hold_the_bytes_of_planes() {
    // Three calls of 5, 1 and 9 rows into 11 slots: the last wraps.
    for format in FORMATS {
        for width in [32, 64, 96, 160] {
            let ring = GpuPlane::new(&GPU, "ring", format, width, 11).unwrap();
            let mut plane = Plane::new(format, width);
            plane.resize(11);
            let mut start = 0;
            for n in [5, 1, 9] {
                let values = rows(&format!("ring {start} {width}"), n, width);
                let source = f32s(&[n, width], &values);
                run(|planner| write(planner, &source, &ring, &call(start, n, 0), 0, n));
                values.chunks_exact(width).enumerate().for_each(|(i, row)| plane.write((start + i) % 11, row));
                start += n;
            }
            assert_eq!(stored(&ring), bytes_of(&plane), "{format:?} of width {width}");
        }
    }
}

/// Norm and rotation on the way, of a piece of wider rows, and the queries beside them. What a ring of f32 rows holds afterwards is compared with
/// the reference; the other formats hold the bytes of exactly these rows.
#[test]
fn rows_are_normed_and_rotated_on_their_way() {
    let (n, heads, width, stride, offset, start, slots) = (5, 3, 96, 160, 37, 1_000_003, 11);
    let config = Config { rope_head_dim: 12, norm_eps: 1e-6, ..Config::flash() };
    for numerics in [Precision::F32, Precision::Released] {
        let context = Context::new(&config, numerics, Precision::F32);
        let (mut values, weight) = (numbers("pieces", n * stride, 7.0), numbers("kv norm", width, 2.0));
        let mut queries = numbers("queries", n * heads * width, 3.0);
        numerics.round(&mut values);
        numerics.round(&mut queries);
        let angles: Vec<Vec<(f32, f32)>> = (start..start + n).map(|p| context.rope_compressed.angles(p)).collect();
        let rotated = |rows: &[f32], per_token: usize| {
            let mut rows = rows.to_vec();
            for (row, piece) in rows.chunks_exact_mut(width).enumerate() {
                context.rotate_tail(piece, &angles[row / per_token]);
            }
            numerics.round(&mut rows);
            rows
        };
        let pieces: Vec<f32> = values.chunks_exact(stride).flat_map(|row| row[offset..][..width].to_vec()).collect();
        let mut normed = pieces.clone();
        context.norm_rows(&mut normed, &weight);

        let table: Vec<f32> = angles.iter().flatten().flat_map(|&(cos, sin)| [cos, sin]).collect();
        let table = f32s(&[n, config.rope_head_dim / 2, 2], &table);
        let (source, weight) = (f32s(&[n, stride], &values), f32s(&[width], &weight));
        let written = |format, eps: Option<f32>, heads: usize| {
            let ring = GpuPlane::new(&GPU, "ring", format, width, slots).unwrap();
            let q = f32s(&[n, 3, width], &queries);
            let way = Way {
                angles: &table,
                q: &q,
                heads,
                index: None,
                keep: false,
                weight: &weight,
                eps,
                offset,
                ratio: 0,
                numerics,
            };
            run(|planner| plane_write::record(planner, &source, &ring, &call(start, n, 0), way, n));
            (stored(&ring), read(&q))
        };
        for (eps, expected) in [(None, rotated(&pieces, 1)), (Some(config.norm_eps), rotated(&normed, 1))] {
            let ((bytes, _), turned) = written(Format::F32, eps, heads);
            let all: Vec<f32> = bytes.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect();
            let slot = |i: usize| (start + i) % slots * width;
            let own: Vec<f32> = (0..n).flat_map(|i| all[slot(i)..][..width].to_vec()).collect();
            match numerics {
                Precision::F32 => {
                    assert_close(&own, &expected, SUMS);
                    assert_close(&turned, &rotated(&queries, heads), SUMS);
                }
                Precision::Released => {
                    assert_bf16_close(&own, &expected);
                    assert_bf16_close(&turned, &rotated(&queries, heads));
                }
            }
            for format in FORMATS {
                let mut plane = Plane::new(format, width);
                plane.resize(slots);
                own.chunks_exact(width).enumerate().for_each(|(i, row)| plane.write((start + i) % slots, row));
                let (bytes, untouched) = written(format, eps, 0);
                assert_eq!(bytes, bytes_of(&plane), "{format:?}, {numerics:?}, norm {eps:?}");
                assert_bits(&untouched, &queries);
            }
        }
    }
}

#[test]
fn entries_are_appended_in_the_bytes_of_planes() {
    for (format, ratio) in FORMATS.iter().flat_map(|&format| [(format, 1), (format, 2)]) {
        let width = 96;
        let cache = GpuPlane::new(&GPU, "entries", format, width, 40).unwrap();
        let mut plane = Plane::new(format, width);
        let mut start = 0;
        for n in [3, 1, 1, 4, 2, 7] {
            let new = (start + n) / ratio - start / ratio;
            // The kernel gets a buffer for n rows, of which it may take only those that are complete.
            let values = rows(&format!("entries {start}"), n, width);
            let source = f32s(&[n, width], &values);
            run(|planner| write(planner, &source, &cache, &call(start, n, 0), ratio, n));
            plane.extend(&values[..new * width]);
            start += n;
        }
        assert_eq!(plane.len(), 18 / ratio);
        plane.resize(40);
        assert_eq!(stored(&cache), bytes_of(&plane), "{format:?} at ratio {ratio}");
    }
}

/// Any magnitude that an FP4 group's largest element may have: the E4M3 scale is exact too, and so are all codes.
#[test]
fn kv4_scales_over_the_whole_range() {
    let (n, width) = (256, 64);
    let mut values = numbers("kv4", n * width, 1.0);
    for (group, values) in values.chunks_exact_mut(16).enumerate() {
        let largest = 2f32.powf(group as f32 / 1024.0 * 20.0 - 8.0);
        values.iter_mut().for_each(|v| *v *= largest);
        // Ties between neighbouring scales: six times the middle of two E4M3 numbers.
        if group % 3 == 0 {
            values[5] = 6.0 * (1.0 + (group % 16) as f32 / 16.0) * 2f32.powi((group % 13) as i32 - 6);
        }
    }
    let cache = GpuPlane::new(&GPU, "entries", Format::Kv4, width, n).unwrap();
    let source = f32s(&[n, width], &values);
    run(|planner| write(planner, &source, &cache, &call(0, n, 0), 1, n));
    let mut plane = Plane::new(Format::Kv4, width);
    plane.extend(&values);
    assert_eq!(stored(&cache), bytes_of(&plane));
}

/// Index heads behind the heads turn by the same angles, and lie on the FP4 grid if they are asked to; a normed row is kept before it turns.
#[test]
fn index_queries_and_kept_rows() {
    let (n, heads, width, index_heads, index_width) = (4, 2, 64, 3, 96);
    let config = Config { rope_head_dim: 12, norm_eps: 1e-6, ..Config::flash() };
    let context = Context::new(&config, Precision::F32, Precision::F32);
    let angles: Vec<Vec<(f32, f32)>> = (7..7 + n).map(|p| context.rope_window.angles(p)).collect();
    let table: Vec<f32> = angles.iter().flatten().flat_map(|&(cos, sin)| [cos, sin]).collect();
    let table = f32s(&[n, config.rope_head_dim / 2, 2], &table);
    let stride = heads * width + index_heads * index_width;
    let queries = numbers("queries", n * stride, 3.0);
    let (source, weight) = (numbers("rows", n * width, 5.0), numbers("norm", width, 2.0));
    let (rows, weight_tensor) = (f32s(&[n, width], &source), f32s(&[width], &weight));
    let written = |q: &Tensor, heads, index, keep| {
        let ring = GpuPlane::new(&GPU, "ring", Format::F32, width, n).unwrap();
        let (eps, numerics) = (Some(config.norm_eps), Precision::F32);
        let weight = &weight_tensor;
        let way = Way { angles: &table, q, heads, index, keep, weight, eps, offset: 0, ratio: 0, numerics };
        run(|planner| plane_write::record(planner, &rows, &ring, &call(0, n, 0), way, n));
        read(q)
    };
    let mut turned = queries.clone();
    for (row, angles) in turned.chunks_exact_mut(stride).zip(&angles) {
        let (main, index) = row.split_at_mut(heads * width);
        main.chunks_exact_mut(width).for_each(|head| context.rotate_tail(head, angles));
        index.chunks_exact_mut(index_width).for_each(|head| context.rotate_tail(head, angles));
    }
    let both = |grid| Some(IndexQueries { heads: index_heads, width: index_width, grid });
    let plain = written(&f32s(&[n, stride], &queries), heads, both(false), false);
    assert_close(&plain, &turned, SUMS);
    let mut expected = plain;
    expected.chunks_exact_mut(stride).for_each(|row| quant::fake_idx4(&mut row[heads * width..]));
    assert_bits(&written(&f32s(&[n, stride], &queries), heads, both(true), false), &expected);

    let mut normed = source.clone();
    context.norm_rows(&mut normed, &weight);
    assert_close(&written(&output(&[n, width]), 0, None, true), &normed, SUMS);
}

/// Pairs that a call completes, with a first token from the call before where one waits; then the norm, as in the reference.
#[test]
fn pairs_are_pooled_across_calls() {
    let width = 72;
    for numerics in [Precision::F32, Precision::Released] {
        let config = Config { head_dim: width, dim: width, ..Config::flash() };
        let context = Context::new(&config, numerics, Precision::F32);
        let at = |f: &dyn Fn(usize) -> usize| {
            let mut data = vec![0.0; width * width];
            (0..width).for_each(|row| data[row * width + f(row)] = 1.0);
            Matrix::f32(width, width, data).unwrap()
        };
        let norm = numbers("norm", width, 1.0);
        // Value is the input as it is, score the input backwards: both exact, so that only the pooling is compared.
        let weights = compressor::Weights {
            wkv: at(&|row| row),
            wgate: Some(at(&|row| width - 1 - row)),
            norm: norm.clone(),
            wk: at(&|row| row),
            k_norm: norm.clone(),
        };
        let (norm, open) = (f32s(&[width], &norm), [output(&[width]), output(&[width])]);
        let (mut partial, mut start) = (Partial::default(), 0);
        for n in [1, 1, 3, 2, 5, 4, 1, 7] {
            let x: Vec<f32> = numbers(&format!("tokens {start}"), n * width, 9.0);
            let expected = compressor::compress(&context, &weights, &x, n, &mut partial);
            let both = |row: &[f32]| row.iter().chain(row.iter().rev()).copied().collect::<Vec<f32>>();
            let rows = f32s(&[n, 2 * width], &x.chunks_exact(width).flat_map(both).collect::<Vec<f32>>());
            let (pooled, out) = (output(&[n, width]), output(&[n, width]));
            run(|planner| {
                let tensors = [&rows, &open[0], &open[1], &pooled];
                pool_pairs::record(planner, tensors, &call(start, n, 0), numerics)?;
                rms_norm::record(
                    planner,
                    [&norm, &pooled, &out],
                    &call(start, n, 0),
                    config.norm_eps,
                    (numerics, false),
                )
            });
            let actual = &read(&out)[..expected.len()];
            match numerics {
                Precision::F32 => assert_close(actual, &expected, SUMS),
                Precision::Released => assert_bf16_close(actual, &expected),
            }
            start += n;
            assert_eq!(partial.is_open(), start % 2 == 1);
            if partial.is_open() {
                assert_bits(&read(&open[0]), &partial.value);
                assert_bits(&read(&open[1]), &partial.score);
            }
        }
    }
}
