// residual_add — x = x + y in place: a sub-layer's output joins the ViT's residual (section 1.5, step 2).
// y, x (n, WIDTH)
// Dispatch (WIDTH / WG_SIZE, n).  Includes: round.
// Numerics: f32.
const WG_SIZE = 64u;

struct ResidualAdd {
    width: u32,
}

@group(0) @binding(0) var<storage, read> y: array<f32>;                   // (n, WIDTH)
@group(0) @binding(1) var<storage, read_write> x: array<f32>;             // (n, WIDTH)
@group(0) @binding(2) var<uniform> p: ResidualAdd;

@compute @workgroup_size(WG_SIZE)
fn residual_add(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.width) {
        return;
    }
    let at = id.y * p.width + id.x;
    x[at] = rounded(x[at] + y[at]);
}
