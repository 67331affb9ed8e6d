// vit_rope — turns queries and keys by the patch's row and column, in place; values stay (section 1.5).
// angles (n, PAIRS) cos, sin   qkv (n, 3, HEADS, 2 PAIRS): element i of a head pairs with element i + PAIRS
// Dispatch (2 HEADS PAIRS / WG_SIZE, n).  Includes: round.
// Numerics: f32; angles come from the CPU.
const WG_SIZE = 64u;

struct VitRope {
    heads: u32,
    pairs: u32,        // half of a head's elements
}

@group(0) @binding(0) var<storage, read> angles: array<vec2<f32>>;        // (n, PAIRS)
@group(0) @binding(1) var<storage, read_write> qkv: array<f32>;           // (n, 3, HEADS, 2 PAIRS)
@group(0) @binding(2) var<uniform> p: VitRope;

@compute @workgroup_size(WG_SIZE)
fn vit_rope(@builtin(global_invocation_id) id: vec3<u32>) {
    let head = id.x / p.pairs;         // queries' heads, then keys'
    let pair = id.x % p.pairs;
    if (head >= 2u * p.heads) {
        return;
    }
    let turn = angles[id.y * p.pairs + pair];
    let at = (id.y * 3u * p.heads + head) * 2u * p.pairs + pair;
    let a = qkv[at];
    let b = qkv[at + p.pairs];
    qkv[at] = rounded(a * turn.x - b * turn.y);
    qkv[at + p.pairs] = rounded(b * turn.x + a * turn.y);
}
