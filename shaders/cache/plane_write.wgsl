// plane_write — rows on their way into a plane of the KV cache: norm, rotation, storage format; and the rotation of the queries beside them.
// angles (m, PAIRS) cos, sin   q (m, Q_STRIDE) in place: HEADS of WIDTH, then INDEX_HEADS of INDEX_WIDTH; with KEEP the normed rows go there
// rows (m, STRIDE), of which WIDTH are read   weight (WIDTH)
// codes (CAPACITY, code bytes)   scales (CAPACITY, scale bytes)
// Dispatch (HEADS + 1 + INDEX_HEADS, m).  Includes: call, decode, fault, quantise, reduce, round, store.
// Numerics: f32, then exact. FORMAT 0: f32 rows, 1: FP8 per 32 (N.3), 2: FP4 with E4M3 per 16 (N.4), 3: FP4 with E8M0 per 32 (N.5).
const WG_SIZE = 64u;
override NORM: u32 = 0u;       // 1: the row is normalised first (section N.8)
override KEEP: u32 = 0u;       // 1: q (m, WIDTH) keeps the normed row as it is before it turns
override GRID: u32 = 0u;       // 1: index queries are put on the FP4 grid (N.5)
override RATIO: u32 = 0u;      // 0: ring of positions; 1, 2: entries of a source of that ratio

struct PlaneWrite {
    width: u32,
    stride: u32,       // elements from row to row, and
    offset: u32,       // before the first
    heads: u32,        // query heads of a row, or 0
    q_stride: u32,
    index_width: u32,
    pairs: u32,        // pairs that rotate, at the end of a row (section N.9)
    capacity: u32,
    eps: f32,
    place: u32,        // in the model, for fault
}

@group(0) @binding(0) var<storage, read> angles: array<vec2<f32>>;        // (m, PAIRS)
@group(0) @binding(1) var<storage, read_write> q: array<f32>;             // (m, Q_STRIDE)
@group(0) @binding(2) var<storage, read> rows: array<f32>;                // (m, STRIDE)
@group(0) @binding(3) var<storage, read> weight: array<f32>;              // (WIDTH)
@group(0) @binding(4) var<storage, read_write> codes: array<u32>;         // (CAPACITY, WIDTH / 4 or / 8 or * 1)
@group(0) @binding(5) var<storage, read_write> scales: array<atomic<u32>>; // (CAPACITY, WIDTH / 32 or / 16) bytes
@group(0) @binding(6) var<storage, read_write> fault: array<atomic<u32>>;      // (1)
@group(0) @binding(7) var<uniform> call: Call;
@group(0) @binding(8) var<uniform> p: PlaneWrite;

fn turned(token: u32, pair: u32, a: f32, b: f32) -> vec2<f32> {
    let turn = angles[token * p.pairs + pair];
    return vec2<f32>(rounded(a * turn.x - b * turn.y), rounded(a * turn.y + b * turn.x));
}

// Turns the tail of one head of the queries.
fn turn_head(token: u32, first: u32, width: u32, thread: u32) {
    let begin = token * p.q_stride + first + width - 2u * p.pairs;
    for (var pair = thread; pair < p.pairs; pair += WG_SIZE) {
        let at = begin + 2u * pair;
        let turn = turned(token, pair, q[at], q[at + 1u]);
        q[at] = turn.x;
        q[at + 1u] = turn.y;
    }
}

fn index_head(token: u32, head: u32, thread: u32) {
    let first = p.heads * p.width + head * p.index_width;
    turn_head(token, first, p.index_width, thread);
    if (GRID == 0u) {
        return;
    }
    storageBarrier();
    for (var block = thread; block < p.index_width / 32u; block += WG_SIZE) {
        let base = token * p.q_stride + first + 32u * block;
        var largest = 7.052966104933725e-38;
        for (var i = 0u; i < 32u; i++) {
            largest = max(largest, abs(q[base + i]));
        }
        let byte = pow2scale(largest, INV_6);
        for (var i = 0u; i < 32u; i++) {
            q[base + i] = e8m0(byte) * e2m1(to_e2m1(q[base + i] * inverse_e8m0(byte)));
        }
    }
}

@compute @workgroup_size(WG_SIZE)
fn plane_write(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = group.y;
    let begin = p.width - 2u * p.pairs;
    if (group.x < p.heads) {
        turn_head(token, group.x * p.width, p.width, thread);
        return;
    }
    if (group.x > p.heads) {
        index_head(token, group.x - p.heads - 1u, thread);
        return;
    }
    if (token >= select(call.n, call.pairs, RATIO == 2u)) {
        return;
    }
    let source = token * p.stride + p.offset;
    var squares = 0.0;
    for (var d = thread; d < p.width; d += WG_SIZE) {
        row[d] = rows[source + d];
        squares += row[d] * row[d];
    }
    if (NORM == 1u) {
        let total = workgroup_sum(squares, thread);
        watch(total, source);
        let rstd = inverseSqrt(total / f32(p.width) + p.eps);
        for (var d = thread; d < p.width; d += WG_SIZE) {
            let normed = weight[d] * (row[d] * rstd);
            watch(normed, source + d);
            row[d] = rounded(normed);
            if (KEEP == 1u) {
                q[token * p.width + d] = row[d];
            }
        }
    }
    workgroupBarrier();
    for (var pair = thread; pair < p.pairs; pair += WG_SIZE) {
        let turn = turned(token, pair, row[begin + 2u * pair], row[begin + 2u * pair + 1u]);
        row[begin + 2u * pair] = turn.x;
        row[begin + 2u * pair + 1u] = turn.y;
    }
    workgroupBarrier();
    var slot = (call.start + token) % p.capacity;
    if (RATIO == 1u) {
        slot = call.entries - call.n + token;
    } else if (RATIO == 2u) {
        slot = call.halves - call.pairs + token;
    }
    let size = select(32u, 16u, FORMAT == 2u);
    for (var first = size * thread; first < p.width; first += size * WG_SIZE) {
        store(slot, first);
    }
}
