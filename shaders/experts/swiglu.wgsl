// swiglu — h = silu(min(g, L)) clamp(u, -L, L) of the shared expert (section 9.2).
// gate, up, h (n, INTER)
// Dispatch (n * INTER / WG_SIZE).  Includes: round.
// Numerics: f32.
const WG_SIZE = 64u;

struct Swiglu {
    count: u32,
    limit: f32,
}

@group(0) @binding(0) var<storage, read> gate: array<f32>;                // (n, INTER)
@group(0) @binding(1) var<storage, read> up: array<f32>;                  // (n, INTER)
@group(0) @binding(2) var<storage, read_write> h: array<f32>;             // (n, INTER)
@group(0) @binding(3) var<uniform> p: Swiglu;

@compute @workgroup_size(WG_SIZE)
fn swiglu(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.count) {
        return;
    }
    let g = min(gate[id.x], p.limit);
    h[id.x] = rounded(g / (1.0 + exp(-g)) * clamp(up[id.x], -p.limit, p.limit));
}
