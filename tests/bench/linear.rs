//! The linear layers beside `ndarray`, in one run: `cargo bench --bench linear`.
//!
//! Prints a Markdown table: the time of each product, and how many times as long ndarray's f32 product of the same shape took. Figures depend
//! on the machine and on what else it does, so nothing is asserted.

use flash890::numerics::hash::Stream;
use flash890::numerics::linear::Matrix;
use flash890::numerics::{bf16, e4m3};
use ndarray::{Array1, Array2};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// `[outputs, inputs]`: a square, the query and the expert projection of the release.
const SHAPES: [[usize; 2]; 3] = [[4096, 4096], [1536, 4096], [2048, 4096]];
/// Activation rows: a decode step, a draft block, a piece of a prompt.
const TOKENS: [usize; 4] = [1, 5, 32, 128];
/// Rounds over all contestants; the quickest time of each counts.
const ROUNDS: usize = 7;

fn main() {
    println!(
        "| rows x cols | n | ndarray f32 ms | f32 ms (ratio) | bf16 ms (ratio) | fp8 ms (ratio) | fp4 ms (ratio) |"
    );
    println!("|---|---|---|---|---|---|---|");
    for [rows, cols] in SHAPES {
        let weights = units("weights", rows * cols);
        let matrices = every_format(rows, cols, &weights);
        let plain = Array2::from_shape_vec((rows, cols), weights).expect("one value per place");
        for n in TOKENS {
            let x = units("x", n * cols);
            let (best, ndarray) = measure(&matrices, &plain, &x, n);
            let cell = |time: &Duration| format!("{:.2} ({:.2})", ms(*time), ms(ndarray) / ms(*time));
            let cells: Vec<String> = best.iter().map(cell).collect();
            println!("| {rows} x {cols} | {n} | {:.2} | {} |", ms(ndarray), cells.join(" | "));
        }
    }
}

/// The best times of our product for each matrix, and of ndarray's. The contestants take turns, so that a busy machine slows all of them.
fn measure(matrices: &[Matrix], plain: &Array2<f32>, x: &[f32], n: usize) -> (Vec<Duration>, Duration) {
    let (vector, several) = (Array1::from_vec(x.to_vec()), Array2::from_shape_vec((n, plain.ncols()), x.to_vec()));
    let several = several.expect("n rows");
    let (mut best, mut ndarray) = (vec![Duration::MAX; matrices.len()], Duration::MAX);
    for _ in 0..ROUNDS {
        for (best, matrix) in best.iter_mut().zip(matrices) {
            *best = (*best).min(time(|| matrix.matmul(x, n)));
        }
        let other = if n == 1 { time(|| plain.dot(&vector)) } else { time(|| several.dot(&plain.t())) };
        ndarray = ndarray.min(other);
    }
    (best, ndarray)
}

fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    black_box(work());
    start.elapsed()
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Numbers in -1..1, the same on every machine.
fn units(name: &str, len: usize) -> Vec<f32> {
    let stream = Stream::new(name);
    (0..len as u64).map(|i| stream.unit(i)).collect()
}

/// The weights as f32, bf16, FP8 and FP4, in this order; the last with codes of its own.
fn every_format(rows: usize, cols: usize, weights: &[f32]) -> Vec<Matrix> {
    let codes = weights.iter().map(|w| e4m3::encode(w * 256.0)).collect();
    let packed = weights[..rows * cols / 2].iter().map(|w| (w * 127.0) as i8 as u8).collect();
    let matrices = [
        Matrix::f32(rows, cols, weights.to_vec()),
        Matrix::bf16(rows, cols, weights.iter().map(|&w| bf16::encode(w)).collect()),
        Matrix::fp8(rows, cols, codes, vec![119; rows.div_ceil(32) * cols.div_ceil(32)]),
        Matrix::fp4(rows, cols, packed, vec![125; rows * cols / 32]),
    ];
    matrices.into_iter().collect::<flash890::Result<_>>().expect("the lengths fit")
}
