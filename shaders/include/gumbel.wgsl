// Noise that turns an argmax into a draw from the softmax; the twin of crate/numerics/gumbel.rs.

// Four words in, four well-mixed words out: the hash pcg4d of Jarzynski and Olano, JCGT 9 (2020) 3.
fn mixed(counter: vec4<u32>) -> vec4<u32> {
    var v = counter * 1664525u + 1013904223u;
    v.x += v.y * v.w;
    v.y += v.z * v.x;
    v.z += v.x * v.y;
    v.w += v.y * v.z;
    v ^= v >> vec4<u32>(16u);
    v.x += v.y * v.w;
    v.y += v.z * v.x;
    v.z += v.x * v.y;
    v.w += v.y * v.z;
    return v;
}

// -ln(-ln(1 - v)) with v uniform in (0, 1). Small v decides who wins: there 1 - v would round, and the series keeps v.
fn gumbel(seed: vec2<u32>, position: u32, id: u32) -> f32 {
    let bits = mixed(vec4<u32>(seed, position, id)).x;
    let v = min((f32(bits) + 0.5) / 4294967296.0, 0.99999994);
    let waiting = select(-log(1.0 - v), v * (1.0 + v * (0.5 + v * (1.0 / 3.0))), v < 0.01);
    return -log(waiting);
}
