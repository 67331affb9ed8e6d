// plane_write — appends rows to a plane of the KV cache: window ring, compressed entries, index keys (section 8.1).
// rows (m, WIDTH)   codes (CAPACITY, code bytes)   scales (CAPACITY, scale bytes)
// Dispatch (m * WIDTH / GROUP / WG_SIZE).  Includes: call, decode, quantise.
// Numerics: exact. FORMAT 0: f32 rows, 1: FP8 per 32 (N.3), 2: FP4 with E4M3 per 16 (N.4), 3: FP4 with E8M0 per 32 (N.5).
// One thread quantises 64 elements: two or four groups, so that its scales fill whole words or atomics are not needed.
const WG_SIZE = 64u;
const PART = 64u;
override FORMAT: u32 = 0u;

struct PlaneWrite {
    width: u32,
    capacity: u32,
    ratio: u32,        // 0: ring of positions; 1, 2: entries of a source of that ratio
}

@group(0) @binding(0) var<storage, read> rows: array<f32>;                // (m, WIDTH)
@group(0) @binding(1) var<storage, read_write> codes: array<u32>;         // (CAPACITY, WIDTH / 4 or / 8 or * 1)
@group(0) @binding(2) var<storage, read_write> scales: array<atomic<u32>>; // (CAPACITY, WIDTH / 32 or / 16) bytes
@group(0) @binding(3) var<uniform> call: Call;
@group(0) @binding(4) var<uniform> p: PlaneWrite;

// Sets one byte of the scales; other threads set their bytes of the same word at the same time.
fn set_scale(place: u32, byte: u32) {
    let shift = 8u * (place % 4u);
    atomicAnd(&scales[place / 4u], ~(0xffu << shift));
    atomicOr(&scales[place / 4u], byte << shift);
}

fn fp8_group(source: u32, slot: u32, first: u32) {
    var largest = 1e-4;
    for (var i = 0u; i < 32u; i++) {
        largest = max(largest, abs(rows[source + i]));
    }
    let byte = pow2scale(largest, INV_448);
    set_scale((slot * p.width + first) / 32u, byte);
    for (var word = 0u; word < 8u; word++) {
        var packed = 0u;
        for (var i = 0u; i < 4u; i++) {
            packed |= to_e4m3(rows[source + 4u * word + i] * inverse_e8m0(byte)) << (8u * i);
        }
        codes[(slot * p.width + first) / 4u + word] = packed;
    }
}

// Codes of x * inverse / scale: a power of two comes as its inverse, an E4M3 scale as it is, and nothing is divided.
fn fp4_words(source: u32, slot: u32, first: u32, words: u32, inverse: f32, scale: f32) {
    for (var word = 0u; word < words; word++) {
        var packed = 0u;
        for (var i = 0u; i < 8u; i++) {
            packed |= quotient_to_e2m1(rows[source + 8u * word + i] * inverse, scale) << (4u * i);
        }
        codes[(slot * p.width + first) / 8u + word] = packed;
    }
}

@compute @workgroup_size(WG_SIZE)
fn plane_write(@builtin(global_invocation_id) id: vec3<u32>) {
    let parts = (p.width + PART - 1u) / PART;
    let row = id.x / parts;
    let count = select(select(call.n, call.pairs, p.ratio == 2u), call.n, p.ratio == 1u);
    if (row >= count) {
        return;
    }
    var slot = (call.start + row) % p.capacity;
    if (p.ratio == 1u) {
        slot = call.entries - call.n + row;
    } else if (p.ratio == 2u) {
        slot = call.halves - call.pairs + row;
    }
    let begin = (id.x % parts) * PART;
    for (var first = begin; first < min(begin + PART, p.width); first += select(32u, 16u, FORMAT == 2u)) {
        let source = row * p.width + first;
        if (FORMAT == 1u) {
            fp8_group(source, slot, first);
        } else if (FORMAT == 2u) {
            var largest = 0.01171875;
            for (var i = 0u; i < 16u; i++) {
                largest = max(largest, abs(rows[source + i]));
            }
            let code = sixth_to_e4m3(largest);
            set_scale((slot * p.width + first) / 16u, code);
            fp4_words(source, slot, first, 2u, 1.0, e4m3(code));
        } else if (FORMAT == 3u) {
            var largest = 7.052966104933725e-38;
            for (var i = 0u; i < 32u; i++) {
                largest = max(largest, abs(rows[source + i]));
            }
            let byte = pow2scale(largest, INV_6);
            set_scale((slot * p.width + first) / 32u, byte);
            fp4_words(source, slot, first, 4u, inverse_e8m0(byte), 1.0);
        } else {
            for (var i = 0u; i < 32u; i++) {
                codes[slot * p.width + first + i] = bitcast<u32>(rows[source + i]);
            }
        }
    }
}
