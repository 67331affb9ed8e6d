//! Which engine a page gets, and why.

use super::{Event, Host, SlotCount, Wish};
use crate::error::{Error, Result};
use crate::gpu::{Choice, Gpu, Tier};
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
    if wish == Wish::Gpu {
        let gpu = canary::open(&Choice::default()).await?;
        return Ok((Some(load(gpu).await?), Text::new("theo yêu cầu", "as asked for")));
    }
    let gpu = match Gpu::open(&Choice::default()).await {
        Ok(gpu) => gpu,
        Err(error) => return Ok((None, refused(&error))),
    };
    if gpu.adapter.tier == Tier::Hardware {
        let examined = canary::examine(&gpu).await;
        let loaded = match examined {
            Ok(()) => load(gpu).await,
            Err(error) => Err(error),
        };
        return Ok(match loaded {
            Ok(model) => (Some(model), Text::new("máy có GPU", "there is a GPU")),
            Err(error) => (None, refused(&error)),
        });
    }
    // Compiling the canary's kernels takes a software adapter seconds: only if it is going to be used.
    let timing = match engine::time(reference, &gpu, &*host.clock).await {
        Ok(timing) => timing,
        Err(error) => return Ok((None, refused(&error))),
    };
    let (cpu, software) = (1e3 * timing.cpu, 1e3 * timing.gpu);
    let reason = Text::of(
        format!("chỉ có GPU mô phỏng; đo thử: {software:.2} ms, CPU {cpu:.2} ms"),
        format!("the only adapter is software; measured: {software:.2} ms, CPU {cpu:.2} ms"),
    );
    if timing.cpu <= timing.gpu {
        return Ok((None, reason));
    }
    Ok(match canary::examine(&gpu).await {
        Ok(()) => (Some(load(gpu).await?), reason),
        Err(error) => (None, refused(&error)),
    })
}

fn refused(error: &Error) -> Text {
    Text::of(format!("không dùng được GPU: {error}"), format!("no GPU is used: {error}"))
}
