//! Bindings exist once, in WGSL. This compares them with what Rust lists, and with what every browser grants.

use flash890::gpu::Kernel;
use flash890::gpu::kernel::BindingKind;
use flash890::kernels::ALL;
use naga::{AddressSpace, StorageAccess, TypeInner};

/// What WebGPU grants by default.
const MOST_INVOCATIONS: u32 = 256;
const MOST_WORKGROUP_BYTES: u32 = 16_384;
const MOST_STORAGE_BUFFERS: usize = 8;

fn parse(kernel: &Kernel) -> naga::Module {
    naga::front::wgsl::parse_str(&kernel.source())
        .unwrap_or_else(|error| panic!("{}: {}", kernel.name, error.emit_to_string(&kernel.source())))
}

/// Everything that differs between a kernel's shader and its Rust twin.
fn differences(kernel: &Kernel) -> Vec<String> {
    let module = parse(kernel);
    let flags = naga::valid::ValidationFlags::all();
    let info = naga::valid::Validator::new(flags, naga::valid::Capabilities::all())
        .validate(&module)
        .unwrap_or_else(|error| panic!("{}: {}", kernel.name, error.emit_to_string(&kernel.source())));
    let mut wrong = Vec::new();
    let mut say = |text: String| wrong.push(format!("{}: {text}", kernel.name));
    let entry = &module.entry_points[0];
    if module.entry_points.len() != 1 || entry.name != kernel.name {
        say(format!("entry point {}", entry.name));
    }
    if entry.workgroup_size.iter().product::<u32>() > MOST_INVOCATIONS {
        say(format!("workgroup of {:?}", entry.workgroup_size));
    }
    // An automatic layout leaves out what the shader does not use, and the bind group would not fit.
    for (handle, variable) in module.global_variables.iter().filter(|(_, v)| v.binding.is_some()) {
        if info.get_entry_point(0)[handle].is_empty() {
            say(format!("{} is never used", variable.name.as_deref().unwrap_or("")));
        }
    }
    let mut found: Vec<_> =
        module.global_variables.iter().filter(|(_, v)| v.binding.is_some()).map(|(_, v)| v).collect();
    found.sort_by_key(|variable| variable.binding.map(|b| b.binding));
    let workgroup: u32 = module
        .global_variables
        .iter()
        .filter(|(_, variable)| variable.space == AddressSpace::WorkGroup)
        .map(|(_, variable)| module.types[variable.ty].inner.size(module.to_ctx()))
        .sum();
    if workgroup > MOST_WORKGROUP_BYTES {
        say(format!("{workgroup} bytes of workgroup memory"));
    }
    let storage = found.iter().filter(|v| matches!(v.space, AddressSpace::Storage { .. })).count();
    if storage > MOST_STORAGE_BUFFERS {
        say(format!("{storage} storage buffers"));
    }
    if found.len() != kernel.bindings.len() {
        say(format!("{} bindings, Rust lists {}", found.len(), kernel.bindings.len()));
    }
    for (place, (variable, binding)) in found.iter().zip(kernel.bindings).enumerate() {
        let name = variable.name.as_deref().unwrap_or("");
        let number = variable.binding.map(|b| (b.group, b.binding));
        if name != binding.name || number != Some((0, place as u32)) {
            say(format!("binding {number:?} is {name}, Rust lists {} at {place}", binding.name));
        }
        match (variable.space, binding.kind) {
            (AddressSpace::Storage { access }, BindingKind::Read) if access == StorageAccess::LOAD => {}
            (AddressSpace::Storage { access }, BindingKind::ReadWrite) if access.contains(StorageAccess::STORE) => {}
            (AddressSpace::Uniform, BindingKind::Uniform(fields)) => {
                let TypeInner::Struct { members, .. } = &module.types[variable.ty].inner else {
                    say(format!("{name} is no struct"));
                    continue;
                };
                let own: Vec<_> = members.iter().map(|m| (m.name.clone().unwrap_or_default(), m.offset)).collect();
                let listed: Vec<_> = fields.iter().enumerate().map(|(i, f)| (f.to_string(), 4 * i as u32)).collect();
                if own != listed {
                    say(format!("{name} has {own:?}, Rust lists {listed:?}"));
                }
            }
            (space, kind) => say(format!("{name} is {space:?}, Rust lists {kind:?}")),
        }
    }
    let mut overrides: Vec<_> = module.overrides.iter().filter_map(|(_, o)| o.name.clone()).collect();
    let mut listed: Vec<_> = kernel.overrides.iter().map(|o| o.to_string()).collect();
    overrides.sort();
    listed.sort();
    if overrides != listed {
        say(format!("overrides {overrides:?}, Rust lists {listed:?}"));
    }
    wrong
}

#[test]
fn shaders_are_what_rust_believes() {
    let wrong: Vec<String> = ALL.iter().flat_map(|kernel| differences(kernel)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_shader_file_has_a_kernel_and_a_header() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let mut files = 0;
    for folder in std::fs::read_dir(&root).unwrap().flatten().filter(|entry| entry.file_name() != "include") {
        for file in std::fs::read_dir(folder.path()).unwrap().flatten() {
            let stem = file.path().file_stem().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(file.path()).unwrap();
            let kernel = ALL.iter().find(|kernel| kernel.name == stem);
            let code = kernel.unwrap_or_else(|| panic!("{stem}.wgsl is listed by no kernel")).wgsl;
            let without = |line: &str| line.split("//").next().unwrap_or_default().trim_end().to_string();
            let same = text.lines().map(without).eq(code.lines().map(|line| line.trim_end().to_string()));
            assert!(same && !code.contains("//"), "{stem}: only comments go, and lines stay where they are");
            for question in [&format!("// {stem} — "), "// Dispatch (", "// Numerics: "] {
                assert!(text.contains(question), "{stem}.wgsl does not say: {question}");
            }
            assert!(text.lines().count() <= 160, "{stem}.wgsl is too long to read at once");
            files += 1;
        }
    }
    assert_eq!(files, ALL.len());
}

/// The check must be able to fail: a flipped access, swapped fields, a missing override.
#[test]
fn planted_differences_are_found() {
    let norm = flash890::kernels::norm::rms_norm::KERNEL;
    let flipped = norm.wgsl.replace("var<storage, read> x", "var<storage, read_write> x");
    let swapped = norm.wgsl.replace("width: u32,\n    stride: u32,", "stride: u32,\n    width: u32,");
    for text in [flipped, swapped] {
        assert_ne!(text, norm.wgsl);
        let planted = Kernel { wgsl: text.leak(), ..norm };
        assert_eq!(differences(&planted).len(), 1, "{:?}", differences(&planted));
    }
    let planted = Kernel { overrides: &[], ..norm };
    assert_eq!(differences(&planted).len(), 1);
}
