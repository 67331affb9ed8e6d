// The rows of h that an expert computes: of 64 tokens those that chose it, in order; all of them for the shared expert, whose number is EXPERTS.
const NOBODY = 0xffffffffu;

var<workgroup> chosen_by: array<u32, 64>;
var<workgroup> members: array<u32, 64>;    // token * (K + 1) + slot
var<workgroup> member_count: u32;

fn gather_members(expert: u32, first: u32, thread: u32) -> u32 {
    let token = first + thread;
    chosen_by[thread] = NOBODY;
    if (token < call.n) {
        for (var slot = 0u; slot < p.k; slot++) {
            if (expert < p.experts && ids[token * p.k + slot] == expert) {
                chosen_by[thread] = token * (p.k + 1u) + slot;
            }
        }
        if (expert == p.experts) {
            chosen_by[thread] = token * (p.k + 1u) + p.k;
        }
    }
    workgroupBarrier();
    if (thread == 0u) {
        var count = 0u;
        for (var other = 0u; other < 64u; other++) {
            if (chosen_by[other] != NOBODY) {
                members[count] = chosen_by[other];
                count += 1u;
            }
        }
        member_count = count;
    }
    return workgroupUniformLoad(&member_count);
}
