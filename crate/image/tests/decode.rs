use super::{golden_bytes, released, synthetic};
use crate::Error;
use crate::image::{Rgb, decode, fit, plan};
use crc32fast::hash;
use proptest::prelude::*;

/// Decodes a fixture of tests/golden/image.
fn fixture(name: &str) -> Rgb {
    decode(&golden_bytes(&format!("image/{name}"))).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The message of the refusal of `bytes`.
fn refusal(bytes: &[u8]) -> String {
    match decode(bytes) {
        Err(Error::Picture(message)) => message,
        other => panic!("needed a refusal, found {other:?}"),
    }
}

/// CRC-32 of what Pillow's `convert("RGB")` makes of each lossless fixture, all 19x11.
#[test]
fn lossless_formats_equal_pillow() {
    let cases = [
        ("rgba.png", 0x0b39bf3a),
        ("grey.png", 0x5733edbb),
        ("grey_alpha.png", 0x5733edbb),
        ("palette.png", 0x258857c3),
        ("bilevel.png", 0x38d764f0),
        ("grey2.png", 0xf10b8c13),
        ("grey4.png", 0xeb9c1fa5),
        ("grey16.png", 0xec246188),
        ("grey16_transparent.png", 0xec246188),
        ("grey16_alpha.png", 0x50928332),
        ("rgb16.png", 0xbd56e006),
        ("rgba16.png", 0x9e31b326),
        ("lossless.webp", 0x0b39bf3a),
        ("lossless_alpha.webp", 0x0b39bf3a),
    ];
    for (name, crc) in cases {
        let picture = fixture(name);
        assert_eq!((picture.width, picture.height), (19, 11), "{name}");
        assert_eq!(hash(&picture.data), crc, "{name}");
    }
    assert_eq!(fixture("rgba.png"), synthetic(19, 11), "alpha is dropped, not blended");
}

/// Lossy formats against Pillow's bytes. JPEG leaves the rounding of the inverse cosine transform and the interpolation
/// of halved colour planes to the decoder: the limits are the largest difference and, in hundredths, the mean
/// difference in levels.
#[test]
fn lossy_formats_are_close_to_pillow() {
    let cases = [
        ("rotated.jpg", 2, 2),
        ("grey.jpg", 2, 2),
        ("subsampled.jpg", 4, 40),
        ("progressive.jpg", 4, 40),
        ("lossy.webp", 0, 0),
    ];
    for (name, most, mean) in cases {
        let picture = fixture(name);
        assert_eq!((picture.width, picture.height), (45, 34), "{name}: no EXIF transpose");
        let pillow = golden_bytes(&format!("image/{name}.rgb"));
        assert_eq!(picture.data.len(), pillow.len(), "{name}");
        let differences: Vec<u64> = picture.data.iter().zip(&pillow).map(|(a, b)| u64::from(a.abs_diff(*b))).collect();
        let largest = differences.iter().max().copied().unwrap();
        let hundredths = differences.iter().sum::<u64>() * 100 / differences.len() as u64;
        assert!(largest <= most && hundredths <= mean, "{name}: largest {largest}, mean {hundredths} hundredths");
    }
}

#[test]
fn other_formats_are_refused_by_name() {
    let cases: [(&[u8], &str); 4] = [
        (&golden_bytes("image/picture.gif"), "Gif"),
        (b"", "unknown format in 0 bytes"),
        (b"A picture of a cat, in words.\n", "unknown format"),
        (&[0xFF; 64], "unknown format"),
    ];
    for (bytes, words) in cases {
        let message = refusal(bytes);
        assert!(message.contains(words) && message.contains("needed: PNG, JPEG or WebP"), "{message}");
    }
}

#[test]
fn absurd_sizes_are_refused_before_allocation() {
    for (name, size) in [("side_100001.png", "Png of 100001x1"), ("pixels_20000x20000.png", "Png of 20000x20000")] {
        let message = refusal(&golden_bytes(&format!("image/{name}")));
        assert!(message.contains(size) && message.contains("sides from 1 to 100000 and 100000000 pixels"), "{message}");
    }
}

/// A file cut anywhere is an error: nothing of the picture may be missing. The last bytes of a PNG (its checksums and
/// the end chunk) hold no pixels; a decoder may do without them, but then all pixels must be right.
#[test]
fn truncated_files_are_errors() {
    for name in
        ["rgba.png", "grey16.png", "palette.png", "lossless.webp", "lossy.webp", "subsampled.jpg", "progressive.jpg"]
    {
        let bytes = golden_bytes(&format!("image/{name}"));
        let whole = decode(&bytes).unwrap();
        for length in 0..bytes.len() {
            match decode(&bytes[..length]) {
                Err(Error::Picture(_)) => {}
                Err(other) => panic!("{name} cut to {length}: {other:?}"),
                Ok(picture) => {
                    assert!(
                        name.ends_with("png") && length + 20 > bytes.len(),
                        "{name} cut to {length} of {}",
                        bytes.len()
                    );
                    assert_eq!(picture, whole, "{name} cut to {length}");
                }
            }
        }
    }
}

/// An embedded thumbnail has an end marker too: only one after the scan counts.
#[test]
fn thumbnail_does_not_hide_truncation() {
    let bytes = golden_bytes("image/subsampled.jpg");
    let thumbnail_segment = [0xFF, 0xE1, 0x00, 0x06, 0xFF, 0xD8, 0xFF, 0xD9];
    let with_thumbnail = [&bytes[..2], &thumbnail_segment, &bytes[2..]].concat();
    assert_eq!(decode(&with_thumbnail).unwrap(), decode(&bytes).unwrap());
    let message = refusal(&with_thumbnail[..with_thumbnail.len() - 40]);
    assert!(message.contains("Jpeg of 45x34 is cut off"), "{message}");
}

/// A picture of one column, by hand: decoded, planned and fitted.
#[test]
fn one_column_of_20000_pixels() {
    let column = synthetic(1, 20_000);
    let mut bytes = Vec::new();
    let encoder = ::image::codecs::png::PngEncoder::new(&mut bytes);
    ::image::ImageEncoder::write_image(encoder, &column.data, 1, 20_000, ::image::ExtendedColorType::Rgb8).unwrap();
    let decoded = decode(&bytes).unwrap();
    assert_eq!(decoded, column);
    let canvas = fit(&decoded, &plan(1, 20_000, &released()).unwrap());
    assert_eq!((canvas.width, canvas.height), (42, 21_462));
}

/// A picture or an error of the right kind; a panic fails the test.
fn check(bytes: &[u8]) -> Result<(), TestCaseError> {
    match decode(bytes) {
        Ok(picture) => prop_assert_eq!(picture.data.len(), picture.width * picture.height * 3),
        Err(error) => prop_assert!(matches!(error, Error::Picture(_)), "{}", error),
    }
    Ok(())
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), magic in 0usize..4) {
        let start: &[u8] = [&b""[..], b"\x89PNG\r\n\x1a\n", b"\xFF\xD8\xFF", b"RIFF\x40\0\0\0WEBPVP8 "][magic];
        check(&[start, &bytes].concat())?;
    }

    #[test]
    fn mutated_files_never_panic(
        name in prop::sample::select(vec![
            "rgba.png", "palette.png", "grey16_transparent.png", "rotated.jpg", "progressive.jpg", "grey.jpg",
            "lossless_alpha.webp", "lossy.webp",
        ]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = golden_bytes(&format!("image/{name}"));
        for (index, byte) in changes {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        check(&bytes)?;
    }
}
