// A row in workgroup memory to the bytes of a plane of the KV cache, `codes` and `scales`.
override FORMAT: u32 = 0u;

var<workgroup> row: array<f32, 1024>;

// Sets one byte of the scales; other threads set their bytes of the same word at the same time.
fn set_scale(place: u32, byte: u32) {
    let shift = 8u * (place % 4u);
    atomicAnd(&scales[place / 4u], ~(0xffu << shift));
    atomicOr(&scales[place / 4u], byte << shift);
}

fn fp8_group(slot: u32, first: u32) {
    var largest = 1e-4;
    for (var i = 0u; i < 32u; i++) {
        largest = max(largest, abs(row[first + i]));
    }
    let byte = pow2scale(largest, INV_448);
    set_scale((slot * p.width + first) / 32u, byte);
    for (var word = 0u; word < 8u; word++) {
        var packed = 0u;
        for (var i = 0u; i < 4u; i++) {
            packed |= to_e4m3(row[first + 4u * word + i] * inverse_e8m0(byte)) << (8u * i);
        }
        codes[(slot * p.width + first) / 4u + word] = packed;
    }
}

// Codes of x * inverse / scale: a power of two comes as its inverse, an E4M3 scale as it is, and nothing is divided.
fn fp4_words(slot: u32, first: u32, words: u32, inverse: f32, scale: f32) {
    for (var word = 0u; word < words; word++) {
        var packed = 0u;
        for (var i = 0u; i < 8u; i++) {
            packed |= quotient_to_e2m1(row[first + 8u * word + i] * inverse, scale) << (4u * i);
        }
        codes[(slot * p.width + first) / 8u + word] = packed;
    }
}

// One group that shares a scale.
fn store(slot: u32, first: u32) {
    if (FORMAT == 1u) {
        fp8_group(slot, first);
    } else if (FORMAT == 2u) {
        var largest = 0.01171875;
        for (var i = 0u; i < 16u; i++) {
            largest = max(largest, abs(row[first + i]));
        }
        let code = sixth_to_e4m3(largest);
        set_scale((slot * p.width + first) / 16u, code);
        fp4_words(slot, first, 2u, 1.0, e4m3(code));
    } else if (FORMAT == 3u) {
        var largest = 7.052966104933725e-38;
        for (var i = 0u; i < 32u; i++) {
            largest = max(largest, abs(row[first + i]));
        }
        let byte = pow2scale(largest, INV_6);
        set_scale((slot * p.width + first) / 32u, byte);
        fp4_words(slot, first, 4u, inverse_e8m0(byte), 1.0);
    } else {
        for (var i = 0u; i < 32u; i++) {
            codes[slot * p.width + first + i] = bitcast<u32>(row[first + i]);
        }
    }
}
