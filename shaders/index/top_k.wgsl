// top_k — the K best entries of each row of scores in ascending order of index; of equal scores the lower index wins (section 6.6).
// scores (n, WIDTH), -3e38 means never   ids (n, K), 0xffffffff where there is none
// Dispatch (n).  Includes: call, select.
// Numerics: exact. Radix select, then compaction in order of index.
const WG_SIZE = 64u;
const NONE_ID = 0xffffffffu;

struct TopK {
    width: u32,        // capacity of a row of scores
    k: u32,
    ratio: u32,        // entries visible to the query at position p: (p + 1) / ratio
}

@group(0) @binding(0) var<storage, read> scores: array<f32>;              // (n, WIDTH)
@group(0) @binding(1) var<storage, read_write> ids: array<u32>;           // (n, K)
@group(0) @binding(2) var<uniform> call: Call;
@group(0) @binding(3) var<uniform> p: TopK;

var<private> row: u32;

fn score_at(i: u32) -> f32 {
    return scores[row + i];
}

@compute @workgroup_size(WG_SIZE)
fn top_k(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = group.x;
    if (token >= call.n) {
        return;
    }
    row = token * p.width;
    let seen = min((call.start + token + 1u) / p.ratio, p.width);
    find_threshold(seen, p.k, thread);
    // Each thread owns a run of indices, so that counts before it are counts of lower indices.
    let run = (seen + WG_SIZE - 1u) / WG_SIZE;
    let begin = min(thread * run, seen);
    let end = min(begin + run, seen);
    let edge = max(threshold, 1u);
    var before = counted_before(begin, end, edge, thread);
    for (var i = begin; i < end; i++) {
        let bits = ordered(score_at(i));
        let is_above = bits > edge;
        let is_equal = bits == edge && before.y < wanted;
        if (is_above || is_equal) {
            ids[token * p.k + before.x + min(before.y, wanted)] = i;
        }
        before += vec2<u32>(select(0u, 1u, is_above), select(0u, 1u, bits == edge));
    }
    // The last thread has seen all: what it counted is what was written.
    if (thread == WG_SIZE - 1u) {
        for (var i = before.x + min(before.y, wanted); i < p.k; i++) {
            ids[token * p.k + i] = NONE_ID;
        }
    }
}
