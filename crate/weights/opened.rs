//! A checkpoint that was opened and not yet read: what it is, how it would be held, and what has to be fetched for that. So that somebody can be
//! asked before it is.

use super::Checkpoint;
use super::folder::{Folder, Meter};
use super::holding::Holding;
use crate::{Error, Result};
use serde::Serialize;

/// Bytes that are fetched without asking: about what a page with pictures takes.
pub const WITHOUT_ASKING: u64 = 20_000_000;

/// What opening found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Where it is; nothing for the built-in model.
    pub address: Option<String>,
    /// Number of tensors.
    pub tensors: usize,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes that came from the server for this plan.
    pub asked: u64,
    /// How it is held.
    #[serde(flatten)]
    pub holding: Holding,
    /// Bytes that have to come from the server before it runs. Experts without a place, and n-gram rows, come later.
    pub fetch: u64,
    /// Bytes of it that the store has, and what the store still takes; nothing if there is no store.
    pub kept: Option<Kept>,
    /// Whether somebody should be asked before so much is fetched.
    pub ask: bool,
}

/// A store, as far as this checkpoint goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Bytes that are here already.
    pub bytes: u64,
    /// Bytes that there is room for.
    pub room: u64,
}

/// An opened checkpoint with its plan.
#[derive(Debug)]
pub struct Opened {
    /// The checkpoint; it fulfils its contract.
    pub checkpoint: Checkpoint,
    /// What it needs.
    pub plan: Plan,
    /// Counts what comes of it.
    pub meter: Meter,
}

impl Opened {
    /// Opens the checkpoint in `folder`, known as `address`, for a machine with `memory` bytes for weights.
    ///
    /// # Errors
    /// As [`Checkpoint::open`]. That it does not fit is no error yet: [`Plan::fits`] tells.
    pub async fn new(folder: &Folder, address: Option<String>, memory: u64) -> Result<Opened> {
        let meter = folder.meter();
        let checkpoint = Checkpoint::open(folder).await?;
        let holding = Holding::of(&checkpoint.config, memory);
        let kept = folder.kept(&checkpoint);
        let (remote, bytes) = (checkpoint.is_remote(), checkpoint.total_bytes());
        let fetch = if remote { holding.resident.saturating_sub(kept.map_or(0, |kept| kept.bytes)) } else { 0 };
        let plan = Plan {
            address,
            tensors: checkpoint.tensors().len(),
            bytes,
            asked: meter.received(),
            holding,
            fetch,
            kept,
            ask: fetch > WITHOUT_ASKING,
        };
        Ok(Opened { checkpoint, plan, meter })
    }
}

impl Plan {
    /// # Errors
    /// [`Error::DoesNotFit`] if what has to stay in memory is more than there is.
    pub fn fits(&self) -> Result<()> {
        let Holding { resident, memory, fits, .. } = self.holding;
        if fits {
            return Ok(());
        }
        Err(Error::DoesNotFit {
            what: "the model with experts read as they are asked for".into(),
            needed: format!("{:.1} GB", resident as f64 / 1e9),
            available: format!("{:.1} GB", memory as f64 / 1e9),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::tiny::TinySpec;

    #[test]
    fn a_plan_says_what_is_fetched_and_whether_it_fits() {
        let files = Folder::Memory(TinySpec::lab().files().unwrap());
        let open = |memory| pollster::block_on(Opened::new(&files, None, memory)).unwrap();
        let all = open(1 << 30).plan;
        assert_eq!((all.fetch, all.ask, all.holding.slots), (0, false, None));
        assert!(all.fits().is_ok() && all.bytes > all.holding.loaded);
        let json = serde_json::to_value(&all).unwrap();
        assert_eq!((&json["loaded"], &json["fits"]), (&all.holding.loaded.into(), &true.into()));
        assert!(matches!(open(1 << 16).plan.fits(), Err(Error::DoesNotFit { .. })));
    }
}
