// bf16 rounding between operations, ties to even, where the released numerics ask for it.
override ROUND: u32 = 0u;

fn bf16_round(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    return bitcast<f32>((bits + 0x7fffu + ((bits >> 16u) & 1u)) & 0xffff0000u);
}

fn rounded(x: f32) -> f32 {
    return select(x, bf16_round(x), ROUND == 1u);
}
