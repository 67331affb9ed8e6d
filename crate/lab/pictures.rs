//! Pictures that the lab draws itself, next to the disc of [`super::prompt`].

use crate::image::Rgb;

/// Three rows of four tiles, light and dark in turn, each with a hue of its own, 168 x 126 pixels: what the aligner's cells see differs from
/// cell to cell.
pub fn grid() -> Rgb {
    const TILE: usize = 42;
    let (width, height) = (4 * TILE, 3 * TILE);
    let mut data = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width {
            let (column, row) = (x / TILE, y / TILE);
            let base = if (column + row).is_multiple_of(2) { 210 } else { 70 };
            let line = x % TILE == 0 || y % TILE == 0;
            let hue = [(25 * column) as u8, (20 * row) as u8, (10 * (column + row)) as u8];
            data.extend(hue.map(|part| if line { 20 } else { base + part / 2 }));
        }
    }
    Rgb { width, height, data }
}
