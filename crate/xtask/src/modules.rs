//! Finding Rust files that no `mod` line leads to: cargo would never compile them, and nobody would notice.

use std::collections::BTreeSet;
use std::path::Path;

/// Those of `files` that are `.rs` files under `crate/` and that no target of a `Cargo.toml` among them reaches.
pub(crate) fn orphans(root: &Path, files: &[String]) -> Result<Vec<String>, String> {
    let read =
        |file: &str| std::fs::read_to_string(root.join(file)).map_err(|error| format!("cannot read {file}: {error}"));
    let mut roots = Vec::new();
    for manifest in files.iter().filter(|file| file.rsplit('/').next() == Some("Cargo.toml")) {
        let folder = parent(manifest);
        roots.extend(target_paths(&read(manifest)?).into_iter().map(|path| join(folder, path)));
    }
    let reached = reachable(&roots, |file| std::fs::read_to_string(root.join(file)).ok());
    let is_orphan = |file: &&String| file.starts_with("crate/") && file.ends_with(".rs") && !reached.contains(*file);
    Ok(files.iter().filter(is_orphan).cloned().collect())
}

/// The `path = "....rs"` lines of a manifest: this repository names the source of every target.
fn target_paths(manifest: &str) -> Vec<&str> {
    let value = |line| -> Option<&str> {
        let (key, value) = str::split_once(line, '=')?;
        let path = value.trim().strip_prefix('"')?.strip_suffix('"')?;
        (key.trim() == "path" && path.ends_with(".rs")).then_some(path)
    };
    manifest.lines().filter_map(value).collect()
}

/// All files that the `mod` lines lead to from `roots`, the existing ones of the roots included.
fn reachable(roots: &[String], read: impl Fn(&str) -> Option<String>) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut to_visit: Vec<(String, bool)> = roots.iter().map(|file| (file.clone(), true)).collect();
    while let Some((file, is_root)) = to_visit.pop() {
        if reached.contains(&file) {
            continue;
        }
        let Some(text) = read(&file) else { continue };
        to_visit.extend(candidates(&file, is_root, &text).into_iter().map(|next| (next, false)));
        reached.insert(file);
    }
    reached
}

/// The files that the `mod name;` lines of one file may mean, whether they exist or not.
///
/// Reads line by line, as rustfmt lays them out: a `#[path]` attribute stands before its `mod` line. Modules declared
/// inside an inline `mod { }` are not followed; this repository has none.
fn candidates(file: &str, is_root: bool, text: &str) -> Vec<String> {
    let folder = parent(file);
    let stem = file[folder.len()..].trim_start_matches('/').trim_end_matches(".rs");
    // `a/mod.rs` and a crate's root own their folder, `a/b.rs` owns `a/b/`.
    let children = if is_root || stem == "mod" { folder.to_owned() } else { join(folder, stem) };
    let mut files = Vec::new();
    let mut explicit_path = None;
    for line in text.lines().map(str::trim) {
        if let Some(path) = line.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
            explicit_path = Some(path);
        } else if let Some(name) = declared_module(line) {
            match explicit_path.take() {
                Some(path) => files.push(join(folder, path)),
                None => {
                    files.push(join(&children, &format!("{name}.rs")));
                    files.push(join(&children, &format!("{name}/mod.rs")));
                }
            }
        }
    }
    files
}

/// The name in `mod name;`, with any visibility before it.
fn declared_module(line: &str) -> Option<&str> {
    let declaration = line.strip_suffix(';')?;
    let (visibility, name) =
        declaration.strip_prefix("mod ").map_or_else(|| declaration.split_once(" mod "), |name| Some(("", name)))?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    (is_name && (visibility.is_empty() || visibility.starts_with("pub"))).then_some(name)
}

/// The folder of a file, without the last slash; empty at the top.
fn parent(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// `folder/path` with the `..` parts of `path` resolved.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(files: &[(&str, &str)], root: &str) -> Vec<String> {
        let read = |wanted: &str| files.iter().find(|(file, _)| *file == wanted).map(|(_, text)| (*text).to_owned());
        reachable(&[root.to_owned()], read).into_iter().collect()
    }

    #[test]
    fn modules_are_followed_in_all_their_places() {
        let files = [
            ("crate/lib.rs", "pub mod numerics;\npub(crate) mod text;\nmod inline {\n}\n"),
            ("crate/numerics/mod.rs", "mod e4m3;"),
            ("crate/numerics/e4m3.rs", "#[cfg(test)]\nmod tests;"),
            ("crate/numerics/e4m3/tests.rs", ""),
            ("crate/text.rs", "#[cfg(test)]\n#[path = \"text_tests.rs\"]\nmod tests;"),
            ("crate/text_tests.rs", "// mod lost;\n"),
            ("crate/lost.rs", "mod loop_back;"),
            ("crate/inline.rs", ""),
        ];
        let expected = [
            "crate/lib.rs",
            "crate/numerics/e4m3.rs",
            "crate/numerics/e4m3/tests.rs",
            "crate/numerics/mod.rs",
            "crate/text.rs",
            "crate/text_tests.rs",
        ];
        assert_eq!(reach(&files, "crate/lib.rs"), expected);
    }

    #[test]
    fn circles_end() {
        assert_eq!(reach(&[("a.rs", "#[path = \"a.rs\"]\nmod a;")], "a.rs"), ["a.rs"]);
    }

    #[test]
    fn only_declarations_are_modules() {
        assert_eq!(declared_module("pub(in crate::a) mod b;"), Some("b"));
        assert_eq!(declared_module("mod b;"), Some("b"));
        for line in ["mod b {", "// mod b;", "//! pub mod b;", "use a::mod_b;", "let a = \"x mod b\";", "mod ;"] {
            assert_eq!(declared_module(line), None, "{line}");
        }
    }

    #[test]
    fn targets_are_read_from_a_manifest() {
        let manifest = "[lib]\npath = \"crate/lib.rs\"\n[dependencies]\nxtask = { path = \"crate/xtask\" }\n[[bin]]\npath=\"b.rs\"\n";
        assert_eq!(target_paths(manifest), ["crate/lib.rs", "b.rs"]);
    }

    #[test]
    fn paths_are_joined_and_resolved() {
        assert_eq!(join("", "crate/lib.rs"), "crate/lib.rs");
        assert_eq!(join("crate/gpu", "../text/./x.rs"), "crate/text/x.rs");
    }
}
