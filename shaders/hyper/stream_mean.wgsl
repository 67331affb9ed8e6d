// stream_mean — mean over the streams of a tapped layer's input (section 10.4).
// streams (n, LANES, DIM)   mean (n, TARGETS, DIM), one target written
// Dispatch (n, DIM / WG_SIZE).  Includes: round.
// Numerics: f32.
const WG_SIZE = 64u;

struct StreamMean {
    dim: u32,
    lanes: u32,
    target_index: u32,
    targets: u32,
}

@group(0) @binding(0) var<storage, read> streams: array<f32>;             // (n, LANES, DIM)
@group(0) @binding(1) var<storage, read_write> mean: array<f32>;          // (n, TARGETS, DIM)
@group(0) @binding(2) var<uniform> p: StreamMean;

@compute @workgroup_size(WG_SIZE)
fn stream_mean(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = group.x;
    let d = group.y * WG_SIZE + thread;
    if (d >= p.dim) {
        return;
    }
    var sum = 0.0;
    for (var lane = 0u; lane < p.lanes; lane++) {
        sum += streams[(token * p.lanes + lane) * p.dim + d];
    }
    mean[(token * p.targets + p.target_index) * p.dim + d] = rounded(sum / f32(p.lanes));
}
