use super::*;
use crate::numerics::hash::Stream;
use crate::numerics::ops::nmse;

fn units(name: &str, len: usize) -> Vec<f32> {
    let stream = Stream::new(name);
    (0..len as u64).map(|i| stream.unit(i)).collect()
}

fn bytes(name: &str, len: usize, byte: impl Fn(u64) -> u8) -> Vec<u8> {
    let stream = Stream::new(name);
    (0..len as u64).map(|i| byte(stream.at(i))).collect()
}

/// A matrix of every format. `cols` must be a multiple of 32 for the last one to be there.
fn every_format(rows: usize, cols: usize) -> Vec<Matrix> {
    let values = units("values", rows * cols);
    let scale = |z: u64| 118 + (z & 3) as u8;
    let fp8_codes = values.iter().map(|u| e4m3::encode(u * 256.0)).collect();
    let fp8_scales = bytes("tiles", rows.div_ceil(32) * cols.div_ceil(32), scale);
    let mut matrices = vec![
        Matrix::bf16(rows, cols, values.iter().map(|&u| bf16::encode(u)).collect()),
        Matrix::f32(rows, cols, values),
        Matrix::fp8(rows, cols, fp8_codes, fp8_scales),
    ];
    if cols.is_multiple_of(32) {
        let packed = bytes("packed", rows * cols / 2, |z| z as u8);
        matrices.push(Matrix::fp4(rows, cols, packed, bytes("scales", rows * cols / 32, scale)));
    }
    matrices.into_iter().collect::<Result<_>>().expect("lengths fit")
}

/// Shapes below and above the parallel threshold, with and without whole blocks and whole groups of rows.
const SHAPES: [(usize, usize); 8] =
    [(1, 1), (3, 31), (40, 64), (33, 100), (70, 588), (300, 352), (129, 1024), (9, 4097)];

#[test]
fn every_row_of_a_product_has_the_bits_of_matvec() {
    for (rows, cols) in SHAPES {
        for matrix in every_format(rows, cols) {
            for n in [1, 2, 4, 5, 9, 16, 21, 33] {
                let x = units("x", n * cols);
                let product = matrix.matmul(&x, n);
                assert_eq!(product.len(), n * rows);
                for (x, row) in x.chunks_exact(cols).zip(product.chunks_exact(rows)) {
                    let single = matrix.matvec(x);
                    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(row), bits(&single), "{rows} x {cols}, n = {n}");
                }
            }
        }
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let x = units("x", 21 * 1024);
    for matrix in every_format(129, 1024) {
        let product = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a few threads");
            pool.install(|| [matrix.matvec(&x[..1024]), matrix.matmul(&x, 21)].concat())
        };
        let alone: Vec<u32> = product(1).iter().map(|v| v.to_bits()).collect();
        for threads in [2, 3, 7] {
            assert!(product(threads).iter().map(|v| v.to_bits()).eq(alone.iter().copied()), "{threads} threads");
        }
    }
}

#[test]
fn products_agree_with_f64() {
    for (rows, cols) in SHAPES {
        for matrix in every_format(rows, cols) {
            let x = units("x", cols);
            let exact: Vec<f32> = matrix
                .to_f32()
                .chunks_exact(cols)
                .map(|w| w.iter().zip(&x).map(|(&w, &x)| f64::from(w) * f64::from(x)).sum::<f64>() as f32)
                .collect();
            // Rounding of a sum of cols terms: a few 1e-7 relative, squared.
            let error = nmse(&matrix.matvec(&x), &exact);
            assert!(error < 1e-12, "{rows} x {cols}: {error}");
        }
    }
}

/// The documented order, written out: a rounding that another order would not make.
#[test]
fn order_of_summation() {
    let mut x = vec![0.0; 96];
    let big = 16_777_216.0; // 2^24, where adding 1 is lost
    // Block 0: lanes 0 and 8 are one lane, so 2^24 + 1 is rounded before -2^24 in lane 4 takes it away.
    (x[0], x[8], x[4]) = (big, 1.0, -big);
    assert_eq!(dot(&vec![1.0; 96], &x), 0.0);
    // The 1 in another lane survives: (lane 0 + lane 4) is exact.
    (x[8], x[1]) = (0.0, 1.0);
    assert_eq!(dot(&vec![1.0; 96], &x), 1.0);
    // Block sums are added one after the other: (2^24 + 1) - 2^24.
    let mut x = vec![0.0; 96];
    (x[0], x[32], x[64]) = (big, 1.0, -big);
    assert_eq!(dot(&vec![1.0; 96], &x), 0.0);
}

