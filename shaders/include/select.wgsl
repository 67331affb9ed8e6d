// The k-th best of `count` scores of a workgroup of 64, exactly: radix select on their ordered bits, 8 at a time, from histograms of integer atomics,
// whose sums do not depend on the order of threads. The kernel says what a score is: score_at(i).
var<workgroup> histogram: array<atomic<u32>, 256>;
var<workgroup> threshold: u32;
var<workgroup> wanted: u32;

// Larger score, larger number; both zeros the same. 0 is below every score that counts.
fn ordered(score: f32) -> u32 {
    if (score <= -3.0e38) {
        return 0u;
    }
    let bits = select(bitcast<u32>(score), 0u, score == 0.0);
    return select(bits | 0x80000000u, ~bits, (bits & 0x80000000u) != 0u);
}

// Afterwards `threshold` holds the bits of the k-th best score, and `wanted` how many of those equal to it are among the best k.
fn find_threshold(count: u32, k: u32, thread: u32) {
    if (thread == 0u) {
        threshold = 0u;
        wanted = k;
    }
    for (var shift = 24i; shift >= 0i; shift -= 8i) {
        for (var bin = thread; bin < 256u; bin += 64u) {
            atomicStore(&histogram[bin], 0u);
        }
        workgroupBarrier();
        let prefix = threshold;
        let above = select(0u, 0xffffffffu << u32(shift + 8i), shift < 24i);
        for (var i = thread; i < count; i += 64u) {
            let bits = ordered(score_at(i));
            if (bits != 0u && (bits & above) == prefix) {
                atomicAdd(&histogram[(bits >> u32(shift)) & 0xffu], 1u);
            }
        }
        workgroupBarrier();
        if (thread == 0u) {
            var left = wanted;
            var bin = 255u;
            loop {
                let here = atomicLoad(&histogram[bin]);
                if (here >= left || bin == 0u) {
                    break;
                }
                left -= here;
                bin -= 1u;
            }
            wanted = left;
            threshold = prefix | (bin << u32(shift));
        }
        workgroupBarrier();
    }
}

// Scores above the threshold and equal to it, before index `end` of `begin`: what the threads before have counted is theirs.
var<workgroup> counts: array<vec2<u32>, 64>;

fn counted_before(begin: u32, end: u32, edge: u32, thread: u32) -> vec2<u32> {
    var own = vec2<u32>(0u, 0u);
    for (var i = begin; i < end; i++) {
        let bits = ordered(score_at(i));
        own += vec2<u32>(select(0u, 1u, bits > edge), select(0u, 1u, bits == edge));
    }
    counts[thread] = own;
    workgroupBarrier();
    var before = vec2<u32>(0u, 0u);
    for (var other = 0u; other < thread; other++) {
        before += counts[other];
    }
    return before;
}
