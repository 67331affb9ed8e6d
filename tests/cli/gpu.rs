//! The GPU as a backend. These tests need an adapter; a software one such as llvmpipe will do, and without any they fail.

use super::{Run, fails, flash890, golden, text};
use flash890::Error;
use flash890::gpu::kernel::Pipelines;
use flash890::gpu::{Choice, Gpu, Kernel};
use flash890::kernels::canary;
use flash890::kernels::index::top_k;
use flash890::kernels::norm::rms_norm;
use pollster::block_on;
use serde_json::Value;

const PROMPT: &str = "The quick brown fox";

/// A command on a machine whose Vulkan loader finds no driver.
#[cfg(target_os = "linux")]
fn without_adapter(args: &[&str]) -> std::process::Command {
    let mut command = flash890(args);
    command.env("VK_DRIVER_FILES", "/no/such.json").env("VK_ICD_FILENAMES", "/no/such.json");
    command
}

fn adapters() -> Vec<Value> {
    let listed = Run::of(&["devices", "--json"]).json();
    let adapters = listed.as_array().unwrap().clone();
    assert!(!adapters.is_empty(), "GPU tests need an adapter; a software one will do");
    adapters
}

fn parity(model: &str, more: &[&str]) -> Run {
    let (folder, file) = (golden(model), golden(&format!("{model}/golden.safetensors")));
    Run::of(&[&["parity", "--backend", "gpu", "--model", &folder, "--golden", &file, "--json"], more].concat())
}

/// Every comparison passed, and the end-to-end ones were judged.
fn passes(model: &str, more: &[&str], cases: &[&str]) {
    let run = parity(model, more);
    assert_eq!(run.code, 0, "{model}: {}", run.stdout);
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&report["backend"], &report["failed"]), (&Value::from("gpu"), &Value::from(0)));
    let checks = report["checks"].as_array().unwrap();
    for case in cases {
        let judged = |tap: &str| {
            let of_tap = checks.iter().filter(|check| check["case"] == *case && check["tap"] == tap);
            of_tap.filter(|check| check["limit"].is_number()).count()
        };
        for tap in ["logits end to end", "argmax", "1b.row_ids", "3c.topk_ids"] {
            assert!(judged(tap) > 0, "{model} {case}: {tap} was not judged");
        }
    }
    if more.is_empty() {
        for tap in ["1a.aligned", "6b.proposed_ids", "2a.streams"] {
            assert!(
                checks.iter().any(|check| check["tap"] == tap && check["limit"].is_number()),
                "{tap} was not judged"
            );
        }
    }
}

#[test]
fn parity_of_t12() {
    passes("t12", &[], &["short", "short_f32kv"]);
}

#[test]
fn parity_of_t40() {
    passes("t40", &["--case", "short_f32kv"], &["short_f32kv"]);
}

#[test]
fn parity_of_kv890() {
    passes("kv890", &["--case", "short_f32kv"], &["short_f32kv"]);
}

#[test]
fn parity_within_the_limits_of_a_browser_on_a_named_adapter() {
    let name = adapters()[0]["name"].as_str().unwrap().to_string();
    passes(
        "t12",
        &["--emulate-limits", "webgpu-default", "--device", &name, "--case", "short_f32kv"],
        &["short_f32kv"],
    );
}

#[test]
fn devices() {
    let first = &adapters()[0];
    for key in ["name", "driver", "backend", "tier"] {
        assert!(first[key].as_str().is_some_and(|value| !value.is_empty()), "{first}");
    }
    assert!(first["limits"]["binding_bytes"].as_u64().unwrap() >= 1 << 20, "{first}");
    let listed = Run::of(&["devices"]).stdout;
    assert!(listed.contains(first["name"].as_str().unwrap()) && listed.contains("invocations per workgroup"));
    assert_eq!(Run::of(&["generate", "--list-devices"]).stdout, listed);
}

#[cfg(target_os = "linux")]
#[test]
fn no_devices() {
    let none = Run::from(without_adapter(&["devices", "--json"]).output().unwrap());
    assert_eq!((none.code, none.stdout.as_str()), (0, "[]\n"));
    assert!(none.stderr.contains("mesa-vulkan-drivers"), "{}", none.stderr);
}

#[test]
fn both_backends_choose_the_same_tokens() {
    let run = |backend: &str| {
        let args = ["generate", "--prompt", PROMPT, "--max-tokens", "6", "--json", "--backend", backend];
        Run::of(&args).json()
    };
    let (cpu, gpu, auto) = (run("cpu"), run("gpu"), run("auto"));
    assert_eq!((&gpu["ids"], &gpu["kv_bytes"]), (&cpu["ids"], &cpu["kv_bytes"]));
    assert_eq!(auto["ids"], cpu["ids"]);
    assert_eq!((&cpu["settings"]["backend"], &gpu["settings"]["backend"]), (&"cpu".into(), &"gpu".into()));
    assert_eq!(
        gpu["settings"]["device"].as_str().unwrap().split(',').next(),
        adapters()[0]["name"].as_str().unwrap().split(',').next()
    );
}

