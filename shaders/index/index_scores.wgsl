// index_scores — s[j] = sum_h relu(q_h . ik_j) w_h for every visible entry (section 6.3); -3e38 where an entry is not visible.
// q (n, Q_STRIDE), HEADS of WIDTH last   w (n, W_STRIDE), HEADS last   codes, scales: index keys   pool (n, BLOCKS) 1 where a candidate block is kept   scores (n, ENTRIES)
// Dispatch (ENTRIES / WG_SIZE, n).  Includes: call, decode, fault, plane, round.
// Numerics: f32 sums; released numerics round each product and the sum to bf16, as the vendor does.
const WG_SIZE = 64u;
const NONE = -3.0e38;
override FORMAT: u32 = 3u;
override POOLED: u32 = 0u; // 1: only entries of kept blocks
override HEADS: u32 = 8u;
override WIDTH: u32 = 32u; // dims of a head

struct IndexScores {
    entries: u32,      // capacity of a row of scores
    ratio: u32,
    block: u32,        // entries per candidate block
    blocks: u32,       // capacity of a row of the pool
    factor: f32,       // 1 / sqrt(WIDTH HEADS)
    q_stride: u32,
    w_stride: u32,
    place: u32,        // in the model, for fault
}

@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;             // (n, Q_STRIDE / 4)
@group(0) @binding(1) var<storage, read> w: array<f32>;                   // (n, W_STRIDE)
@group(0) @binding(2) var<storage, read> codes: array<u32>;               // (CAPACITY, code words)
@group(0) @binding(3) var<storage, read> scales: array<u32>;              // (CAPACITY, WIDTH / 32) bytes
@group(0) @binding(4) var<storage, read> pool: array<u32>;                // (n, BLOCKS)
@group(0) @binding(5) var<storage, read_write> scores: array<f32>;        // (n, ENTRIES)
@group(0) @binding(6) var<storage, read_write> fault: array<atomic<u32>>;      // (1)
@group(0) @binding(7) var<uniform> call: Call;
@group(0) @binding(8) var<uniform> p: IndexScores;

fn key4(entry: u32, d: u32) -> vec4<f32> {
    let at = code_word(FORMAT, entry, WIDTH, d);
    if (FORMAT == 0u) {
        return vec4<f32>(bitcast<f32>(codes[at]), bitcast<f32>(codes[at + 1u]), bitcast<f32>(codes[at + 2u]), bitcast<f32>(codes[at + 3u]));
    }
    let scale = scale_byte(FORMAT, entry, WIDTH, d);
    return unpack4(FORMAT, codes[at], d, byte_of(scales[scale / 4u], scale % 4u));
}

// What one head adds to a score.
fn weighed(product: f32, token: u32, head: u32) -> f32 {
    if (head >= HEADS) {
        return 0.0;
    }
    // The relu would swallow it.
    watch(product, token * HEADS + head);
    let weight = rounded(rounded(w[(token + 1u) * p.w_stride - HEADS + head]) * p.factor);
    return rounded(max(rounded(product), 0.0) * weight);
}

@compute @workgroup_size(WG_SIZE)
fn index_scores(@builtin(global_invocation_id) id: vec3<u32>) {
    let entry = id.x;
    let token = id.y;
    if (entry >= p.entries || token >= call.n) {
        return;
    }
    let seen = (call.start + token + 1u) / p.ratio;
    var score = NONE;
    if (entry < seen && (POOLED == 0u || pool[token * p.blocks + entry / p.block] == 1u)) {
        // Eight heads at a time share a decoded piece of the key. Beyond the last head the last one stands in, and adds nothing.
        let first = (token + 1u) * p.q_stride - HEADS * WIDTH;
        let last = HEADS - 1u;
        score = 0.0;
        for (var head = 0u; head < HEADS; head += 8u) {
            var low = vec4<f32>(0.0);
            var high = vec4<f32>(0.0);
            let a = (vec4<u32>(first) + min(vec4<u32>(head) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(last)) * WIDTH) / 4u;
            let b = (vec4<u32>(first) + min(vec4<u32>(head) + vec4<u32>(4u, 5u, 6u, 7u), vec4<u32>(last)) * WIDTH) / 4u;
            for (var d = 0u; d < WIDTH / 4u; d++) {
                let key = key4(entry, 4u * d);
                low += vec4<f32>(dot(q[a.x + d], key), dot(q[a.y + d], key), dot(q[a.z + d], key), dot(q[a.w + d], key));
                high += vec4<f32>(dot(q[b.x + d], key), dot(q[b.y + d], key), dot(q[b.z + d], key), dot(q[b.w + d], key));
            }
            for (var i = 0u; i < 4u; i++) {
                score += weighed(low[i], token, head + i);
            }
            for (var i = 0u; i < 4u; i++) {
                score += weighed(high[i], token, head + 4u + i);
            }
        }
        score = rounded(score);
    }
    scores[token * p.entries + entry] = score;
}
