//! A kernel: one WGSL file and what Rust believes about it.
//!
//! Bindings are declared in WGSL only; the pipeline's layout is taken from there. What Rust lists here is checked against the shader by a test
//! that reflects it (`tests/kernels.rs`): names, access, parameter fields, overrides, and the limits of WebGPU.
//!
//! What a model fixes and a loop runs over (dims of a head, experts) is an override, not a parameter: compilers see a constant and unroll. lavapipe
//! even compiles a shader again at every dispatch if the bound of a loop that starts at a constant, or a condition, comes from a uniform
//! buffer alone (milliseconds each); bounds that a compiler cannot know, such as a loop from the thread's number, do no harm.

use super::device::Gpu;
use super::uniform::Uniform;
use std::collections::BTreeMap;

/// One binding of a kernel, in the order of `@binding`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    /// Name of the variable in WGSL.
    pub name: &'static str,
    /// What it is.
    pub kind: BindingKind,
}

/// What a binding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindingKind {
    /// A storage buffer that is read.
    Read,
    /// A storage buffer that is written, or read and written.
    ReadWrite,
    /// A uniform buffer with these fields.
    Uniform(&'static [&'static str]),
}

/// A storage buffer that is read.
pub const fn read(name: &'static str) -> Binding {
    Binding { name, kind: BindingKind::Read }
}

/// A storage buffer that is written.
pub const fn read_write(name: &'static str) -> Binding {
    Binding { name, kind: BindingKind::ReadWrite }
}

/// A uniform buffer that holds a `U`.
pub const fn uniform<U: Uniform>(name: &'static str) -> Binding {
    Binding { name, kind: BindingKind::Uniform(U::FIELDS) }
}

/// The text of a WGSL file without its comments: what a driver reads, and all that a browser has to download. Line numbers stay those of the file.
#[macro_export]
macro_rules! wgsl {
    ($path:literal) => {{
        const FILE: &str = include_str!($path);
        const CODE: ([u8; FILE.len()], usize) = $crate::gpu::kernel::without_comments(FILE);
        const EXACT: &[u8; CODE.1] = &match CODE.0.first_chunk() {
            Some(code) => *code,
            None => panic!("no longer than the file"),
        };
        match std::str::from_utf8(EXACT) {
            Ok(text) => text,
            Err(_) => panic!("comments go whole"),
        }
    }};
}

/// Leaves out what stands between `//` and the end of its line, and the spaces before it. `N` is the length of `text`; the result is as long as
/// the number beside it says.
#[doc(hidden)]
pub const fn without_comments<const N: usize>(text: &str) -> ([u8; N], usize) {
    let (text, mut code, mut length, mut at) = (text.as_bytes(), [0; N], 0, 0);
    while at < N {
        if text[at] == b'/' && at + 1 < N && text[at + 1] == b'/' {
            while at < N && text[at] != b'\n' {
                at += 1;
            }
            while length > 0 && code[length - 1] == b' ' {
                length -= 1;
            }
        } else {
            code[length] = text[at];
            length += 1;
            at += 1;
        }
    }
    (code, length)
}

/// A compute shader.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// Entry point, file stem, and label.
    pub name: &'static str,
    /// The WGSL file, through [`wgsl!`](crate::wgsl).
    pub wgsl: &'static str,
    /// Shared functions, appended after it: module scope has no order in WGSL, and line numbers stay those of the file.
    pub includes: &'static [&'static str],
    /// Bindings of group 0.
    pub bindings: &'static [Binding],
    /// Overrides: the shapes that are fixed when the pipeline is made.
    pub overrides: &'static [&'static str],
}

impl Kernel {
    /// The complete shader text.
    pub fn source(&self) -> String {
        std::iter::once(self.wgsl).chain(self.includes.iter().copied()).collect::<Vec<_>>().join("\n")
    }
}

/// Pipelines of one device, made on first use and kept by kernel and override values.
#[derive(Debug, Default)]
pub struct Pipelines {
    made: BTreeMap<(&'static str, Vec<u32>), wgpu::ComputePipeline>,
}

impl Pipelines {
    /// The pipeline of `kernel` with these values for its overrides, in order.
    pub fn get(&mut self, gpu: &Gpu, kernel: &Kernel, overrides: &[u32]) -> wgpu::ComputePipeline {
        assert_eq!(overrides.len(), kernel.overrides.len(), "{} has overrides {:?}", kernel.name, kernel.overrides);
        let make = || {
            let source = wgpu::ShaderSource::Wgsl(kernel.source().into());
            let module =
                gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor { label: Some(kernel.name), source });
            let constants: Vec<(&str, f64)> =
                kernel.overrides.iter().copied().zip(overrides.iter().map(|&value| f64::from(value))).collect();
            gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(kernel.name),
                layout: None,
                module: &module,
                entry_point: Some(kernel.name),
                compilation_options: wgpu::PipelineCompilationOptions {
                    constants: &constants,
                    zero_initialize_workgroup_memory: false,
                },
                cache: None,
            })
        };
        self.made.entry((kernel.name, overrides.to_vec())).or_insert_with(make).clone()
    }

    /// Pipelines made so far.
    pub fn count(&self) -> usize {
        self.made.len()
    }
}
