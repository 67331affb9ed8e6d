// x on the FP8 grid of the 32 neighbouring threads that hold its group; all threads of a workgroup of 64 must call it.
var<workgroup> neighbours: array<f32, 64>;

fn fp8_group_grid(x: f32, thread: u32) -> f32 {
    neighbours[thread] = abs(x);
    workgroupBarrier();
    var largest = 1e-4;
    for (var i = 0u; i < 32u; i++) {
        largest = max(largest, neighbours[(thread & 32u) + i]);
    }
    return fp8_grid(x, pow2scale(largest, INV_448));
}
