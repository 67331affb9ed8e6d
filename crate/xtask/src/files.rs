//! The list of the repository's files.

use std::path::Path;
use std::process::Command;

use crate::process;

/// Folders that `.gitignore` keeps out of the repository.
const IGNORED_FOLDERS: &[&str] = &["target", "dist", "node_modules"];

/// The files of a repository, as paths from its root with `/` between folders on every system.
pub(crate) struct FileList {
    pub(crate) files: Vec<String>,
    /// Where the list comes from; for the reader of a report.
    pub(crate) origin: &'static str,
}

/// The files that git tracks; in an unpacked source archive, which has no `.git`, all files on disk.
pub(crate) fn list(root: &Path) -> Result<FileList, String> {
    // In a git worktree `.git` is a file.
    let list = if root.join(".git").exists() {
        FileList { files: tracked(root)?, origin: "tracked by git" }
    } else {
        let mut files = Vec::new();
        walk(root, "", &mut files).map_err(|error| format!("cannot list {}: {error}", root.display()))?;
        files.sort();
        FileList { files, origin: "on disk, since there is no .git here" }
    };
    if list.files.is_empty() { Err(format!("no files found in {}", root.display())) } else { Ok(list) }
}

fn tracked(root: &Path) -> Result<Vec<String>, String> {
    let mut git = Command::new("git");
    // Containers often run as another user than the owner of the checkout, which git refuses unless told so.
    git.args(["-c", "safe.directory=*", "ls-files", "-z"]).current_dir(root);
    let listing = process::output(&mut git)?;
    let on_disk = |file: &&str| root.join(file).is_file();
    // git also lists files that are deleted and not yet committed, and links, whose target is listed by itself.
    Ok(listing.split('\0').filter(on_disk).map(str::to_owned).collect())
}

/// Adds the files under `root/folder`. Links are not followed.
fn walk(root: &Path, folder: &str, files: &mut Vec<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_file() {
            files.push(path);
        } else if kind.is_dir() && !IGNORED_FOLDERS.contains(&name.as_str()) {
            walk(root, &path, files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_git_is_listed_from_the_disk() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let list = list(package).unwrap();
        assert_eq!(list.origin, "on disk, since there is no .git here");
        for file in ["Cargo.toml", "src/files.rs", "src/main.rs"] {
            assert!(list.files.iter().any(|listed| listed == file), "{file} is not in {:?}", list.files);
        }
    }

    #[test]
    fn an_absent_folder_is_an_error() {
        let problem = list(Path::new("no-such-folder")).err().unwrap();
        assert!(problem.starts_with("cannot list no-such-folder"), "{problem}");
    }
}
