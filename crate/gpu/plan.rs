//! Plans: the dispatches of a call as data, recorded once and encoded again for every token.
//!
//! Command buffers of WebGPU run once. So a plan keeps what is expensive, the pipelines and bind groups, and [`Plan::encode`] is a loop of three
//! calls per step in one compute pass. What changes from token to token lies in one small buffer that the kernels read.

use super::buffer::Tensor;
use super::device::{Gpu, Tier};
use super::fault;
use super::kernel::{BindingKind, Kernel, Pipelines};
use super::uniform::Uniform;
use crate::{Error, Result};

/// One dispatch.
#[derive(Debug, Clone)]
pub struct Step {
    /// Kernel.
    pub kernel: &'static str,
    /// Kernel name and what it works on, for captures and timing.
    pub label: String,
    /// The pipeline.
    pub pipeline: wgpu::ComputePipeline,
    /// Its buffers.
    pub bind_group: wgpu::BindGroup,
    /// Workgroups along x, y, z.
    pub workgroups: [u32; 3],
    /// Bytes of weights that it reads.
    pub weights: usize,
}

/// A named tensor that a trace may read after a step.
#[derive(Debug, Clone)]
pub struct PlanTap {
    /// Step after which the tensor is complete.
    pub after: usize,
    /// Name.
    pub name: &'static str,
    /// Layer.
    pub layer: usize,
    /// The tensor.
    pub tensor: Tensor,
}

/// Recorded dispatches.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// In order.
    pub steps: Vec<Step>,
    /// What can be looked at; costs nothing unless traced.
    pub taps: Vec<PlanTap>,
}

impl Plan {
    /// Encodes all steps into one compute pass.
    pub fn encode(&self, encoder: &mut wgpu::CommandEncoder) {
        self.encode_range(encoder, 0..self.steps.len());
    }

    /// Encodes some of the steps into one compute pass.
    pub fn encode_range(&self, encoder: &mut wgpu::CommandEncoder, range: std::ops::Range<usize>) {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for step in &self.steps[range] {
            pass.set_pipeline(&step.pipeline);
            pass.set_bind_group(0, &step.bind_group, &[]);
            let [x, y, z] = step.workgroups;
            pass.dispatch_workgroups(x, y, z);
        }
    }

    /// Some of the steps as a plan of their own, with what can be looked at after them.
    pub fn piece(&self, range: std::ops::Range<usize>) -> Plan {
        let within = |tap: &&PlanTap| range.start < tap.after && tap.after <= range.end;
        let moved = |tap: &PlanTap| PlanTap { after: tap.after - range.start, ..tap.clone() };
        Plan { steps: self.steps[range.clone()].to_vec(), taps: self.taps.iter().filter(within).map(moved).collect() }
    }

    /// Encodes and submits all steps in `submits` parts of about the same size.
    pub fn run_in(&self, gpu: &Gpu, submits: usize) {
        let most = self.steps.len().div_ceil(submits.max(1)).max(1);
        for first in (0..self.steps.len()).step_by(most) {
            let mut encoder = gpu.encoder();
            self.encode_range(&mut encoder, first..(first + most).min(self.steps.len()));
            gpu.submit(encoder);
        }
    }

    /// Encodes and submits all steps.
    pub fn run(&self, gpu: &Gpu) {
        let mut encoder = gpu.encoder();
        self.encode(&mut encoder);
        gpu.submit(encoder);
    }
}

/// Records a plan.
#[derive(Debug)]
pub struct Planner<'a> {
    /// The device.
    pub gpu: &'a Gpu,
    /// Threads that share one output of a linear layer: one on a software adapter, where barriers cost most, sixteen on a real GPU.
    pub threads_per_output: u32,
    /// Place in the model of the dispatches that follow, for the word that notes faults; at most [`fault::LAST_PLACE`].
    pub place: u32,
    fault: Option<Tensor>,
    weights: usize,
    pipelines: &'a mut Pipelines,
    plan: Plan,
}

