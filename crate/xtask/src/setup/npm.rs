//! The packages of `tests/web/package.json`, in exactly the versions of its lock file.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::system::NPM;
use crate::process;

/// Copy of the lock file that was installed, inside the folder that the installation replaces.
const INSTALLED_LOCK: &str = ".flash890-installed-lock.json";

/// The folder with the browser tests.
pub(crate) fn folder(root: &Path) -> PathBuf {
    root.join("tests").join("web")
}

/// Whether what is installed is what the lock file says.
pub(super) fn is_current(root: &Path) -> bool {
    let lock = std::fs::read(folder(root).join("package-lock.json"));
    let installed = std::fs::read(folder(root).join("node_modules").join(INSTALLED_LOCK));
    matches!((lock, installed), (Ok(lock), Ok(installed)) if lock == installed)
}

pub(super) fn install(root: &Path) -> Result<(), String> {
    let folder = folder(root);
    let mut npm = Command::new(NPM);
    // No package here has anything to run at its installation.
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&folder);
    process::run(&mut npm)
        .map_err(|problem| format!("{problem}. Run `npm ci` in tests/web with a network connection."))?;
    let copy = folder.join("node_modules").join(INSTALLED_LOCK);
    std::fs::copy(folder.join("package-lock.json"), &copy)
        .map(|_| ())
        .map_err(|error| format!("cannot write {}: {error}", copy.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_lock_file_is_noticed() {
        let root = std::env::temp_dir().join(format!("xtask-npm-{}", std::process::id()));
        let modules = folder(&root).join("node_modules");
        std::fs::create_dir_all(&modules).unwrap();
        assert!(!is_current(&root), "nothing is there");
        std::fs::write(folder(&root).join("package-lock.json"), "1").unwrap();
        assert!(!is_current(&root), "nothing is installed");
        std::fs::write(modules.join(INSTALLED_LOCK), "1").unwrap();
        assert!(is_current(&root));
        std::fs::write(folder(&root).join("package-lock.json"), "2").unwrap();
        assert!(!is_current(&root), "the lock file is newer");
        std::fs::remove_dir_all(root).unwrap();
    }
}
