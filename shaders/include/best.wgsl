// The largest value of a workgroup of 64 and whose it is; of equal values the lower id wins, so that no order of threads shows.
struct Best {
    value: f32,
    id: u32,
}

var<workgroup> bests: array<Best, 64>;

fn better(a: Best, b: Best) -> bool {
    return a.value > b.value || (a.value == b.value && a.id < b.id);
}

fn workgroup_best(own: Best, thread: u32) -> Best {
    bests[thread] = own;
    workgroupBarrier();
    for (var half = 32u; half > 0u; half >>= 1u) {
        if (thread < half && better(bests[thread + half], bests[thread])) {
            bests[thread] = bests[thread + half];
        }
        workgroupBarrier();
    }
    return bests[0];
}
