// experts_down_many — the products of experts_down for the rows of a prompt, one row per expert: W2 h.
// h (n, K + 1, INTER)   codes2 (EXPERTS, DIM, INTER / 2) FP4   scales2 (EXPERTS, DIM, INTER / 32)   ids (n, K)   out (n, K + 1, DIM)
// shared2: FP8 codes (DIM, INTER), then scales (DIM / 32, INTER / 32)
// Dispatch (DIM / WG_SIZE, EXPERTS + 1, n / 64).  Includes: call, decode, fault, members, round.
// Numerics: those of experts_down, in the same order of sums: the same bits.
const WG_SIZE = 64u;
const MOST = 8u;

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
@group(0) @binding(5) var<storage, read_write> out: array<f32>;           // (n, K + 1, DIM)
@group(0) @binding(6) var<storage, read_write> fault: array<atomic<u32>>; // (1)
@group(0) @binding(7) var<uniform> call: Call;
@group(0) @binding(8) var<uniform> p: ExpertsDown;

// A block of 32 weights of a row, and its scale.
struct Block {
    w: array<vec4<f32>, 8>,
    scale: f32,
}

fn load_block(expert: u32, row: u32, block: u32) -> Block {
    let blocks = p.inter / 32u;
    var b: Block;
    if (expert < p.experts) {
        let place = (expert * p.dim + row) * blocks + block;
        let words = codes[place];
        for (var i = 0u; i < 8u; i++) {
            b.w[i] = e2m1x4(words[i / 2u] >> (16u * (i % 2u)));
        }
        b.scale = e8m0(byte_of(scales[place / 4u], place % 4u));
    } else {
        let tile = (row / 32u) * blocks + block;
        let word = p.dim * p.inter / 4u + tile / 4u;
        for (var i = 0u; i < 8u; i++) {
            b.w[i] = e4m3x4(shared_down[row * (p.inter / 16u) + block * 2u + i / 4u][i % 4u]);
        }
        b.scale = e8m0(byte_of(shared_down[word / 4u][word % 4u], tile % 4u));
    }
    return b;
}

@compute @workgroup_size(WG_SIZE)
fn experts_down_many(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.x * WG_SIZE + thread;
    let expert = group.y;
    let count = gather_members(expert, group.z * 64u, thread);
    if (row >= p.dim) {
        return;
    }
    for (var begin = 0u; begin < count; begin += MOST) {
        let size = min(MOST, count - begin);
        var sums = array<f32, MOST>();
        for (var block = 0u; block < p.inter / 32u; block++) {
            let w2 = load_block(expert, row, block);
            for (var m = 0u; m < size; m++) {
                let base = members[begin + m] * (p.inter / 4u) + block * 8u;
                var part = 0.0;
                for (var i = 0u; i < 8u; i++) {
                    part += dot(w2.w[i], h[base + i]);
                }
                sums[m] += part * w2.scale;
            }
        }
        for (var m = 0u; m < size; m++) {
            let at = members[begin + m] * p.dim + row;
            watch(sums[m], at);
            out[at] = rounded(sums[m]);
        }
    }
}
