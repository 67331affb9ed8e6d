//! Linear layers in every weight format, however many threads share an output; and the head's first largest logit.

use super::support::*;
use flash890::gpu::Tensor;
use flash890::kernels::head::{argmax, choose};
use flash890::kernels::linear::{self, GpuMatrix};
use flash890::numerics::linear::Matrix;
use flash890::numerics::precision::Precision;
use flash890::numerics::{bf16, ops};

/// A matrix of each format. Codes are any bytes but E4M3's NaN; scales lie around one, the smallest and a large one among them.
fn matrices(rows: usize, cols: usize) -> Vec<(&'static str, Matrix)> {
    let byte = |name: &str, n: usize| integers(name, n, 256).into_iter().map(|v| v as u8);
    let scales = |n| byte("scales", n).map(|v| 120 + v % 12).collect::<Vec<u8>>();
    let codes = byte("codes", rows * cols).map(|code| if code & 0x7f == 0x7f { 0x38 } else { code }).collect();
    let values = numbers("weights", rows * cols, 0.5);
    let halves = values.iter().map(|&v| (bf16::round(v).to_bits() >> 16) as u16).collect();
    vec![
        ("f32", Matrix::f32(rows, cols, values).unwrap()),
        ("bf16", Matrix::bf16(rows, cols, halves).unwrap()),
        ("fp8", Matrix::fp8(rows, cols, codes, scales(rows.div_ceil(32) * cols.div_ceil(32))).unwrap()),
        ("fp4", Matrix::fp4(rows, cols, byte("nibbles", rows * cols / 2).collect(), scales(rows * cols / 32)).unwrap()),
    ]
}

/// Runs `y = W x` for `n` of `capacity` rows.
fn product(threads: u32, matrix: &Matrix, x: &[f32], [n, capacity]: [usize; 2], round: Precision) -> Vec<f32> {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    let weight = GpuMatrix::new(&GPU, "weight", matrix).unwrap();
    let mut padded = x.to_vec();
    padded.resize(capacity * cols, 1e30);
    let (x, y) = (f32s(&[capacity, cols], &padded), output(&[capacity, rows]));
    let call = call(0, n, 0);
    run_with(threads, |planner| linear::record(planner, &weight, [&x, &y], &call, 1, round));
    let all = read(&y);
    assert!(all[n * rows..].iter().all(|&v| v == UNWRITTEN), "rows beyond the call are left alone");
    all[..n * rows].to_vec()
}

#[test]
fn every_format_and_number_of_threads() {
    for (rows, cols) in [(1, 32), (5, 96), (63, 64), (70, 160), (130, 416)] {
        for (name, matrix) in matrices(rows, cols) {
            for [n, capacity] in [[1, 1], [3, 3], [6, 9]] {
                let x = numbers("x", n * cols, 2.0);
                let expected = matrix.matmul(&x, n);
                for threads in [1, 4, 16] {
                    let y = product(threads, &matrix, &x, [n, capacity], Precision::F32);
                    let found = differs(&y, &expected, SUMS);
                    assert_eq!(found, None, "{name} {rows}x{cols}, {n} rows, {threads} threads");
                }
            }
        }
    }
}

/// One weight times one activation is exact: every code, every scale byte that can occur, gives the decoder's bits.
#[test]
fn codes_decode_exactly() {
    let one_hot = |cols: usize, at: usize| (0..cols).map(|c| f32::from(c == at)).collect::<Vec<f32>>();
    let codes: Vec<u8> = (0..=255u8).map(|code| if code & 0x7f == 0x7f { 0 } else { code }).collect();
    let fp8: Vec<u8> = codes.iter().flat_map(|&code| [code; 32]).collect();
    let fp8 = Matrix::fp8(256, 32, fp8, (0..8).map(|i| [1, 30, 100, 127, 128, 150, 200, 245][i]).collect()).unwrap();
    let fp4: Vec<u8> = (0..=255u8).flat_map(|byte| [byte; 16]).collect();
    let fp4 = Matrix::fp4(256, 32, fp4, (0..=255u8).map(|i| i.clamp(1, 250)).collect()).unwrap();
    let halves = (0..256 * 32).map(|i| (i * 8 % 0x7f00) as u16).map(|v| if v < 0x80 { 0 } else { v }).collect();
    let halves = Matrix::bf16(256, 32, halves).unwrap();
    for matrix in [fp8, fp4, halves] {
        for column in [0, 1, 2, 7, 30, 31] {
            let y = product(1, &matrix, &one_hot(32, column), [1, 1], Precision::F32);
            let expected: Vec<f32> = matrix.to_f32().chunks_exact(32).map(|row| row[column]).collect();
            for (row, (y, e)) in y.iter().zip(expected).enumerate() {
                assert_eq!(*y, e, "row {row}, column {column}");
            }
        }
    }
}

#[test]
fn released_numerics_round_the_output() {
    for (_, matrix) in matrices(70, 96) {
        let x = numbers("x", 3 * 96, 2.0);
        let mut expected = matrix.matmul(&x, 3);
        Precision::Released.round(&mut expected);
        for threads in [1, 16] {
            assert_bf16_close(&product(threads, &matrix, &x, [3, 3], Precision::Released), &expected);
        }
    }
}

