// Sums and maxima over a workgroup of 64 in a fixed tree: the same input gives the same bits.
var<workgroup> tree: array<f32, 64>;

fn workgroup_sum(value: f32, thread: u32) -> f32 {
    tree[thread] = value;
    workgroupBarrier();
    for (var half = 32u; half > 0u; half >>= 1u) {
        if (thread < half) {
            tree[thread] += tree[thread + half];
        }
        workgroupBarrier();
    }
    let total = tree[0];
    workgroupBarrier();
    return total;
}

fn workgroup_max(value: f32, thread: u32) -> f32 {
    tree[thread] = value;
    workgroupBarrier();
    for (var half = 32u; half > 0u; half >>= 1u) {
        if (thread < half) {
            tree[thread] = max(tree[thread], tree[thread + half]);
        }
        workgroupBarrier();
    }
    let largest = tree[0];
    workgroupBarrier();
    return largest;
}
