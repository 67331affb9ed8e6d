//! Where a number stopped being finite: the word of [`crate::gpu::fault`] in terms of the model.

use super::{GpuModel, GpuState};
use crate::blocks::tap::Tap;
use crate::error::{Error, Result};
use crate::gpu::{Gpu, Tensor, fault, readback};

/// The place of what leads to a tap: layer by layer, and in a layer in the order in which a token meets the taps.
pub(super) fn place(tap: Tap, layer: usize) -> u32 {
    let within = Tap::ALL.iter().position(|&other| other == tap).unwrap_or_default();
    ((layer * Tap::ALL.len() + within) as u32).min(fault::LAST_PLACE)
}

/// What a word says, as an error: the block that computes `tap` of that layer, and the element of the step in which it arose.
pub(super) fn error(word: u32) -> Option<Error> {
    let (place, index) = fault::noted(word)?;
    let (layer, within) = (place / Tap::ALL.len(), place % Tap::ALL.len());
    Some(Error::NotFiniteActivation { tap: Tap::ALL[within].name(), layer, index })
}

/// Reads the word, when something is known to be wrong.
pub(super) async fn read(gpu: &Gpu, word: &Tensor) -> Result<Option<Error>> {
    Ok(readback::u32s(gpu, word).await?.first().and_then(|&word| error(word)))
}

impl GpuModel {
    /// The error of a call whose chosen token says that a number was not finite.
    pub(super) async fn not_finite(&self, state: &GpuState) -> Error {
        match read(&self.gpu, &state.fault).await {
            Ok(Some(error)) | Err(error) => error,
            // Only a choice can say so by itself: what was added to the logits there.
            Ok(None) => Error::NotFiniteActivation { tap: Tap::Logits.name(), layer: self.config().n_layers, index: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_the_token() {
        assert!(place(Tap::Logits, 3) < place(Tap::Embedding, 4));
        assert!(place(Tap::Query, 3) < place(Tap::AttnOut, 3));
        assert!(place(Tap::Logits, 1000) <= fault::LAST_PLACE);
        let error = error(place(Tap::FfnOut, 39) << 20 | 5).unwrap();
        assert!(matches!(error, Error::NotFiniteActivation { tap: "5a.out", layer: 39, index: 5 }), "{error}");
    }
}
