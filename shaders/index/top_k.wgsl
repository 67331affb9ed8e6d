// top_k — the K best entries of each row of scores in ascending order of index; of equal scores the lower index wins (section 6.6).
// scores (n, WIDTH), -3e38 means never   ids (n, K), 0xffffffff where there is none
// Dispatch (n).  Includes: call.
// Numerics: exact. Radix select on the ordered bits, 8 at a time, from histograms of integer atomics; then compaction in order of index.
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

var<workgroup> histogram: array<atomic<u32>, 256>;
var<workgroup> counts: array<vec2<u32>, 64>;   // per thread: entries above the threshold, entries equal to it
var<workgroup> threshold: u32;
var<workgroup> wanted: u32;

// Larger score, larger number; both zeros the same. 0 is below every score that counts.
fn ordered(score: f32) -> u32 {
    if (score <= -3.0e38) {
        return 0u;
    }
    let bits = select(bitcast<u32>(score), 0u, score == 0.0);
    return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0u);
}

@compute @workgroup_size(WG_SIZE)
fn top_k(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = group.x;
    let row = token * p.width;
    let seen = min((call.start + token + 1u) / p.ratio, p.width);
    if (thread == 0u) {
        threshold = 0u;
        wanted = p.k;
    }
    // After each round the threshold's upper bits are those of the k-th best score, and `wanted` counts what is missing below its prefix.
    for (var shift = 24i; shift >= 0i; shift -= 8i) {
        for (var bin = thread; bin < 256u; bin += WG_SIZE) {
            atomicStore(&histogram[bin], 0u);
        }
        workgroupBarrier();
        let prefix = threshold;
        let above = select(0u, 0xffffffffu << u32(shift + 8i), shift < 24i);
        for (var i = thread; i < seen; i += WG_SIZE) {
            let bits = ordered(scores[row + i]);
            if (bits != 0u && (bits & above) == prefix) {
                atomicAdd(&histogram[(bits >> u32(shift)) & 0xffu], 1u);
            }
        }
        workgroupBarrier();
        if (thread == 0u) {
            var left = wanted;
            var bin = 255u;
            loop {
                let here = atomicLoad(&histogram[bin]);
                if (here >= left || bin == 0u) {
                    break;
                }
                left -= here;
                bin -= 1u;
            }
            wanted = left;
            threshold = prefix | (bin << u32(shift));
        }
        workgroupBarrier();
    }
    // Each thread owns a run of indices, so that counts before it are counts of lower indices.
    let run = (seen + WG_SIZE - 1u) / WG_SIZE;
    let begin = min(thread * run, seen);
    let end = min(begin + run, seen);
    let edge = max(threshold, 1u);
    var own = vec2<u32>(0u, 0u);
    for (var i = begin; i < end; i++) {
        let bits = ordered(scores[row + i]);
        own += vec2<u32>(select(0u, 1u, bits > edge), select(0u, 1u, bits == edge));
    }
    counts[thread] = own;
    workgroupBarrier();
    var before = vec2<u32>(0u, 0u);
    for (var other = 0u; other < thread; other++) {
        before += counts[other];
    }
    var total = 0u;
    for (var i = begin; i < end; i++) {
        let bits = ordered(scores[row + i]);
        let is_above = bits > edge;
        let is_equal = bits == edge && before.y < wanted;
        if (is_above || is_equal) {
            ids[token * p.k + before.x + min(before.y, wanted)] = i;
        }
        before += vec2<u32>(select(0u, 1u, is_above), select(0u, 1u, bits == edge));
    }
    // The last thread has seen all: what it counted is what was written.
    if (thread == WG_SIZE - 1u) {
        total = before.x + min(before.y, wanted);
        for (var i = total; i < p.k; i++) {
            ids[token * p.k + i] = NONE_ID;
        }
    }
}
