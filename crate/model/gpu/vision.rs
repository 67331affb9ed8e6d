//! The vision tower and the aligner on the GPU: block 1A, sections 1.5 and 1.6.
//!
//! ```text
//! pixels -> patch_embed -> x -> 32 x { z = norm(x); qkv; rope; z = attention; x += wo z;  z = norm(x); gate, up; swiglu; x += w2 h }
//!        -> z = norm(x) -> unfolded -> w1, gelu -> w2 -> aligned rows
//! ```
//!
//! A picture's plan is recorded for its grid and dropped with its buffers: pictures are rare and their sizes differ, while pipelines, the
//! expensive part, are kept. The largest picture needs 9,189 patches; no buffer of it passes the 128 MiB that every browser binds, because gate
//! and up are two matrices here.

use super::{Trace, Traced};
use crate::blocks::b1a_input::{VIT_EPS, Vision, VitBlock, grid_angles};
use crate::config::VisionConfig;
use crate::error::{Error, Result};
use crate::gpu::kernel::Pipelines;
use crate::gpu::{Element, Gpu, Plan, Planner, Tensor, fault, readback};
use crate::image::Patches;
use crate::kernels::call::Call;
use crate::kernels::linear::{self, GpuMatrix};
use crate::kernels::norm::rms_norm;
use crate::kernels::vision::add_bias::{self, Activation};
use crate::kernels::vision::{residual_add, unfold, vit_attention, vit_rope, vit_swiglu};
use crate::numerics::linear::{BLOCK, Matrix};
use crate::numerics::precision::Precision;
use std::cell::RefCell;
use std::ops::Range;

/// Patches times dispatches of one submit. Small pictures run in a few submits; of large ones every dispatch is its own, so that a slow adapter
/// still answers to others in between, and no driver takes the work for a hang.
const SUBMIT: usize = 16_384;

/// Weights of the tower and the aligner in GPU memory.
#[derive(Debug, Clone)]
pub(super) struct GpuVision {
    config: VisionConfig,
    patch_embed: Biased,
    blocks: Vec<GpuVitBlock>,
    norm: Tensor,
    aligner: [Biased; 2],
}

/// A linear layer with a bias.
#[derive(Debug, Clone)]
struct Biased {
    weight: GpuMatrix,
    bias: Tensor,
}

/// One ViT block.
#[derive(Debug, Clone)]
struct GpuVitBlock {
    norm1: Tensor,
    norm2: Tensor,
    wqkv: Biased,
    wo: Biased,
    gate: GpuMatrix,
    up: GpuMatrix,
    down: GpuMatrix,
}

/// Buffers of one picture of `n` patches and `c` cells; `w` is the ViT's width, `inter` its inner one.
struct Buffers {
    patches: Tensor,
    cells: Tensor,
    pixels: Tensor,
    angles: Tensor,
    /// The residual `[n, w]`.
    x: Tensor,
    /// Input of a sub-layer, and the heads' output `[n, w]`.
    z: Tensor,
    /// Output of a sub-layer `[n, w]`.
    y: Tensor,
    /// `[n, 3 w]`, and `gate` `[n, inter]` in the same memory: one is dead when the other begins.
    qkv: Tensor,
    gate: Tensor,
    up: Tensor,
    unfolded: Tensor,
    hidden: Tensor,
    aligned: Tensor,
}

impl Biased {
    fn new(gpu: &Gpu, label: &str, (weight, bias): &(Matrix, Vec<f32>)) -> Result<Self> {
        let bias = Tensor::f32(gpu, &format!("{label} bias"), &[bias.len()], bias)?;
        Ok(Biased { weight: GpuMatrix::new(gpu, label, weight)?, bias })
    }

    /// Records `y = activation(W x + b)`, rounded once before the activation and once behind it.
    fn record(
        &self,
        planner: &mut Planner<'_>,
        [x, y]: [&Tensor; 2],
        call: &Tensor,
        activation: Activation,
        numerics: Precision,
    ) -> Result<()> {
        linear::record(planner, &self.weight, [x, y], call, 1, Precision::F32)?;
        add_bias::record(planner, [&self.bias, y], activation, numerics)
    }
}

impl GpuVitBlock {
    fn new(gpu: &Gpu, index: usize, block: VitBlock) -> Result<Self> {
        let name = |part: &str| format!("vision.blocks.{index}.{part}");
        let vector = |part: &str, values: &[f32]| Tensor::f32(gpu, &name(part), &[values.len()], values);
        let halves = block.w1.split_rows(2)?;
        Ok(GpuVitBlock {
            norm1: vector("norm1", &block.norm1)?,
            norm2: vector("norm2", &block.norm2)?,
            wqkv: Biased::new(gpu, &name("wqkv"), &block.wqkv)?,
            wo: Biased::new(gpu, &name("wo"), &block.wo)?,
            gate: GpuMatrix::new(gpu, &name("gate"), &halves[0])?,
            up: GpuMatrix::new(gpu, &name("up"), &halves[1])?,
            down: GpuMatrix::new(gpu, &name("w2"), &block.w2)?,
        })
    }

