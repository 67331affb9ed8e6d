// choose — the best of every 1024 logits: the largest, or at a temperature above zero the largest of logit / T + Gumbel noise.
// logits (rows, VOCAB), of which one row is read   values, ids (VOCAB / PIECE)
// Dispatch (VOCAB / PIECE).  Includes: best, call, gumbel.
// Numerics: f32; of equal values the lower id wins. A logit that is not finite beats all others under the id NOT_FINITE.
const WG_SIZE = 64u;
const PIECE = 1024u;
const LARGEST = 3.4e38;
const NOT_FINITE = 0xffffffffu;

struct Draw {
    inverse_temperature: f32,      // 0: no noise
    seed_low: u32,
    seed_high: u32,
}

struct Choose {
    vocab: u32,
    row: u32,          // row of the logits; it chooses for position start + n + row
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;              // (rows, VOCAB)
@group(0) @binding(1) var<storage, read_write> values: array<f32>;        // (VOCAB / PIECE)
@group(0) @binding(2) var<storage, read_write> ids: array<u32>;           // (VOCAB / PIECE)
@group(0) @binding(3) var<uniform> call: Call;
@group(0) @binding(4) var<uniform> draw: Draw;
@group(0) @binding(5) var<uniform> p: Choose;

@compute @workgroup_size(WG_SIZE)
fn choose(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let position = call.start + call.n + p.row;
    let seed = vec2<u32>(draw.seed_low, draw.seed_high);
    let end = min((group.x + 1u) * PIECE, p.vocab);
    var best = Best(-LARGEST, p.vocab);
    for (var id = group.x * PIECE + thread; id < end; id += WG_SIZE) {
        var value = logits[p.row * p.vocab + id];
        if ((bitcast<u32>(value) & 0x7f800000u) == 0x7f800000u) {
            best = Best(LARGEST, NOT_FINITE);
        }
        if (draw.inverse_temperature > 0.0) {
            value = value * draw.inverse_temperature + gumbel(seed, position, id);
        }
        if (best.id != NOT_FINITE && better(Best(value, id), best)) {
            best = Best(value, id);
        }
    }
    best = workgroup_best(best, thread);
    if (thread == 0u) {
        values[group.x] = best.value;
        ids[group.x] = best.id;
    }
}
