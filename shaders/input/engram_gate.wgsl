// engram_gate — h_c += sigmoid(copysign(sqrt(max(|d|, 1e-6)), d)) value; d: normalised product of stream c with its key (section 2.4).
// projected (n, LANES + 1, DIM) keys then value   q_weight, k_weight (LANES, DIM)   types (n)   streams (n, LANES, DIM)   gates (n, LANES)
// Dispatch (n, LANES).  Includes: call, fault, reduce, round.
// Numerics: f32 sums over DIM in a fixed order.
const WG_SIZE = 64u;

struct EngramGate {
    dim: u32,
    lanes: u32,
    eps: f32,
    place: u32,        // in the model, for fault
}

@group(0) @binding(0) var<storage, read> projected: array<f32>;           // (n, LANES + 1, DIM)
@group(0) @binding(1) var<storage, read> q_weight: array<f32>;            // (LANES, DIM)
@group(0) @binding(2) var<storage, read> k_weight: array<f32>;            // (LANES, DIM)
@group(0) @binding(3) var<storage, read> image_mask: array<u32>;          // (n) 1 inside a picture
@group(0) @binding(4) var<storage, read_write> streams: array<f32>;       // (n, LANES, DIM)
@group(0) @binding(5) var<storage, read_write> gates: array<f32>;         // (n, LANES)
@group(0) @binding(6) var<storage, read_write> fault: array<atomic<u32>>;      // (1)
@group(0) @binding(7) var<uniform> call: Call;
@group(0) @binding(8) var<uniform> p: EngramGate;

@compute @workgroup_size(WG_SIZE)
fn engram_gate(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = group.x;
    let lane = group.y;
    if (token >= call.n) {
        return;
    }
    let h = (token * p.lanes + lane) * p.dim;
    let key = (token * (p.lanes + 1u) + lane) * p.dim;
    let value = (token * (p.lanes + 1u) + p.lanes) * p.dim;
    var hh = 0.0;
    var kk = 0.0;
    var hk = 0.0;
    for (var d = thread; d < p.dim; d += WG_SIZE) {
        let a = streams[h + d];
        let b = projected[key + d];
        hh += a * a;
        kk += b * b;
        hk += a * (q_weight[lane * p.dim + d] * k_weight[lane * p.dim + d]) * b;
    }
    let dim = f32(p.dim);
    hh = workgroup_sum(hh, thread);
    kk = workgroup_sum(kk, thread);
    hk = workgroup_sum(hk, thread);
    // Bounds on both sides of the root would swallow it.
    watch(abs(hh) + abs(kk) + abs(hk), token * p.lanes + lane);
    let h_rstd = inverseSqrt(hh / dim + p.eps);
    let k_rstd = inverseSqrt(kk / dim + p.eps);
    let product = hk * h_rstd * k_rstd * inverseSqrt(dim);
    let root = sqrt(max(abs(product), 1e-6));
    var gate = 1.0 / (1.0 + exp(-select(root, -root, product < 0.0)));
    gate = select(gate, 0.0, image_mask[token] == 1u);
    if (thread == 0u) {
        gates[token * p.lanes + lane] = gate;
    }
    for (var d = thread; d < p.dim; d += WG_SIZE) {
        streams[h + d] = rounded(streams[h + d] + gate * projected[value + d]);
    }
}