    /// Records the block on `b.x`: attention, then the MLP.
    fn record(&self, planner: &mut Planner<'_>, b: &Buffers, heads: usize, numerics: Precision) -> Result<()> {
        rms_norm::record(planner, [&self.norm1, &b.x, &b.z], &b.patches, VIT_EPS, (numerics, false))?;
        self.wqkv.record(planner, [&b.z, &b.qkv], &b.patches, Activation::None, numerics)?;
        vit_rope::record(planner, [&b.angles, &b.qkv], numerics)?;
        vit_attention::record(planner, [&b.qkv, &b.z], heads, numerics)?;
        self.wo.record(planner, [&b.z, &b.y], &b.patches, Activation::None, numerics)?;
        residual_add::record(planner, [&b.y, &b.x], numerics)?;

        rms_norm::record(planner, [&self.norm2, &b.x, &b.z], &b.patches, VIT_EPS, (numerics, false))?;
        linear::record(planner, &self.gate, [&b.z, &b.gate], &b.patches, 1, numerics)?;
        linear::record(planner, &self.up, [&b.z, &b.up], &b.patches, 1, numerics)?;
        vit_swiglu::record(planner, [&b.up, &b.gate], numerics)?;
        linear::record(planner, &self.down, [&b.gate, &b.y], &b.patches, 1, numerics)?;
        residual_add::record(planner, [&b.y, &b.x], numerics)
    }
}

impl GpuVision {
    /// Copies the tower's weights to the GPU as they are stored.
    ///
    /// # Errors
    /// [`Error::Config`] for widths that are not whole blocks of 32, [`Error::DoesNotFit`].
    pub(super) fn new(gpu: &Gpu, config: &VisionConfig, vision: Vision) -> Result<Self> {
        let widths = [
            ("vision hidden_size", config.dim),
            ("vision intermediate_size", config.inter_dim),
            ("hidden_size", vision.aligner_w2.0.cols()),
        ];
        if let Some((field, width)) = widths.into_iter().find(|(_, width)| !width.is_multiple_of(BLOCK)) {
            return Err(Error::config(field, format!("the shaders need a multiple of {BLOCK}, found {width}")));
        }
        let blocks = vision.blocks.into_iter().enumerate();
        Ok(GpuVision {
            config: config.clone(),
            patch_embed: Biased::new(gpu, "vision.patch_embed", &vision.patch_embed)?,
            blocks: blocks.map(|(index, block)| GpuVitBlock::new(gpu, index, block)).collect::<Result<_>>()?,
            norm: Tensor::f32(gpu, "vision.norm", &[vision.norm.len()], &vision.norm)?,
            aligner: [
                Biased::new(gpu, "aligner.w1", &vision.aligner_w1)?,
                Biased::new(gpu, "aligner.w2", &vision.aligner_w2)?,
            ],
        })
    }

    /// Runs a picture through tower and aligner; the rows of its IMAGE positions `[cells, dim]`. The named taps are read after the step that
    /// completes them: `patch_embedding`, `vit_block` by block, `vit`, `unfolded`.
    ///
    /// The rows come back to the CPU, because a prompt carries them and its chunks upload what they need: 20 MB for the largest picture.
    ///
    /// # Errors
    /// [`Error::Picture`] if the values are not those of the grid, [`Error::DoesNotFit`], [`Error::Gpu`].
    pub(super) async fn see(
        &self,
        gpu: &Gpu,
        pipelines: &RefCell<Pipelines>,
        numerics: Precision,
        patches: &Patches,
        taps: &[&str],
        trace: &mut Trace,
    ) -> Result<Vec<f32>> {
        let (n, values) = (patches.rows * patches.cols, 3 * self.config.patch_size.pow(2));
        if n == 0 || patches.values.len() != n * values {
            let (rows, cols, found) = (patches.rows, patches.cols, patches.values.len());
            return Err(Error::Picture(format!("{rows} x {cols} patches need {values} values each, found {found}")));
        }
        let fault = fault::word(gpu)?;
        let (plan, aligned) = gpu
            .checked("recording the vision tower", || {
                let buffers = self.buffers(gpu, numerics, patches)?;
                let mut pipelines = pipelines.borrow_mut();
                let mut planner = Planner::watched(gpu, &mut pipelines, &fault);
                self.record(&mut planner, &buffers, [patches.rows, patches.cols], numerics)?;
                Ok((planner.finish(), buffers.aligned))
            })
            .await?;
        let mut done = 0;
        for tap in plan.taps.iter().filter(|tap| taps.contains(&tap.name)) {
            submit(gpu, &plan, done..tap.after, n);
            done = tap.after;
            let values = readback::f32s(gpu, &tap.tensor).await?;
            let rows = tap.tensor.shape[0];
            trace.tensors.push(Traced { name: tap.name, layer: tap.layer, start: 0, rows, values });
        }
        submit(gpu, &plan, done..plan.steps.len(), n);
        let encoder = gpu.encoder();
        let [word, rows] = readback::after(gpu, encoder, [&fault, &aligned]).await?;
        match word.first_chunk().and_then(|&word| fault::noted(u32::from_le_bytes(word))) {
            Some((layer, index)) => Err(Error::NotFiniteActivation { tap: "1a.vit_block", layer, index }),
            None => Ok(readback::floats(&rows, aligned.len())),
        }
    }

