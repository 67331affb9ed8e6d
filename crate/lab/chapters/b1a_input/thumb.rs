//! A reduced copy of a picture, small enough to travel with the numbers.

use crate::image::Rgb;

/// Widest copy, in pixels.
const WIDEST: usize = 192;
/// Highest copy, in pixels: a picture that is one cell wide can be 500 times as high.
const HIGHEST: usize = 384;

/// The picture with sides of at most [`WIDEST`] and [`HIGHEST`], their ratio kept as far as whole pixels allow; never enlarged.
pub(super) fn thumb(picture: &Rgb) -> Rgb {
    let (width, height) = size(picture.width, picture.height);
    let mut data = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        let rows = span(y, height, picture.height);
        for x in 0..width {
            data.extend(mean(picture, rows.clone(), span(x, width, picture.width)));
        }
    }
    Rgb { width, height, data }
}

/// Width and height of the copy.
fn size(width: usize, height: usize) -> (usize, usize) {
    let shrink = (WIDEST as f64 / width as f64).min(HIGHEST as f64 / height as f64).min(1.0);
    let side = |side: usize| ((side as f64 * shrink).round() as usize).max(1);
    (side(width), side(height))
}

/// Source pixels of pixel `at` of `few`, which share `many` of them.
fn span(at: usize, few: usize, many: usize) -> std::ops::Range<usize> {
    at * many / few..(at + 1) * many / few
}

/// Mean colour of a box, halves rounded up.
fn mean(picture: &Rgb, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) -> [u8; 3] {
    let count = (rows.len() * columns.len()).max(1);
    let mut sums = [0usize; 3];
    for y in rows {
        for x in columns.clone() {
            let pixel = &picture.data[3 * (y * picture.width + x)..][..3];
            sums.iter_mut().zip(pixel).for_each(|(sum, &v)| *sum += usize::from(v));
        }
    }
    sums.map(|sum| ((sum + count / 2) / count) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(width: usize, height: usize, shade: impl Fn(usize, usize) -> u8) -> Rgb {
        let at = |i: usize| shade(i % width, i / width);
        Rgb { width, height, data: (0..width * height).flat_map(|i| [at(i); 3]).collect() }
    }

    #[test]
    fn sizes() {
        for (given, reduced) in [
            ((126, 84), (126, 84)),
            ((192, 384), (192, 384)),
            ((1344, 896), (192, 128)),
            ((1000, 10), (192, 2)),
            ((42, 21_420), (1, 384)),
            ((21_420, 42), (192, 1)),
        ] {
            assert_eq!(size(given.0, given.1), reduced, "{given:?}");
        }
    }

    #[test]
    fn a_small_picture_stays_as_it_is() {
        let picture = grey(5, 3, |x, y| (40 * x + 7 * y) as u8);
        assert_eq!(thumb(&picture), picture);
    }

    /// 384 x 2: boxes of 2 x 2; every source pixel counts once.
    #[test]
    fn pixels_are_means_of_boxes() {
        let small = thumb(&grey(384, 2, |x, y| (x % 2 * 3 + y * 10 + x / 2) as u8));
        assert_eq!((small.width, small.height), (192, 1));
        // (0 + 3 + 10 + 13 + 4 x) / 4, halves up.
        let expected: Vec<u8> = (0..192).flat_map(|x| [(7 + x) as u8; 3]).collect();
        assert_eq!(small.data, expected);
    }

    #[test]
    fn boxes_share_all_pixels() {
        for (few, many) in [(1, 1), (192, 193), (192, 383), (7, 100)] {
            let spans: Vec<_> = (0..few).map(|at| span(at, few, many)).collect();
            assert!(spans.iter().all(|span| !span.is_empty()));
            assert_eq!(spans.iter().flat_map(Clone::clone).collect::<Vec<_>>(), (0..many).collect::<Vec<_>>());
        }
    }
}
