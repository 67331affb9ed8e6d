//! The vision tower on the GPU: every kernel against the reference's formula, and the whole against the reference and the golden values.

mod support;

use flash890::Error;
use flash890::blocks::b1a_input::{Seen, see};
use flash890::gpu::kernel::Pipelines;
use flash890::gpu::{Choice, Element, Gpu, Planner, Tensor, readback};
use flash890::image::{Patches, Rgb, patches};
use flash890::kernels::vision::add_bias::{self, Activation};
use flash890::kernels::vision::{residual_add, unfold, vit_attention, vit_rope, vit_swiglu};
use flash890::lab::golden::GoldenFile;
use flash890::model::Reference;
use flash890::model::gpu::{GpuModel, Trace};
use flash890::numerics::bf16;
use flash890::numerics::hash::Stream;
use flash890::numerics::ops::{gelu, nmse, silu, softmax};
use flash890::numerics::precision::Precision::{self, F32, Released};
use flash890::weights::Checkpoint;
use pollster::block_on;
use std::path::PathBuf;
use std::sync::Arc;
use support::appendix_e;

fn gpu() -> Gpu {
    block_on(Gpu::open(&Choice::default())).expect("GPU tests need an adapter; a software one will do")
}

/// Numbers from -1 to 1, the same in every run.
fn noise(name: &str, len: usize) -> Vec<f32> {
    let stream = Stream::new(name);
    (0..len as u64).map(|i| stream.unit(i)).collect()
}

fn tensor(gpu: &Gpu, shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::f32(gpu, "input", shape, values).unwrap()
}

