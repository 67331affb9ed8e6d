use super::released;
use crate::image::{MAX_PIXELS, Rgb, TokenType, patches, plan, token_types};

#[test]
fn codes_round_trip() {
    let types = [TokenType::Text, TokenType::Start, TokenType::Image, TokenType::NewLine, TokenType::End];
    for (token_type, code) in types.into_iter().zip(-1..) {
        assert_eq!(token_type.code(), code);
        assert_eq!(TokenType::from_code(code), Some(token_type));
        assert_eq!(token_type.is_image(), code >= 0);
    }
    for code in [-2, 4, i32::MIN, i32::MAX] {
        assert_eq!(TokenType::from_code(code), None);
    }
}

#[test]
fn counts_of_types() {
    let plan = plan(448, 336, &released()).unwrap();
    let types = token_types(&plan);
    let count = |wanted| types.iter().filter(|&&t| t == wanted).count();
    assert_eq!(types.len(), 194);
    assert_eq!((count(TokenType::Start), count(TokenType::NewLine), count(TokenType::End)), (1, 12, 1));
    assert_eq!((count(TokenType::Image), count(TokenType::Text)), (12 * 15, 0));
    assert_eq!(
        (types[0], types[16], types[192], types[193]),
        (TokenType::Start, TokenType::NewLine, TokenType::NewLine, TokenType::End)
    );
}

/// Section 1.4: bf16 patterns of the normalised bytes.
#[test]
fn normalised_bit_patterns() {
    let cases: [(u8, u32); 8] = [
        (0, 0xBF80),
        (1, 0xBF7E),
        (64, 0xBEFF),
        (127, 0xBB81),
        (128, 0x3B81),
        (200, 0x3F12),
        (254, 0x3F7E),
        (255, 0x3F80),
    ];
    for (byte, pattern) in cases {
        let canvas = Rgb::new(14, 14, vec![byte; 14 * 14 * 3]).unwrap();
        let rounded = patches(&canvas, &released(), true);
        assert!(rounded.values.iter().all(|value| value.to_bits() == pattern << 16), "byte {byte}");
        let exact = patches(&canvas, &released(), false).values[0];
        assert!((exact - (f32::from(byte) - 127.5) / 127.5).abs() < 1e-6, "byte {byte}: {exact}");
    }
    let unrounded = patches(&Rgb::new(14, 14, vec![200; 588]).unwrap(), &released(), false).values[0];
    assert_eq!(unrounded, (200.0f32 / 255.0 - 0.5) / 0.5);
    assert_ne!(unrounded, 0.5703125, "without rounding the value is not a bf16");
}

/// Patches in reading order; inside a patch `c * 196 + y * 14 + x`.
#[test]
fn order_of_patch_values() {
    let (width, height) = (42, 28);
    let canvas = super::synthetic(width, height);
    let patches = patches(&canvas, &released(), false);
    assert_eq!((patches.rows, patches.cols, patches.values.len()), (2, 3, 6 * 588));
    for (index, value) in patches.values.iter().enumerate() {
        let (patch, inside) = (index / 588, index % 588);
        let (channel, y, x) = (inside / 196, inside / 14 % 14, inside % 14);
        let (row, column) = (patch / 3 * 14 + y, patch % 3 * 14 + x);
        let byte = canvas.data[(row * width + column) * 3 + channel];
        assert_eq!(*value, (f32::from(byte) / 255.0 - 0.5) / 0.5, "value {index}");
    }
}

#[test]
fn lengths_and_sizes_are_checked() {
    assert!(Rgb::new(2, 3, vec![0; 18]).is_ok());
    for (width, height, length) in [(2, 3, 17), (2, 3, 19), (0, 3, 0), (3, 0, 0), (0, 0, 0)] {
        assert!(Rgb::new(width, height, vec![0; length]).is_err(), "{width}x{height} of {length} bytes");
    }
    for (width, height) in [(100_001, 1), (1, 100_001), (10_001, 10_000), (usize::MAX, usize::MAX), (usize::MAX, 1)] {
        let message = Rgb::new(width, height, Vec::new()).unwrap_err().to_string();
        assert!(
            message.contains(&format!("{width}x{height}")) && message.contains(&MAX_PIXELS.to_string()),
            "{message}"
        );
    }
}
