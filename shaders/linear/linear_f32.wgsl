// linear_f32 — y = W x for every row of x; W is f32.
// weights (ROWS, COLS)
// x (n, STRIDE), of which an output reads COLS   y (n, ROWS)
// Dispatch (ROWS / (WG_SIZE / T), n / TOKENS).  Includes: call, decode, fault, linear, round.
// Numerics: f32, block by block of 32 columns, four sums in each; T threads share an output and meet in a fixed tree. A row of x has the same
// bits alone as among others.

@group(0) @binding(0) var<storage, read> weights: array<vec4<f32>>;   // (ROWS, COLS / 4)
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;          // (n, STRIDE / 4)
@group(0) @binding(2) var<storage, read_write> y: array<f32>;          // (n, ROWS)
@group(0) @binding(3) var<storage, read_write> fault: array<atomic<u32>>;     // (1)
@group(0) @binding(4) var<uniform> call: Call;
@group(0) @binding(5) var<uniform> p: Linear;

fn load_block(row: u32, block: u32) -> Block {
    var b: Block;
    b.scale = 1.0;
    for (var i = 0u; i < 8u; i++) {
        b.w[i] = weights[row * (p.cols / 4u) + block * 8u + i];
    }
    return b;
}

@compute @workgroup_size(WG_SIZE)
fn linear_f32(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    product(group, thread);
}
