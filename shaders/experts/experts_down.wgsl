// experts_down — y = sum over the chosen experts in ascending id of W2 h, plus the shared expert's output (section 9.2).
// h (n, K + 1, INTER)   codes2 (EXPERTS, DIM, INTER / 2) FP4   scales2 (EXPERTS, DIM, INTER / 32)   ids (n, K)   y (n, DIM)
// shared2: FP8 codes (DIM, INTER), then scales (DIM / 32, INTER / 32)
// Dispatch (DIM / WG_SIZE, n).  Includes: call, decode, fault, round.
// Numerics: f32; one thread per output; each expert's output is rounded before the sum where the numerics say so.
const WG_SIZE = 64u;

struct ExpertsDown {
    dim: u32,
    inter: u32,
    k: u32,
    experts: u32,
    place: u32,        // in the model, for fault
}

@group(0) @binding(0) var<storage, read> h: array<vec4<f32>>;             // (n, K + 1, INTER / 4)
@group(0) @binding(1) var<storage, read> codes: array<vec4<u32>>;         // (EXPERTS, DIM, INTER / 32)
@group(0) @binding(2) var<storage, read> scales: array<u32>;              // (EXPERTS, DIM, INTER / 32) bytes
@group(0) @binding(3) var<storage, read> shared_down: array<vec4<u32>>;   // (DIM, INTER / 16), then bytes
@group(0) @binding(4) var<storage, read> ids: array<u32>;                 // (n, K)
@group(0) @binding(5) var<storage, read_write> y: array<f32>;             // (n, DIM)
@group(0) @binding(6) var<storage, read_write> fault: array<atomic<u32>>; // (1)
@group(0) @binding(7) var<uniform> call: Call;
@group(0) @binding(8) var<uniform> p: ExpertsDown;

fn chosen_dot(row: u32, slot: u32) -> f32 {
    var sum = 0.0;
    for (var block = 0u; block < p.inter / 32u; block++) {
        let place = row * (p.inter / 32u) + block;
        let words = codes[place];
        let base = slot * (p.inter / 4u) + block * 8u;
        var part = 0.0;
        for (var i = 0u; i < 8u; i++) {
            part += dot(e2m1x4(words[i / 2u] >> (16u * (i % 2u))), h[base + i]);
        }
        sum += part * e8m0(byte_of(scales[place / 4u], place % 4u));
    }
    return sum;
}

fn shared_dot(row: u32, slot: u32) -> f32 {
    let blocks = p.inter / 32u;
    let first_scale = p.dim * p.inter / 4u;
    var sum = 0.0;
    for (var block = 0u; block < blocks; block++) {
        let tile = (row / 32u) * blocks + block;
        let word = first_scale + tile / 4u;
        let base = slot * (p.inter / 4u) + block * 8u;
        var part = 0.0;
        for (var i = 0u; i < 8u; i++) {
            part += dot(e4m3x4(shared_down[row * (p.inter / 16u) + block * 2u + i / 4u][i % 4u]), h[base + i]);
        }
        sum += part * e8m0(byte_of(shared_down[word / 4u][word % 4u], tile % 4u));
    }
    return sum;
}

@compute @workgroup_size(WG_SIZE)
fn experts_down(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.x * WG_SIZE + thread;
    let token = group.y;
    if (row >= p.dim || token >= call.n) {
        return;
    }
    var sum = 0.0;
    // Ascending id without sorting: each turn takes the lowest id above the one before.
    var last = 0u;
    for (var turn = 0u; turn < p.k; turn++) {
        var lowest = p.experts;
        var place = 0u;
        for (var other = 0u; other < p.k; other++) {
            let id = ids[token * p.k + other];
            if (id >= last && id < lowest) {
                lowest = id;
                place = other;
            }
        }
        last = lowest + 1u;
        sum += rounded(chosen_dot(lowest * p.dim + row, token * (p.k + 1u) + place));
    }
    sum += rounded(shared_dot(row, token * (p.k + 1u) + p.k));
    watch(sum, token * p.dim + row);
    y[token * p.dim + row] = rounded(sum);
}
