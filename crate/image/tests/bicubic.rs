use super::{released, synthetic};
use crate::image::{Rgb, fit, plan, resize};
use crc32fast::hash;

/// A grey picture, `[height, width]`.
fn grey(width: usize, height: usize, values: &[u8]) -> Rgb {
    Rgb::new(width, height, values.iter().flat_map(|&value| [value; 3]).collect()).unwrap()
}

/// Section 1.3, 1-D checks: as a row and, since the passes share their weights, as a column.
#[test]
fn one_dimension() {
    let cases: [(&[u8], &[u8]); 2] = [
        (&[0, 255, 10, 200], &[0, 17, 134, 247, 205, 67, 13, 96, 187, 219]),
        (&[0, 255, 10, 200, 30, 90, 120, 60], &[114, 99, 87]),
    ];
    for (from, to) in cases {
        assert_eq!(resize(&grey(from.len(), 1, from), to.len(), 1), grey(to.len(), 1, to));
        assert_eq!(resize(&grey(1, from.len(), from), 1, to.len()), grey(1, to.len(), to));
    }
}

/// Section 1.3, whole-image checks.
#[test]
fn whole_pictures() {
    let cases = [
        ((20, 20), 0x50e0858e, (546, 546), 0x51eeb823, 112_481_441, [111, 161, 211]),
        ((100, 60), 0xbfab5d49, (714, 434), 0x60b7543b, 118_322_325, [126, 176, 226]),
        ((640, 480), 0xd21bae5e, (644, 490), 0xd511a00c, 120_710_921, [91, 141, 191]),
        ((1920, 1080), 0x74e0a3da, (1708, 966), 0x89a6a415, 631_102_960, [206, 179, 50]),
    ];
    for ((width, height), source_crc, canvas_size, canvas_crc, sum, pixel) in cases {
        let source = synthetic(width, height);
        assert_eq!(hash(&source.data), source_crc, "source {width}x{height}");
        let canvas = fit(&source, &plan(width, height, &released()).unwrap());
        assert_eq!((canvas.width, canvas.height), canvas_size);
        assert_eq!(canvas.data.iter().map(|&byte| u64::from(byte)).sum::<u64>(), sum, "{width}x{height}");
        let at = (100 * canvas.width + 200) * 3;
        assert_eq!(canvas.data[at..at + 3], pixel, "{width}x{height}");
        assert_eq!(hash(&canvas.data), canvas_crc, "{width}x{height}");
    }
}

/// Odd sizes, one side kept, extreme factors: CRC-32 of what Pillow 12.1.0 makes of the synthetic picture. 640x480 to
/// 641x479 and 127x255 to 64x128 are sizes for which Pillow 13 runs the vertical pass first, with other bytes: they
/// hold the order.
#[test]
fn odd_sizes_equal_pillow() {
    let cases = [
        ((1, 1), (7, 5), 0x3ff68db2),
        ((1, 37), (42, 1554), 0xade48b78),
        ((3, 2), (17, 31), 0x4788fe84),
        ((37, 53), (11, 97), 0x3004a376),
        ((97, 41), (96, 42), 0x597bf6c1),
        ((333, 77), (100, 301), 0x4f9fc194),
        ((200, 150), (13, 9), 0xf892eeb7),
        ((640, 480), (641, 479), 0x3abde4e0),
        ((1023, 7), (29, 7), 0x93036b73),
        ((5, 1021), (5, 37), 0x781962c0),
        ((2, 2), (1, 1), 0x44f10284),
        ((20000, 1), (5, 3), 0x8e8a0d39),
        ((127, 255), (64, 128), 0x59a5d1c1),
    ];
    for ((width, height), (new_width, new_height), crc) in cases {
        let resized = resize(&synthetic(width, height), new_width, new_height);
        assert_eq!((resized.width, resized.height), (new_width, new_height));
        assert_eq!(resized.data.len(), new_width * new_height * 3);
        assert_eq!(hash(&resized.data), crc, "{width}x{height} to {new_width}x{new_height}");
    }
}

#[test]
fn same_size_is_a_copy() {
    let picture = synthetic(31, 17);
    assert_eq!(resize(&picture, 31, 17), picture);
}

/// Overshoot at a hard edge must clamp on both sides, not wrap.
#[test]
fn hard_edge_clamps() {
    let resized = resize(&grey(4, 1, &[0, 0, 255, 255]), 16, 1);
    let row: Vec<u8> = resized.data.iter().copied().step_by(3).collect();
    assert_eq!(row[..4], [0; 4]);
    assert_eq!(row[12..], [255; 4]);
    assert!(row.is_sorted_by(|a, b| a <= b), "{row:?}");
}

#[test]
fn no_pixels_do_not_panic() {
    assert!(resize(&synthetic(3, 3), 0, 5).data.is_empty());
    assert!(resize(&synthetic(3, 3), 5, 0).data.is_empty());
}

/// 640x480 has 483 rows of content under 4 rows of grey and over 3.
#[test]
fn padding_is_grey_127() {
    let canvas = fit(&grey(640, 480, &[9; 640 * 480]), &plan(640, 480, &released()).unwrap());
    let is_row_of = |row: usize, value: u8| canvas.data[row * 644 * 3..(row + 1) * 644 * 3].iter().all(|&b| b == value);
    assert!((0..4).all(|row| is_row_of(row, 127)));
    assert!((4..487).all(|row| is_row_of(row, 9)));
    assert!((487..490).all(|row| is_row_of(row, 127)));
}

/// Grey at the left and the right: 337x896 lies at column 6 of 350.
#[test]
fn padding_at_the_sides() {
    let canvas = fit(&grey(337, 896, &[200; 337 * 896]), &plan(337, 896, &released()).unwrap());
    for row in canvas.data.chunks_exact(350 * 3) {
        assert!(row[..18].iter().chain(&row[(6 + 337) * 3..]).all(|&byte| byte == 127));
        assert!(row[18..(6 + 337) * 3].iter().all(|&byte| byte == 200));
    }
}
