//! The one library of others in the page: the Markdown parser of the chat, from npm at the version of the lock file.

use std::path::Path;

use super::{read, write};
use crate::setup::npm;
use crate::workspace::Workspace;

/// Files of `node_modules`, and what they are called in `chat/vendor`: with an ending that every static server knows as a script.
const FILES: &[(&str, &str)] = &[
    ("markdown-it/dist/browser/markdown-it.esm.min.mjs", "markdown-it.js"),
    ("markdown-it/LICENSE", "markdown-it.LICENSE"),
];

/// Copies the library into the page.
pub(super) fn add(workspace: &Workspace, dist: &Path) -> Result<(), String> {
    let modules = npm::folder(&workspace.root).join("node_modules");
    let vendor = dist.join("chat").join("vendor");
    std::fs::create_dir_all(&vendor).map_err(|error| format!("cannot make {}: {error}", vendor.display()))?;
    for (from, to) in FILES {
        write(&vendor.join(to), &read(&modules.join(from))?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chat_imports_the_library_by_the_name_that_it_gets() {
        let chat = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("..").join("web").join("chat");
        let script = std::fs::read_to_string(chat.join("markdown.js")).unwrap();
        assert!(script.contains("from './vendor/markdown-it.js'"));
        assert!(FILES.iter().any(|(_, to)| *to == "markdown-it.js"));
    }
}
