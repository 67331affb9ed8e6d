// rope — turns the last dims of every head by adjacent pairs, forwards or back (section N.9).
// angles (n, PAIRS) cos, sin   x (n, HEADS, WIDTH), in place
// Dispatch (n * HEADS * PAIRS / WG_SIZE, 1).  Includes: round.
// Numerics: f32; angles come from the CPU, where they are right at any position.
const WG_SIZE = 64u;

struct Rope {
    rows: u32,
    heads: u32,
    width: u32,
    pairs: u32,
    back: u32,         // 1: the inverse rotation
}

@group(0) @binding(0) var<storage, read> angles: array<vec2<f32>>;        // (n, PAIRS)
@group(0) @binding(1) var<storage, read_write> x: array<f32>;             // (n, HEADS, WIDTH)
@group(0) @binding(2) var<uniform> p: Rope;

@compute @workgroup_size(WG_SIZE)
fn rope(@builtin(global_invocation_id) id: vec3<u32>) {
    let pair = id.x % p.pairs;
    let head = id.x / p.pairs;
    if (head >= p.rows * p.heads) {
        return;
    }
    let turn = angles[(head / p.heads) * p.pairs + pair];
    let c = turn.x;
    let s = select(turn.y, -turn.y, p.back == 1u);
    let at = head * p.width + p.width - 2u * p.pairs + 2u * pair;
    let a = x[at];
    let b = x[at + 1u];
    x[at] = rounded(a * c - b * s);
    x[at + 1u] = rounded(a * s + b * c);
}
