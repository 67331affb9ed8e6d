//! Opening and loading a model for a command.

use super::cache::CacheArgs;
use super::console::{Console, size};
use super::memory;
use super::nano;
use super::place::Place;
use crate::blocks::context::Context;
use crate::error::Result;
use crate::model::Reference;
use crate::model::load::Progress;
use crate::model::slots::Slots;
use crate::numerics::precision::Precision;
use crate::weights::{Checkpoint, tiny};
use pollster::block_on;
use std::sync::Arc;
use std::time::Instant;

/// Opens a checkpoint, or the built-in lab checkpoint.
///
/// # Errors
/// As [`Place::kept_files`] and [`Checkpoint::open`].
pub(super) fn open(place: Option<&Place>, cache: &CacheArgs, console: &Console) -> Result<Arc<Checkpoint>> {
    let checkpoint = match place {
        Some(place) => block_on(Checkpoint::open(&place.kept_files(cache, console)?))?,
        None => {
            console.notice(
                "không có --model: dùng mô hình thí nghiệm có sẵn; trọng số là ngẫu nhiên nên câu trả lời vô nghĩa",
                "no --model: using the built-in lab model; its weights are random, so the answer makes no sense",
            );
            block_on(tiny::lab())?
        }
    };
    if checkpoint.is_remote() {
        let bytes = size(memory::loaded(&checkpoint));
        console.notice(
            format!("đọc {bytes} từ máy chủ hoặc bộ nhớ đệm"),
            format!("reading {bytes} from the server or the cache"),
        );
    }
    Ok(Arc::new(checkpoint))
}

/// Opens a checkpoint to talk with, or nano.
///
/// # Errors
/// As [`open`].
pub(super) fn open_or_nano(place: Option<&Place>, cache: &CacheArgs, console: &Console) -> Result<Arc<Checkpoint>> {
    if place.is_some() {
        return open(place, cache, console);
    }
    console.notice(
        "không có --model: dùng nano, mô hình nhỏ đi kèm; nó chỉ biết về kiến trúc DeepSeek-V4.1-Flash",
        "no --model: using nano, the small model that comes along; it knows DeepSeek-V4.1-Flash's architecture and nothing else",
    );
    Ok(Arc::new(block_on(nano::open())?))
}

/// Loads the weights, if they fit, with a bar.
///
/// # Errors
/// [`Error::DoesNotFit`](crate::Error::DoesNotFit), otherwise as [`Reference::load`].
pub(super) fn load(checkpoint: &Arc<Checkpoint>, context: Context, console: &Console) -> Result<Reference> {
    memory::check(checkpoint, context.kv)?;
    with_bar(checkpoint, console, |progress| block_on(Reference::load_with(checkpoint.clone(), context, progress)))
}

/// Slots for `percent` of the routed experts, if what stays in memory with them fits there; `is_main` says that it is the machine's own.
///
/// # Errors
/// [`Error::DoesNotFit`](crate::Error::DoesNotFit).
pub(super) fn slots(
    checkpoint: &Checkpoint,
    kv: Precision,
    percent: f64,
    is_main: bool,
    console: &Console,
) -> Result<usize> {
    let config = &checkpoint.config;
    let all = config.n_layers * config.n_routed_experts;
    let count = ((percent / 100.0 * all as f64).ceil() as usize).clamp(1, all.max(1));
    let experts = memory::routed_experts(checkpoint);
    let held = experts / all.max(1) as u64 * count as u64;
    if is_main {
        memory::check_bytes(memory::loaded(checkpoint) - experts + held, checkpoint, kv)?;
    }
    let (kept, rest, of) = (size(held), size(experts), all);
    console.notice(
        format!("chuyên gia: {count} chỗ cho {of} ({kept} của {rest}), đọc khi bộ định tuyến cần"),
        format!("experts: {count} slots for {of} ({kept} of {rest}), read as the router asks"),
    );
    Ok(count)
}

/// Loads all but the routed experts, which come to slots for `percent` of them as the router asks; if that fits, with a bar.
///
/// # Errors
/// As [`load`].
pub(super) fn load_slotted(
    checkpoint: &Arc<Checkpoint>,
    context: Context,
    percent: f64,
    console: &Console,
) -> Result<Reference> {
    let count = slots(checkpoint, context.kv, percent, true, console)?;
    let begin = Instant::now();
    let slots = Arc::new(Slots::new(count, Box::new(move || begin.elapsed().as_secs_f64())));
    with_bar(checkpoint, console, |progress| {
        block_on(Reference::load_slotted(checkpoint.clone(), context, Some(slots), progress))
    })
}

/// Loads something with a bar that counts bytes.
pub(super) fn with_bar<T>(
    checkpoint: &Checkpoint,
    console: &Console,
    load: impl FnOnce(Progress<'_>) -> Result<T>,
) -> Result<T> {
    let (total, before) = (memory::loaded(checkpoint), checkpoint.given_bytes());
    let bar = console.byte_bar(total);
    let mut progress = |_: usize, _: usize, part: &str| {
        // An engine that reads something twice must not pass the end.
        bar.set_position((checkpoint.given_bytes() - before).min(total));
        bar.set_message(part.to_string());
    };
    let loaded = load(&mut progress);
    bar.finish_and_clear();
    loaded
}
