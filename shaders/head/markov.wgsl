// markov — one row of a draft: logits corrected by the token before, and the best of every 256 of them (section 10.6).
// base (b, VOCAB), of which one row is read   embed, head (VOCAB, RANK) bf16   anchor (b), its first is read   drafted (b): rows before this
// values, ids (VOCAB / PIECE)
// Dispatch (VOCAB / PIECE).  Includes: best, call, decode, gumbel.
// Numerics: f32; of equal values the lower id wins. A logit that is not finite beats all others under the id NOT_FINITE.
const WG_SIZE = 64u;
const PIECE = 256u;
const LARGEST = 3.4e38;
const NOT_FINITE = 0xffffffffu;

struct Draw {
    inverse_temperature: f32,      // 0: no noise
    seed_low: u32,
    seed_high: u32,
}

struct Markov {
    vocab: u32,
    rank: u32,
    row: u32,          // row of the block; it proposes a token for position start + 1 + row
}

@group(0) @binding(0) var<storage, read> base: array<f32>;                // (b, VOCAB)
@group(0) @binding(1) var<storage, read> embed: array<u32>;               // (VOCAB, RANK / 2)
@group(0) @binding(2) var<storage, read> head: array<u32>;                // (VOCAB, RANK / 2)
@group(0) @binding(3) var<storage, read> anchor: array<u32>;              // (b)
@group(0) @binding(4) var<storage, read> drafted: array<u32>;             // (b)
@group(0) @binding(5) var<storage, read_write> values: array<f32>;        // (VOCAB / PIECE)
@group(0) @binding(6) var<storage, read_write> ids: array<u32>;           // (VOCAB / PIECE)
@group(0) @binding(7) var<uniform> call: Call;
@group(0) @binding(8) var<uniform> draw: Draw;
@group(0) @binding(9) var<uniform> p: Markov;

var<workgroup> e: array<f32, 1024>;

@compute @workgroup_size(WG_SIZE)
fn markov(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    var before = anchor[0];
    if (p.row > 0u) {
        // After a row without a choice there is none either: any token will do.
        before = min(drafted[p.row - 1u], p.vocab - 1u);
    }
    for (var i = thread; i < p.rank / 2u; i += WG_SIZE) {
        let word = embed[before * (p.rank / 2u) + i];
        e[2u * i] = bf16_low(word);
        e[2u * i + 1u] = bf16_high(word);
    }
    workgroupBarrier();
    let position = call.start + 1u + p.row;
    let seed = vec2<u32>(draw.seed_low, draw.seed_high);
    let end = min((group.x + 1u) * PIECE, p.vocab);
    var best = Best(-LARGEST, p.vocab);
    for (var id = group.x * PIECE + thread; id < end; id += WG_SIZE) {
        var value = 0.0;
        for (var i = 0u; i < p.rank / 2u; i++) {
            let word = head[id * (p.rank / 2u) + i];
            value += e[2u * i] * bf16_low(word) + e[2u * i + 1u] * bf16_high(word);
        }
        value += base[p.row * p.vocab + id];
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