impl<'a> Planner<'a> {
    /// A planner without steps.
    pub fn new(gpu: &'a Gpu, pipelines: &'a mut Pipelines) -> Self {
        let threads_per_output = if gpu.adapter.tier == Tier::Software { 1 } else { 16 };
        Planner { gpu, threads_per_output, place: 0, fault: None, weights: 0, pipelines, plan: Plan::default() }
    }

    /// A planner whose kernels note numbers that are not finite in this word.
    pub fn watched(gpu: &'a Gpu, pipelines: &'a mut Pipelines, fault: &Tensor) -> Self {
        Planner { fault: Some(fault.clone()), ..Self::new(gpu, pipelines) }
    }

    /// The word that notes faults; one that nobody reads, if none was given.
    ///
    /// # Errors
    /// None on a working device.
    pub fn fault(&mut self) -> Result<Tensor> {
        if self.fault.is_none() {
            self.fault = Some(fault::word(self.gpu)?);
        }
        self.fault.clone().ok_or_else(|| Error::Gpu("no word for faults".into()))
    }

    /// Notes how many bytes of weights the next dispatch reads.
    pub fn reads(&mut self, bytes: usize) {
        self.weights = bytes;
    }

    /// Appends a dispatch of `kernel`. `tensors` are its storage buffers and uniform tensors in binding order, except the last binding if that is
    /// the parameter struct `params`.
    ///
    /// # Errors
    /// [`Error::Gpu`] if a buffer stands twice (a browser refuses that, a native driver does not notice), if the count is wrong, or if there are
    /// more workgroups than the device takes.
    pub fn dispatch<U: Uniform>(
        &mut self,
        kernel: &Kernel,
        overrides: &[u32],
        tensors: &[&Tensor],
        params: &U,
        workgroups: [u32; 3],
    ) -> Result<()> {
        let wrong = |problem: String| Err(Error::Gpu(format!("{}: {problem}", kernel.name)));
        if tensors.len() + 1 != kernel.bindings.len() {
            return wrong(format!(
                "needs {} tensors and its parameters, found {}",
                kernel.bindings.len() - 1,
                tensors.len()
            ));
        }
        for (i, tensor) in tensors.iter().enumerate() {
            if tensors[..i].iter().any(|other| other.buffer == tensor.buffer) {
                return wrong(format!("{} is bound twice", tensor.label));
            }
        }
        let most = self.gpu.limits.max_compute_workgroups_per_dimension;
        if workgroups.iter().any(|&count| count > most) {
            return wrong(format!("needs {workgroups:?} workgroups, the device takes {most} per dimension"));
        }
        let pipeline = self.pipelines.get(self.gpu, kernel, overrides);
        let uniform = self.uniform_buffer(kernel.name, params);
        let entries: Vec<wgpu::BindGroupEntry<'_>> = (tensors.iter().map(|tensor| &tensor.buffer).chain([&uniform]))
            .enumerate()
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding: binding as u32,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let bind_group = self.gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(kernel.name),
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        debug_assert!(matches!(kernel.bindings.last().map(|b| b.kind), Some(BindingKind::Uniform(_))));
        let label = format!("{} {}", kernel.name, tensors.last().map_or("", |tensor| &tensor.label));
        let weights = std::mem::take(&mut self.weights);
        self.plan.steps.push(Step { kernel: kernel.name, label, pipeline, bind_group, workgroups, weights });
        Ok(())
    }

    /// Names a tensor as it is after the steps so far.
    pub fn tap(&mut self, name: &'static str, layer: usize, tensor: &Tensor) {
        let after = self.plan.steps.len();
        self.plan.taps.push(PlanTap { after, name, layer, tensor: tensor.clone() });
    }

    /// The recorded plan.
    pub fn finish(self) -> Plan {
        self.plan
    }

    fn uniform_buffer(&self, label: &str, params: &impl Uniform) -> wgpu::Buffer {
        let mut words = params.words();
        words.resize(words.len().next_multiple_of(4), 0);
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let size = 4 * words.len() as u64;
        let descriptor = wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false };
        let buffer = self.gpu.device.create_buffer(&descriptor);
        self.gpu.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(&words));
        buffer
    }
}
