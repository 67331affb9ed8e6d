// attention — one head of one query over its window rows and its selected entries, with a sink in the denominator (section 7.2).
// q (n, Q_STRIDE), HEADS of WIDTH first   out (n, HEADS, WIDTH)   ring, entries: planes of the KV cache   ids (n, K)   sink (HEADS)
// Dispatch (HEADS, n).  Includes: call, decode, plane, reduce, round.
// Numerics: f32; maximum and sums in fixed trees; released numerics round the probabilities to bf16 for the values, not for the denominator.
const WG_SIZE = 64u;
const MOST = 1024u;        // rows of the longest list
override RING_FORMAT: u32 = 1u;
override ENTRY_FORMAT: u32 = 2u;
override WIDTH: u32 = 64u; // dims of a head
override K: u32 = 0u;      // entries that a query may select; 0: window only
override WHOLE: u32 = 0u;  // 1: every query sees the window before the call and all rows of the call (a draft block, section 10.6)

struct Attention {
    heads: u32,
    q_stride: u32,
    window: u32,
    capacity: u32,     // slots of the ring
    scale: f32,        // 1 / sqrt(WIDTH)
}

@group(0) @binding(0) var<storage, read> q: array<vec4<f32>>;             // (n, Q_STRIDE / 4)
@group(0) @binding(1) var<storage, read> ring_codes: array<u32>;          // (capacity, code words)
@group(0) @binding(2) var<storage, read> ring_scales: array<u32>;         // (capacity, WIDTH / 32) bytes
@group(0) @binding(3) var<storage, read> entry_codes: array<u32>;         // (entries, code words)
@group(0) @binding(4) var<storage, read> entry_scales: array<u32>;        // (entries, WIDTH / 16) bytes
@group(0) @binding(5) var<storage, read> ids: array<u32>;                 // (n, K)
@group(0) @binding(6) var<storage, read> sink: array<f32>;                // (HEADS)
@group(0) @binding(7) var<storage, read_write> out: array<vec4<f32>>;     // (n, HEADS, WIDTH / 4)
@group(0) @binding(8) var<uniform> call: Call;
@group(0) @binding(9) var<uniform> p: Attention;

var<workgroup> weights: array<f32, 1024>;

fn ring4(slot: u32, d: u32) -> vec4<f32> {
    let at = code_word(RING_FORMAT, slot, WIDTH, d);
    if (RING_FORMAT == 0u) {
        return bitcast<vec4<f32>>(vec4<u32>(ring_codes[at], ring_codes[at + 1u], ring_codes[at + 2u], ring_codes[at + 3u]));
    }
    let scale = scale_byte(RING_FORMAT, slot, WIDTH, d);
    return unpack4(RING_FORMAT, ring_codes[at], d, byte_of(ring_scales[scale / 4u], scale % 4u));
}

fn entry4(entry: u32, d: u32) -> vec4<f32> {
    let at = code_word(ENTRY_FORMAT, entry, WIDTH, d);
    if (ENTRY_FORMAT == 0u) {
        return bitcast<vec4<f32>>(vec4<u32>(entry_codes[at], entry_codes[at + 1u], entry_codes[at + 2u], entry_codes[at + 3u]));
    }
    let scale = scale_byte(ENTRY_FORMAT, entry, WIDTH, d);
    return unpack4(ENTRY_FORMAT, entry_codes[at], d, byte_of(entry_scales[scale / 4u], scale % 4u));
}

@compute @workgroup_size(WG_SIZE)
fn attention(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let head = group.x;
    let token = group.y;
    if (token >= call.n) {
        return;
    }
    let end = select(call.start + token + 1u, call.start + call.n, WHOLE == 1u);
    let last = select(end, call.start, WHOLE == 1u);
    let oldest = max(call.oldest, last - min(last, p.window));
    let in_window = end - oldest;
    let list = in_window + K;
    let query = (token * p.q_stride + head * WIDTH) / 4u;
    let output = (token * p.heads + head) * WIDTH / 4u;

    // Scores: one row per thread and turn.
    var largest = -1.0e30;
    for (var i = thread; i < list; i += WG_SIZE) {
        var z = -3.0e38;
        if (i < in_window) {
            let slot = (oldest + i) % p.capacity;
            z = 0.0;
            for (var d = 0u; d < WIDTH; d += 4u) {
                z += dot(q[query + d / 4u], ring4(slot, d));
            }
            z *= p.scale;
        } else if (ids[token * K + i - in_window] != 0xffffffffu) {
            let entry = ids[token * K + i - in_window];
            z = 0.0;
            for (var d = 0u; d < WIDTH; d += 4u) {
                z += dot(q[query + d / 4u], entry4(entry, d));
            }
            z *= p.scale;
        }
        weights[i] = z;
        largest = max(largest, z);
    }
    largest = workgroup_max(largest, thread);
    var sum = 0.0;
    for (var i = thread; i < list; i += WG_SIZE) {
        let weight = select(exp(weights[i] - largest), 0.0, weights[i] <= -3.0e38);
        sum += weight;
        weights[i] = rounded(weight);
    }
    let total = workgroup_sum(sum, thread) + exp(sink[head] - largest);

    // Values: four dims per thread and turn.
    for (var d = 4u * thread; d < WIDTH; d += 4u * WG_SIZE) {
        var value = vec4<f32>(0.0);
        for (var i = 0u; i < in_window; i++) {
            value += weights[i] * ring4((oldest + i) % p.capacity, d);
        }
        for (var i = in_window; i < list; i++) {
            let entry = ids[token * K + i - in_window];
            if (entry != 0xffffffffu) {
                value += weights[i] * entry4(entry, d);
            }
        }
        value = value / total;
        out[output + d / 4u] = vec4<f32>(rounded(value.x), rounded(value.y), rounded(value.z), rounded(value.w));
    }
}
