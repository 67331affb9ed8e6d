//! Choosing an adapter and opening a device on it.

use crate::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Which adapter to open, and how much of it to use.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Part of the adapter's name, any case; the most powerful one otherwise.
    pub name: Option<String>,
    /// Use no more than every WebGPU browser grants: 128 MiB bindings, 256 MiB buffers, 16 KiB of workgroup memory, 256 invocations, 8 storage
    /// buffers, no optional features. What runs under this runs everywhere.
    pub emulate_webgpu_defaults: bool,
    /// Matrices in pieces of at most so many bytes, as if no larger buffer could be bound: to see on a small model what happens to a large one.
    pub most_of_a_matrix: Option<u64>,
}

/// How much an adapter can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// A real GPU.
    Hardware,
    /// Shaders that run on the processor: llvmpipe, SwiftShader, WARP.
    Software,
}

/// One line of `--list-devices`.
#[derive(Debug, Clone)]
pub struct AdapterSummary {
    /// Name as the driver gives it.
    pub name: String,
    /// Driver and its version.
    pub driver: String,
    /// Vulkan, Metal, DX12 or browser.
    pub backend: String,
    /// Hardware or software.
    pub tier: Tier,
    /// Largest storage binding in bytes.
    pub max_binding: u64,
    /// Largest buffer in bytes.
    pub max_buffer: u64,
    /// Memory of a workgroup in bytes.
    pub max_workgroup_memory: u32,
    /// Invocations of a workgroup.
    pub max_invocations: u32,
    /// Storage buffers of a kernel.
    pub max_storage_buffers: u32,
}

impl AdapterSummary {
    /// Name, backend, and whether its shaders run on the processor: `llvmpipe (LLVM 15.0.7, 256 bits), vulkan, software`.
    pub fn describe(&self) -> String {
        let software = if self.tier == Tier::Software { ", software" } else { "" };
        format!("{}, {}{software}", self.name, self.backend)
    }
}

/// An open device.
#[derive(Debug, Clone)]
pub struct Gpu {
    /// The device.
    pub device: wgpu::Device,
    /// Its queue.
    pub queue: wgpu::Queue,
    /// What it runs on.
    pub adapter: AdapterSummary,
    /// Limits that were granted.
    pub limits: wgpu::Limits,
    /// How it was chosen.
    pub choice: Choice,
    lost: Arc<Mutex<Option<String>>>,
    /// The first complaint outside of [`Gpu::checked`] that nobody has been told yet.
    fault: Arc<Mutex<Option<String>>>,
    pub(super) traffic: Arc<Counters>,
}

/// What went over the bus since a device was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Command buffers that were submitted.
    pub submits: u64,
    /// Bytes that were read back.
    pub bytes_read_back: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    submits: AtomicU64,
    pub(super) bytes_read_back: AtomicU64,
}

fn instance() -> wgpu::Instance {
    let backends =
        wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12 | wgpu::Backends::BROWSER_WEBGPU;
    wgpu::Instance::new(wgpu::InstanceDescriptor { backends, ..wgpu::InstanceDescriptor::new_without_display_handle() })
}

fn summary(adapter: &wgpu::Adapter) -> AdapterSummary {
    let (info, limits) = (adapter.get_info(), adapter.limits());
    AdapterSummary {
        name: info.name,
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_string(),
        backend: info.backend.to_string(),
        tier: if info.device_type == wgpu::DeviceType::Cpu { Tier::Software } else { Tier::Hardware },
        max_binding: limits.max_storage_buffer_binding_size,
        max_buffer: limits.max_buffer_size,
        max_workgroup_memory: limits.max_compute_workgroup_storage_size,
        max_invocations: limits.max_compute_invocations_per_workgroup,
        max_storage_buffers: limits.max_storage_buffers_per_shader_stage,
    }
}

/// Every adapter that could run shaders, in the order in which the system lists them.
pub async fn list() -> Vec<AdapterSummary> {
    instance().enumerate_adapters(wgpu::Backends::all()).await.iter().map(summary).collect()
}

