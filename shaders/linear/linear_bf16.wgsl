// linear_bf16 — y = W x for every row of x; W is bf16.
// weights (ROWS, COLS) bf16, two per word
// x (n, STRIDE), of which an output reads COLS   y (n, ROWS)
// Dispatch (ROWS / (WG_SIZE / T), n / TOKENS).  Includes: call, decode, fault, round.
// Numerics: f32 sums, block by block of 32 columns; T threads share an output and meet in a fixed tree. A row of x has the same bits alone as
// among others.
const WG_SIZE = 64u;
const MOST = 16u;
override TOKENS: u32 = 4u; // rows of x that share one decoded weight, at most MOST
override T: u32 = 1u;      // threads per output, a power of two

struct Linear {
    rows: u32,         // of this piece of W
    first: u32,        // rows of W before it
    outputs: u32,      // rows of W
    cols: u32,
    stride: u32,       // elements of a row of x
    group: u32,        // outputs that read the same COLS of x; the next group reads the next COLS
    place: u32,        // in the model, for fault
}

@group(0) @binding(0) var<storage, read> weights: array<vec4<u32>>;   // (ROWS, COLS / 8), 8 weights each
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;          // (n, STRIDE / 4)
@group(0) @binding(2) var<storage, read_write> y: array<f32>;          // (n, ROWS)
@group(0) @binding(3) var<storage, read_write> fault: array<atomic<u32>>;     // (1)
@group(0) @binding(4) var<uniform> call: Call;
@group(0) @binding(5) var<uniform> p: Linear;

var<workgroup> parts: array<array<f32, MOST>, WG_SIZE>;

@compute @workgroup_size(WG_SIZE)
fn linear_bf16(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let row = group.x * (WG_SIZE / T) + thread / T;
    let lane = thread % T;
    let first = group.y * TOKENS;
    var sums = array<f32, MOST>();
    if (row < p.rows) {
        for (var block = lane; block < p.cols / 32u; block += T) {
            var w: array<vec4<f32>, 8>;
            for (var i = 0u; i < 8u; i++) {
                let words = weights[(row * p.cols) / 8u + block * 4u + i / 2u];
                let low = words[2u * (i % 2u)];
                let high = words[2u * (i % 2u) + 1u];
                w[i] = vec4<f32>(bf16_low(low), bf16_high(low), bf16_low(high), bf16_high(high));
            }
            for (var token = 0u; token < TOKENS; token++) {
                if (first + token < call.n) {
                    let base = ((first + token) * p.stride + ((p.first + row) / p.group) * p.cols) / 4u + block * 8u;
                    var sum = 0.0;
                    for (var i = 0u; i < 8u; i++) {
                        sum += dot(w[i], x[base + i]);
                    }
                    sums[token] += sum;
                }
            }
        }
    }
    if (T > 1u) {
        for (var token = 0u; token < TOKENS; token++) {
            parts[thread][token] = sums[token];
        }
        workgroupBarrier();
        for (var half = T / 2u; half > 0u; half >>= 1u) {
            if (lane < half) {
                for (var token = 0u; token < TOKENS; token++) {
                    parts[thread][token] += parts[thread + half][token];
                }
            }
            workgroupBarrier();
        }
        for (var token = 0u; token < TOKENS; token++) {
            sums[token] = parts[thread][token];
        }
    }
    if (lane == 0u && row < p.rows) {
        for (var token = 0u; token < TOKENS; token++) {
            if (first + token < call.n) {
                let at = (first + token) * p.outputs + p.first + row;
                watch(sums[token], at);
                y[at] = rounded(sums[token]);
            }
        }
    }
}
