// rms_norm — out = weight * (x / sqrt(mean(x^2) + eps)), one row per workgroup; on the FP8 grid if a quantised matrix reads it (N.3, N.8).
// x (n, STRIDE), of which WIDTH are read   out (n, WIDTH)   weight (WIDTH)
// Dispatch (n).  Includes: call, decode, fault, quantise, reduce, round.
// Numerics: f32, the sum of squares in a fixed tree; the grid is exact.
const WG_SIZE = 64u;
override QUANTISE: u32 = 0u;   // 1: groups of 32 on the grid

struct RmsNorm {
    width: u32,
    stride: u32,
    eps: f32,
    place: u32,        // in the model, for fault
}

@group(0) @binding(0) var<storage, read> weight: array<f32>;              // (WIDTH)
@group(0) @binding(1) var<storage, read> x: array<f32>;                   // (n, STRIDE)
@group(0) @binding(2) var<storage, read_write> out: array<f32>;           // (n, WIDTH)
@group(0) @binding(3) var<storage, read_write> fault: array<atomic<u32>>;      // (1)
@group(0) @binding(4) var<uniform> call: Call;
@group(0) @binding(5) var<uniform> p: RmsNorm;

@compute @workgroup_size(WG_SIZE)
fn rms_norm(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    if (group.x >= call.n) {
        return;
    }
    let source = group.x * p.stride;
    let base = group.x * p.width;
    var squares = 0.0;
    for (var d = thread; d < p.width; d += WG_SIZE) {
        squares += x[source + d] * x[source + d];
    }
    let total = workgroup_sum(squares, thread);
    watch(total, group.x);
    let rstd = inverseSqrt(total / f32(p.width) + p.eps);
    for (var d = thread; d < p.width; d += WG_SIZE) {
        let normed = weight[d] * (x[source + d] * rstd);
        watch(normed, base + d);
        out[base + d] = rounded(normed);
    }
    if (QUANTISE == 0u) {
        return;
    }
    storageBarrier();
    for (var first = base + 32u * thread; first < base + p.width; first += 32u * WG_SIZE) {
        var largest = 1e-4;
        for (var i = 0u; i < 32u; i++) {
            largest = max(largest, abs(out[first + i]));
        }
        let byte = pow2scale(largest, INV_448);
        for (var i = 0u; i < 32u; i++) {
            out[first + i] = fp8_grid(out[first + i], byte);
        }
    }
}
