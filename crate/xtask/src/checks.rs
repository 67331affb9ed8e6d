//! Checks of the repository itself: its layout, stray modules, and text that belongs to one machine.

use std::path::Path;

use crate::files::{self, FileList};
use crate::modules;

/// What may lie at the top of the repository, besides dot files.
const TOP_LEVEL: &[&str] =
    &["Cargo.lock", "Cargo.toml", "LICENSE", "README.md", "Trunk.toml", "crate", "shaders", "tests", "web"];

/// Folders that mean something on one machine only. Written without the leading slash, lest this file find itself.
const MACHINE_FOLDERS: &[&str] = &["home", "root", "work", "Users"];

/// Hosts of package registries, name and ending apart for the same reason. Which one a machine uses is its own affair.
const REGISTRY_HOSTS: &[(&str, &str)] = &[
    ("crates", "io"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("deb.debian", "org"),
];

/// Files read as text: these endings, and files without one.
const TEXT_ENDINGS: &[&str] =
    &["css", "html", "js", "json", "md", "mjs", "rs", "sh", "svg", "toml", "ts", "txt", "wgsl", "yaml", "yml"];

/// Runs all checks. Prints every finding; the result is a summary.
pub(crate) fn run(root: &Path) -> Result<String, String> {
    let FileList { files, origin } = files::list(root)?;
    let mut findings = layout_findings(&files);
    findings.extend(
        modules::orphans(root, &files)?
            .into_iter()
            .map(|file| format!("{file}: no `mod` line leads to this file, so it is never compiled")),
    );
    for file in files.iter().filter(|file| is_text(file)) {
        let bytes = std::fs::read(root.join(file)).map_err(|error| format!("cannot read {file}: {error}"))?;
        findings.extend(text_findings(file, &String::from_utf8_lossy(&bytes)));
    }
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(format!("{} files {origin}", files.len())),
        count => Err(format!("findings: {count}, see above")),
    }
}

/// Entries at the top of the repository that are not part of the layout.
fn layout_findings(files: &[String]) -> Vec<String> {
    let mut strangers: Vec<&str> = files
        .iter()
        .map(|file| file.split('/').next().unwrap_or(file))
        .filter(|entry| !entry.starts_with('.') && !TOP_LEVEL.contains(entry))
        .collect();
    strangers.dedup();
    strangers
        .iter()
        .map(|entry| format!("{entry}: not part of the top-level layout ({})", TOP_LEVEL.join(", ")))
        .collect()
}

/// Whether a file is text that people wrote. Lock files and golden data come from programs.
fn is_text(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    let is_lock = name.ends_with(".lock") || name.contains("-lock.");
    let is_data = file.starts_with("tests/golden/") && !name.ends_with(".md");
    let ending = name.trim_start_matches('.').rsplit_once('.').map(|(_, ending)| ending);
    !is_lock && !is_data && ending.is_none_or(|ending| TEXT_ENDINGS.contains(&ending))
}

/// Machine paths and registry hosts in a text, as `file:line: what`.
fn text_findings(file: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        for folder in MACHINE_FOLDERS.iter().filter(|folder| has_absolute_path(line, folder)) {
            findings.push(format!("{file}:{number}: path of one machine (/{folder})"));
        }
        for (name, ending) in REGISTRY_HOSTS {
            let host = format!("{name}.{ending}");
            if has_word(line, &host) {
                findings.push(format!("{file}:{number}: host of a package registry ({host})"));
            }
        }
    }
    findings
}

/// Whether the line holds an absolute path that starts with `/folder`, as opposed to `some/folder` or `/folders`.
fn has_absolute_path(line: &str, folder: &str) -> bool {
    let path = format!("/{folder}");
    line.match_indices(&path).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + path.len()..].chars().next();
        // A path goes on to the left after a name, `..`, `~`, `*`, or the end of `${NAME}` and `$(...)`.
        let is_start =
            before.is_none_or(|c| !(is_name(c) || "./~*})".contains(c))) || line[..start].ends_with("file://");
        is_start && after.is_none_or(|c| !is_name(c))
    })
}

/// Whether the line holds `word` not as a part of a longer name; `sub.word` counts, since a host has subdomains.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        before.is_none_or(|c| !is_name(c)) && after.is_none_or(|c| !is_name(c))
    })
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_machine_paths_are_found() {
        for line in ["open(\"/%/x\")", "/%", "cd /%/a", "(/%/a)", "PATH=a:/%/b", "file:///%/a"] {
            assert!(has_absolute_path(&line.replace('%', "root"), "root"), "{line}");
        }
    }

    #[test]
    fn relative_paths_and_longer_names_are_not() {
        for line in ["tree/%", "../%", "~/%", "${A}/%", "/%s/x", "/%-x", "//%", "https://a.b/%"] {
            assert!(!has_absolute_path(&line.replace('%', "work"), "work"), "{line}");
        }
    }

    #[test]
    fn registry_hosts_are_found_with_line_numbers() {
        let host = ["crates", "io"].join(".");
        let text = format!("fine\n[patch.crates-io]\nhttps://index.{host}/x and my{host}\n");
        assert_eq!(text_findings("a.md", &text), [format!("a.md:3: host of a package registry ({host})")]);
        assert_eq!(text_findings("a.md", &format!("my{host} {host}x")), Vec::<String>::new());
    }

    #[test]
    fn the_layout_admits_dot_files_and_absent_entries() {
        let files =
            ["Cargo.toml", ".ci/run", "crate/lib.rs", "notes/a.md", "notes/b.md", "todo.txt"].map(str::to_owned);
        let findings = layout_findings(&files);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].starts_with("notes:") && findings[1].starts_with("todo.txt:"), "{findings:?}");
    }

    #[test]
    fn text_is_told_from_data_and_lock_files() {
        for file in [
            "crate/lib.rs",
            "crate/block.rs",
            ".ci/run",
            ".gitignore",
            ".clippy.toml",
            "LICENSE",
            "tests/golden/README.md",
        ] {
            assert!(is_text(file), "{file}");
        }
        for file in ["Cargo.lock", "web/package-lock.json", "tests/golden/t12/config.json", "a/x.safetensors", "a.png"]
        {
            assert!(!is_text(file), "{file}");
        }
    }
}
