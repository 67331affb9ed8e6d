// hc_expand — h'[j] = post[j] y + sum_i comb[i][j] h[i]: a sub-layer's output back into the streams (section 3.2).
// y (n, DIM)   mixes (n, 20): post, then comb source stream first   streams (n, 4, DIM), in place
// Dispatch (n, DIM / WG_SIZE).  Includes: call, fault, round.
// Numerics: f32; one thread holds all four streams of one column.
const WG_SIZE = 64u;
const LANES = 4u;

struct HcExpand {
    dim: u32,
    place: u32,        // in the model, for fault
}

@group(0) @binding(0) var<storage, read> y: array<f32>;                   // (n, DIM)
@group(0) @binding(1) var<storage, read> mixes: array<f32>;               // (n, LANES + LANES * LANES)
@group(0) @binding(2) var<storage, read_write> streams: array<f32>;       // (n, LANES, DIM)
@group(0) @binding(3) var<storage, read_write> fault: array<atomic<u32>>;      // (1)
@group(0) @binding(4) var<uniform> call: Call;
@group(0) @binding(5) var<uniform> p: HcExpand;

@compute @workgroup_size(WG_SIZE)
fn hc_expand(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = group.x;
    let d = group.y * WG_SIZE + thread;
    if (token >= call.n || d >= p.dim) {
        return;
    }
    var h = array<f32, 4>();
    for (var lane = 0u; lane < LANES; lane++) {
        h[lane] = streams[(token * LANES + lane) * p.dim + d];
    }
    let post = token * (LANES + LANES * LANES);
    for (var j = 0u; j < LANES; j++) {
        var sum = mixes[post + j] * y[token * p.dim + d];
        for (var i = 0u; i < LANES; i++) {
            sum += mixes[post + LANES + i * LANES + j] * h[i];
        }
        let at = (token * LANES + j) * p.dim + d;
        watch(sum, at);
        streams[at] = rounded(sum);
    }
}
