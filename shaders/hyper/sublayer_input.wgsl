// sublayer_input — what a sub-layer reads: x = rms_norm(sum_c pre[c] h[c]), plain and as a quantised matrix sees it (sections 3.2, N.3, N.8),
// and beside it the mixes that the sub-layer's own projection of the streams gives (section 3.1): they are for what comes after it.
// streams (n, 4, DIM)   pre (n, 4)   weights: norm (DIM), scale (3), base (24), projection (24, 4 DIM)
// x, x_q (n, DIM)   next_pre (n, 4)   mixes (n, 20): post (4), comb (4, 4) source stream first
// Dispatch (n, 2), or (n, 1) without mixes, or (1, 1) with LAST.  Includes: call, decode, fault, quantise, reduce, round.
// Numerics: f32, sums in fixed trees; the grid of x_q is exact; Sinkhorn by one thread per token, 16 numbers in registers.
const WG_SIZE = 64u;
const LANES = 4u;
const MIXES = 24u;
override QUANTISE: u32 = 0u;   // 1: writes x_q
override LAST: u32 = 0u;       // 1: only the call's last row, to row 0

struct SublayerInput {
    dim: u32,
    norm_eps: f32,
    iterations: u32,
    hc_eps: f32,
    place: u32,        // in the model, for fault
}

@group(0) @binding(0) var<storage, read> streams: array<f32>;             // (n, LANES, DIM)
@group(0) @binding(1) var<storage, read> pre: array<f32>;                 // (n, LANES)
@group(0) @binding(2) var<storage, read> weights: array<f32>;             // (DIM + 3 + MIXES + MIXES * LANES * DIM), or (DIM) without mixes
@group(0) @binding(3) var<storage, read_write> x: array<f32>;             // (n, DIM)
@group(0) @binding(4) var<storage, read_write> x_q: array<f32>;           // (n, DIM)
@group(0) @binding(5) var<storage, read_write> next_pre: array<f32>;      // (n, LANES)
@group(0) @binding(6) var<storage, read_write> mixes: array<f32>;         // (n, LANES + LANES * LANES)
@group(0) @binding(7) var<storage, read_write> fault: array<atomic<u32>>; // (1)
@group(0) @binding(8) var<uniform> call: Call;
@group(0) @binding(9) var<uniform> p: SublayerInput;

fn collapse(token: u32, row: u32, thread: u32) {
    var squares = 0.0;
    for (var d = thread; d < p.dim; d += WG_SIZE) {
        var sum = 0.0;
        for (var lane = 0u; lane < LANES; lane++) {
            sum += pre[token * LANES + lane] * streams[(token * LANES + lane) * p.dim + d];
        }
        sum = rounded(sum);
        squares += sum * sum;
        x[row + d] = sum;
    }
    let total = workgroup_sum(squares, thread);
    watch(total, row);
    let rstd = inverseSqrt(total / f32(p.dim) + p.norm_eps);
    for (var d = thread; d < p.dim; d += WG_SIZE) {
        let normed = weights[d] * (x[row + d] * rstd);
        watch(normed, row + d);
        x[row + d] = rounded(normed);
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

fn sigmoid(x: f32) -> f32 {
    return 1.0 / (1.0 + exp(-x));
}

// The doubly stochastic matrix; m[row], row = source stream.
fn sinkhorn(logits: mat4x4<f32>) -> mat4x4<f32> {
    var m = logits;
    for (var i = 0u; i < LANES; i++) {
        let row = m[i];
        let e = exp(row - max(max(row.x, row.y), max(row.z, row.w)));
        m[i] = e / (e.x + e.y + e.z + e.w) + p.hc_eps;
    }
    for (var iteration = 0u; iteration < p.iterations; iteration++) {
        if (iteration > 0u) {
            for (var i = 0u; i < LANES; i++) {
                m[i] = m[i] / (m[i].x + m[i].y + m[i].z + m[i].w + p.hc_eps);
            }
        }
        let columns = m[0] + m[1] + m[2] + m[3] + p.hc_eps;
        for (var i = 0u; i < LANES; i++) {
            m[i] = m[i] / columns;
        }
    }
    return m;
}

fn mix(token: u32, thread: u32) {
    let width = LANES * p.dim;
    let scale = p.dim;
    let base = scale + 3u;
    let projection = base + MIXES;
    var squares = 0.0;
    var sums = array<f32, 24>();
    for (var d = thread; d < width; d += WG_SIZE) {
        let value = streams[token * width + d];
        squares += value * value;
        for (var i = 0u; i < MIXES; i++) {
            sums[i] += value * weights[projection + i * width + d];
        }
    }
    let total = workgroup_sum(squares, thread);
    watch(total, token * width);
    let rho = inverseSqrt(total / f32(width) + p.norm_eps);
    for (var i = 0u; i < MIXES; i++) {
        sums[i] = workgroup_sum(sums[i], thread) * rho;
        watch(sums[i], token * width);
    }
    if (thread != 0u) {
        return;
    }
    let post = token * (LANES + LANES * LANES);
    for (var lane = 0u; lane < LANES; lane++) {
        next_pre[token * LANES + lane] = sigmoid(sums[lane] * weights[scale] + weights[base + lane]) + p.hc_eps;
        mixes[post + lane] = 2.0 * sigmoid(sums[LANES + lane] * weights[scale + 1u] + weights[base + LANES + lane]);
    }
    var m: mat4x4<f32>;
    for (var i = 0u; i < LANES * LANES; i++) {
        m[i / LANES][i % LANES] = sums[2u * LANES + i] * weights[scale + 2u] + weights[base + 2u * LANES + i];
    }
    m = sinkhorn(m);
    for (var i = 0u; i < LANES * LANES; i++) {
        mixes[post + LANES + i] = m[i / LANES][i % LANES];
    }
}

@compute @workgroup_size(WG_SIZE)
fn sublayer_input(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = select(group.x, call.n - 1u, LAST == 1u);
    if (token >= call.n) {
        return;
    }
    if (group.y == 0u) {
        collapse(token, group.x * p.dim, thread);
    } else {
        mix(token, thread);
    }
}
