// candidate_blocks — the KEEP best blocks of entries per query; a block scores as its best entry, the newest visible one always stays (6.5).
// scores (n, ENTRIES)   pool (n, BLOCKS) 1 where kept
// Dispatch (n).  Includes: call, select.
// Numerics: exact. Radix select; of equal blocks the lower index wins.
const WG_SIZE = 64u;
const NONE = -2.9e38;      // above what never counts: a block without a chosen entry may still be kept
const ALWAYS = 3.0e38;

struct CandidateBlocks {
    entries: u32,
    ratio: u32,
    block: u32,
    blocks: u32,
    keep: u32,
}

@group(0) @binding(0) var<storage, read> scores: array<f32>;              // (n, ENTRIES)
@group(0) @binding(1) var<storage, read_write> best: array<f32>;          // (n, BLOCKS) scratch
@group(0) @binding(2) var<storage, read_write> pool: array<u32>;          // (n, BLOCKS)
@group(0) @binding(3) var<uniform> call: Call;
@group(0) @binding(4) var<uniform> p: CandidateBlocks;

var<private> row: u32;

fn score_at(i: u32) -> f32 {
    return best[row + i];
}

@compute @workgroup_size(WG_SIZE)
fn candidate_blocks(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = group.x;
    if (token >= call.n) {
        return;
    }
    row = token * p.blocks;
    let seen = (call.start + token + 1u) / p.ratio;
    let count = (seen + p.block - 1u) / p.block;
    for (var b = thread; b < count; b += WG_SIZE) {
        var largest = NONE;
        for (var i = b * p.block; i < min((b + 1u) * p.block, seen); i++) {
            largest = max(largest, scores[token * p.entries + i]);
        }
        best[row + b] = select(largest, ALWAYS, b + 1u == count);
    }
    storageBarrier();
    workgroupBarrier();
    find_threshold(count, p.keep, thread);
    // Each thread owns a run of blocks, so that counts before it are counts of lower ones.
    let run = (count + WG_SIZE - 1u) / WG_SIZE;
    let begin = min(thread * run, count);
    let end = min(begin + run, count);
    let edge = max(threshold, 1u);
    var before = counted_before(begin, end, edge, thread);
    for (var b = begin; b < end; b++) {
        let bits = ordered(score_at(b));
        let is_kept = bits > edge || (bits == edge && before.y < wanted);
        pool[row + b] = select(0u, 1u, is_kept);
        before.y += select(0u, 1u, bits == edge);
    }
    for (var b = count + thread; b < p.blocks; b += WG_SIZE) {
        pool[row + b] = 0u;
    }
}
