// embed — rows of the embedding table, or of a picture, copied to all residual streams; the first collapse reads stream 0.
// ids, images (n)   table (VOCAB, DIM) bf16   image_rows (pictures, DIM)   streams (n, LANES, DIM)   pre (n, LANES)
// Dispatch (n, DIM / WG_SIZE).  Includes: call, decode.
// Numerics: exact.
const WG_SIZE = 64u;
const TEXT = 0xffffffffu;

struct Embed {
    dim: u32,
    lanes: u32,
    rows: u32,         // of this piece of the table
    first: u32,        // rows of the table before it
}

@group(0) @binding(0) var<storage, read> ids: array<u32>;                 // (n)
@group(0) @binding(1) var<storage, read> images: array<u32>;              // (n) row of image_rows, or TEXT
@group(0) @binding(2) var<storage, read> table: array<u32>;               // (VOCAB, DIM / 2) two bf16 each
@group(0) @binding(3) var<storage, read> image_rows: array<f32>;          // (pictures, DIM)
@group(0) @binding(4) var<storage, read_write> streams: array<f32>;       // (n, LANES, DIM)
@group(0) @binding(5) var<storage, read_write> pre: array<f32>;           // (n, LANES)
@group(0) @binding(6) var<uniform> call: Call;
@group(0) @binding(7) var<uniform> p: Embed;

@compute @workgroup_size(WG_SIZE)
fn embed(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = group.x;
    let d = group.y * WG_SIZE + thread;
    if (token >= call.n || d >= p.dim) {
        return;
    }
    var value: f32;
    if (images[token] == TEXT) {
        // Another piece of the table has it: below the first row the difference wraps around.
        let row = ids[token] - p.first;
        if (row >= p.rows) {
            return;
        }
        let word = table[(row * p.dim + d) / 2u];
        value = select(bf16_low(word), bf16_high(word), (d & 1u) == 1u);
    } else {
        value = image_rows[images[token] * p.dim + d];
    }
    for (var lane = 0u; lane < p.lanes; lane++) {
        streams[(token * p.lanes + lane) * p.dim + d] = value;
    }
    if (d < p.lanes) {
        pre[token * p.lanes + d] = select(0.0, 1.0, d == 0u);
    }
}
