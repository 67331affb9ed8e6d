// Reading rows of the KV cache. FORMAT as in plane_write: 0 f32, 1 FP8 per 32, 2 FP4 with E4M3 per 16, 3 FP4 with E8M0 per 32.

// Four neighbouring elements from their code word (a quarter or half of it) and the scale byte of their group.
fn unpack4(format: u32, word: u32, d: u32, scale: u32) -> vec4<f32> {
    if (format == 1u) {
        return e8m0(scale) * e4m3x4(word);
    }
    let half = word >> (16u * ((d / 4u) % 2u));
    let factor = select(e8m0(scale), e4m3(scale), format == 2u);
    return factor * e2m1x4(half);
}

// Index of the code word that holds elements d..d+3 of a row, for one element per word, four, or eight.
fn code_word(format: u32, row: u32, width: u32, d: u32) -> u32 {
    return (row * width + d) / select(select(8u, 4u, format == 1u), 1u, format == 0u);
}

// Index of the scale byte of element d of a row.
fn scale_byte(format: u32, row: u32, width: u32, d: u32) -> u32 {
    return (row * width + d) / select(32u, 16u, format == 2u);
}
