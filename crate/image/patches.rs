//! Normalisation and patches (section 1.4).

use super::Rgb;
use crate::config::VisionConfig;
use crate::numerics::bf16;

/// The vision tower's input.
#[derive(Debug, Clone, PartialEq)]
pub struct Patches {
    /// Rows of the patch grid.
    pub rows: usize,
    /// Columns of the patch grid.
    pub cols: usize,
    /// `[rows * cols, 3 * P * P]`: patches in reading order; inside a patch channel, then row, then column. Values from
    /// -1 to 1.
    pub values: Vec<f32>,
}

/// Cuts `canvas` into patches of `config.patch_size` and maps each byte to `(byte / 255 - 0.5) / 0.5`, computed in f32.
///
/// With `round_bf16` the values are rounded to bf16, as the released model and the golden files do. A canvas made by
/// [`fit`](super::fit) is whole patches; of any other picture the incomplete patches at the right and at the bottom are
/// left out.
pub fn patches(canvas: &Rgb, config: &VisionConfig, round_bf16: bool) -> Patches {
    let size = config.patch_size.max(1);
    let (rows, cols) = (canvas.height / size, canvas.width / size);
    let normalised = normalised_bytes(round_bf16);
    let mut values = Vec::with_capacity(rows * cols * 3 * size * size);
    for patch in 0..rows * cols {
        let (top, left) = (patch / cols * size, patch % cols * size);
        for channel in 0..3 {
            for y in top..top + size {
                let row = y * canvas.width;
                values.extend((left..left + size).map(|x| normalised[canvas.data[(row + x) * 3 + channel] as usize]));
            }
        }
    }
    Patches { rows, cols, values }
}

/// The normalised value of each of the 256 bytes.
fn normalised_bytes(round_bf16: bool) -> [f32; 256] {
    std::array::from_fn(|byte| {
        let value = (byte as f32 / 255.0 - 0.5) / 0.5;
        if round_bf16 { bf16::round(value) } else { value }
    })
}
