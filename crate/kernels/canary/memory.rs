//! Which adapters have passed, in a small file of the user's cache folder: `{"version": "...", "passed": ["..."]}`.
//!
//! A pass counts for one adapter, driver and text of all shaders. The file may vanish or be damaged at any time; the canary then runs again.

use crate::gpu::AdapterSummary;
use crate::numerics::hash::fnv1a64;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Adapters that are kept; an older file starts anew.
const MOST: usize = 32;

/// The file.
#[derive(Debug, Clone)]
pub struct Memory {
    file: PathBuf,
}

impl Memory {
    /// A file of one's own.
    pub fn at(file: PathBuf) -> Self {
        Memory { file }
    }

    /// The file in the cache folder of the user, if the environment names one.
    pub fn of_user() -> Option<Self> {
        let folder = cache_folder(&|name| std::env::var_os(name).map(PathBuf::from))?;
        Some(Memory { file: folder.join("flash890").join("canary.json") })
    }

    /// Whether these shaders have seen the adapter pass with this driver.
    pub fn has_passed(&self, adapter: &AdapterSummary) -> bool {
        self.read().contains(&key(adapter))
    }

    /// Notes a pass. That a file cannot be written is no reason to stop: the canary then runs each time.
    pub fn remember(&self, adapter: &AdapterSummary) {
        let mut passed = self.read();
        passed.push(key(adapter));
        let skipped = passed.len().saturating_sub(MOST);
        let content = json!({ "version": version(), "passed": &passed[skipped..] }).to_string();
        // Written beside it and moved, so that nobody reads half a file.
        let fresh = self.file.with_extension(format!("{}.tmp", std::process::id()));
        let folder = self.file.parent().map_or(Ok(()), std::fs::create_dir_all);
        let written = folder.and_then(|()| std::fs::write(&fresh, content));
        let _ = written.and_then(|()| std::fs::rename(&fresh, &self.file));
    }

    fn read(&self) -> Vec<String> {
        let parsed = std::fs::read(&self.file).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        let Some(content) = parsed.filter(|content| content["version"] == version()) else {
            return Vec::new();
        };
        let passed = content["passed"].as_array().into_iter().flatten();
        passed.filter_map(|key| key.as_str().map(String::from)).collect()
    }
}

/// The version of this program, and a hash of the text of its shaders.
fn version() -> String {
    let sources: String = crate::kernels::ALL.iter().map(|kernel| kernel.source()).collect();
    format!("{} {:016x}", env!("CARGO_PKG_VERSION"), fnv1a64(&sources))
}

fn key(adapter: &AdapterSummary) -> String {
    let AdapterSummary { name, driver, backend, .. } = adapter;
    format!("{name} | {driver} | {backend}")
}

/// Where programs keep what can be made again, on Windows, macOS and everywhere else.
pub(crate) fn cache_folder(env: &dyn Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let set = |name: &str| env(name).filter(|path| path.is_absolute());
    if cfg!(windows) {
        set("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        Some(set("HOME")?.join("Library").join("Caches"))
    } else {
        set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::Tier;

    fn adapter(driver: &str) -> AdapterSummary {
        AdapterSummary {
            name: "Card".into(),
            driver: driver.into(),
            backend: "vulkan".into(),
            tier: Tier::Hardware,
            max_binding: 1,
            max_buffer: 1,
            max_workgroup_memory: 1,
            max_invocations: 1,
            max_storage_buffers: 1,
        }
    }

    #[test]
    fn a_pass_counts_for_its_driver_and_version() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new").join("canary.json");
        let memory = Memory::at(file.clone());
        assert!(!memory.has_passed(&adapter("1")));
        memory.remember(&adapter("1"));
        assert!(memory.has_passed(&adapter("1")) && !memory.has_passed(&adapter("2")));
        memory.remember(&adapter("2"));
        assert!(memory.has_passed(&adapter("1")) && memory.has_passed(&adapter("2")));
        let older = std::fs::read_to_string(&file).unwrap().replace(env!("CARGO_PKG_VERSION"), "0.0.0");
        std::fs::write(&file, older).unwrap();
        assert!(!memory.has_passed(&adapter("1")));
        std::fs::write(&file, "{").unwrap();
        assert!(!memory.has_passed(&adapter("1")));
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_no_reason_to_stop() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let memory = Memory::at(folder.path().join("file").join("canary.json"));
        memory.remember(&adapter("1"));
        assert!(!memory.has_passed(&adapter("1")));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn cache_folders() {
        let folder = |set: &[(&str, &str)]| {
            cache_folder(&|name| set.iter().find(|(key, _)| *key == name).map(|(_, path)| PathBuf::from(path)))
        };
        assert_eq!(folder(&[("HOME", "/h")]), Some("/h/.cache".into()));
        assert_eq!(folder(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")]), Some("/c".into()));
        // The standard has relative paths ignored.
        assert_eq!(folder(&[("HOME", "/h"), ("XDG_CACHE_HOME", "c")]), Some("/h/.cache".into()));
        assert_eq!(folder(&[]), None);
    }
}
