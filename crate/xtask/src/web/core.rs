//! The wasm core: wasm-opt makes it smaller and quicker, brotli tells what a visitor downloads.

use std::path::Path;
use std::process::Command;

use super::{cache, read};
use crate::process;
use crate::setup::npm;
use crate::workspace::Workspace;

/// The file that Trunk writes.
const CORE: &str = "flash890_bg.wasm";

/// The largest core that passes, in bytes after brotli.
const BROTLI_LIMIT: u64 = 1_200_000;

/// What wasm-opt does, and which features it may assume: those that rustc and `.cargo/config.toml` turn on. Every browser
/// with WebGPU has them.
const WASM_OPT: &[&str] = &[
    "-O3",
    "--enable-bulk-memory",
    "--enable-bulk-memory-opt",
    "--enable-call-indirect-overlong",
    "--enable-multivalue",
    "--enable-mutable-globals",
    "--enable-nontrapping-float-to-int",
    "--enable-reference-types",
    "--enable-sign-ext",
    "--enable-simd",
];

/// The core's size in bytes.
pub(super) struct Size {
    pub(super) bytes: u64,
    pub(super) brotli: u64,
}

impl Size {
    /// A sentence on the size, as an error when it is over the limit.
    pub(super) fn within_limit(&self) -> Result<String, String> {
        let mega = |bytes| bytes as f64 / 1e6;
        let report = format!(
            "wasm {:.2} MB, {:.2} MB with brotli, limit {:.2} MB",
            mega(self.bytes),
            mega(self.brotli),
            mega(BROTLI_LIMIT)
        );
        if self.brotli <= BROTLI_LIMIT { Ok(report) } else { Err(report) }
    }
}

/// Optimises the core in place and measures it. The optimised core is kept, since only its input decides what it is.
pub(super) fn shrink(workspace: &Workspace, dist: &Path) -> Result<Size, String> {
    let file = dist.join(CORE);
    let original = read(&file)?;
    let web = npm::folder(&workspace.root);
    let lock = read(&web.join("package-lock.json"))?;
    let options = WASM_OPT.join(" ");
    let key = cache::key([original.as_slice(), &lock, options.as_bytes()]);
    let folder = workspace.target_dir.join("page");

    let core = cache::file(&folder, "core", &key, |output| {
        eprintln!("optimising the wasm core with wasm-opt (under a minute)");
        let mut wasm_opt = node(&web.join("node_modules").join("binaryen").join("bin").join("wasm-opt"));
        process::run(wasm_opt.args(WASM_OPT).arg(&file).arg("--output").arg(output))
    })?;
    let brotli = cache::file(&folder, "brotli", &key, |output| {
        let size = process::output(node(&web.join("brotli-size.mjs")).arg(&core))?;
        super::write(output, size.as_bytes())
    })?;
    let brotli = String::from_utf8_lossy(&read(&brotli)?).trim().parse().map_err(|error| format!("brotli: {error}"))?;
    let bytes = std::fs::copy(&core, &file).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok(Size { bytes, brotli })
}

/// A Node.js command that runs `script`.
pub(super) fn node(script: &Path) -> Command {
    let mut command = Command::new("node");
    command.arg(script);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_limit_is_inclusive() {
        assert!(Size { bytes: 4_000_000, brotli: BROTLI_LIMIT }.within_limit().is_ok());
        let report = Size { bytes: 4_000_000, brotli: BROTLI_LIMIT + 10_000 }.within_limit().unwrap_err();
        assert_eq!(report, "wasm 4.00 MB, 1.21 MB with brotli, limit 1.20 MB");
    }
}
