//! PNG, JPEG and WebP to RGB, as Pillow's `convert("RGB")` has it (section 1.2); native only.
//!
//! Alpha is dropped, not blended; EXIF orientation, colour profiles and gamma are ignored; grey and palette are
//! expanded. Of an animation the first picture counts. PNG and lossless WebP give Pillow's bytes. The standard leaves
//! the last bit of a JPEG's inverse cosine transform and the interpolation of its colour planes open, so decoders
//! differ there by a few levels, and more for CMYK.

use super::{MAX_PIXELS, MAX_SIDE, Rgb, check_size};
use crate::{Error, Result};
use ::image::{ImageDecoder, ImageFormat, ImageReader, Limits, guess_format};
use std::io::Cursor;

/// What a decoder may allocate: [`MAX_PIXELS`] of 16-bit RGBA, and 64 MB of rows and tables.
const MAX_DECODER_BYTES: u64 = MAX_PIXELS as u64 * 8 + 64_000_000;

/// Decodes a whole PNG, JPEG or WebP file.
///
/// # Errors
/// [`Error::Picture`] when the bytes are of another format, damaged or cut off, or when the size passes [`MAX_SIDE`] or
/// [`MAX_PIXELS`]; sizes are checked before any pixel is allocated.
pub fn decode(bytes: &[u8]) -> Result<Rgb> {
    let format = supported_format(bytes)?;
    let name = format!("{format:?}");
    let damaged = |problem: ::image::ImageError| {
        Error::Picture(format!("damaged or unsupported {name} of {} bytes: {problem}", bytes.len()))
    };
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MAX_DECODER_BYTES);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(damaged)?;

    let (width, height) = decoder.dimensions();
    let (width, height) = (width as usize, height as usize);
    check_size(width, height).map_err(|_| too_large(&name, width, height))?;
    if !is_complete(format, bytes) {
        let found = bytes.len();
        return Err(Error::Picture(format!("{name} of {width}x{height} is cut off after {found} bytes")));
    }

    let colour = decoder.color_type();
    let channels = usize::from(colour.channel_count());
    let sample_bytes = usize::from(colour.bytes_per_pixel()) / channels;
    let mut raw = vec![0; width * height * channels * sample_bytes];
    decoder.read_image(&mut raw).map_err(damaged)?;
    let samples = match sample_bytes {
        1 => raw,
        2 => to_8_bits(&raw, is_grey_16(format, bytes)),
        _ => return Err(Error::Picture(format!("{name} with {colour:?} samples; needed: 8 or 16 bits"))),
    };
    Rgb::new(width, height, to_rgb(samples, channels))
}

/// The format by the first bytes of the file, one of the three that are read.
fn supported_format(bytes: &[u8]) -> Result<ImageFormat> {
    let found = match guess_format(bytes) {
        Ok(format @ (ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::WebP)) => return Ok(format),
        Ok(other) => format!("{other:?}"),
        Err(_) => format!("unknown format in {} bytes", bytes.len()),
    };
    Err(Error::Picture(format!("{found}; needed: PNG, JPEG or WebP")))
}

/// The refusal of a size, with the format.
fn too_large(name: &str, width: usize, height: usize) -> Error {
    Error::Picture(format!(
        "{name} of {width}x{height}; allowed: sides from 1 to {MAX_SIDE} and {MAX_PIXELS} pixels in all"
    ))
}

/// Whether the file has its end. The JPEG and WebP decoders fill missing pixels and report success, so a cut-off file
/// must be found here; the PNG decoder reports it.
fn is_complete(format: ImageFormat, bytes: &[u8]) -> bool {
    match format {
        ImageFormat::Jpeg => jpeg_is_complete(bytes),
        ImageFormat::WebP => webp_is_complete(bytes),
        _ => true,
    }
}

/// Whether as many bytes follow the first 8 as the RIFF header says.
fn webp_is_complete(bytes: &[u8]) -> bool {
    let Some((header, rest)) = bytes.split_first_chunk::<8>() else { return false };
    let needed = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    rest.len() as u64 >= u64::from(needed)
}

/// Whether the end marker comes after the last scan. Segments are stepped over by their length: an embedded thumbnail
/// has an end marker of its own.
fn jpeg_is_complete(bytes: &[u8]) -> bool {
    let is_marker = |pair: &[u8]| pair[0] == 0xFF && !matches!(pair[1], 0x00 | 0xD0..=0xD7 | 0xFF);
    let mut at = 2;
    while let Some(distance) = bytes.get(at..).and_then(|rest| rest.windows(2).position(is_marker)) {
        at += distance + 2;
        if bytes[at - 1] == 0xD9 {
            return true;
        }
        let Some(length) = bytes.get(at..at + 2) else { return false };
        at += usize::from(u16::from_be_bytes([length[0], length[1]]));
    }
    false
}

/// Whether this is a PNG of 16-bit grey, by bit depth and colour type in its first chunk. With a transparent grey the
/// decoder adds a channel, so its own answer does not tell.
fn is_grey_16(format: ImageFormat, bytes: &[u8]) -> bool {
    format == ImageFormat::Png && bytes.get(24..26) == Some(&[16, 0])
}

/// 16-bit samples in machine order to 8 bits. Pillow keeps the high byte, except of grey without alpha, which it reads
/// as a number and clips: everything from 255 up becomes white.
fn to_8_bits(raw: &[u8], clip: bool) -> Vec<u8> {
    let reduce = |pair: &[u8]| {
        let sample = u16::from_ne_bytes([pair[0], pair[1]]);
        if clip { sample.min(255) as u8 } else { (sample >> 8) as u8 }
    };
    raw.chunks_exact(2).map(reduce).collect()
}

/// 8-bit samples of grey (1 channel), grey and alpha (2), RGB (3) or RGBA (4) to RGB.
fn to_rgb(samples: Vec<u8>, channels: usize) -> Vec<u8> {
    match channels {
        3 => samples,
        4 => samples.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
        _ => samples.chunks_exact(channels).flat_map(|pixel| [pixel[0]; 3]).collect(),
    }
}
