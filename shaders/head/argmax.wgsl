// argmax — the best of the pieces' bests: the chosen token, or NOT_FINITE if a fault was noted anywhere.
// values, ids (PIECES)   chosen (rows), one of which is written
// Dispatch (1).  Includes: best.
// Numerics: exact; of equal values the lower id wins.
const WG_SIZE = 64u;
const NOT_FINITE = 0xffffffffu;
const NO_FAULT = 0xffffffffu;

struct Argmax {
    pieces: u32,
    row: u32,
}

@group(0) @binding(0) var<storage, read> values: array<f32>;              // (PIECES)
@group(0) @binding(1) var<storage, read> ids: array<u32>;                 // (PIECES)
@group(0) @binding(2) var<storage, read_write> chosen: array<u32>;        // (rows)
@group(0) @binding(3) var<storage, read> fault: array<u32>;             // (1)
@group(0) @binding(4) var<uniform> p: Argmax;

@compute @workgroup_size(WG_SIZE)
fn argmax(@builtin(local_invocation_index) thread: u32) {
    var best = Best(values[0], ids[0]);
    for (var i = thread; i < p.pieces; i += WG_SIZE) {
        let other = Best(values[i], ids[i]);
        if (better(other, best)) {
            best = other;
        }
    }
    best = workgroup_best(best, thread);
    if (thread == 0u) {
        chosen[p.row] = select(NOT_FINITE, best.id, fault[0] == NO_FAULT);
    }
}
