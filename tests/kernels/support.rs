//! What the comparisons share: a device, made-up numbers, one call of one kernel, and what "the same" means.

use flash890::blocks::b6a_kv_cache::{Format, Plane};
use flash890::error::Result;
use flash890::gpu::kernel::Pipelines;
use flash890::gpu::{Choice, Element, Gpu, Planner, Tensor, readback};
use flash890::kernels::cache::GpuPlane;
use flash890::kernels::call::Call;
use flash890::numerics::hash::Stream;
use flash890::numerics::ops::nmse;
use pollster::block_on;
use std::cell::RefCell;
use std::sync::LazyLock;

/// The adapter that the tests run on. A software one will do.
pub(crate) static GPU: LazyLock<Gpu> =
    LazyLock::new(|| block_on(Gpu::open(&Choice::default())).expect("these tests need an adapter"));

/// The same device, with matrices in pieces of at most so many bytes.
pub(crate) fn in_pieces(most: Option<u64>) -> Gpu {
    let mut gpu = GPU.clone();
    gpu.choice.most_of_a_matrix = most;
    gpu
}

/// `n` numbers in `[-scale, scale)`, always the same for a name.
pub(crate) fn numbers(name: &str, n: usize, scale: f32) -> Vec<f32> {
    let stream = Stream::new(name);
    (0..n as u64).map(|i| scale * stream.unit(i)).collect()
}

/// `n` numbers of very different size, as activations have them: half of them small, some zero, some with a sign and no magnitude.
pub(crate) fn activations(name: &str, n: usize) -> Vec<f32> {
    let stream = Stream::new(name);
    let size = |i: u64| [1.0, 1e-3, 30.0, 0.0, -0.0, 1e-7, 0.25, 500.0][(stream.at(i ^ 0x5555) % 8) as usize];
    (0..n as u64).map(|i| stream.unit(i) * size(i)).collect()
}

/// Integers below `bound`.
pub(crate) fn integers(name: &str, n: usize, bound: u64) -> Vec<u32> {
    let stream = Stream::new(name);
    (0..n as u64).map(|i| (stream.at(i) % bound) as u32).collect()
}

/// A tensor with these numbers.
pub(crate) fn f32s(shape: &[usize], values: &[f32]) -> Tensor {
    assert_eq!(shape.iter().product::<usize>(), values.len());
    Tensor::f32(&GPU, "input", shape, values).unwrap()
}

/// A tensor with these integers.
pub(crate) fn u32s(shape: &[usize], values: &[u32]) -> Tensor {
    assert_eq!(shape.iter().product::<usize>(), values.len());
    Tensor::u32(&GPU, "input", shape, values).unwrap()
}

/// A tensor for an output, full of a number that no kernel computes: what is left of it was not written.
pub(crate) fn output(shape: &[usize]) -> Tensor {
    f32s(shape, &vec![UNWRITTEN; shape.iter().product()])
}

/// See [`output`].
pub(crate) const UNWRITTEN: f32 = -12345.678;

/// An output of integers.
pub(crate) fn output_u32(shape: &[usize]) -> Tensor {
    Tensor::zeros(&GPU, "output", Element::U32, shape).unwrap()
}

/// The buffer of a call that feeds `n` rows from `start` on and may see window rows from `oldest` on.
pub(crate) fn call(start: usize, n: usize, oldest: usize) -> Tensor {
    let buffer = Call::buffer(&GPU).unwrap();
    Call::new(start, n, oldest).write(&GPU, &buffer);
    buffer
}

thread_local! {
    /// Pipelines of one test, which compiles each once.
    static PIPELINES: RefCell<Pipelines> = RefCell::default();
}

