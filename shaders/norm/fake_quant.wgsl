// fake_quant — quantises groups of 32 and puts the values back: FP8 activations (N.3) or FP4 index queries (N.5).
// x, out (groups, 32)
// Dispatch (groups / WG_SIZE).  Includes: decode, quantise.
// Numerics: exact, ties to even; scales are powers of two.
const WG_SIZE = 64u;
override FP4: u32 = 0u;    // 1: E2M1, otherwise E4M3

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
    var largest = select(1e-4, 7.052966104933725e-38, FP4 == 1u);
    for (var i = 0u; i < 32u; i++) {
        largest = max(largest, abs(x[base + i]));
    }
    let byte = pow2scale(largest, select(INV_448, INV_6, FP4 == 1u));
    let scale = e8m0(byte);
    for (var i = 0u; i < 32u; i++) {
        let scaled = x[base + i] * inverse_e8m0(byte);
        out[base + i] = scale * select(e4m3(to_e4m3(scaled)), e2m1(to_e2m1(scaled)), FP4 == 1u);
    }
}