impl Gpu {
    /// Opens an adapter with all the limits that it has, or with WebGPU's defaults.
    ///
    /// # Errors
    /// [`Error::Gpu`] if there is no adapter, none of that name, or it refuses.
    pub async fn open(choice: &Choice) -> Result<Gpu> {
        let adapter = find(choice).await?;
        let found = summary(&adapter);
        let limits = if choice.emulate_webgpu_defaults { wgpu::Limits::default() } else { adapter.limits() };
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("flash890"),
            required_limits: limits.clone(),
            memory_hints: wgpu::MemoryHints::MemoryUsage,
            ..wgpu::DeviceDescriptor::default()
        };
        let (device, queue) = adapter.request_device(&descriptor).await.map_err(|error| {
            let name = &found.name;
            Error::Gpu(format!("{name} refused to open: {error}"))
        })?;
        let lost = Arc::new(Mutex::new(None));
        let witness = lost.clone();
        device.set_device_lost_callback(move |reason, message| {
            if let Ok(mut lost) = witness.lock() {
                *lost = Some(format!("{reason:?}: {message}"));
            }
        });
        // By default such an error ends the process. Here it ends the call whose results it spoils: the next read-back tells.
        let fault = Arc::new(Mutex::new(None));
        let witness = fault.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            if let Ok(mut fault) = witness.lock() {
                fault.get_or_insert_with(|| error.to_string());
            }
        }));
        Ok(Gpu { device, queue, adapter: found, limits, choice: choice.clone(), lost, fault, traffic: Arc::default() })
    }

    /// An empty list of commands.
    pub fn encoder(&self) -> wgpu::CommandEncoder {
        self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default())
    }

    /// Hands commands over to the device. All submits go through here, so that they are counted.
    pub fn submit(&self, encoder: wgpu::CommandEncoder) {
        self.traffic.submits.fetch_add(1, Relaxed);
        self.queue.submit([encoder.finish()]);
    }

    /// What was submitted and read back so far.
    pub fn traffic(&self) -> Traffic {
        let Counters { submits, bytes_read_back } = &*self.traffic;
        Traffic { submits: submits.load(Relaxed), bytes_read_back: bytes_read_back.load(Relaxed) }
    }

    /// Rows of `bytes` bytes each that one piece of a matrix holds, a multiple of `unit` and at least that.
    pub fn rows_of_piece(&self, bytes: usize, unit: usize) -> usize {
        let bound = self.limits.max_storage_buffer_binding_size.min(self.limits.max_buffer_size);
        let most = self.choice.most_of_a_matrix.map_or(bound, |most| most.min(bound));
        ((most / bytes.max(1) as u64) as usize / unit * unit).max(unit)
    }

    /// Why the device was lost, if it was.
    pub fn lost(&self) -> Option<String> {
        self.lost.lock().ok().and_then(|lost| lost.clone())
    }

    /// A new device on the same adapter, for when this one was lost. What was on the old one is gone.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn reopen(&self) -> Result<Gpu> {
        let choice = Choice { name: Some(self.adapter.name.clone()), ..self.choice.clone() };
        Gpu::open(&choice).await
    }

    /// An error on this device: that it was lost, if it was, and otherwise what `problem` says.
    pub fn error(&self, problem: String) -> Error {
        match self.lost() {
            Some(lost) => Error::Gpu(format!("{} was lost: {lost}", self.adapter.name)),
            None => Error::Gpu(format!("{problem} on {}", self.adapter.name)),
        }
    }

    /// Whether the device still works: it was not lost, and nothing went wrong since the last time somebody asked.
    ///
    /// # Errors
    /// [`Error::Gpu`] with what happened.
    pub fn alive(&self) -> Result<()> {
        // The loss of a device is only noticed when somebody looks. Errors of looking are those of a lost device.
        #[cfg(not(target_arch = "wasm32"))]
        let _ = self.device.poll(wgpu::PollType::Poll);
        let fault = self.fault.lock().ok().and_then(|mut fault| fault.take());
        match fault {
            Some(fault) => Err(self.error(fault)),
            None if self.lost().is_some() => Err(self.error(String::new())),
            None => Ok(()),
        }
    }

    /// Runs `work` and turns what validation or memory complains about during it into an error.
    ///
    /// # Errors
    /// [`Error::Gpu`] with the driver's words, or whatever `work` returns.
    pub async fn checked<T>(&self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let result = work();
        let (validation, memory) = (validation.pop(), memory.pop());
        match validation.await.or(memory.await) {
            Some(error) => Err(Error::Gpu(format!("{what} on {}: {error}", self.adapter.name))),
            None => self.alive().and(result),
        }
    }
}

async fn find(choice: &Choice) -> Result<wgpu::Adapter> {
    let instance = instance();
    if let Some(name) = &choice.name {
        let adapters = instance.enumerate_adapters(wgpu::Backends::all()).await;
        let names: Vec<String> = adapters.iter().map(|adapter| adapter.get_info().name).collect();
        let wanted = name.to_lowercase();
        let found = adapters.into_iter().find(|adapter| adapter.get_info().name.to_lowercase().contains(&wanted));
        return found.ok_or_else(|| {
            Error::Gpu(format!(
                "no adapter is called {name}; there is {}",
                if names.is_empty() { "none".into() } else { names.join(", ") }
            ))
        });
    }
    let options = wgpu::RequestAdapterOptions {
        power_preference: wgpu::PowerPreference::HighPerformance,
        ..wgpu::RequestAdapterOptions::default()
    };
    instance.request_adapter(&options).await.map_err(|error| {
        if cfg!(target_arch = "wasm32") {
            return Error::Gpu("this browser offers no WebGPU adapter".into());
        }
        Error::Gpu(format!(
            "no adapter that runs compute shaders ({error}); on Linux install a Vulkan driver, for example the package \
             mesa-vulkan-drivers, which also brings a software adapter"
        ))
    })
}
