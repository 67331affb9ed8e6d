//! 890 bytes per token, counted from the buffers, and the reference's codes in them.

use super::*;
use flash890::blocks::b3a_encoder_decoder::DecoderTail;
use flash890::blocks::b6a_kv_cache::{Format, Plane};
use flash890::numerics::e2m1;

/// Rows that were written: their scales are never zero (sections N.4 and N.5), those of a fresh buffer all are.
fn written(plane: &Plane) -> usize {
    let (_, scales) = Plane::row_bytes(plane.format, plane.width);
    plane.scales.chunks_exact(scales).filter(|row| row.iter().all(|&scale| scale != 0)).count()
}

/// Bytes of all written rows of all sources.
fn bytes_written(model: &GpuModel, state: &GpuState) -> usize {
    let planes = |&layer: &usize| block_on(state.stored(&model.gpu, layer)).unwrap().unwrap();
    let bytes = |plane: &Plane| {
        let (codes, scales) = Plane::row_bytes(plane.format, plane.width);
        written(plane) * (codes + scales)
    };
    model.config().kv_source_layers.iter().flat_map(planes).map(|plane| bytes(&plane)).sum()
}

/// The released geometry, token by token over an odd and an even one, in decode and prefill, with and without a tail, across a growth.
#[test]
fn lab_model_keeps_890_bytes_per_token() {
    let model = load(gpu(), &LAB, Precision::F32, Precision::Released);
    let vocab = model.config().vocab_size;
    let mut state = model.state().unwrap();
    assert_eq!((state.kv_bytes(), bytes_written(&model, &state)), (0, 0));
    let tail = Prefill { tail: DecoderTail::Last(4), ..Prefill::default() };
    for (n, how) in [(30, Prefill::default()), (33, tail), (1, tail), (196, tail)] {
        let prompt = text(vocab, n, "890");
        prefill(&model, &mut state, &prompt, how);
        let tokens = state.position;
        assert_eq!(state.kv_bytes(), bytes_written(&model, &state), "{tokens} tokens");
        if tokens.is_multiple_of(2) {
            assert_eq!(state.kv_bytes(), 890 * tokens);
        } else {
            // An open pair in three of the four sources.
            assert_eq!(state.kv_bytes(), 890 * tokens - 3 * 178);
        }
    }
    assert_eq!(state.position, 260);
}

/// Codes that are equal, next to each other, and further apart.
#[derive(Debug, Default)]
struct Shares {
    equal: usize,
    neighbours: usize,
    others: usize,
}

/// Compares a source's first `rows` rows: FP4 elements by their place on the grid of values.
fn compare(shares: &mut Shares, actual: &Plane, expected: &Plane) {
    let rows = expected.len();
    let (codes, scales) = Plane::row_bytes(actual.format, actual.width);
    let grid = |code: u8| {
        let place = i32::from(code & 7);
        if code & 8 == 0 { place } else { -place }
    };
    let mut count = |distance: i32| match distance.abs() {
        0 => shares.equal += 1,
        1 => shares.neighbours += 1,
        _ => shares.others += 1,
    };
    for (a, e) in actual.codes[..rows * codes].iter().zip(&expected.codes) {
        count(grid(a & 15) - grid(e & 15));
        count(grid(a >> 4) - grid(e >> 4));
    }
    for (a, e) in actual.scales[..rows * scales].iter().zip(&expected.scales) {
        count(i32::from(*a) - i32::from(*e));
    }
}

/// The rows of a plane as it would keep them in another format.
fn requantised(plane: &Plane, rows: usize, format: Format) -> Plane {
    let mut out = Plane::new(format, plane.width);
    out.extend(&plane.read_from(0)[..rows * plane.width]);
    out
}

/// What both engines store, in the codes of the released caches: the same, but for values at the border between two codes, which fall to a
/// neighbour. The sequence itself runs with f32 caches. With quantised ones a single turned code moves every later layer (section 13.5), and
/// codes of layer 20 would say nothing about the store; that the store itself is exact is shown bit for bit by the tests of `plane_write`.
#[test]
fn stored_codes_are_the_references() {
    assert_eq!(e2m1::PAIRS[0x7f], [-6.0, 6.0], "the order of codes is that of magnitudes, the sign above");
    for checkpoint in [&*T12, &*LAB] {
        let f32 = Precision::F32;
        let (model, reference) = (load(gpu(), checkpoint, f32, f32), reference(checkpoint, f32, f32));
        let prompt = text(model.config().vocab_size, 61, "codes");
        let mut state = model.state().unwrap();
        prefill(&model, &mut state, &prompt, Prefill::default());
        let mut own = reference.state();
        block_on(reference.prefill(&mut own, &prompt, Prefill::default(), &mut Silent)).unwrap();
        let mut shares = Shares::default();
        for &layer in &model.config().kv_source_layers {
            let [entries, keys] = block_on(state.stored(&model.gpu, layer)).unwrap().unwrap();
            let expected = own.sources[layer].as_ref().unwrap();
            let rows = expected.entries.len();
            for (plane, expected, format) in
                [(entries, &expected.entries, Format::Kv4), (keys, &expected.keys, Format::Idx4)]
            {
                compare(&mut shares, &requantised(&plane, rows, format), &requantised(expected, rows, format));
            }
        }
        let all = shares.equal + shares.neighbours + shares.others;
        println!("{shares:?}");
        assert!(shares.equal as f64 >= 0.995 * all as f64 && shares.others == 0, "{shares:?}");
        assert_eq!(state.kv_bytes(), own.kv_bytes());
    }
}
