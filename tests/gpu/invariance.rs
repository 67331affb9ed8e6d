//! What must not change the result: another run, how a prompt is cut, when the cache grew, how little a device grants.

use super::*;

const F32: Precision = Precision::F32;
const RELEASED: Precision = Precision::Released;

#[test]
fn two_runs_give_the_same_bits() {
    for (numerics, kv) in [(F32, F32), (RELEASED, RELEASED)] {
        let model = load(gpu(), &T12, numerics, kv);
        let prompt = text(model.config().vocab_size, 90, "two runs");
        let first = all_logits(&model, &prompt, 64).0;
        assert!(first == all_logits(&model, &prompt, 64).0, "a second state");
        assert!(first == all_logits(&load(gpu(), &T12, numerics, kv), &prompt, 64).0, "a second device");
    }
}

/// Matrices and the embedding in pieces of 4 KiB, as a large model has them on a device with small bindings: the same bits as whole.
#[test]
fn matrices_in_pieces_give_the_same_bits() {
    let run = |most_of_a_matrix: Option<u64>| {
        let choice = Choice { emulate_webgpu_defaults: true, most_of_a_matrix, ..Choice::default() };
        let gpu = block_on(Gpu::open(&choice)).expect("GPU tests need an adapter; a software one will do");
        let model = load(gpu, &T12, RELEASED, RELEASED);
        let prompt = text(model.config().vocab_size, 20, "pieces");
        let (logits, mut state) = all_logits(&model, &prompt, 13);
        let dispatches = block_on(model.dispatches()).unwrap().1;
        (logits, block_on(model.decode_greedy(&mut state, 3)).unwrap(), dispatches)
    };
    let (whole, pieces) = (run(None), run(Some(4096)));
    assert!(whole.0 == pieces.0 && whole.1 == pieces.1);
    assert!(pieces.2 > whole.2 + 100, "{} dispatches whole, {} in pieces", whole.2, pieces.2);
}

fn chunks(checkpoint: &Arc<Checkpoint>, n: usize) {
    let model = load(gpu(), checkpoint, F32, F32);
    let vocab = model.config().vocab_size;
    let prompt = text(vocab, n, "chunks");
    let expected = reference_logits(&reference(checkpoint, F32, F32), &prompt);
    for chunk in [1, 7, 64] {
        let (logits, mut state) = all_logits(&model, &prompt, chunk);
        assert_rows_close(&logits, &expected, vocab, F32_KV, &format!("chunks of {chunk}"));
        assert_eq!(state.position, n);
        block_on(model.decode(&mut state, 3)).unwrap();
        assert_eq!(state.position, n + 1);
    }
}

#[test]
fn chunks_of_twelve_layers() {
    chunks(&T12, 70);
}

#[test]
fn chunks_of_the_lab_model() {
    chunks(&LAB, 21);
}

/// The picture of the golden case, cut anywhere.
#[test]
fn chunks_of_a_picture() {
    let model = load(gpu(), &T12, F32, F32);
    let prompt = golden_prompt("t12", "image");
    let expected = reference_logits(&reference(&T12, F32, F32), &prompt);
    for chunk in [4, 7, 64] {
        let logits = all_logits(&model, &prompt, chunk).0;
        assert_rows_close(&logits, &expected, model.config().vocab_size, F32_KV, &format!("chunks of {chunk}"));
    }
}

/// A cache that grows in the middle of a sequence, and again, keeps what is there: the same bits as one that was large from the start.
#[test]
fn growth_keeps_content() {
    for kv in [F32, RELEASED] {
        let model = load(gpu(), &T12, F32, kv);
        let prompt = text(model.config().vocab_size, 516, "growth").ids;
        let mut reserved = model.state().unwrap();
        block_on(reserved.reserve(&model.gpu, 1000)).unwrap();
        let mut grown = model.state().unwrap();
        for piece in [&prompt[..250], &prompt[250..260], &prompt[260..512], &prompt[512..513], &prompt[513..]] {
            let piece = Prompt::text(piece.to_vec());
            let [a, b] =
                [&mut reserved, &mut grown].map(|state| prefill(&model, state, &piece, Prefill::default()).logits);
            assert!(a == b, "at {} tokens", grown.position);
        }
        assert_eq!((reserved.kv_bytes(), reserved.position), (grown.kv_bytes(), 516));
        for layer in model.config().kv_source_layers.clone() {
            let [a, b] = [&reserved, &grown].map(|s| block_on(s.stored(&model.gpu, layer)).unwrap().unwrap());
            assert!(a == b, "planes of layer {layer}");
        }
    }
}

/// What every browser grants is enough, and gives the same bits.
#[test]
fn webgpu_defaults_are_enough() {
    for (checkpoint, numerics, kv) in [(&*T12, F32, F32), (&*T12, RELEASED, RELEASED), (&*LAB, F32, RELEASED)] {
        let small = emulated();
        assert_eq!(small.limits.max_storage_buffer_binding_size, 128 << 20);
        assert_eq!(small.limits.max_storage_buffers_per_shader_stage, 8);
        assert_eq!(small.limits.max_compute_invocations_per_workgroup, 256);
        assert_eq!(small.limits.max_compute_workgroup_storage_size, 16_384);
        let [few, many] = [small, gpu()].map(|gpu| {
            let model = load(gpu, checkpoint, numerics, kv);
            let prompt = text(model.config().vocab_size, 40, "limits");
            let (mut logits, mut state) = all_logits(&model, &prompt, 64);
            logits.extend(block_on(model.decode(&mut state, 5)).unwrap());
            logits
        });
        assert!(few == many);
    }
}
