// Notes a number that is not finite: place in the model, then element of what the kernel computes; the smallest note stays (crate/gpu/fault.rs).
// WGSL lets a compiler assume that there are no such numbers, so the bits of the exponent are looked at.
fn watch(x: f32, element: u32) {
    if ((bitcast<u32>(x) & 0x7f800000u) == 0x7f800000u) {
        atomicMin(&fault[0], (p.place << 20u) | min(element, 0xfffffu));
    }
}
