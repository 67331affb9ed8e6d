// fake_quant — quantises groups of 32 and puts the values back: FP8 activations (N.3).
// x, out (groups, 32)
// Dispatch (groups / WG_SIZE).  Includes: decode, quantise.
// Numerics: exact, ties to even; scales are powers of two.
const WG_SIZE = 64u;

struct FakeQuant {
    groups: u32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;                   // (groups, 32)
@group(0) @binding(1) var<storage, read_write> out: array<f32>;           // (groups, 32)
@group(0) @binding(2) var<uniform> p: FakeQuant;

@compute @workgroup_size(WG_SIZE)
fn fake_quant(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.groups) {
        return;
    }
    let base = id.x * 32u;
    var largest = 1e-4;
    for (var i = 0u; i < 32u; i++) {
        largest = max(largest, abs(x[base + i]));
    }
    let byte = pow2scale(largest, INV_448);
    for (var i = 0u; i < 32u; i++) {
        out[base + i] = fp8_grid(x[base + i], byte);
    }
}
