//! What is stored is what is read (section 8.4), and how much it is (section 8.2).

use super::*;
use flash890::blocks::b6a_kv_cache::{self, Format, Plane};
use flash890::blocks::layer::Rows;
use flash890::blocks::tap::{Recorder, Tap};
use flash890::model::Forced;
use flash890::weights::tiny;

/// The rows of a plane as f32 rows.
fn dequantised(plane: &Plane) -> Plane {
    let mut plain = Plane::new(Format::F32, plane.width);
    plain.extend(&plane.read_from(0));
    plain
}

/// Every layer that reads global KV gives the same bits from codes and scales as from their dequantised values: scores and output.
#[test]
fn codes_read_like_their_values() {
    for model in [&TINY[1], &TWELVE[1]] {
        let config = model.config();
        let prompt = text(model, 24);
        let (_, state) = one_piece(model, &prompt);
        let mut judged = 0;
        for layer in 0..config.n_layers {
            let Some(source) = config.kv_source(layer).and_then(|source| state.sources[source].as_ref()) else {
                continue;
            };
            let stored = (source.entries.clone(), source.keys.clone());
            let values = (dequantised(&source.entries), dequantised(&source.keys));
            assert_eq!((stored.0.format, stored.1.format), (Format::Kv4, Format::Idx4));
            let selection = vec![vec![0, 3, 5, 9]; 6];
            let [a, b] = [stored, values].map(|(entries, keys)| {
                let forced = Forced { entries, keys, selection: selection.clone() };
                let stream = Stream::new("layer input");
                let embedding: Vec<f32> = (0..6 * config.dim as u64).map(|i| stream.unit(i)).collect();
                let mut rows = Rows::enter(&model.context, &embedding, vec![TokenType::Text; 6], 18);
                let mut pool = None;
                let mut seen = Recorder::new(|tap, _| tap == Tap::IndexScores);
                let alone = model.layer_alone(layer, &mut rows, &prompt.ids[18..], Some(&forced), &mut pool, &mut seen);
                block_on(alone).unwrap();
                (rows, seen.tensors)
            });
            assert!(a == b, "layer {layer}");
            judged += 1;
        }
        assert!(judged >= 3);
    }
}

/// 890 bytes of global KV per token in the released geometry, counted from what the planes hold, token by token; rings and open groups apart.
#[test]
fn lab_model_keeps_890_bytes_per_token() {
    let checkpoint = Arc::new(block_on(tiny::lab()).unwrap());
    let context = Context::new(&checkpoint.config, Precision::Released, Precision::Released);
    let model = appendix_e::load(&checkpoint, context);
    let config = model.config();
    let mut state = model.state();
    let rings = state.ring_bytes();
    assert_eq!((state.kv_bytes(), rings), (0, 2_906_112));
    let prompt = text(&model, 300);
    feed(
        &model,
        &mut state,
        &piece(&model, &prompt, 0..290),
        Prefill { chunk: 64, tail: DecoderTail::Last(8), all_logits: false },
    );
    assert_eq!(state.kv_bytes(), 890 * 290);
    for n in 291..=300usize {
        block_on(model.decode(&mut state, prompt.ids[n - 1], &mut Silent)).unwrap();
        let (entries, keys) = b6a_kv_cache::kv_bytes(config, n as u64);
        assert_eq!(state.kv_bytes() as u64, entries + keys, "{n} tokens");
        if n.is_multiple_of(2) {
            assert_eq!((state.kv_bytes(), entries as usize, keys as usize), (890 * n, 720 * n, 170 * n));
        }
        let open: usize =
            state.sources.iter().flatten().map(|s| 4 * (s.partial.value.len() + s.partial.score.len())).sum();
        assert_eq!(open, if n.is_multiple_of(2) { 0 } else { 12_288 });
        assert!(open <= State::partial_bytes(config));
        assert_eq!(state.ring_bytes(), rings);
    }
}
