//! Sizes and rings of the KV cache.

use super::*;

#[test]
fn record_sizes() {
    assert_eq!(Plane::row_bytes(Format::Kv4, 512), (256, 32));
    assert_eq!(Plane::row_bytes(Format::Idx4, 128), (64, 4));
    assert_eq!(Plane::row_bytes(Format::Fp8, 512), (512, 16));
}

/// Every row of the table in section 8.2.
#[test]
fn bytes_by_context() {
    let config = Config::flash();
    #[rustfmt::skip]
    let table: [(u64, u64, u64); 8] = [
        (1_023, 736_128, 173_808), (4_096, 2_949_120, 696_320), (16_384, 11_796_480, 2_785_280),
        (65_536, 47_185_920, 11_141_120), (131_072, 94_371_840, 22_282_240), (262_144, 188_743_680, 44_564_480),
        (1_000_000, 720_000_000, 170_000_000), (1_048_576, 754_974_720, 178_257_920),
    ];
    for (tokens, kv, keys) in table {
        assert_eq!(kv_bytes(&config, tokens), (kv, keys), "{tokens} tokens");
    }
    assert_eq!(kv_bytes(&config, 1), (288, 68));
    assert_eq!(kv_bytes(&config, 2), (1_440, 340));
    assert_eq!(config.kv_bytes_per_token(), 890.0);
}

#[test]
fn bytes_kept_besides() {
    let config = Config::flash();
    let state = State::new(&config, Precision::Released);
    assert_eq!(state.windows.iter().map(Ring::bytes).sum::<usize>(), 2_703_360);
    assert_eq!(state.ring_bytes(), 2_906_112);
    assert_eq!(State::partial_bytes(&config), 24_576);
}

/// A plane filled token by token holds what the formula says, for odd lengths too.
#[test]
fn planes_hold_what_the_formula_says() {
    let config = Config::flash();
    let mut state = State::new(&config, Precision::Released);
    for token in 1..=9u64 {
        for &layer in &config.kv_source_layers {
            if token.is_multiple_of(config.ratio(layer) as u64) {
                let source = state.sources[layer].as_mut().unwrap();
                source.entries.extend(&vec![token as f32; config.head_dim]);
                source.keys.extend(&vec![token as f32; config.index_head_dim]);
            }
        }
        let (kv, keys) = kv_bytes(&config, token);
        assert_eq!(state.kv_bytes() as u64, kv + keys);
    }
}

#[test]
fn ring_keeps_the_last_rows_and_forgets_across_gaps() {
    let mut ring = Ring::new(Format::F32, 1, 8);
    (0..14).for_each(|p| ring.write(p, &[p as f32]));
    assert_eq!(ring.positions(), 6..14);
    assert_eq!(ring.read(6..14), (6..14).map(|p| p as f32).collect::<Vec<_>>());
    assert_eq!(ring.slot(13), 5);
    ring.write(20, &[20.0]);
    assert_eq!(ring.positions(), 20..21);
    ring.write(21, &[21.0]);
    assert_eq!(ring.read(20..22), [20.0, 21.0]);
}

/// Storing codes and scales loses nothing against the dequantised values (section 8.4): writing what was read gives the same values.
#[test]
fn stored_rows_read_the_same_twice() {
    let row: Vec<f32> = (0..512).map(|i| ((i * 37 % 101) as f32 - 50.0) * 0.0625).collect();
    for format in [Format::Fp8, Format::Kv4, Format::Idx4] {
        let mut plane = Plane::new(format, 512);
        plane.extend(&row);
        let read = plane.read_from(0);
        assert!(read.iter().all(|&v| crate::numerics::bf16::round(v) == v), "{format:?} is not bf16");
        assert_ne!(read, row, "{format:?} should lose something");
    }
}
