// linear_bf16 — y = W x for every row of x; W is bf16.
// weights (ROWS, COLS) bf16, two per word
// x (n, STRIDE), of which an output reads COLS   y (n, ROWS)
// Dispatch (ROWS / (WG_SIZE / T), n / TOKENS).  Includes: call, decode, fault, linear, round.
// Numerics: f32, block by block of 32 columns, four sums in each; T threads share an output and meet in a fixed tree. A row of x has the same
// bits alone as among others.

@group(0) @binding(0) var<storage, read> weights: array<vec4<u32>>;   // (ROWS, COLS / 8), 8 weights each
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;          // (n, STRIDE / 4)
@group(0) @binding(2) var<storage, read_write> y: array<f32>;          // (n, ROWS)
@group(0) @binding(3) var<storage, read_write> fault: array<atomic<u32>>;     // (1)
@group(0) @binding(4) var<uniform> call: Call;
@group(0) @binding(5) var<uniform> p: Linear;

fn load_block(row: u32, block: u32) -> Block {
    var b: Block;
    b.scale = 1.0;
    for (var i = 0u; i < 4u; i++) {
        let words = weights[row * (p.cols / 8u) + block * 4u + i];
        b.w[2u * i] = vec4<f32>(bf16_low(words.x), bf16_high(words.x), bf16_low(words.y), bf16_high(words.y));
        b.w[2u * i + 1u] = vec4<f32>(bf16_low(words.z), bf16_high(words.z), bf16_low(words.w), bf16_high(words.w));
    }
    return b;
}

@compute @workgroup_size(WG_SIZE)
fn linear_bf16(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    product(group, thread);
}
