// add_bias — x = act(x + bias) in place; act is the identity or the exact GELU, z / 2 * erfc(-z / sqrt 2) (sections 1.5, 1.6).
// bias (WIDTH)   x (n, WIDTH)
// Dispatch (WIDTH / WG_SIZE, n).  Includes: round.
// Numerics: f32; released numerics round the sum and the activation. The GELU is within 2e-7 |x| of the exact one.
const WG_SIZE = 64u;
override GELU: u32 = 0u;   // 1: with the activation

struct AddBias {
    width: u32,
}

@group(0) @binding(0) var<storage, read> bias: array<f32>;                // (WIDTH)
@group(0) @binding(1) var<storage, read_write> x: array<f32>;             // (n, WIDTH)
@group(0) @binding(2) var<uniform> p: AddBias;

// erfc(z) / 2 for z >= 0. With t = 1 / (1 + z / 2), exp(z^2) erfc(z) / (2 t) is smooth on (0, 1]: a polynomial of degree 8 in t, fitted to the
// smallest largest relative error for z up to 14, meets it within 5e-8. The factor exp(-z^2) keeps the digits of the tail, where 1 - erf cancels.
fn half_erfc(z: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.5 * z);
    var sum = -0.05938648;
    sum = sum * t + 0.28612405;
    sum = sum * t - 0.49040654;
    sum = sum * t + 0.28173345;
    sum = sum * t - 0.02914864;
    sum = sum * t + 0.20375256;
    sum = sum * t + 0.24283510;
    sum = sum * t + 0.28241211;
    sum = sum * t + 0.28208435;
    return 0.5 * t * sum * exp(-z * z);
}

fn gelu(x: f32) -> f32 {
    let tail = half_erfc(abs(x) * 0.70710678);
    return x * select(1.0 - tail, tail, x < 0.0);
}

@compute @workgroup_size(WG_SIZE)
fn add_bias(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= p.width) {
        return;
    }
    let at = id.y * p.width + id.x;
    let sum = rounded(x[at] + bias[id.x]);
    if (GELU == 1u) {
        x[at] = rounded(gelu(sum));
    } else {
        x[at] = sum;
    }
}
