// candidate_blocks — the KEEP best blocks of entries per query; a block scores as its best entry, the newest visible one always stays (6.5).
// scores (n, ENTRIES)   pool (n, BLOCKS) 1 where kept
// Dispatch (n).  Includes: call.
// Numerics: exact. A block is kept when fewer than KEEP blocks beat it; of equal ones the lower index wins.
const WG_SIZE = 64u;
const NONE = -3.0e38;

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

@compute @workgroup_size(WG_SIZE)
fn candidate_blocks(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = group.x;
    let seen = (call.start + token + 1u) / p.ratio;
    let count = (seen + p.block - 1u) / p.block;
    for (var b = thread; b < p.blocks; b += WG_SIZE) {
        var largest = NONE;
        for (var i = b * p.block; i < min((b + 1u) * p.block, seen); i++) {
            largest = max(largest, scores[token * p.entries + i]);
        }
        if (b + 1u == count) {
            largest = 3.0e38;
        }
        best[token * p.blocks + b] = largest;
    }
    storageBarrier();
    workgroupBarrier();
    for (var b = thread; b < p.blocks; b += WG_SIZE) {
        var beaten = select(0u, p.keep, b >= count);
        if (count > p.keep && b < count) {
            let own = best[token * p.blocks + b];
            for (var other = 0u; other < count; other++) {
                let score = best[token * p.blocks + other];
                beaten += select(0u, 1u, score > own || (score == own && other < b));
            }
        }
        pool[token * p.blocks + b] = select(0u, 1u, beaten < p.keep);
    }
}
