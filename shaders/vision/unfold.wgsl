// unfold — gathers cells of RATIO x RATIO patches, channel by channel; zeros to the right and below (section 1.6).
// x (ROWS, COLS, WIDTH)   out (cells, WIDTH, RATIO, RATIO), cells in reading order
// Dispatch (WIDTH RATIO^2 / WG_SIZE, cells).
// Numerics: none, values are copied.
const WG_SIZE = 64u;

struct Unfold {
    rows: u32,
    cols: u32,
    width: u32,
    ratio: u32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;                   // (ROWS, COLS, WIDTH)
@group(0) @binding(1) var<storage, read_write> out: array<f32>;           // (cells, WIDTH, RATIO, RATIO)
@group(0) @binding(2) var<uniform> p: Unfold;

@compute @workgroup_size(WG_SIZE)
fn unfold(@builtin(global_invocation_id) id: vec3<u32>) {
    let places = p.ratio * p.ratio;
    let channel = id.x / places;
    if (channel >= p.width) {
        return;
    }
    let cell_cols = (p.cols + p.ratio - 1u) / p.ratio;
    let row = id.y / cell_cols * p.ratio + id.x % places / p.ratio;
    let col = id.y % cell_cols * p.ratio + id.x % p.ratio;
    var value = 0.0;
    if (row < p.rows && col < p.cols) {
        value = x[(row * p.cols + col) * p.width + channel];
    }
    out[id.y * p.width * places + id.x] = value;
}
