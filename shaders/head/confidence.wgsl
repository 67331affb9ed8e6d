// confidence — the chance of each drafted token, as a logit: W_c [x_i, embed of the token before] (section 10.6); and all that a draft returns.
// streams (b, LANES, DIM)   pre (b, LANES)   weight (DIM + RANK)   embed (VOCAB, RANK) bf16   anchor (b), its first is read   drafted (b)
// proposal (2, b): the drafted ids, and the bits of their logits
// Dispatch (b).  Includes: decode, reduce, round.
// Numerics: f32, the sum in a fixed tree; x_i is rounded to bf16 in released numerics.
const WG_SIZE = 64u;

struct Confidence {
    block: u32,
    dim: u32,
    lanes: u32,
    rank: u32,
    vocab: u32,
}

@group(0) @binding(0) var<storage, read> streams: array<f32>;             // (b, LANES, DIM)
@group(0) @binding(1) var<storage, read> pre: array<f32>;                 // (b, LANES)
@group(0) @binding(2) var<storage, read> weight: array<f32>;              // (DIM + RANK)
@group(0) @binding(3) var<storage, read> embed: array<u32>;               // (VOCAB, RANK / 2)
@group(0) @binding(4) var<storage, read> anchor: array<u32>;              // (b)
@group(0) @binding(5) var<storage, read> drafted: array<u32>;             // (b)
@group(0) @binding(6) var<storage, read_write> proposal: array<u32>;      // (2, b)
@group(0) @binding(7) var<uniform> p: Confidence;

fn collapsed(row: u32, d: u32) -> f32 {
    var sum = 0.0;
    for (var lane = 0u; lane < p.lanes; lane++) {
        sum += pre[row * p.lanes + lane] * streams[(row * p.lanes + lane) * p.dim + d];
    }
    return rounded(sum);
}

@compute @workgroup_size(WG_SIZE)
fn confidence(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.x;
    var before = anchor[0];
    if (row > 0u) {
        before = min(drafted[row - 1u], p.vocab - 1u);
    }
    var sum = 0.0;
    for (var d = thread; d < p.dim; d += WG_SIZE) {
        sum += collapsed(row, d) * weight[d];
    }
    for (var i = thread; i < p.rank / 2u; i += WG_SIZE) {
        let e = embed[before * (p.rank / 2u) + i];
        sum += bf16_low(e) * weight[p.dim + 2u * i] + bf16_high(e) * weight[p.dim + 2u * i + 1u];
    }
    let logit = workgroup_sum(sum, thread);
    if (thread == 0u) {
        proposal[row] = drafted[row];
        proposal[p.block + row] = bitcast<u32>(logit);
    }
}
