// pool_pairs — two tokens become one: per channel a softmax over the two scores weighs the two values (section 5.2).
// rows (n, STRIDE): value (WIDTH), score (WIDTH)   open_value, open_score (SLOTS, WIDTH): first tokens of groups, a ring by group   pooled (pairs, WIDTH)
// Dispatch (WIDTH / WG_SIZE).  Includes: call, round.
// Numerics: f32. A group whose first token came in an earlier call finds it in open_*. Every first token goes there, so that a sequence can
// go back by as many groups as there are slots.
const WG_SIZE = 64u;

struct PoolPairs {
    width: u32,
    stride: u32,       // elements from row to row
    slots: u32,
}

@group(0) @binding(0) var<storage, read> rows: array<f32>;                // (n, STRIDE)
@group(0) @binding(1) var<storage, read_write> open_value: array<f32>;    // (SLOTS, WIDTH)
@group(0) @binding(2) var<storage, read_write> open_score: array<f32>;    // (SLOTS, WIDTH)
@group(0) @binding(3) var<storage, read_write> pooled: array<f32>;        // (pairs, WIDTH)
@group(0) @binding(4) var<uniform> call: Call;
@group(0) @binding(5) var<uniform> p: PoolPairs;

@compute @workgroup_size(WG_SIZE)
fn pool_pairs(@builtin(global_invocation_id) id: vec3<u32>) {
    let d = id.x;
    if (d >= p.width) {
        return;
    }
    let before = (call.start / 2u) % p.slots * p.width + d;
    var value = open_value[before];
    var score = open_score[before];
    var is_open = (call.start & 1u) == 1u;
    var pair = 0u;
    for (var token = 0u; token < call.n; token++) {
        let next_value = rows[token * p.stride + d];
        let next_score = rows[token * p.stride + p.width + d];
        if (is_open) {
            let largest = max(score, next_score);
            let first = exp(score - largest);
            let second = exp(next_score - largest);
            let sum = first + second;
            pooled[pair * p.width + d] = rounded(value * (first / sum) + next_value * (second / sum));
            pair += 1u;
        } else {
            let slot = ((call.start + token) / 2u) % p.slots * p.width + d;
            open_value[slot] = next_value;
            open_score[slot] = next_score;
        }
        is_open = !is_open;
        value = next_value;
        score = next_score;
    }
}
