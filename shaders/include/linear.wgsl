// y = W x for every row of x, whatever W is stored in: the kernel says how 32 weights of a row are loaded (load_block).
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

// 32 weights of a row, and what all of them are multiplied with.
struct Block {
    w: array<vec4<f32>, 8>,
    scale: f32,
}

var<workgroup> parts: array<array<f32, MOST>, WG_SIZE>;

fn across(sums: vec4<f32>) -> f32 {
    return (sums.x + sums.y) + (sums.z + sums.w);
}

fn product(group: vec3<u32>, thread: u32) {
    let row = group.x * (WG_SIZE / T) + thread / T;
    let lane = thread % T;
    let first = group.y * TOKENS;
    var sums = array<f32, MOST>();
    if (row < p.rows) {
        for (var block = lane; block < p.cols / 32u; block += T) {
            let b = load_block(row, block);
            for (var token = 0u; token < TOKENS; token++) {
                if (first + token < call.n) {
                    let base = ((first + token) * p.stride + ((p.first + row) / p.group) * p.cols) / 4u + block * 8u;
                    // Four sums side by side: fewer roundings in a row than one, and nothing is added across a vector until the end.
                    var sum = vec4<f32>(0.0);
                    for (var i = 0u; i < 8u; i++) {
                        sum += b.w[i] * x[base + i];
                    }
                    sums[token] += b.scale * across(sum);
                }
            }
        }
    }
    // A thread alone needs no barrier.
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
