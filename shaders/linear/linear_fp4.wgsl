// linear_fp4 — y = W x for every row of x; W is FP4 E2M1, two codes per byte, with one E8M0 scale per 32 columns of a row.
// codes (ROWS, COLS / 2) bytes, low nibble first   scales (ROWS, COLS / 32) bytes
// x (n, STRIDE), of which an output reads COLS   y (n, ROWS)
// Dispatch (ROWS / (WG_SIZE / T), n / TOKENS).  Includes: call, decode, fault, linear, round.
// Numerics: f32, block by block of 32 columns, four sums in each; T threads share an output and meet in a fixed tree. A row of x has the same
// bits alone as among others.

@group(0) @binding(0) var<storage, read> codes: array<vec4<u32>>;     // (ROWS, COLS / 32), 32 codes each
@group(0) @binding(1) var<storage, read> scales: array<u32>;          // (ROWS, COLS / 32) bytes
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;          // (n, STRIDE / 4)
@group(0) @binding(3) var<storage, read_write> y: array<f32>;          // (n, ROWS)
@group(0) @binding(4) var<storage, read_write> fault: array<atomic<u32>>;     // (1)
@group(0) @binding(5) var<uniform> call: Call;
@group(0) @binding(6) var<uniform> p: Linear;

fn load_block(row: u32, block: u32) -> Block {
    let place = row * (p.cols / 32u) + block;
    let words = codes[place];
    var b: Block;
    b.scale = e8m0(byte_of(scales[place / 4u], place % 4u));
    for (var i = 0u; i < 8u; i++) {
        b.w[i] = e2m1x4(words[i / 2u] >> (16u * (i % 2u)));
    }
    return b;
}

@compute @workgroup_size(WG_SIZE)
fn linear_fp4(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    product(group, thread);
}
