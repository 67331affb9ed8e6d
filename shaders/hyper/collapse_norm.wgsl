// collapse_norm — x = rms_norm(sum_c pre[c] h[c]), the input of a sub-layer, and x as a quantised matrix sees it (sections 3.2, N.3, N.8).
// streams (n, LANES, DIM)   pre (n, LANES)   weight (DIM)   x, x_q (n, DIM)
// Dispatch (n), or (1) with LAST.  Includes: call, decode, quantise, reduce, round.
// Numerics: f32, the sum of squares in a fixed tree; the grid of x_q is exact.
const WG_SIZE = 64u;
override QUANTISE: u32 = 0u;   // 1: writes x_q
override LAST: u32 = 0u;       // 1: only the call's last row, to row 0

struct CollapseNorm {
    dim: u32,
    lanes: u32,
    eps: f32,
}

@group(0) @binding(0) var<storage, read> streams: array<f32>;             // (n, LANES, DIM)
@group(0) @binding(1) var<storage, read> pre: array<f32>;                 // (n, LANES)
@group(0) @binding(2) var<storage, read> weight: array<f32>;              // (DIM)
@group(0) @binding(3) var<storage, read_write> x: array<f32>;             // (n, DIM)
@group(0) @binding(4) var<storage, read_write> x_q: array<f32>;           // (n, DIM)
@group(0) @binding(5) var<uniform> call: Call;
@group(0) @binding(6) var<uniform> p: CollapseNorm;

@compute @workgroup_size(WG_SIZE)
fn collapse_norm(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = select(group.x, call.n - 1u, LAST == 1u);
    if (token >= call.n) {
        return;
    }
    let row = group.x * p.dim;
    var squares = 0.0;
    for (var d = thread; d < p.dim; d += WG_SIZE) {
        var sum = 0.0;
        for (var lane = 0u; lane < p.lanes; lane++) {
            sum += pre[token * p.lanes + lane] * streams[(token * p.lanes + lane) * p.dim + d];
        }
        sum = rounded(sum);
        squares += sum * sum;
        x[row + d] = sum;
    }
    let rstd = inverseSqrt(workgroup_sum(squares, thread) / f32(p.dim) + p.eps);
    for (var d = thread; d < p.dim; d += WG_SIZE) {
        x[row + d] = rounded(weight[d] * (x[row + d] * rstd));
    }
    if (QUANTISE == 0u) {
        return;
    }
    storageBarrier();
    for (var first = row + 32u * thread; first < row + p.dim; first += 32u * WG_SIZE) {
        var largest = 1e-4;
        for (var i = 0u; i < 32u; i++) {
            largest = max(largest, abs(x[first + i]));
        }
        let byte = pow2scale(largest, INV_448);
        for (var i = 0u; i < 32u; i++) {
            x_q[first + i] = fp8_grid(x[first + i], byte);
        }
    }
}
