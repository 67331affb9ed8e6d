// argmax — the first largest logit of one row.
// logits (n, VOCAB)   best (1)
// Dispatch (1).  Includes: call.
// Numerics: exact; of equal logits the lower id wins.
const WG_SIZE = 64u;

struct Argmax {
    vocab: u32,
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;              // (1, VOCAB)
@group(0) @binding(1) var<storage, read_write> best: array<u32>;          // (1)
@group(0) @binding(2) var<uniform> p: Argmax;

var<workgroup> value: array<f32, 64>;
var<workgroup> place: array<u32, 64>;

@compute @workgroup_size(WG_SIZE)
fn argmax(@builtin(local_invocation_index) thread: u32) {
    value[thread] = -3.0e38;
    place[thread] = 0u;
    for (var i = thread; i < p.vocab; i += WG_SIZE) {
        if (logits[i] > value[thread]) {
            value[thread] = logits[i];
            place[thread] = i;
        }
    }
    workgroupBarrier();
    for (var half = 32u; half > 0u; half >>= 1u) {
        if (thread < half) {
            let other = thread + half;
            if (value[other] > value[thread] || (value[other] == value[thread] && place[other] < place[thread])) {
                value[thread] = value[other];
                place[thread] = place[other];
            }
        }
        workgroupBarrier();
    }
    if (thread == 0u) {
        best[0] = place[0];
    }
}
