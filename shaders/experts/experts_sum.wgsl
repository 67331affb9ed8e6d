// experts_sum — y = sum over the chosen experts in ascending id of their rows, plus the shared expert's (section 9.2).
// rows (n, K + 1, DIM), the shared expert last   ids (n, K)   y (n, DIM)
// Dispatch (DIM / WG_SIZE, n).  Includes: call, fault, round.
// Numerics: f32, in the order of experts_down: the same bits.
const WG_SIZE = 64u;

struct ExpertsSum {
    dim: u32,
    k: u32,
    experts: u32,
    place: u32,        // in the model, for fault
}

@group(0) @binding(0) var<storage, read> rows: array<f32>;                // (n, K + 1, DIM)
@group(0) @binding(1) var<storage, read> ids: array<u32>;                 // (n, K)
@group(0) @binding(2) var<storage, read_write> y: array<f32>;             // (n, DIM)
@group(0) @binding(3) var<storage, read_write> fault: array<atomic<u32>>; // (1)
@group(0) @binding(4) var<uniform> call: Call;
@group(0) @binding(5) var<uniform> p: ExpertsSum;

@compute @workgroup_size(WG_SIZE)
fn experts_sum(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let d = group.x * WG_SIZE + thread;
    let token = group.y;
    if (d >= p.dim || token >= call.n) {
        return;
    }
    let first = token * (p.k + 1u);
    var sum = 0.0;
    var last = 0u;
    for (var turn = 0u; turn < p.k; turn++) {
        var lowest = p.experts;
        var place = 0u;
        for (var other = 0u; other < p.k; other++) {
            let id = ids[token * p.k + other];
            if (id >= last && id < lowest) {
                lowest = id;
                place = other;
            }
        }
        last = lowest + 1u;
        sum += rows[(first + place) * p.dim + d];
    }
    sum += rows[(first + p.k) * p.dim + d];
    watch(sum, token * p.dim + d);
    y[token * p.dim + d] = rounded(sum);
}
