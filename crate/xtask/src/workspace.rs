//! Where the repository and its build output are, and how `cargo` is started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;

/// The repository that the command was called in.
pub(crate) struct Workspace {
    /// The folder of the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Where cargo puts what it builds; honours `CARGO_TARGET_DIR` and cargo's configuration files.
    pub(crate) target_dir: PathBuf,
}

impl Workspace {
    /// Asks cargo, starting at the folder of this package (or the current one when not started by `cargo run`).
    pub(crate) fn find() -> Result<Self, String> {
        let mut locate = Command::new(cargo());
        locate.args(["metadata", "--no-deps", "--format-version", "1"]);
        if let Some(package_dir) = std::env::var_os("CARGO_MANIFEST_DIR") {
            locate.arg("--manifest-path").arg(Path::new(&package_dir).join("Cargo.toml"));
        }
        let metadata = process::output(&mut locate)?;
        let path = |key: &str| {
            json_string(&metadata, key)
                .map(PathBuf::from)
                .ok_or_else(|| format!("`cargo metadata` printed no string `{key}`"))
        };
        Ok(Self { root: path("workspace_root")?, target_dir: path("target_directory")? })
    }

    /// The native program, as a release build leaves it.
    pub(crate) fn program(&self) -> PathBuf {
        self.target_dir.join("release").join(format!("flash890{}", std::env::consts::EXE_SUFFIX))
    }

    /// A cargo command in the root of the repository.
    pub(crate) fn cargo(&self, args: &[&str]) -> Command {
        let mut command = Command::new(cargo());
        command.args(args).current_dir(&self.root);
        command
    }
}

/// The cargo that runs this program, or the one on the PATH.
pub(crate) fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The compiler that cargo would use.
pub(crate) fn rustc() -> OsString {
    std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())
}

/// The first string value of `key` in a JSON text without white space around the colon, as cargo writes it.
///
/// Two paths are all that is wanted of the metadata, and a JSON library would take longer to compile than all of xtask.
fn json_string(json: &str, key: &str) -> Option<String> {
    let opening = format!("\"{key}\":\"");
    let start = json.find(&opening)? + opening.len();
    let mut value = String::new();
    let mut chars = json[start..].chars();
    loop {
        match chars.next()? {
            '"' => return Some(value),
            // A path's only usual escapes are the backslash of Windows and the quotation mark.
            '\\' => match chars.next()? {
                escaped @ ('\\' | '"' | '/') => value.push(escaped),
                _ => return None,
            },
            plain => value.push(plain),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_strings_are_found_and_unescaped() {
        let json = r#"{"version":1,"target_directory":"C:\\code\\a \"b\"","workspace_root":"/đường/dẫn"}"#;
        assert_eq!(json_string(json, "target_directory").as_deref(), Some(r#"C:\code\a "b""#));
        assert_eq!(json_string(json, "workspace_root").as_deref(), Some("/đường/dẫn"));
    }

    #[test]
    fn anything_else_is_none() {
        assert_eq!(json_string(r#"{"version":1}"#, "version"), None);
        assert_eq!(json_string(r#"{"root":"cut off"#, "root"), None);
        assert_eq!(json_string(r#"{"root":"\u0041"}"#, "root"), None);
    }
}