/// The choice is announced with its reason, in both languages.
#[test]
fn the_choice_is_announced() {
    let args = ["generate", "--prompt", "a", "--max-tokens", "1", "--backend", "auto"];
    let software = adapters().iter().all(|adapter| adapter["tier"] == "software");
    let said = if software { "the only adapter is software; measured: " } else { "there is a GPU" };
    let english = Run::of(&args);
    assert!(english.stderr.contains("computing on: ") && english.stderr.contains(said), "{}", english.stderr);
    let vietnamese = Run::of(&[&args[..], &["--lang", "vi"]].concat());
    assert!(vietnamese.stderr.contains("tính bằng: "), "{}", vietnamese.stderr);
    let tail = Run::of(&[&args[..], &["--decoder-tail", "4"]].concat());
    assert_eq!(tail.code, 0, "{}", tail.stderr);
}

#[cfg(target_os = "linux")]
#[test]
fn without_an_adapter() {
    let args = ["generate", "--prompt", "a", "--max-tokens", "1", "--backend"];
    let asked = Run::from(without_adapter(&[&args[..], &["gpu"]].concat()).output().unwrap());
    assert_eq!((asked.code, asked.stdout.as_str()), (1, ""), "{}", asked.stderr);
    assert!(asked.stderr.contains("error: GPU: no adapter") && asked.stderr.contains("mesa-vulkan-drivers"));
    let auto = Run::from(without_adapter(&[&args[..], &["auto"]].concat()).output().unwrap());
    assert_eq!(auto.code, 0, "{}", auto.stderr);
    assert!(auto.stderr.contains("computing on: CPU reference (no GPU is used: GPU: no adapter"), "{}", auto.stderr);
}

#[test]
fn requests_that_a_gpu_cannot_meet() {
    let generate = ["generate", "--prompt", "a", "--backend"];
    fails(&[&generate[..], &["gpu", "--device", "nonsense"]].concat(), 1, &["no adapter is called nonsense"]);
    fails(&[&generate[..], &["cpu", "--device", "a"]].concat(), 2, &["--device"]);
    let run = parity("t12", &["--plant", "comb-transposed"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("--plant"), "{}", run.stderr);
    let image = golden("image/rgba.png");
    let seen = Run::of(&[&generate[..], &["gpu", "--image", &image, "--max-tokens", "1", "--json"]].concat()).json();
    assert!(seen["usage"]["image_tokens"].as_u64().unwrap() > 0);
}

/// A table of 256 MiB that is not bound in pieces, more than a browser binds, in a file that is one hole.
#[cfg(target_os = "linux")]
#[test]
fn tensors_beyond_a_binding() {
    use flash890::config::Config;
    let config = Config { vocab_size: 1 << 20, dspark_markov_rank: 128, ..Config::lab() };
    let folder = super::bad_input::hollow(&config);
    let path = text(folder.path());
    let args =
        ["generate", "--model", &path, "--prompt", "a", "--backend", "gpu", "--emulate-limits", "webgpu-default"];
    fails(&args, 3, &["does not fit", "markov embed in one binding", "134217728 bytes"]);
}

fn open() -> Gpu {
    block_on(Gpu::open(&Choice::default())).expect("GPU tests need an adapter; a software one will do")
}

#[test]
fn the_canary_survives_here() {
    let gpu = open();
    block_on(canary::check(&gpu, &mut Pipelines::default())).unwrap();
}

/// A shader that was compiled wrongly: here one whose constant was changed. The adapter is refused with its name and the numbers.
#[test]
fn the_canary_finds_a_wrong_kernel() {
    let gpu = open();
    for (kernel, overrides, from, to) in [
        (&rms_norm::KERNEL, &[0, 0][..], "p.eps", "(p.eps + 0.001)"),
        (&top_k::KERNEL, &[][..], "find_threshold(seen, p.k, thread)", "find_threshold(seen, p.k - 1u, thread)"),
    ] {
        assert!(kernel.wgsl.contains(from), "{} has no {from}", kernel.name);
        let wgsl: &'static str = kernel.wgsl.replace(from, to).leak();
        let mut pipelines = Pipelines::default();
        pipelines.get(&gpu, &Kernel { wgsl, ..*kernel }, overrides);
        let error = block_on(canary::check(&gpu, &mut pipelines)).unwrap_err();
        assert!(matches!(error, Error::Gpu(_)));
        let said = error.to_string();
        for words in [&gpu.adapter.name, "is refused", kernel.name, " instead of "] {
            assert!(said.contains(words), "no {words:?} in {said}");
        }
    }
}
