//! Telling checkpoints apart without reading them.

use super::Checkpoint;
use crate::Result;
use crate::numerics::hash::fnv1a64_of;

/// Tensors of which bytes are looked at.
const SAMPLES: usize = 16;
/// Longest tensor that is read whole; of others the first row is.
const WHOLE: u64 = 4096;

impl Checkpoint {
    /// A hash of every tensor's name, type and shape, and of a few bytes from all over the checkpoint. Checkpoints with different weights have
    /// different ones unless somebody changed only what is not looked at.
    ///
    /// # Errors
    /// What reading says.
    pub async fn fingerprint(&self) -> Result<u64> {
        let tensors = self.tensors();
        let mut bytes = Vec::new();
        for tensor in tensors {
            bytes.extend(format!("{} {:?} {:?}\n", tensor.name, tensor.dtype, tensor.shape).into_bytes());
        }
        for sample in 0..SAMPLES.min(tensors.len()) {
            let tensor = &tensors[sample * tensors.len() / SAMPLES.min(tensors.len())];
            bytes.extend(if tensor.bytes() <= WHOLE {
                self.bytes(&tensor.name).await?
            } else {
                self.read_rows(&tensor.name, 0, 1).await?
            });
        }
        Ok(fnv1a64_of(&bytes))
    }
}