/// Runs what `record` records and reads `out`.
fn ran(gpu: &Gpu, out: &Tensor, record: impl FnOnce(&mut Planner<'_>) -> flash890::Result<()>) -> Vec<f32> {
    let mut pipelines = Pipelines::default();
    let plan = block_on(gpu.checked("a kernel under test", || {
        let mut planner = Planner::new(gpu, &mut pipelines);
        record(&mut planner)?;
        Ok(planner.finish())
    }));
    plan.unwrap().run(gpu);
    block_on(readback::f32s(gpu, out)).unwrap()
}

fn assert_close(actual: &[f32], expected: &[f32], limit: f32) {
    assert_eq!(actual.len(), expected.len());
    for (index, (a, e)) in actual.iter().zip(expected).enumerate() {
        assert!((a - e).abs() <= limit, "element {index}: {a} against {e}");
    }
}

/// Equal bf16 values, but where an f32 error of a few units lies across a border of the rounding: one in a hundred, by one unit.
fn assert_rounded(actual: &[f32], expected: &[f32]) {
    assert_eq!(actual.len(), expected.len());
    let different = actual.iter().zip(expected).filter(|(a, e)| a != e).count();
    assert!(different * 100 <= actual.len(), "{different} of {} differ", actual.len());
    for (a, e) in actual.iter().zip(expected) {
        assert_eq!(*a, bf16::round(*a));
        assert!((a - e).abs() <= e.abs() / 128.0, "{a} against {e}");
    }
}

/// The GELU from -12 to 12, within 3e-7 |x|: its own 2e-7 and the adapter's `exp`.
#[test]
fn gelu_is_the_exact_one() {
    let gpu = gpu();
    let x: Vec<f32> = (-12_000..=12_000).map(|i| i as f32 / 1000.0).collect();
    let bias: Vec<f32> = (0..x.len()).map(|i| (i % 7) as f32 / 64.0).collect();
    let (bias_tensor, out) = (tensor(&gpu, &[x.len()], &bias), tensor(&gpu, &[1, x.len()], &x));
    let actual = ran(&gpu, &out, |planner| add_bias::record(planner, [&bias_tensor, &out], Activation::Gelu, F32));
    for ((actual, x), bias) in actual.iter().zip(&x).zip(&bias) {
        let sum = x + bias;
        assert!((actual - gelu(sum)).abs() <= 3e-7 * sum.abs(), "gelu({sum}) = {actual}, not {}", gelu(sum));
    }
}

#[test]
fn bias_is_added_to_every_row_and_rounded_before_and_behind_the_activation() {
    let gpu = gpu();
    let (x, bias) = (noise("bias.x", 5 * 70), noise("bias.b", 70));
    let bias_tensor = tensor(&gpu, &[70], &bias);
    let sums: Vec<f32> = x.iter().zip(bias.iter().cycle()).map(|(x, b)| x + b).collect();
    let run = |activation, numerics| {
        let out = tensor(&gpu, &[5, 70], &x);
        ran(&gpu, &out, |planner| add_bias::record(planner, [&bias_tensor, &out], activation, numerics))
    };
    assert_eq!(run(Activation::None, F32), sums);
    let mut expected = sums.clone();
    bf16::round_all(&mut expected);
    assert_eq!(run(Activation::None, Released), expected);
    expected.iter_mut().for_each(|v| *v = bf16::round(gelu(*v)));
    assert_rounded(&run(Activation::Gelu, Released), &expected);
}

#[test]
fn residual_is_added_and_rounded() {
    let gpu = gpu();
    let (x, y) = (noise("residual.x", 3 * 100), noise("residual.y", 3 * 100));
    let y_tensor = tensor(&gpu, &[3, 100], &y);
    for numerics in [F32, Released] {
        let mut expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
        numerics.round(&mut expected);
        let out = tensor(&gpu, &[3, 100], &x);
        let actual = ran(&gpu, &out, |planner| residual_add::record(planner, [&y_tensor, &out], numerics));
        assert_eq!(actual, expected);
    }
}

#[test]
fn swiglu_rounds_the_gate_and_then_the_product() {
    let gpu = gpu();
    let gate: Vec<f32> = noise("swiglu.gate", 11 * 96).iter().map(|g| bf16::round(8.0 * g)).collect();
    let mut up = noise("swiglu.up", 11 * 96);
    bf16::round_all(&mut up);
    let up_tensor = tensor(&gpu, &[11, 96], &up);
    let run = |numerics| {
        let out = tensor(&gpu, &[11, 96], &gate);
        ran(&gpu, &out, |planner| vit_swiglu::record(planner, [&up_tensor, &out], numerics))
    };
    let plain: Vec<f32> = gate.iter().zip(&up).map(|(&g, u)| silu(g) * u).collect();
    assert_close(&run(F32), &plain, 2e-6);
    let rounded: Vec<f32> = gate.iter().zip(&up).map(|(&g, u)| bf16::round(bf16::round(silu(g)) * u)).collect();
    assert_rounded(&run(Released), &rounded);
}

#[test]
fn rotation_turns_queries_and_keys_by_split_halves() {
    let gpu = gpu();
    let (n, heads, pairs) = (5, 3, 8);
    let width = heads * 2 * pairs;
    let turns: Vec<(f32, f32)> =
        noise("rope.angles", n * pairs).iter().map(|a| ((9.0 * a).cos(), (9.0 * a).sin())).collect();
    let angles: Vec<f32> = turns.iter().flat_map(|&(cos, sin)| [cos, sin]).collect();
    let qkv = noise("rope.qkv", n * 3 * width);
    let angles = tensor(&gpu, &[n, pairs, 2], &angles);
    for numerics in [F32, Released] {
        // Section 1.5: element i of a head pairs with element i + pairs; values stay as they are.
        let mut expected = qkv.clone();
        numerics.round(&mut expected);
        let rounded = expected.clone();
        for (token, head, i) in
            (0..n).flat_map(|t| (0..2 * heads).flat_map(move |h| (0..pairs).map(move |i| (t, h, i))))
        {
            let at = token * 3 * width + head * 2 * pairs + i;
            let ((cos, sin), a, b) = (turns[token * pairs + i], rounded[at], rounded[at + pairs]);
            (expected[at], expected[at + pairs]) = (a * cos - b * sin, b * cos + a * sin);
        }
        numerics.round(&mut expected);
        let out = tensor(&gpu, &[n, 3 * width], &rounded);
        let actual = ran(&gpu, &out, |planner| vit_rope::record(planner, [&angles, &out], numerics));
        match numerics {
            F32 => assert_close(&actual, &expected, 3e-7),
            Released => assert_rounded(&actual, &expected),
        }
    }
}

/// Softmax over all patches in f64, head by head.
fn attention(qkv: &[f32], [n, heads, head]: [usize; 3]) -> Vec<f32> {
    let width = heads * head;
    let part = |token: usize, which: usize, h: usize| &qkv[(token * 3 + which) * width + h * head..][..head];
    let mut out = Vec::with_capacity(n * width);
    for (token, h) in (0..n).flat_map(|token| (0..heads).map(move |h| (token, h))) {
        let dot = |other| -> f64 {
            part(token, 0, h).iter().zip(part(other, 1, h)).map(|(&q, &k)| f64::from(q) * f64::from(k)).sum()
        };
        let mut p: Vec<f32> = (0..n).map(|other| (dot(other) / (head as f64).sqrt()) as f32).collect();
        softmax(&mut p);
        let value = |d| (0..n).map(|other| f64::from(p[other]) * f64::from(part(other, 2, h)[d])).sum::<f64>() as f32;
        out.extend((0..head).map(value));
    }
    out
}

/// Head widths of the goldens, of E.3 and of the release; tiles and workgroups that end early; more than one dispatch. Large scores grow tile
/// by tile, so that the running maximum moves.
#[test]
fn attention_agrees_with_softmax_over_all_patches() {
    let gpu = gpu();
    for (shape, size) in [
        ([1, 2, 16], 1.0),
        ([7, 4, 16], 1.0),
        ([65, 2, 32], 1.0),
        ([130, 2, 64], 1.0),
        ([130, 2, 64], 8.0),
        ([1100, 1, 4], 1.0),
    ] {
        let [n, heads, head] = shape;
        let width = heads * head;
        let mut qkv = noise("attention.qkv", n * 3 * width);
        for (token, row) in qkv.chunks_exact_mut(3 * width).enumerate() {
            row[..2 * width].iter_mut().for_each(|v| *v *= size * (1.0 + token as f32 / n as f32));
        }
        let qkv_tensor = tensor(&gpu, &[n, 3 * width], &qkv);
        let out = Tensor::zeros(&gpu, "out", Element::F32, &[n, width]).unwrap();
        let expected = attention(&qkv, shape);
        let actual = ran(&gpu, &out, |planner| vit_attention::record(planner, [&qkv_tensor, &out], heads, F32));
        let error = nmse(&actual, &expected);
        assert!(error <= 1e-10, "{shape:?}: {error:e}");
        let mut rounded = expected;
        bf16::round_all(&mut rounded);
        let actual = ran(&gpu, &out, |planner| vit_attention::record(planner, [&qkv_tensor, &out], heads, Released));
        assert!(nmse(&actual, &rounded) <= 1e-6, "{shape:?} rounded");
        assert!(actual.iter().all(|&v| v == bf16::round(v)));
    }
}

#[test]
fn attention_refuses_heads_beyond_its_registers() {
    let gpu = gpu();
    let (qkv, out) = (tensor(&gpu, &[1, 204], &[0.0; 204]), tensor(&gpu, &[1, 68], &[0.0; 68]));
    let mut pipelines = Pipelines::default();
    let mut planner = Planner::new(&gpu, &mut pipelines);
    let error = vit_attention::record(&mut planner, [&qkv, &out], 1, F32).unwrap_err();
    assert!(matches!(error, Error::DoesNotFit { .. }), "{error}");
}

#[test]
fn unfold_is_channel_major_and_pads_right_and_below() {
    let gpu = gpu();
    for (rows, cols, width, ratio) in [(1, 2, 2, 2), (1, 7, 5, 3), (13, 5, 8, 3), (3, 3, 1, 3)] {
        let x = noise("unfold.x", rows * cols * width);
        let (cell_rows, cell_cols) = (usize::div_ceil(rows, ratio), usize::div_ceil(cols, ratio));
        let mut expected = Vec::new();
        for (cell_row, cell_col) in (0..cell_rows).flat_map(|r| (0..cell_cols).map(move |c| (r, c))) {
            for (channel, ky, kx) in
                (0..width).flat_map(|c| (0..ratio).flat_map(move |y| (0..ratio).map(move |x| (c, y, x))))
            {
                let (row, col) = (cell_row * ratio + ky, cell_col * ratio + kx);
                expected.push(if row < rows && col < cols { x[(row * cols + col) * width + channel] } else { 0.0 });
            }
        }
        let x = tensor(&gpu, &[rows * cols, width], &x);
        let shape = [cell_rows * cell_cols, width * ratio * ratio];
        let out = Tensor::f32(&gpu, "out", &shape, &vec![7.0; expected.len()]).unwrap();
        assert_eq!(ran(&gpu, &out, |planner| unfold::record(planner, [&x, &out], [rows, cols], ratio)), expected);
    }
}

/// The same checkpoint as reference and on the GPU.
fn pair(checkpoint: &Arc<Checkpoint>, numerics: Precision) -> (Reference, GpuModel) {
    let mut silent = |_: usize, _: usize, _: &str| {};
    let reference = block_on(Reference::load(checkpoint.clone(), numerics, numerics, &mut silent)).unwrap();
    let model = block_on(GpuModel::load(gpu(), checkpoint.clone(), numerics, numerics, &mut silent)).unwrap();
    (reference, model)
}

fn golden_folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// What the reference and the GPU see.
fn seen((reference, model): &(Reference, GpuModel), patches: &Patches) -> (Seen, Seen) {
    let config = reference.config().vision.as_ref().unwrap();
    let expected = see(model.context.numerics, config, reference.input.vision.as_ref().unwrap(), patches);
    let mut trace = Trace::default();
    let taps = ["patch_embedding", "vit_block", "vit", "unfolded"];
    let aligned = block_on(model.image_rows_traced(patches, &taps, &mut trace)).unwrap();
    // Without taps the plan runs in other pieces.
    assert_eq!(block_on(model.image_rows(patches)).unwrap(), aligned);
    let take = |name| trace.tensors.iter().filter(|t| t.name == name).map(|t| t.values.clone()).collect::<Vec<_>>();
    let one = |name| take(name).concat();
    let blocks = take("vit_block");
    (
        expected,
        Seen { patch_embedding: one("patch_embedding"), blocks, vit: one("vit"), unfolded: one("unfolded"), aligned },
    )
}

fn assert_agree((expected, actual): &(Seen, Seen), limit: f64) {
    assert_eq!(actual.blocks.len(), expected.blocks.len());
    let mut stages = vec![("patch embedding", &actual.patch_embedding, &expected.patch_embedding)];
    stages.extend(actual.blocks.iter().zip(&expected.blocks).map(|(a, e)| ("block", a, e)));
    stages.push(("vit", &actual.vit, &expected.vit));
    stages.push(("unfolded", &actual.unfolded, &expected.unfolded));
    stages.push(("aligned", &actual.aligned, &expected.aligned));
    for (stage, actual, expected) in stages {
        assert_eq!(actual.len(), expected.len(), "{stage}");
        let error = nmse(actual, expected);
        assert!(error <= limit, "{stage}: {error:e}");
    }
}

#[test]
fn golden_picture() {
    let checkpoint = Arc::new(block_on(Checkpoint::open_dir(golden_folder("t12"))).unwrap());
    let golden = std::fs::read(golden_folder("t12").join("golden.safetensors")).unwrap();
    let golden = GoldenFile::parse("golden.safetensors", &golden).unwrap();
    let values = golden.need("image.patches").unwrap().f32.clone();
    let pair = pair(&checkpoint, F32);
    // A picture of 110 x 70 pixels.
    let both = seen(&pair, &Patches { rows: 5, cols: 8, values });
    assert_agree(&both, 1e-8);
    assert!(nmse(&both.1.vit, &golden.need("image.vit").unwrap().f32) <= 1e-6);
    assert!(nmse(&both.1.aligned, &golden.need("image.aligned").unwrap().f32) <= 1e-6);
    // Grids that leave cells, tiles and workgroups unfinished.
    for (rows, cols) in [(1, 7), (13, 5), (1, 1)] {
        let values = noise("gpu_vision.patches", rows * cols * 588);
        assert_agree(&seen(&pair, &Patches { rows, cols, values }), 1e-8);
    }
}

/// The vision tower of E.3 in released numerics, within two bf16 units in the last place of the printed values.
#[test]
fn vision_tower_of_appendix_e() {
    let pair = pair(&appendix_e::checkpoint(&appendix_e::spec_with_vision()), Released);
    let (width, height) = (70, 56);
    let byte = |x: usize, y: usize, channel: usize| (37 * ((channel * height + y) * width + x) % 256) as u8;
    let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| (0..3).map(move |c| byte(x, y, c)))).collect();
    let config = pair.0.config().vision.clone().unwrap();
    let patches = patches(&Rgb::new(width, height, pixels).unwrap(), &config, true);
    let both = seen(&pair, &patches);
    // Roundings that fall the other way are 2^-9 of a value each.
    assert_agree(&both, 1e-6);
    let seen = &both.1;
    let (first, last) = (0..4, 19 * 64 + 60..20 * 64);
    assert_ulps(&seen.patch_embedding[first.clone()], &[-0.32617188, 0.3125, 1.15625, -1.046875]);
    assert_ulps(&seen.patch_embedding[last.clone()], &[2.015625, 0.7890625, 0.8046875, -1.125]);
    assert_ulps(&seen.blocks[0][first.clone()], &[0.12109375, 1.171875, 0.421875, -0.640625]);
    assert_ulps(&seen.blocks[0][last.clone()], &[1.9609375, 0.30273438, 1.078125, -0.98046875]);
    assert_ulps(&seen.blocks[1][first], &[0.06347656, 0.8125, -0.02050781, 0.28515625]);
    assert_ulps(&seen.blocks[1][last], &[2.15625, 0.19433594, 1.7890625, -0.18359375]);
    let unfolded = [0.064941, 0.75, 0.6875, 1.460938, 1.773438, 2.09375, 0.359375, -0.65625, -0.192383];
    assert_ulps(&seen.unfolded[..9], &unfolded);
    let tokens = [
        ([-0.628906, -0.671875, -0.320312, -0.164062, 0.578125, -0.742188], -1.846436),
        ([-0.155273, -0.014587, -0.417969, -0.126953, 0.369141, -0.289062], -1.619293),
        ([-0.5, 0.484375, -0.353516, -0.045410, 0.157227, 0.105469], -1.984528),
        ([-0.433594, 0.105469, -0.466797, -0.156250, 0.224609, -0.048340], -2.813404),
    ];
    for ((values, sum), row) in tokens.into_iter().zip(seen.aligned.chunks_exact(64)) {
        assert_ulps(&row[..6], &values);
        // 64 values of about 0.3, each within two units of 2^-9.
        assert!((row.iter().sum::<f32>() - sum).abs() < 0.02);
    }
}

