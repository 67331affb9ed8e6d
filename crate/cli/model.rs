//! Opening and loading a model for a command.

use super::console::Console;
use super::memory;
use crate::blocks::context::Context;
use crate::error::{Error, Result};
use crate::model::Reference;
use crate::model::load::Progress;
use crate::weights::{Checkpoint, tiny};
use pollster::block_on;
use std::path::Path;
use std::sync::Arc;

/// Opens a checkpoint folder, or the built-in lab checkpoint.
///
/// # Errors
/// As [`Checkpoint::open_dir`].
pub(super) fn open(folder: Option<&Path>, console: &Console) -> Result<Arc<Checkpoint>> {
    let checkpoint = match folder {
        Some(folder) => {
            check_folder(folder)?;
            block_on(Checkpoint::open_dir(folder))?
        }
        None => {
            console.notice(
                "không có --model: dùng mô hình thí nghiệm có sẵn; trọng số là ngẫu nhiên nên câu trả lời vô nghĩa",
                "no --model: using the built-in lab model; its weights are random, so the answer makes no sense",
            );
            block_on(tiny::lab())?
        }
    };
    Ok(Arc::new(checkpoint))
}

/// What the operating system says about a folder that is not there is clearer than what it says about the files in it.
///
/// # Errors
/// [`Error::Io`] if it is no folder.
pub(super) fn check_folder(folder: &Path) -> Result<()> {
    let io = |source| Error::Io { path: folder.display().to_string(), source };
    let metadata = std::fs::metadata(folder).map_err(io)?;
    if !metadata.is_dir() {
        return Err(io(std::io::Error::other("needed a folder, found a file")));
    }
    Ok(())
}

/// Loads the weights, if they fit, with a bar.
///
/// # Errors
/// [`Error::DoesNotFit`], otherwise as [`Reference::load`].
pub(super) fn load(checkpoint: &Arc<Checkpoint>, context: Context, console: &Console) -> Result<Reference> {
    memory::check(checkpoint, context.kv)?;
    with_bar(console, |progress| block_on(Reference::load_with(checkpoint.clone(), context, progress)))
}

/// Loads something with a bar.
pub(super) fn with_bar<T>(console: &Console, load: impl FnOnce(Progress<'_>) -> Result<T>) -> Result<T> {
    let bar = console.bar(0);
    let mut progress = |done: usize, parts: usize, part: &str| {
        bar.set_length(parts as u64);
        bar.set_position(done as u64);
        bar.set_message(part.to_string());
    };
    let loaded = load(&mut progress);
    bar.finish_and_clear();
    loaded
}
