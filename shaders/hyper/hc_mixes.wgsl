// hc_mixes — the coefficients of one sub-layer: projection of all streams, sigmoids, Sinkhorn (section 3.1).
// streams (n, LANES * DIM)   projection (MIXES, LANES * DIM)   scale (3)   base (MIXES)   MIXES = 2 LANES + LANES^2
// pre, post (n, LANES)   comb (n, LANES, LANES) source stream first
// Dispatch (n).  Includes: call, reduce.
// Numerics: f32; each dot product in a fixed tree; Sinkhorn by one thread per token, 16 numbers in registers.
const WG_SIZE = 64u;
const LANES = 4u;
const MIXES = 24u;

struct HcMixes {
    width: u32,        // LANES * DIM
    iterations: u32,
    norm_eps: f32,
    hc_eps: f32,
}

@group(0) @binding(0) var<storage, read> streams: array<f32>;             // (n, width)
@group(0) @binding(1) var<storage, read> projection: array<f32>;          // (MIXES, width)
@group(0) @binding(2) var<storage, read> scale: array<f32>;               // (3)
@group(0) @binding(3) var<storage, read> base: array<f32>;                // (MIXES)
@group(0) @binding(4) var<storage, read_write> pre: array<f32>;           // (n, LANES)
@group(0) @binding(5) var<storage, read_write> post: array<f32>;          // (n, LANES)
@group(0) @binding(6) var<storage, read_write> comb: array<f32>;          // (n, LANES, LANES)
@group(0) @binding(7) var<uniform> p: HcMixes;

fn sigmoid(x: f32) -> f32 {
    return 1.0 / (1.0 + exp(-x));
}

@compute @workgroup_size(WG_SIZE)
fn hc_mixes(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = group.x;
    var squares = 0.0;
    var sums = array<f32, 24>();
    for (var d = thread; d < p.width; d += WG_SIZE) {
        let value = streams[token * p.width + d];
        squares += value * value;
        for (var mix = 0u; mix < MIXES; mix++) {
            sums[mix] += value * projection[mix * p.width + d];
        }
    }
    let rho = inverseSqrt(workgroup_sum(squares, thread) / f32(p.width) + p.norm_eps);
    for (var mix = 0u; mix < MIXES; mix++) {
        sums[mix] = workgroup_sum(sums[mix], thread) * rho;
    }
    if (thread != 0u) {
        return;
    }
    for (var lane = 0u; lane < LANES; lane++) {
        pre[token * LANES + lane] = sigmoid(sums[lane] * scale[0] + base[lane]) + p.hc_eps;
        post[token * LANES + lane] = 2.0 * sigmoid(sums[LANES + lane] * scale[1] + base[LANES + lane]);
    }
    var m: mat4x4<f32>;        // m[row], row = source stream
    for (var i = 0u; i < LANES; i++) {
        for (var j = 0u; j < LANES; j++) {
            let mix = 2u * LANES + LANES * i + j;
            m[i][j] = sums[mix] * scale[2] + base[mix];
        }
    }
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
    for (var i = 0u; i < LANES; i++) {
        for (var j = 0u; j < LANES; j++) {
            comb[(token * LANES + i) * LANES + j] = m[i][j];
        }
    }
}
