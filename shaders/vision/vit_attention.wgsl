// vit_attention — every patch over every patch, head by head: out = softmax(q K^T SCALE) V (section 1.5, step 3).
// qkv (n, 3, HEADS, 4 HEAD4)   out (n, HEADS, 4 HEAD4), rows FIRST and on
// Dispatch (HEADS, queries / WG_SIZE).  Includes: round.
// Numerics: f32; online softmax over tiles of keys in reading order: no score leaves its thread, so memory does not grow with n^2.
const WG_SIZE = 64u;       // queries that share a tile: one per thread
const TILE = 16u;          // keys and values in workgroup memory
override HEAD4: u32 = 16u; // quarter of a head's width, at most 16

struct VitAttention {
    n: u32,            // patches
    heads: u32,
    first: u32,        // first query of this dispatch
    scale: f32,        // 1 / sqrt(width of a head)
}

@group(0) @binding(0) var<storage, read> qkv: array<vec4<f32>>;           // (n, 3, HEADS, HEAD4)
@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;     // (n, HEADS, HEAD4)
@group(0) @binding(2) var<uniform> p: VitAttention;

var<workgroup> keys: array<vec4<f32>, 256>;        // (TILE, HEAD4)
var<workgroup> values: array<vec4<f32>, 256>;      // (TILE, HEAD4)

// Where a patch's query begins; its key and value follow HEADS and 2 HEADS heads later.
fn row_of(patch_index: u32, head: u32) -> u32 {
    return (patch_index * 3u * p.heads + head) * HEAD4;
}

@compute @workgroup_size(WG_SIZE)
fn vit_attention(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let head = group.x;
    let own = p.first + group.y * WG_SIZE + thread;
    // Threads past the last patch repeat its work: they help to load the tiles.
    let base = row_of(min(own, p.n - 1u), head);
    var q: array<vec4<f32>, 16>;
    var mixed: array<vec4<f32>, 16>;
    for (var d = 0u; d < HEAD4; d++) {
        q[d] = qkv[base + d] * p.scale;
        mixed[d] = vec4<f32>(0.0);
    }
    var largest = -1.0e30;
    var sum = 0.0;
    for (var begin = 0u; begin < p.n; begin += TILE) {
        let count = min(TILE, p.n - begin);
        for (var i = thread; i < count * HEAD4; i += WG_SIZE) {
            let at = row_of(begin + i / HEAD4, head) + i % HEAD4;
            keys[i] = qkv[at + p.heads * HEAD4];
            values[i] = qkv[at + 2u * p.heads * HEAD4];
        }
        workgroupBarrier();
        var scores: array<f32, 16>;
        var highest = largest;
        for (var i = 0u; i < count; i++) {
            var z = 0.0;
            for (var d = 0u; d < HEAD4; d++) {
                z += dot(q[d], keys[i * HEAD4 + d]);
            }
            scores[i] = z;
            highest = max(highest, z);
        }
        // What was summed relative to the old maximum, relative to the new one.
        let shrink = exp(largest - highest);
        largest = highest;
        sum *= shrink;
        for (var d = 0u; d < HEAD4; d++) {
            mixed[d] *= shrink;
        }
        for (var i = 0u; i < count; i++) {
            let weight = exp(scores[i] - largest);
            sum += weight;
            for (var d = 0u; d < HEAD4; d++) {
                mixed[d] += weight * values[i * HEAD4 + d];
            }
        }
        workgroupBarrier();
    }
    if (own >= p.n) {
        return;
    }
    let to = (own * p.heads + head) * HEAD4;
    for (var d = 0u; d < HEAD4; d++) {
        let value = mixed[d] / sum;
        out[to + d] = vec4<f32>(rounded(value.x), rounded(value.y), rounded(value.z), rounded(value.w));
    }
}
