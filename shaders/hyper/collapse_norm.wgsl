// collapse_norm — x = rms_norm(sum_c pre[c] h[c]): the input of a sub-layer (section 3.2 and N.8).
// streams (n, LANES, DIM)   pre (n, LANES)   weight (DIM)   x (n, DIM)
// Dispatch (n).  Includes: reduce, round.
// Numerics: f32, the sum of squares in a fixed tree.
const WG_SIZE = 64u;

struct CollapseNorm {
    dim: u32,
    lanes: u32,
    eps: f32,
}

@group(0) @binding(0) var<storage, read> streams: array<f32>;             // (n, LANES, DIM)
@group(0) @binding(1) var<storage, read> pre: array<f32>;                 // (n, LANES)
@group(0) @binding(2) var<storage, read> weight: array<f32>;              // (DIM)
@group(0) @binding(3) var<storage, read_write> x: array<f32>;             // (n, DIM)
@group(0) @binding(4) var<uniform> p: CollapseNorm;

@compute @workgroup_size(WG_SIZE)
fn collapse_norm(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = group.x;
    var squares = 0.0;
    for (var d = thread; d < p.dim; d += WG_SIZE) {
        var sum = 0.0;
        for (var lane = 0u; lane < p.lanes; lane++) {
            sum += pre[token * p.lanes + lane] * streams[(token * p.lanes + lane) * p.dim + d];
        }
        sum = rounded(sum);
        squares += sum * sum;
        x[token * p.dim + d] = sum;
    }
    let rstd = inverseSqrt(workgroup_sum(squares, thread) / f32(p.dim) + p.eps);
    for (var d = thread; d < p.dim; d += WG_SIZE) {
        x[token * p.dim + d] = rounded(weight[d] * (x[token * p.dim + d] * rstd));
    }
}