    fn buffers(&self, gpu: &Gpu, numerics: Precision, patches: &Patches) -> Result<Buffers> {
        let (n, width, inter) = (patches.rows * patches.cols, self.config.dim, self.config.inter_dim);
        let ratio = self.config.downsample_ratio;
        let c = patches.rows.div_ceil(ratio) * patches.cols.div_ceil(ratio);
        let f = |label: &str, shape: &[usize]| Tensor::zeros(gpu, label, Element::F32, shape);
        let call = |rows: usize| -> Result<Tensor> {
            let buffer = Call::buffer(gpu)?;
            Call::new(0, rows, 0).write(gpu, &buffer);
            Ok(buffer)
        };
        let stride = self.patch_embed.weight.cols;
        let mut pixels = vec![0.0; n * stride];
        let values = patches.values.len() / n;
        for (row, patch) in pixels.chunks_exact_mut(stride).zip(patches.values.chunks_exact(values)) {
            row[..values].copy_from_slice(patch);
        }
        numerics.round(&mut pixels);
        let angles: Vec<f32> = grid_angles(&self.config, patches.rows, patches.cols)
            .concat()
            .into_iter()
            .flat_map(<[f32; 2]>::from)
            .collect();
        let wide = f("qkv, gate", &[n, (3 * width).max(inter)])?;
        let [w1, w2] = &self.aligner;
        Ok(Buffers {
            patches: call(n)?,
            cells: call(c)?,
            pixels: Tensor::f32(gpu, "pixels", &[n, stride], &pixels)?,
            angles: Tensor::f32(gpu, "patch angles", &[n, angles.len() / (2 * n), 2], &angles)?,
            x: f("vit x", &[n, width])?,
            z: f("vit z", &[n, width])?,
            y: f("vit y", &[n, width])?,
            qkv: Tensor { shape: vec![n, 3 * width], ..wide.clone() },
            gate: Tensor { shape: vec![n, inter], ..wide },
            up: f("vit up", &[n, inter])?,
            unfolded: f("unfolded", &[c, w1.weight.cols])?,
            hidden: f("aligner hidden", &[c, w1.weight.rows])?,
            aligned: f("aligned", &[c, w2.weight.rows])?,
        })
    }

    fn record(&self, planner: &mut Planner<'_>, b: &Buffers, grid: [usize; 2], numerics: Precision) -> Result<()> {
        self.patch_embed.record(planner, [&b.pixels, &b.x], &b.patches, Activation::None, numerics)?;
        planner.tap("patch_embedding", 0, &b.x);
        for (index, block) in self.blocks.iter().enumerate() {
            planner.place = index as u32;
            block.record(planner, b, self.config.n_heads, numerics)?;
            planner.tap("vit_block", index, &b.x);
        }
        // Tower's end and aligner count as one block more.
        planner.place = self.blocks.len() as u32;
        rms_norm::record(planner, [&self.norm, &b.x, &b.z], &b.patches, VIT_EPS, (numerics, false))?;
        planner.tap("vit", 0, &b.z);
        unfold::record(planner, [&b.z, &b.unfolded], grid, self.config.downsample_ratio)?;
        planner.tap("unfolded", 0, &b.unfolded);
        let [w1, w2] = &self.aligner;
        w1.record(planner, [&b.unfolded, &b.hidden], &b.cells, Activation::Gelu, numerics)?;
        w2.record(planner, [&b.hidden, &b.aligned], &b.cells, Activation::None, numerics)
    }
}

/// Submits steps of a plan over `n` patches in pieces of bounded work.
fn submit(gpu: &Gpu, plan: &Plan, steps: Range<usize>, n: usize) {
    let at_once = (SUBMIT / n).max(1);
    for from in steps.clone().step_by(at_once) {
        let mut encoder = gpu.encoder();
        plan.encode_range(&mut encoder, from..(from + at_once).min(steps.end));
        gpu.submit(encoder);
    }
}
