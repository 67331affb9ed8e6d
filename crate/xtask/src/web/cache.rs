//! Results that are kept until their input changes.

use std::path::{Path, PathBuf};

/// A key over byte strings: FNV-1a with 64 bits, each string preceded by its length. Tells versions apart; no protection
/// against intent is wanted here, and the standard library has no hash that stays the same between its versions.
pub(super) fn key<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for part in parts {
        add(&(part.len() as u64).to_le_bytes());
        add(part);
    }
    format!("{hash:016x}")
}

/// The file `folder/name-key`, made by `make` unless it is there. Files of `name` with other keys are removed.
///
/// `make` writes to the path it is given, which takes its name only when it is complete.
pub(super) fn file(
    folder: &Path,
    name: &str,
    key: &str,
    make: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let problem = |error: std::io::Error| format!("cannot keep {name} in {}: {error}", folder.display());
    let file = folder.join(format!("{name}-{key}"));
    if file.is_file() {
        return Ok(file);
    }
    std::fs::create_dir_all(folder).map_err(problem)?;
    let prefix = format!("{name}-");
    for entry in std::fs::read_dir(folder).map_err(problem)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            std::fs::remove_file(entry.path()).map_err(problem)?;
        }
    }
    let incomplete = folder.join(format!("{name}-incomplete"));
    make(&incomplete)?;
    std::fs::rename(&incomplete, &file).map_err(problem)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_depend_on_every_byte_and_on_where_parts_end() {
        // FNV-1a of eight zero bytes and nothing else.
        assert_eq!(key([b"".as_slice()]), "a8c7f832281a39c5");
        let keys = [key([b"ab".as_slice(), b"c"]), key([b"a".as_slice(), b"bc"]), key([b"abc".as_slice()])];
        assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2], "{keys:?}");
    }

    #[test]
    fn a_result_is_made_once_per_key_and_the_last_one_kept() {
        let folder = std::env::temp_dir().join(format!("xtask-cache-{}", std::process::id()));
        let made = |key: &str, text: &str| {
            let file = file(&folder, "core", key, |path| std::fs::write(path, text).map_err(|error| error.to_string()));
            std::fs::read_to_string(file.unwrap()).unwrap()
        };
        assert_eq!(made("1", "first"), "first");
        assert_eq!(made("1", "never written"), "first");
        assert_eq!(made("2", "second"), "second");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        assert!(file(&folder, "core", "3", |_| Err("no".to_owned())).is_err());
        std::fs::remove_dir_all(folder).unwrap();
    }
}
