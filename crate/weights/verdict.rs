//! Compares a checkpoint with its contract.

use std::collections::HashSet;
use std::fmt;

use super::Dtype;
use super::checkpoint::Checkpoint;
use super::contract::contract;
use crate::{Error, Result};

/// One tensor that is not as the config asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Full tensor name.
    pub name: String,
    /// Type and shape that the config asks for.
    pub needed: (Dtype, Vec<usize>),
    /// Type and shape in the file; `None` if it is missing.
    pub found: Option<(Dtype, Vec<usize>)>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (dtype, shape) = &self.needed;
        match &self.found {
            None => write!(f, "missing; needed {dtype} {shape:?}"),
            Some((found, found_shape)) => write!(f, "needed {dtype} {shape:?}, found {found} {found_shape:?}"),
        }
    }
}

/// What [`check`] found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Tensors that are missing or unfit, in contract order. With any of them the model cannot run.
    pub differences: Vec<Difference>,
    /// Tensors that the config does not ask for, sorted. They are never read.
    pub extra: Vec<String>,
}

impl Verdict {
    /// Whether the model can run.
    pub fn is_good(&self) -> bool {
        self.differences.is_empty()
    }

    /// The first difference as an error.
    ///
    /// # Errors
    /// [`Error::Tensor`] if there is any; it says how many more there are.
    pub fn into_result(self) -> Result<()> {
        match self.differences.as_slice() {
            [] => Ok(()),
            [only] => Err(Error::tensor(&only.name, only.to_string())),
            [first, more @ ..] => {
                Err(Error::tensor(&first.name, format!("{first} (and {} more tensors are not as needed)", more.len())))
            }
        }
    }
}

/// Compares all tensors of a checkpoint with what its config asks for.
pub fn check(checkpoint: &Checkpoint) -> Verdict {
    let specs = contract(&checkpoint.config);
    let mut differences = Vec::new();
    for spec in &specs {
        let found = checkpoint.info(&spec.name).ok();
        if !found.is_some_and(|info| info.shape == spec.shape && fits(spec.dtype, info.dtype)) {
            differences.push(Difference {
                name: spec.name.clone(),
                needed: (spec.dtype, spec.shape.clone()),
                found: found.map(|info| (info.dtype, info.shape.clone())),
            });
        }
    }
    let asked: HashSet<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    let extra = checkpoint.names().filter(|name| !asked.contains(name)).map(str::to_string).collect();
    Verdict { differences, extra }
}

/// Some writers keep small projections in F32 where the release has BF16: nothing is lost, so that is no difference.
fn fits(needed: Dtype, found: Dtype) -> bool {
    needed == found || (needed == Dtype::BF16 && found == Dtype::F32)
}