/// Records with `threads` threads per output of a linear layer, and runs.
pub(crate) fn run_with(threads: u32, record: impl FnOnce(&mut Planner<'_>) -> Result<()>) {
    PIPELINES.with_borrow_mut(|pipelines| run_in(pipelines, threads, record));
}

/// The same with pipelines of its own: for a kernel that is not the one of its name.
pub(crate) fn run_apart(record: impl FnOnce(&mut Planner<'_>) -> Result<()>) {
    run_in(&mut Pipelines::default(), 1, record);
}

fn run_in(pipelines: &mut Pipelines, threads: u32, record: impl FnOnce(&mut Planner<'_>) -> Result<()>) {
    let work = || {
        let mut planner = Planner::new(&GPU, pipelines);
        planner.threads_per_output = threads;
        record(&mut planner)?;
        planner.finish().run(&GPU);
        Ok(())
    };
    block_on(GPU.checked("a kernel's test", work)).unwrap();
}

/// Records and runs.
pub(crate) fn run(record: impl FnOnce(&mut Planner<'_>) -> Result<()>) {
    run_with(1, record);
}

/// Reads numbers back.
pub(crate) fn read(tensor: &Tensor) -> Vec<f32> {
    block_on(readback::f32s(&GPU, tensor)).unwrap()
}

/// Reads integers back.
pub(crate) fn read_u32(tensor: &Tensor) -> Vec<u32> {
    block_on(readback::u32s(&GPU, tensor)).unwrap()
}

/// A plane in GPU memory with the bytes of one in main memory, and zeros beyond.
pub(crate) fn upload(plane: &Plane, capacity: usize) -> GpuPlane {
    let made = GpuPlane::new(&GPU, "plane", plane.format, plane.width, capacity).unwrap();
    let codes = if plane.format == Format::F32 { bytemuck::cast_slice(&plane.values) } else { &plane.codes };
    for (bytes, tensor) in [(codes, &made.codes), (&plane.scales, &made.scales)] {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        GPU.queue.write_buffer(&tensor.buffer, 0, &bytes);
    }
    made
}

/// f32 sums in another order: the error is some roundings of 2^-24 relative to the largest terms, whose square is far below 1e-12.
pub(crate) const SUMS: f64 = 1e-12;

/// Whether two results differ by no more than `limit` (NMSE), and no number is missing.
pub(crate) fn differs(actual: &[f32], expected: &[f32], limit: f64) -> Option<String> {
    let error = nmse(actual, expected);
    let first = actual.iter().zip(expected).position(|(a, e)| (a - e).abs() > 1e-3 * e.abs().max(1.0));
    let wrong = actual.len() != expected.len() || actual.contains(&UNWRITTEN) || error.is_nan() || error > limit;
    wrong.then(|| format!("NMSE {error:e}, lengths {} and {}, first at {first:?}", actual.len(), expected.len()))
}

/// Fails where [`differs`] finds something.
#[track_caller]
pub(crate) fn assert_close(actual: &[f32], expected: &[f32], limit: f64) {
    assert_eq!(differs(actual, expected, limit), None);
}

/// Results that were rounded to bf16: a sum in another order may fall on the other side of a rounding border, rarely, and by one step.
#[track_caller]
pub(crate) fn assert_bf16_close(actual: &[f32], expected: &[f32]) {
    assert_eq!(actual.len(), expected.len());
    let mut other = 0;
    for (place, (a, e)) in actual.iter().zip(expected).enumerate() {
        assert_eq!(a.to_bits() & 0xffff, 0, "element {place} is {a}, no bf16");
        if a == e {
            continue;
        }
        // One step of bf16 is at most 2^-7 of the number; where terms cancel, the f32 error itself is larger than a step.
        assert!((a - e).abs() <= e.abs() / 128.0 + 1e-6, "element {place}: {a} instead of {e}");
        other += 1;
    }
    assert!(other * 100 <= actual.len(), "{other} of {} are off by a step", actual.len());
}

/// Fails unless all bits are equal.
#[track_caller]
pub(crate) fn assert_bits(actual: &[f32], expected: &[f32]) {
    assert_eq!(actual.len(), expected.len());
    for (place, (a, e)) in actual.iter().zip(expected).enumerate() {
        assert_eq!(a.to_bits(), e.to_bits(), "element {place}: {a:e} instead of {e:e}");
    }
}
