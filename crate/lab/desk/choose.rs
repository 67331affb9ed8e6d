//! Which engine a page gets, and why.

use super::{Event, Host, SlotCount, Wish};
use crate::error::{Error, Result};
use crate::gpu::{Choice, Tier};
use crate::kernels::canary;
use crate::lab::content::Text;
use crate::model::Reference;
use crate::model::engine;
use crate::model::gpu::{GpuModel, SlotWish};
use crate::weights::Checkpoint;
use std::rc::Rc;
use std::sync::Arc;

/// What computes, and the reason in words.
pub(super) async fn choose(
    checkpoint: &Arc<Checkpoint>,
    reference: &Arc<Reference>,
    slots: Option<SlotCount>,
    wish: Wish,
    host: &Host,
) -> Result<(Option<Rc<GpuModel>>, Text)> {
    if wish == Wish::Cpu {
        return Ok((None, Text::new("theo yêu cầu", "as asked for")));
    }
    (host.tell)(Event::Progress("adapter", 0, 1));
    let context = &reference.context;
    let load = async |gpu| {
        let progress = |done, all, _: &str| (host.tell)(Event::Progress("upload", done, all));
        let slots = slots.map(|SlotCount { count, clock }| SlotWish { count, clock: Rc::new(clock) });
        let precision = (context.numerics, context.kv);
        GpuModel::load_slotted(gpu, checkpoint.clone(), precision, slots, &mut { progress }).await.map(Rc::new)
    };
    let gpu = match canary::open(&Choice::default()).await {
        Ok(gpu) => gpu,
        Err(error) if wish == Wish::Gpu => return Err(error),
        Err(error) => return Ok((None, refused(&error))),
    };
    if wish == Wish::Gpu {
        return Ok((Some(load(gpu).await?), Text::new("theo yêu cầu", "as asked for")));
    }
    if gpu.adapter.tier == Tier::Hardware {
        return Ok(match load(gpu).await {
            Ok(model) => (Some(model), Text::new("máy có GPU", "there is a GPU")),
            Err(error) => (None, refused(&error)),
        });
    }
    let timing = match engine::time(reference, &gpu, &*host.clock).await {
        Ok(timing) => timing,
        Err(error) => return Ok((None, refused(&error))),
    };
    let (cpu, software) = (1e3 * timing.cpu, 1e3 * timing.gpu);
    let reason = Text::of(
        format!("chỉ có GPU mô phỏng; đo thử: {software:.2} ms, CPU {cpu:.2} ms"),
        format!("the only adapter is software; measured: {software:.2} ms, CPU {cpu:.2} ms"),
    );
    let model = if timing.gpu < timing.cpu { Some(load(gpu).await?) } else { None };
    Ok((model, reason))
}

fn refused(error: &Error) -> Text {
    Text::of(format!("không dùng được GPU: {error}"), format!("no GPU is used: {error}"))
}
