// rms_norm — out = weight * (x / sqrt(mean(x^2) + eps)), one row per workgroup (section N.8).
// x, out (n, WIDTH)   weight (WIDTH)
// Dispatch (rows).  Includes: reduce, round.
// Numerics: f32, the sum of squares in a fixed tree.
const WG_SIZE = 64u;

struct RmsNorm {
    width: u32,
    eps: f32,
}

@group(0) @binding(0) var<storage, read> weight: array<f32>;              // (WIDTH)
@group(0) @binding(1) var<storage, read> x: array<f32>;                   // (n, WIDTH)
@group(0) @binding(2) var<storage, read_write> out: array<f32>;           // (n, WIDTH)
@group(0) @binding(3) var<uniform> p: RmsNorm;

@compute @workgroup_size(WG_SIZE)
fn rms_norm(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let base = group.x * p.width;
    var squares = 0.0;
    for (var d = thread; d < p.width; d += WG_SIZE) {
        squares += x[base + d] * x[base + d];
    }
    let rstd = inverseSqrt(workgroup_sum(squares, thread) / f32(p.width) + p.eps);
    for (var d = thread; d < p.width; d += WG_SIZE) {
        out[base + d] = rounded(weight[d] * (x[base + d] * rstd));
    }
}
