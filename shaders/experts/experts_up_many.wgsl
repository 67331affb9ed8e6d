// experts_up_many — experts_up for the rows of a prompt: a block of weights is decoded once for up to 8 of the tokens that chose the expert.
// x (n, DIM)   codes13 (EXPERTS, 2 INTER, DIM / 2) FP4, w1 above w3   scales13 (EXPERTS, 2 INTER, DIM / 32)   ids, weights (n, K)
// shared13: FP8 codes (2 INTER, DIM), then scales (2 INTER / 32, DIM / 32)   h (n, K + 1, INTER), the shared expert last, with w = 1
// Dispatch (INTER / WG_SIZE, EXPERTS + 1, n / 64).  Includes: call, decode, fault, group, members, quantise, round.
// Numerics: those of experts_up, in the same order of sums: the same bits.
const WG_SIZE = 64u;
const MOST = 8u;
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

// A block of 32 weights of a row, and its scale.
struct Block {
    w: array<vec4<f32>, 8>,
    scale: f32,
}

fn load_block(expert: u32, row: u32, block: u32) -> Block {
    let blocks = p.dim / 32u;
    var b: Block;
    if (expert < p.experts) {
        let place = (expert * 2u * p.inter + row) * blocks + block;
        let words = codes[place];
        for (var i = 0u; i < 8u; i++) {
            b.w[i] = e2m1x4(words[i / 2u] >> (16u * (i % 2u)));
        }
        b.scale = e8m0(byte_of(scales[place / 4u], place % 4u));
    } else {
        let tile = (row / 32u) * blocks + block;
        let word = 2u * p.inter * p.dim / 4u + tile / 4u;
        for (var i = 0u; i < 8u; i++) {
            b.w[i] = e4m3x4(shared_up[row * (p.dim / 16u) + block * 2u + i / 4u][i % 4u]);
        }
        b.scale = e8m0(byte_of(shared_up[word / 4u][word % 4u], tile % 4u));
    }
    return b;
}

@compute @workgroup_size(WG_SIZE)
fn experts_up_many(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.x * WG_SIZE + thread;
    let expert = group.y;
    let count = gather_members(expert, group.z * 64u, thread);
    // Threads beyond the last output repeat it: they must reach the barrier.
    let output = min(row, p.inter - 1u);
    for (var begin = 0u; begin < count; begin += MOST) {
        let size = min(MOST, count - begin);
        var gates = array<f32, MOST>();
        var ups = array<f32, MOST>();
        for (var block = 0u; block < p.dim / 32u; block++) {
            let w1 = load_block(expert, output, block);
            let w3 = load_block(expert, p.inter + output, block);
            for (var m = 0u; m < size; m++) {
                let base = members[begin + m] / (p.k + 1u) * (p.dim / 4u) + block * 8u;
                var gate = 0.0;
                var up = 0.0;
                for (var i = 0u; i < 8u; i++) {
                    gate += dot(w1.w[i], x[base + i]);
                    up += dot(w3.w[i], x[base + i]);
                }
                gates[m] += gate * w1.scale;
                ups[m] += up * w3.scale;
            }
        }
        for (var m = 0u; m < size; m++) {
            let member = members[begin + m];
            let slot = member % (p.k + 1u);
            let at = member * p.inter + output;
            watch(gates[m], at);
            watch(ups[m], at);
            let gate = min(rounded(gates[m]), p.limit);
            let up = clamp(rounded(ups[m]), -p.limit, p.limit);
            var weight = 1.0;
            if (slot < p.k) {
                weight = weights[member / (p.k + 1u) * p.k + slot];
            }
            var value = rounded(weight * (gate / (1.0 + exp(-gate)) * up));
            if (QUANTISE == 1u) {
                value = fp8_group_grid(value, thread);
                workgroupBarrier();
            }
            if (row < p.inter) {
                h[at] = value;
            }
        }
    }
}
