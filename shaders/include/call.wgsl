// What changes from call to call; mirrored by `Call` in crate/kernels/call.rs.
struct Call {
    start: u32,        // position of the first row
    n: u32,            // rows
    oldest: u32,       // first position whose window row may be read
    pairs: u32,        // entries that ratio-2 sources complete in this call
    entries: u32,      // entries of ratio-1 sources after this call
    halves: u32,       // entries of ratio-2 sources after this call
}
