// experts_up — h = w silu(min(g, L)) clamp(u, -L, L), g = W1 x, u = W3 x, for the experts that each token chose (section 9.2).
// x (n, DIM)   codes13 (EXPERTS, 2 INTER, DIM / 2) FP4, w1 above w3   scales13 (EXPERTS, 2 INTER, DIM / 32)   ids, weights (n, K)
// h (n, K, INTER)
// Dispatch (INTER / WG_SIZE, K, n).  Includes: call, decode, group, quantise, round.
// Numerics: f32 sums, block by block; one thread per output. Expert ids are read here, never by the CPU.
const WG_SIZE = 64u;
override QUANTISE: u32 = 0u;   // 1: h on the FP8 grid, for the quantised matrix that reads it

struct ExpertsUp {
    dim: u32,
    inter: u32,
    k: u32,
    limit: f32,
}

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;             // (n, DIM / 4)
@group(0) @binding(1) var<storage, read> codes: array<vec4<u32>>;         // (EXPERTS, 2 INTER, DIM / 32)
@group(0) @binding(2) var<storage, read> scales: array<u32>;              // (EXPERTS, 2 INTER, DIM / 32) bytes
@group(0) @binding(3) var<storage, read> ids: array<u32>;                 // (n, K)
@group(0) @binding(4) var<storage, read> weights: array<f32>;             // (n, K)
@group(0) @binding(5) var<storage, read_write> h: array<f32>;             // (n, K, INTER)
@group(0) @binding(6) var<uniform> call: Call;
@group(0) @binding(7) var<uniform> p: ExpertsUp;

fn row_dot(row: u32, token: u32) -> f32 {
    var sum = 0.0;
    for (var block = 0u; block < p.dim / 32u; block++) {
        let place = row * (p.dim / 32u) + block;
        let words = codes[place];
        let base = token * (p.dim / 4u) + block * 8u;
        var part = 0.0;
        for (var i = 0u; i < 8u; i++) {
            let half = words[i / 2u] >> (16u * (i % 2u));
            part += dot(vec4<f32>(e2m1(half), e2m1(half >> 4u), e2m1(half >> 8u), e2m1(half >> 12u)), x[base + i]);
        }
        sum += part * e8m0(byte_of(scales[place / 4u], place % 4u));
    }
    return sum;
}

@compute @workgroup_size(WG_SIZE)
fn experts_up(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.x * WG_SIZE + thread;
    let chosen = group.y;
    let token = group.z;
    if (token >= call.n) {
        return;
    }
    // Threads beyond the last output repeat it: they must reach the barrier.
    let output = min(row, p.inter - 1u);
    let first = ids[token * p.k + chosen] * 2u * p.inter;
    let gate = min(rounded(row_dot(first + output, token)), p.limit);
    let up = clamp(rounded(row_dot(first + p.inter + output, token)), -p.limit, p.limit);
    let silu = gate / (1.0 + exp(-gate));
    var value = rounded(weights[token * p.k + chosen] * (silu * up));
    if (QUANTISE == 1u) {
        value = fp8_group_grid(value, thread);
    }
    if (row < p.inter) {
        h[(token * p.k + chosen) * p.inter + row] = value;
    }
}
