// vit_swiglu — h = silu(gate) up, in the place of gate (section 1.5, step 4). Unlike the experts' it has no clamp and rounds twice.
// up, gate (n, INTER)
// Dispatch (INTER / WG_SIZE, n).  Includes: round.
// Numerics: f32; released numerics round silu(gate), then the product.
const WG_SIZE = 64u;

struct VitSwiglu {
    inter: u32,
}

@group(0) @binding(0) var<storage, read> up: array<f32>;                  // (n, INTER)
@group(0) @binding(1) var<storage, read_write> gate: array<f32>;          // (n, INTER)
@group(0) @binding(2) var<uniform> p: VitSwiglu;

@compute @workgroup_size(WG_SIZE)
fn vit_swiglu(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.inter) {
        return;
    }
    let at = id.y * p.inter + id.x;
    let g = gate[at];
    gate[at] = rounded(rounded(g / (1.0 + exp(-g))) * up[at]);
}