/// Real bytes (13.3) in the corner of a matrix of 33 x 33, so that tiles and rows are told apart.
#[test]
fn fp8_tiles() {
    let mut codes = vec![0x38; 33 * 33];
    codes[..8].copy_from_slice(&[0xd8, 0x71, 0xf2, 0x79, 0x70, 0x69, 0xf0, 0xe5]);
    let matrix = Matrix::fp8(33, 33, codes, vec![0x73, 0x80, 0x81, 0x82]).expect("lengths fit");
    let all = matrix.to_f32();
    let expected = [-0.00390625, 0.03515625, -0.0390625, 0.0703125, 0.03125, 0.017578125, -0.03125, -0.0126953125];
    assert_eq!(all[..8], expected);
    assert_eq!([all[31], all[32], all[32 * 33], all[32 * 33 + 32]], [2f32.powi(-12), 2.0, 4.0, 8.0]);
    assert_eq!(matrix.bytes(), 33 * 33 + 4);
}

#[test]
fn fp4_blocks() {
    let mut packed = vec![0x22; 64];
    packed[..2].copy_from_slice(&[0xa0, 0xa8]);
    let matrix = Matrix::fp4(2, 64, packed, vec![0x78, 0x80, 0x81, 0x82]).expect("lengths fit");
    let mut row = [0.0; 64];
    matrix.decode_row(0, &mut row);
    assert_eq!(row[..5], [0.0, -0.0078125, -0.0, -0.0078125, 0.0078125]);
    assert_eq!([row[31], row[32]], [0.0078125, 2.0]);
    matrix.decode_row(1, &mut row);
    assert_eq!([row[31], row[32]], [4.0, 8.0]);
    assert_eq!(matrix.bytes(), 64 + 4);
}

/// N.6 with its scales on the block sums equals the product of decoded values: scales are powers of two.
#[test]
fn scales_may_go_to_elements_or_to_block_sums() {
    let cols = 320;
    let matrix = every_format(1, cols).remove(2);
    let mut x = units("activations", cols);
    crate::numerics::quant::fake_fp8(&mut x);
    let Matrix::Fp8 { codes, scales, .. } = &matrix else { panic!("the third format is FP8") };
    let mut sum = 0.0;
    for (block, &scale) in scales.iter().enumerate() {
        let range = block * 32..block * 32 + 32;
        let unscaled: Vec<f32> = codes[range.clone()].iter().map(|&code| e4m3::decode(code)).collect();
        sum += dot(&unscaled, &x[range]) * e8m0::decode(scale);
    }
    assert_eq!(matrix.matvec(&x)[0].to_bits(), sum.to_bits());
}

#[test]
fn wrong_lengths_are_errors() {
    let message = |result: Result<Matrix>| result.expect_err("must be refused").to_string();
    assert_eq!(message(Matrix::f32(2, 3, vec![0.0; 5])), "tensor f32 weight: needs 2 x 3 values, found 5");
    assert!(message(Matrix::bf16(usize::MAX, 2, vec![])).contains("found 0"), "no overflow");
    assert!(message(Matrix::fp8(33, 32, vec![0; 33 * 32], vec![0])).contains("needs 2 x 1 scales, found 1"));
    assert!(message(Matrix::fp4(1, 48, vec![0; 24], vec![0])).contains("multiple of 32"));
    assert!(message(Matrix::fp4(1, 64, vec![0; 32], vec![0])).contains("needs 1 x 2 scales, found 1"));
}

#[test]
fn empty_products() {
    let matrix = Matrix::f32(0, 4, vec![]).expect("no rows is a shape");
    assert_eq!(matrix.matvec(&[0.0; 4]), Vec::<f32>::new());
    let matrix = Matrix::f32(2, 0, vec![]).expect("no columns is a shape");
    assert_eq!(matrix.matvec(&[]), [0.0, 0.0]);
    assert_eq!(matrix.to_f32(), Vec::<f32>::new());
    assert_eq!(matrix.matmul(&[], 0), Vec::<f32>::new());
}