/// A row has the same bits alone as among others, in every size of a call: verification of drafts depends on it.
#[test]
fn rows_are_independent() {
    for (name, matrix) in matrices(37, 96) {
        let x = numbers("x", 64 * 96, 2.0);
        for threads in [1, 4] {
            let rows = |first: usize, size: [usize; 2]| {
                product(threads, &matrix, &x[first * 96..][..size[0] * 96], size, Precision::F32)
            };
            let alone: Vec<f32> = (0..64).flat_map(|row| rows(row, [1, 1])).collect();
            for size in [[3, 4], [6, 8], [17, 64], [64, 64]] {
                assert_bits(&rows(0, size), &alone[..size[0] * 37]);
                assert_bits(&rows(64 - size[0], size), &alone[(64 - size[0]) * 37..]);
            }
            assert!(!alone.contains(&UNWRITTEN), "{name}");
        }
    }
}

/// The grouped projection of section 7.3: each group of outputs reads its own part of a row.
#[test]
fn groups_read_their_own_inputs() {
    let (groups, outputs, cols, n) = (3, 32, 64, 5);
    let x = numbers("x", n * groups * cols, 1.0);
    for threads in [1, 4, 16] {
        for place in 0..4 {
            let (name, whole) = matrices(groups * outputs, cols).swap_remove(place);
            let parts = whole.clone().split_rows(groups).unwrap();
            let mut expected = vec![0.0; n * groups * outputs];
            for (group, part) in parts.iter().enumerate() {
                for token in 0..n {
                    let inputs = &x[(token * groups + group) * cols..][..cols];
                    expected[(token * groups + group) * outputs..][..outputs].copy_from_slice(&part.matmul(inputs, 1));
                }
            }
            let weight = GpuMatrix::new(&GPU, "weight", &whole).unwrap();
            let (input, y) = (f32s(&[n, groups * cols], &x), output(&[n, groups * outputs]));
            let call = call(0, n, 0);
            run_with(threads, |planner| linear::record(planner, &weight, [&input, &y], &call, groups, Precision::F32));
            assert_eq!(differs(&read(&y), &expected, SUMS), None, "{name}, {threads} threads");
        }
    }
}

/// A matrix that is bound in pieces gives the bits of the whole one, in groups too, and its last piece may be short.
#[test]
fn pieces_give_the_bits_of_the_whole() {
    let (groups, cols, n) = (2, 64, 3);
    let x = numbers("x", n * groups * cols, 1.0);
    for (name, matrix) in matrices(150, cols) {
        for groups in [1, groups] {
            let product = |most: Option<u64>| {
                let weight = GpuMatrix::new(&in_pieces(most), "weight", &matrix).unwrap();
                let (input, y) = (f32s(&[n, x.len() / n], &x), output(&[n, 150]));
                let call = call(0, n, 0);
                run(|planner| linear::record(planner, &weight, [&input, &y], &call, groups, Precision::F32));
                (read(&y), weight.bytes())
            };
            let (whole, bytes) = product(None);
            for most in [1, 64 * 4 * cols as u64] {
                let (pieces, more) = product(Some(most));
                assert_bits(&pieces, &whole);
                assert!((bytes..bytes + 64).contains(&more), "{name}: {more} bytes instead of {bytes}");
            }
        }
    }
}

/// Columns that fill no block of 32 are filled up with zeros, in the formats that may have them.
#[test]
fn odd_columns_of_plain_formats() {
    for (name, matrix) in matrices(9, 32) {
        if matches!(name, "fp8" | "fp4") {
            continue;
        }
        let short: Vec<f32> = matrix.to_f32().chunks_exact(32).flat_map(|row| row[..20].to_vec()).collect();
        let short = Matrix::f32(9, 20, short).unwrap();
        let x = numbers("x", 20, 1.0);
        let weight = GpuMatrix::new(&GPU, "weight", &short).unwrap();
        let mut filled = x.clone();
        filled.resize(weight.cols, 0.0);
        let (input, y) = (f32s(&[1, weight.cols], &filled), output(&[1, 9]));
        let call = call(0, 1, 0);
        run(|planner| linear::record(planner, &weight, [&input, &y], &call, 1, Precision::F32));
        assert_close(&read(&y), &short.matmul(&x, 1), SUMS);
    }
}

/// Both stages of the choice, without noise.
fn chosen(logits: &[f32]) -> Vec<u32> {
    let pieces = logits.len().div_ceil(choose::PIECE);
    let (row, draw) = (f32s(&[1, logits.len()], logits), Tensor::uniform(&GPU, "draw", 4).unwrap());
    let (values, ids, best) = (output(&[pieces]), output_u32(&[pieces]), output_u32(&[1]));
    run(|planner| {
        choose::record(planner, [&row, &values, &ids], [&call(0, 1, 0), &draw], 0)?;
        argmax::record(planner, [&values, &ids, &best], 0)
    });
    read_u32(&best)
}

#[test]
fn first_largest_logit() {
    for vocab in [1, 2, 63, 64, 65, 1000, 129_280] {
        let mut logits = numbers("logits", vocab, 4.0);
        for largest in [0, vocab / 2, vocab - 1] {
            // Twice the largest: the first wins.
            logits[largest] = 5.0;
            logits[vocab - 1] = 5.0;
            assert_eq!(chosen(&logits), [ops::argmax(&logits) as u32], "{vocab} logits");
            logits[largest] = 0.0;
        }
        assert_eq!(chosen(&vec![-7.0; vocab]), [0]);
    }
}
