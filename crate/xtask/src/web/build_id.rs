//! One id in the wasm core, its glue and the scripts, so that files of two builds refuse to work together.
//!
//! The id is a hash of what Trunk and wasm-opt made, put into the files afterwards: so a change of a script does not
//! compile the core again. `web/build.js` is the other side of this. The shaders are inside the core.

use std::path::Path;

use super::{cache, read, write};

/// What a script holds in place of the id until it is built.
const PLACEHOLDER: &str = "@FLASH890_BUILD@";
/// Name of the section of the wasm core that holds the id.
const SECTION: &str = "flash890.build";
/// The glue that wasm-bindgen writes, as it is called without its ending.
const GLUE: &str = "flash890";

/// Computes the id of the page in `dist` and puts it into its files.
pub(super) fn stamp(dist: &Path) -> Result<String, String> {
    let mut names = Vec::new();
    list(dist, "", &mut names).map_err(|error| format!("cannot list {}: {error}", dist.display()))?;
    names.sort();
    let mut files = Vec::new();
    for name in names {
        let bytes = read(&dist.join(&name))?;
        files.push((name, bytes));
    }
    let build = cache::key(files.iter().flat_map(|(name, bytes)| [name.as_bytes(), bytes.as_slice()]));
    for (name, bytes) in files {
        if let Some(stamped) = stamped(&name, &bytes, &build) {
            write(&dist.join(&name), &stamped)?;
        }
    }
    Ok(build)
}

/// The contents of a file with the id in it; `None` for a file that has no place for it.
fn stamped(name: &str, bytes: &[u8], build: &str) -> Option<Vec<u8>> {
    if name.ends_with(".wasm") {
        return Some([bytes, &section(SECTION, build.as_bytes())].concat());
    }
    let line = match name.strip_prefix(GLUE) {
        Some(".js") => format!("export const BUILD = '{build}';\n"),
        Some(".d.ts") => "/** Id of the build that this file belongs to. */\nexport const BUILD: string;\n".to_owned(),
        _ => String::new(),
    };
    if !line.is_empty() {
        return Some([bytes, b"\n", line.as_bytes()].concat());
    }
    let text = std::str::from_utf8(bytes).ok().filter(|text| name.ends_with(".js") && text.contains(PLACEHOLDER))?;
    Some(text.replace(PLACEHOLDER, build).into_bytes())
}

/// A custom section of a wasm module: id 0, size, length of the name, name, payload. It may stand at the end.
fn section(name: &str, payload: &[u8]) -> Vec<u8> {
    let contents = [&leb128(name.len()), name.as_bytes(), payload].concat();
    [&[0], leb128(contents.len()).as_slice(), &contents].concat()
}

/// An unsigned number in groups of seven bits, the last without the high bit.
fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (number & 0x7f) as u8;
        number >>= 7;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// The files under `root/folder`, with `/` between folders on every system.
fn list(root: &Path, folder: &str, files: &mut Vec<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.file_type()?.is_dir() {
            list(root, &path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_file_gets_the_id_in_its_way() {
        let text =
            |name, text: &str| stamped(name, text.as_bytes(), "12ab").map(|bytes| String::from_utf8(bytes).unwrap());
        let script = format!("const BUILD = '{PLACEHOLDER}';");
        assert_eq!(text("worker.js", &script).as_deref(), Some("const BUILD = '12ab';"));
        assert_eq!(text("lab/plain.js", "let a;"), None);
        assert_eq!(text("notes.txt", &script), None);
        assert_eq!(text("flash890.js", "let a;").as_deref(), Some("let a;\nexport const BUILD = '12ab';\n"));
        assert!(text("flash890.d.ts", "").unwrap().contains("export const BUILD: string;"));
    }

    #[test]
    fn a_wasm_file_gets_a_custom_section_at_its_end() {
        let header = b"\0asm\x01\0\0\0";
        let stamped = stamped("flash890_bg.wasm", header, "12ab").unwrap();
        assert_eq!(stamped, [header, b"\x00\x13\x0eflash890.build12ab".as_slice()].concat());
        assert_eq!(leb128(300), [0xac, 0x02]);
    }

    #[test]
    fn the_id_depends_on_names_and_contents() {
        let dist = std::env::temp_dir().join(format!("xtask-stamp-{}", std::process::id()));
        let stamp_of = |name: &str, text: &str| {
            std::fs::create_dir_all(dist.join("lab")).unwrap();
            std::fs::write(dist.join("lab").join(name), text).unwrap();
            let build = stamp(&dist).unwrap();
            let after = std::fs::read_to_string(dist.join("lab").join(name)).unwrap();
            std::fs::remove_dir_all(&dist).unwrap();
            (build, after)
        };
        let (first, after) = stamp_of("a.js", PLACEHOLDER);
        assert_eq!(after, first);
        assert_eq!(stamp_of("a.js", PLACEHOLDER).0, first);
        assert_ne!(stamp_of("b.js", PLACEHOLDER).0, first);
        assert_ne!(stamp_of("a.js", &format!("{PLACEHOLDER} ")).0, first);
    }

    #[test]
    fn the_scripts_know_the_section_and_the_placeholder() {
        let web = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join("..").join("web");
        let script = std::fs::read_to_string(web.join("build.js")).unwrap();
        assert!(script.contains(&format!("'{SECTION}'")) && script.contains(PLACEHOLDER));
        for name in ["engine.js", "worker.js"] {
            let script = std::fs::read_to_string(web.join(name)).unwrap();
            assert!(script.contains(&format!("const BUILD = '{PLACEHOLDER}';")), "{name} has no build id");
        }
    }
}