/// Within two bf16 units of the expected value, and half a unit of the sixth printed decimal.
fn assert_ulps(actual: &[f32], expected: &[f32]) {
    assert_eq!(actual.len(), expected.len());
    for (a, e) in actual.iter().zip(expected) {
        let ulp = 2f32.powi(e.abs().log2().floor() as i32 - 7);
        assert!((a - e).abs() <= 2.0 * ulp + 5e-7, "{actual:?} against {expected:?}");
    }
}

#[test]
fn what_cannot_be_seen_is_refused() {
    let mut silent = |_: usize, _: usize, _: &str| {};
    let mut load =
        |spec| block_on(GpuModel::load(gpu(), appendix_e::checkpoint(&spec), F32, F32, &mut silent)).unwrap();
    let patches = Patches { rows: 1, cols: 2, values: vec![0.0; 588] };
    let blind = load(appendix_e::spec());
    assert!(matches!(block_on(blind.image_rows(&patches)), Err(Error::Prompt(_))));
    let model = load(appendix_e::spec_with_vision());
    assert!(matches!(block_on(model.image_rows(&patches)), Err(Error::Picture(_))));
    let empty = Patches { rows: 0, cols: 3, values: Vec::new() };
    assert!(matches!(block_on(model.image_rows(&empty)), Err(Error::Picture(_))));
}
