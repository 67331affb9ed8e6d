// route — the K experts with the largest sqrt(softplus(logit)) + bias, weighted by the score without bias (section 9.1).
// logits (n, EXPERTS)   bias, bias_vl (EXPERTS)   image_mask (n)   scores (n, EXPERTS)   ids, weights (n, K), best first
// Dispatch (n).  Includes: call.
// Numerics: f32. An expert's place is the number of experts that beat it; of equal sums the lower index wins.
const WG_SIZE = 64u;
override EXPERTS: u32 = 8u;
override K: u32 = 2u;      // experts per token

struct Route {
    scale: f32,
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;              // (n, EXPERTS)
@group(0) @binding(1) var<storage, read> bias: array<f32>;                // (EXPERTS)
@group(0) @binding(2) var<storage, read> bias_vl: array<f32>;             // (EXPERTS)
@group(0) @binding(3) var<storage, read> image_mask: array<u32>;          // (n) 1 inside a picture
@group(0) @binding(4) var<storage, read_write> scores: array<f32>;        // (n, EXPERTS)
@group(0) @binding(5) var<storage, read_write> ids: array<u32>;           // (n, K)
@group(0) @binding(6) var<storage, read_write> weights: array<f32>;       // (n, K)
@group(0) @binding(7) var<uniform> call: Call;
@group(0) @binding(8) var<uniform> p: Route;

var<workgroup> sums: array<f32, EXPERTS>;     // score and bias

// ln(1 + e^x): for large x it is x; below, the series keeps what 1 + e^x would round away.
fn softplus(x: f32) -> f32 {
    if (x > 20.0) {
        return x;
    }
    let e = exp(-abs(x));
    let log1p = select(log(1.0 + e), e * (1.0 - e * (0.5 - e * (1.0 / 3.0))), e < 0.01);
    return max(x, 0.0) + log1p;
}

@compute @workgroup_size(WG_SIZE)
fn route(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let token = group.x;
    if (token >= call.n) {
        return;
    }
    let row = token * EXPERTS;
    let is_image = image_mask[token] == 1u;
    for (var e = thread; e < EXPERTS; e += WG_SIZE) {
        let score = sqrt(softplus(logits[row + e]));
        scores[row + e] = score;
        sums[e] = score + select(bias[e], bias_vl[e], is_image);
    }
    storageBarrier();
    workgroupBarrier();
    for (var e = thread; e < EXPERTS; e += WG_SIZE) {
        let own = sums[e];
        var place = 0u;
        for (var other = 0u; other < EXPERTS; other++) {
            place += select(0u, 1u, sums[other] > own || (sums[other] == own && other < e));
        }
        if (place < K) {
            ids[token * K + place] = e;
        }
    }
    storageBarrier();
    workgroupBarrier();
    if (thread == 0u) {
        var sum = 0.0;
        for (var turn = 0u; turn < K; turn++) {
            sum += scores[row + ids[token * K + turn]];
        }
        for (var turn = 0u; turn < K; turn++) {
            weights[token * K + turn] = p.scale * scores[row + ids[token * K + turn]] / (sum + 1e-20);
        }
    }
}
