// experts_up — h = w silu(min(g, L)) clamp(u, -L, L), g = W1 x, u = W3 x: the experts that each token chose, and the shared one (section 9.2).
// x (n, DIM)   codes13 (EXPERTS, 2 INTER, DIM / 2) FP4, w1 above w3   scales13 (EXPERTS, 2 INTER, DIM / 32)   ids, weights (n, K)
// shared13: FP8 codes (2 INTER, DIM), then scales (2 INTER / 32, DIM / 32)   h (n, K + 1, INTER), the shared expert last, with w = 1
// Dispatch (INTER / WG_SIZE, K + 1, n).  Includes: call, decode, fault, group, quantise, round.
// Numerics: f32 sums, block by block of 32; one thread per output. Expert ids are read here, never by the CPU.
const WG_SIZE = 64u;
override QUANTISE: u32 = 0u;   // 1: h on the FP8 grid, for the quantised matrix that reads it

struct ExpertsUp {
    dim: u32,
    inter: u32,
    k: u32,
    experts: u32,
    limit: f32,
    place: u32,        // in the model, for fault
}

@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;             // (n, DIM / 4)
@group(0) @binding(1) var<storage, read> codes: array<vec4<u32>>;         // (EXPERTS, 2 INTER, DIM / 32)
@group(0) @binding(2) var<storage, read> scales: array<u32>;              // (EXPERTS, 2 INTER, DIM / 32) bytes
@group(0) @binding(3) var<storage, read> shared_up: array<vec4<u32>>;     // (2 INTER, DIM / 16), then bytes
@group(0) @binding(4) var<storage, read> ids: array<u32>;                 // (n, K)
@group(0) @binding(5) var<storage, read> weights: array<f32>;             // (n, K)
@group(0) @binding(6) var<storage, read_write> h: array<f32>;             // (n, K + 1, INTER)
@group(0) @binding(7) var<storage, read_write> fault: array<atomic<u32>>; // (1)
@group(0) @binding(8) var<uniform> call: Call;
@group(0) @binding(9) var<uniform> p: ExpertsUp;

fn chosen_dot(row: u32, token: u32) -> f32 {
    var sum = 0.0;
    for (var block = 0u; block < p.dim / 32u; block++) {
        let place = row * (p.dim / 32u) + block;
        let words = codes[place];
        let base = token * (p.dim / 4u) + block * 8u;
        var part = 0.0;
        for (var i = 0u; i < 8u; i++) {
            part += dot(e2m1x4(words[i / 2u] >> (16u * (i % 2u))), x[base + i]);
        }
        sum += part * e8m0(byte_of(scales[place / 4u], place % 4u));
    }
    return sum;
}

fn shared_dot(row: u32, token: u32) -> f32 {
    let blocks = p.dim / 32u;
    let first_scale = 2u * p.inter * p.dim / 4u;
    var sum = 0.0;
    for (var block = 0u; block < blocks; block++) {
        let tile = (row / 32u) * blocks + block;
        let word = first_scale + tile / 4u;
        let base = token * (p.dim / 4u) + block * 8u;
        var part = 0.0;
        for (var i = 0u; i < 8u; i++) {
            part += dot(e4m3x4(shared_up[row * (p.dim / 16u) + block * 2u + i / 4u][i % 4u]), x[base + i]);
        }
        sum += part * e8m0(byte_of(shared_up[word / 4u][word % 4u], tile % 4u));
    }
    return sum;
}

@compute @workgroup_size(WG_SIZE)
fn experts_up(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.x * WG_SIZE + thread;
    let slot = group.y;
    let token = group.z;
    if (token >= call.n) {
        return;
    }
    // Threads beyond the last output repeat it: they must reach the barrier.
    let output = min(row, p.inter - 1u);
    let at = (token * (p.k + 1u) + slot) * p.inter + output;
    var gate: f32;
    var up: f32;
    var weight = 1.0;
    if (slot < p.k) {
        let first = ids[token * p.k + slot] * 2u * p.inter;
        gate = chosen_dot(first + output, token);
        up = chosen_dot(first + p.inter + output, token);
        weight = weights[token * p.k + slot];
    } else {
        gate = shared_dot(output, token);
        up = shared_dot(p.inter + output, token);
    }
    watch(gate, at);
    watch(up, at);
    gate = min(rounded(gate), p.limit);
    up = clamp(rounded(up), -p.limit, p.limit);
    var value = rounded(weight * (gate / (1.0 + exp(-gate)) * up));
    if (QUANTISE == 1u) {
        value = fp8_group_grid(value, thread);
    }
    if (row < p.inter) {
        h[at] = value;
    }
}
