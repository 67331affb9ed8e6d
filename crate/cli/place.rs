//! Where a checkpoint is: a folder, or the address of one on a web server.

use super::cache::CacheArgs;
use super::console::Console;
use crate::weights::Folder;
use crate::weights::http::Timing;
use crate::{Error, Result};
use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// `DIR|URL` on the command line.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Folder(PathBuf),
    Url(String),
}

impl FromStr for Place {
    type Err = Infallible;

    fn from_str(text: &str) -> std::result::Result<Place, Infallible> {
        let is_url = text.starts_with("http://") || text.starts_with("https://");
        Ok(if is_url { Place::Url(text.into()) } else { Place::Folder(text.into()) })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Folder(path) => write!(f, "{}", path.display()),
            Place::Url(url) => f.write_str(url),
        }
    }
}

impl Place {
    /// The checkpoint's files. Nothing of a server's is kept.
    ///
    /// # Errors
    /// [`Error::Io`] if a folder is none, [`Error::Usage`] if an address is none.
    pub(super) fn files(&self) -> Result<Folder> {
        match self {
            Place::Folder(path) => {
                check_folder(path)?;
                Ok(Folder::Dir(path.clone()))
            }
            Place::Url(url) => Folder::http(url, Timing::default()),
        }
    }

    /// The checkpoint's files; what comes from a server is kept as the options say.
    ///
    /// # Errors
    /// As [`Place::files`] and [`CacheArgs::open`], and what reading the checksums says.
    pub(super) fn kept_files(&self, cache: &CacheArgs, console: &Console) -> Result<Folder> {
        let Place::Url(url) = self else { return self.files() };
        match cache.open(console)? {
            Some(store) => pollster::block_on(Folder::http_stored(url, Timing::default(), store)),
            None => self.files(),
        }
    }
}

/// What the operating system says about a folder that is not there is clearer than what it says about the files in it.
fn check_folder(folder: &Path) -> Result<()> {
    let io = |source| Error::Io { path: folder.display().to_string(), source };
    let metadata = std::fs::metadata(folder).map_err(io)?;
    if !metadata.is_dir() {
        return Err(io(std::io::Error::other("needed a folder, found a file")));
    }
    Ok(())
}
