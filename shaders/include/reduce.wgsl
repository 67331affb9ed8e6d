// Sums and maxima over a workgroup of 64, always in the order of the threads: the same input gives the same bits. Every thread adds all 64
// numbers itself, which needs two barriers where a tree needs eight: they are what costs on a software adapter.
var<workgroup> tree: array<f32, 64>;

fn workgroup_sum(value: f32, thread: u32) -> f32 {
    tree[thread] = value;
    workgroupBarrier();
    var parts = vec4<f32>(0.0);
    for (var i = 0u; i < 64u; i += 4u) {
        parts += vec4<f32>(tree[i], tree[i + 1u], tree[i + 2u], tree[i + 3u]);
    }
    workgroupBarrier();
    return (parts.x + parts.y) + (parts.z + parts.w);
}

fn workgroup_max(value: f32, thread: u32) -> f32 {
    tree[thread] = value;
    workgroupBarrier();
    var largest = tree[0];
    for (var i = 1u; i < 64u; i++) {
        largest = max(largest, tree[i]);
    }
    workgroupBarrier();
    return largest;
}
