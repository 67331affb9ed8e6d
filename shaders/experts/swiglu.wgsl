// swiglu — h = silu(min(g, L)) clamp(u, -L, L) of the shared expert (section 9.2), on the FP8 grid if a quantised matrix reads it.
// gate_up (n, 2 INTER), gate before up   h (n, INTER)
// Dispatch (n * INTER / WG_SIZE).  Includes: decode, group, quantise, round.
// Numerics: f32; the grid is exact.
const WG_SIZE = 64u;
override QUANTISE: u32 = 0u;

struct Swiglu {
    count: u32,
    inter: u32,
    limit: f32,
}

@group(0) @binding(0) var<storage, read> gate_up: array<f32>;             // (n, 2 INTER)
@group(0) @binding(1) var<storage, read_write> h: array<f32>;             // (n, INTER)
@group(0) @binding(2) var<uniform> p: Swiglu;

@compute @workgroup_size(WG_SIZE)
fn swiglu(@builtin(global_invocation_id) id: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    // Threads beyond the end repeat the last element: they must reach the barrier.
    let place = min(id.x, p.count - 1u);
    let gate_at = place + place / p.inter * p.inter;
    let g = min(gate_up[gate_at], p.limit);
    var value = rounded(g / (1.0 + exp(-g)) * clamp(gate_up[gate_at + p.inter], -p.limit, p.limit));
    if (QUANTISE == 1u) {
        value = fp8_group_grid(value, thread);
    }
    if (id.x < p.count) {
        h[id.x] = value;
    }
}
