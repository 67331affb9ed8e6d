// Storage formats to f32, exact (section N of the specification).

// E4M3: exponent 0 holds m / 8 * 2^-6; otherwise the fields move into an f32 whose exponent is 120 larger.
fn e4m3(code: u32) -> f32 {
    let shifted = bitcast<f32>(((code & 0x7fu) << 20u) + (120u << 23u));
    let magnitude = select(shifted, 2.0 * shifted - 0.015625, (code & 0x78u) == 0u);
    return select(magnitude, -magnitude, (code & 0x80u) != 0u);
}

// E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6, doubled they are the nibbles of one word.
fn e2m1(code: u32) -> f32 {
    let magnitude = 0.5 * f32((0xC8643210u >> ((code & 7u) * 4u)) & 15u);
    return select(magnitude, -magnitude, (code & 8u) != 0u);
}

// Four codes of a word, or of the lower half of one, the first in the low bits.
fn e4m3x4(word: u32) -> vec4<f32> {
    return vec4<f32>(e4m3(word & 0xffu), e4m3(byte_of(word, 1u)), e4m3(byte_of(word, 2u)), e4m3(word >> 24u));
}

fn e2m1x4(half: u32) -> vec4<f32> {
    return vec4<f32>(e2m1(half), e2m1(half >> 4u), e2m1(half >> 8u), e2m1(half >> 12u));
}

// E8M0: 2^(byte - 127); byte 0 is 2^-127, below the smallest normal f32, and only ever scales zeros.
fn e8m0(byte: u32) -> f32 {
    return bitcast<f32>(byte << 23u);
}

fn bf16_low(word: u32) -> f32 {
    return bitcast<f32>(word << 16u);
}

fn bf16_high(word: u32) -> f32 {
    return bitcast<f32>(word & 0xffff0000u);
}

fn byte_of(word: u32, place: u32) -> u32 {
    return (word >> (8u * place)) & 0xffu;
}
