//! Sequences that move between the engines: the bytes stay, and either goes on where the other stopped.

use super::*;
use flash890::blocks::b3a_encoder_decoder::DecoderTail;
use flash890::blocks::b6a_kv_cache::State;
use flash890::error::Error;

fn feed(model: &Reference, state: &mut State, prompt: &Prompt, how: Prefill) -> Vec<f32> {
    block_on(model.prefill(state, prompt, how, &mut Silent)).unwrap().logits
}

/// Lengths within a window, across it, odd and even; with f32 caches both engines go on with the same logits.
fn moves(checkpoint: &Arc<Checkpoint>, lengths: &[usize], tail: DecoderTail) {
    let (gpu, cpu) = (
        load(gpu(), checkpoint, Precision::F32, Precision::F32),
        reference(checkpoint, Precision::F32, Precision::F32),
    );
    let vocab = gpu.config().vocab_size;
    let how = Prefill { tail, ..Prefill::default() };
    for &n in lengths {
        let prompt = text(vocab, n, "moves");
        let next = Prefill { all_logits: true, ..Prefill::default() };
        let more = text(vocab, 9, "more");
        // From the GPU to the CPU.
        let mut on_gpu = gpu.state().unwrap();
        prefill(&gpu, &mut on_gpu, &prompt, how);
        let mut on_cpu = block_on(gpu.download(&on_gpu)).unwrap();
        let again = block_on(gpu.upload(&on_cpu)).unwrap();
        assert!(block_on(gpu.download(&again)).unwrap() == on_cpu, "{n} tokens: bytes changed on the way");
        let expected = prefill(&gpu, &mut on_gpu, &more, next).logits;
        assert_rows_close(
            &feed(&cpu, &mut on_cpu, &more, next),
            &expected,
            vocab,
            F32_KV,
            &format!("{n} tokens, to the CPU"),
        );
        assert_eq!(on_cpu.position, on_gpu.position);
        // And from the CPU to the GPU.
        let mut on_cpu = cpu.state();
        feed(&cpu, &mut on_cpu, &prompt, how);
        let mut on_gpu = block_on(gpu.upload(&on_cpu)).unwrap();
        assert!(block_on(gpu.download(&on_gpu)).unwrap() == on_cpu, "{n} tokens: bytes changed on the way");
        let anchor = 3;
        let (draft, wanted) = (block_on(gpu.draft(&mut on_gpu, anchor)).unwrap(), cpu.draft(&on_cpu, anchor));
        assert_eq!(draft.map(|draft| draft.ids), wanted.map(|draft| draft.ids), "{n} tokens");
        let expected = feed(&cpu, &mut on_cpu, &more, next);
        let actual = prefill(&gpu, &mut on_gpu, &more, next).logits;
        assert_rows_close(&actual, &expected, vocab, F32_KV, &format!("{n} tokens, to the GPU"));
    }
}

#[test]
fn moves_of_twelve_layers() {
    moves(&T12, &[1, 2, 7, 64, 131], DecoderTail::All);
    moves(&T12, &[7, 90], DecoderTail::Last(3));
}

#[test]
fn moves_of_the_lab_model() {
    moves(&LAB, &[37], DecoderTail::All);
}

/// The released bytes on the way, across the window and a growth of the cache.
#[test]
fn stored_bytes_move_as_they_are() {
    for (checkpoint, n) in [(&*T12, 259), (&*LAB, 33)] {
        let gpu = load(gpu(), checkpoint, Precision::Released, Precision::Released);
        let vocab = gpu.config().vocab_size;
        let mut state = gpu.state().unwrap();
        prefill(&gpu, &mut state, &text(vocab, n, "bytes"), Prefill::default());
        let own = block_on(gpu.download(&state)).unwrap();
        assert_eq!((own.position, own.kv_bytes()), (n, state.kv_bytes()));
        let mut moved = block_on(gpu.upload(&own)).unwrap();
        assert!(block_on(gpu.download(&moved)).unwrap() == own);
        // The same engine goes on with the same bits.
        let more = text(vocab, 3, "more");
        let expected = prefill(&gpu, &mut state, &more, Prefill::default()).logits;
        assert!(prefill(&gpu, &mut moved, &more, Prefill::default()).logits == expected);
        assert!(block_on(gpu.download(&moved)).unwrap() == block_on(gpu.download(&state)).unwrap());
    }
}

#[test]
fn foreign_states_are_refused() {
    let gpu = load(gpu(), &T12, Precision::F32, Precision::Released);
    let other_formats = reference(&T12, Precision::F32, Precision::F32).state();
    let other_model = reference(&LAB, Precision::F32, Precision::Released).state();
    let cpu = reference(&T12, Precision::F32, Precision::Released);
    let mut open = cpu.state();
    open.begin();
    let mut short = cpu.state();
    feed(&cpu, &mut short, &text(gpu.config().vocab_size, 5, "short"), Prefill::default());
    short.position = 6;
    for state in [other_formats, other_model, open, short] {
        assert!(matches!(block_on(gpu.upload(&state)), Err(Error::Usage(_))));
    }
}
