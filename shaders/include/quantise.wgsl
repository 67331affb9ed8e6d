// f32 to storage formats, ties to even (sections N.1 to N.5). Needs decode.

// The code of |x| <= 448. Below 2^-6 the grid is 2^-9 wide.
fn to_e4m3(x: f32) -> u32 {
    let sign = (bitcast<u32>(x) >> 24u) & 0x80u;
    let magnitude = min(abs(x), 448.0);
    if (magnitude < 0.015625) {
        return sign | u32(ties_to_even(magnitude * 512.0));
    }
    let bits = bitcast<u32>(magnitude);
    let even = bits + 0x7ffffu + ((bits >> 20u) & 1u);
    return sign | ((even >> 20u) - (120u << 3u));
}

fn ties_to_even(x: f32) -> f32 {
    let low = floor(x);
    let rest = x - low;
    let odd = (u32(low) & 1u) == 1u;
    return select(low, low + 1.0, rest > 0.5 || (rest == 0.5 && odd));
}

// The code of x / scale, |x| <= 6 scale. A border between neighbours belongs to the even code, and times a scale of four bits it is exact; a
// quotient would not be, since WGSL lets the division miss its last bits.
fn quotient_to_e2m1(x: f32, scale: f32) -> u32 {
    let a = abs(x);
    var code = 0u;
    code += select(0u, 1u, a > 0.25 * scale);
    code += select(0u, 1u, a >= 0.75 * scale);
    code += select(0u, 1u, a > 1.25 * scale);
    code += select(0u, 1u, a >= 1.75 * scale);
    code += select(0u, 1u, a > 2.5 * scale);
    code += select(0u, 1u, a >= 3.5 * scale);
    code += select(0u, 1u, a > 5.0 * scale);
    return code | ((bitcast<u32>(x) >> 28u) & 8u);
}

// The code of |x| <= 6.
fn to_e2m1(x: f32) -> u32 {
    return quotient_to_e2m1(x, 1.0);
}

// The code of x / 6, x >= 6 * 2^-9. Where the product by 1 / 6 falls on the wrong side of the middle between two codes, six times that middle,
// which is exact, tells.
fn sixth_to_e4m3(x: f32) -> u32 {
    let code = to_e4m3(x * INV_6);
    let is_odd = (code & 1u) == 1u;
    let upper = 3.0 * (e4m3(code) + e4m3(min(code + 1u, 126u)));
    let lower = 3.0 * (e4m3(code) + e4m3(max(code, 1u) - 1u));
    if (code < 126u && (x > upper || (x == upper && is_odd))) {
        return code + 1u;
    }
    if (x < lower || (x == lower && is_odd)) {
        return code - 1u;
    }
    return code;
}

// Smallest power of two that is not below amax * r, as its E8M0 byte (section N.2).
fn pow2scale(amax: f32, r: f32) -> u32 {
    let bits = bitcast<u32>(amax * r);
    return (bits >> 23u) + select(0u, 1u, (bits & 0x7fffffu) != 0u);
}

// 2^-(byte - 127), exact: dividing by a power of two is multiplying by this.
fn inverse_e8m0(byte: u32) -> f32 {
    return bitcast<f32>((254u - byte) << 23u);
}

const INV_448 = 0.002232142857142857;
const INV_6 = 0.16666666666666666;

// x on the grid of FP8 with that scale.
fn fp8_grid(x: f32, byte: u32) -> f32 {
    return e8m0(byte) * e4m3(to_e4m3(x * inverse_e8m0(byte)));
}
