//! The decoder's tail on the GPU against the reference's (section 4.5a), with f32 caches.

use super::*;
use flash890::blocks::b3a_encoder_decoder::DecoderTail;
use flash890::blocks::b6a_kv_cache::State;

/// A model in both engines, and one sequence in each.
struct Pair {
    gpu: GpuModel,
    cpu: Reference,
    on_gpu: GpuState,
    on_cpu: State,
}

impl Pair {
    fn new(checkpoint: &Arc<Checkpoint>) -> Pair {
        let gpu = load(super::gpu(), checkpoint, Precision::F32, Precision::F32);
        let cpu = reference(checkpoint, Precision::F32, Precision::F32);
        let (on_gpu, on_cpu) = (gpu.state().unwrap(), cpu.state());
        Pair { gpu, cpu, on_gpu, on_cpu }
    }

    fn restart(&mut self) {
        (self.on_gpu, self.on_cpu) = (self.gpu.state().unwrap(), self.cpu.state());
    }

    /// Feeds both, and compares every row that ran through the decoder.
    fn feed(&mut self, prompt: &Prompt, tail: DecoderTail, chunk: usize) {
        let how = Prefill { chunk, tail, all_logits: true };
        let actual = prefill(&self.gpu, &mut self.on_gpu, prompt, how);
        let expected = block_on(self.cpu.prefill(&mut self.on_cpu, prompt, how, &mut Silent)).unwrap();
        assert_eq!(actual.first_row, expected.first_row);
        let vocab = self.gpu.config().vocab_size;
        let what = format!("{tail:?} of {} in chunks of {chunk}", prompt.len());
        assert_rows_close(&actual.logits, &expected.logits, vocab, F32_KV, &what);
        assert_eq!(self.on_gpu.position, self.on_cpu.position);
    }

    /// Decodes some tokens in both, which look into the rings that the tail left behind.
    fn decode(&mut self, ids: &[u32]) {
        for &id in ids {
            let actual = block_on(self.gpu.decode(&mut self.on_gpu, id)).unwrap();
            let expected = block_on(self.cpu.decode(&mut self.on_cpu, id, &mut Silent)).unwrap();
            let vocab = self.gpu.config().vocab_size;
            assert_rows_close(&actual, &expected, vocab, F32_KV, &format!("decoding {id}"));
        }
    }
}

#[test]
fn tails_of_twelve_layers() {
    let mut pair = Pair::new(&T12);
    let exact = pair.gpu.config().exact_tail();
    let prompt = text(pair.gpu.config().vocab_size, exact + 20, "tail");
    for (tail, chunk) in [(1, 64), (16, 7), (65, 64), (exact, 64), (exact + 200, 64)] {
        pair.restart();
        pair.feed(&prompt, DecoderTail::Last(tail), chunk);
        pair.decode(&[3, 1]);
    }
}

#[test]
fn tails_of_the_lab_model() {
    let mut pair = Pair::new(&LAB);
    let prompt = text(pair.gpu.config().vocab_size, 75, "tail");
    for tail in [1, 16, 70, 1000] {
        pair.restart();
        pair.feed(&prompt, DecoderTail::Last(tail), 64);
        pair.decode(&[3]);
    }
}

/// The exact length gives what running in full gives.
#[test]
fn exact_tail_equals_all() {
    let model = load(gpu(), &T12, Precision::F32, Precision::Released);
    let exact = model.config().exact_tail();
    let prompt = text(model.config().vocab_size, exact + 70, "exact");
    let last = |tail| {
        let mut state = model.state().unwrap();
        let mut logits = prefill(&model, &mut state, &prompt, Prefill { tail, ..Prefill::default() }).logits;
        logits.extend(block_on(model.decode(&mut state, 9)).unwrap());
        logits
    };
    let all = last(DecoderTail::All);
    assert!(last(DecoderTail::Last(exact)) == all);
    assert!(last(DecoderTail::Last(exact / 2)) != all, "a short tail is an approximation");
}

/// Turns with and without a gap in the decoder's rings, and a picture across the edge of a tail.
#[test]
fn turns_and_pictures() {
    let mut pair = Pair::new(&T12);
    let vocab = pair.gpu.config().vocab_size;
    for (n, tail) in [(30, 8), (40, 4), (3, 4), (70, 66), (5, 1)] {
        pair.feed(&text(vocab, n, &format!("turn of {n}")), DecoderTail::Last(tail), 64);
        pair.decode(&[7]);
    }
    pair.feed(&text(vocab, 9, "in full"), DecoderTail::All, 64);
    let picture = golden_prompt("t12", "image");
    for tail in [3, 16] {
        pair.restart();
        pair.feed(&picture, DecoderTail::Last(tail), 7);
        pair.decode(&[2, 8]);
    }
}

/// The model of appendix E has n-gram memory in a decoder layer, whose rows wait with the tail.
#[test]
fn memory_of_decoder_layers() {
    let checkpoint = support::appendix_e::checkpoint(&support::appendix_e::spec());
    let mut pair = Pair::new(&checkpoint);
    let prompt = Prompt::text((0..100).map(|i| (5 * i * i + 11 * i + 1) % 128).collect());
    for (tail, chunk) in [(1, 64), (15, 64), (70, 7), (8, 1)] {
        pair.restart();
        pair.feed(&prompt, DecoderTail::Last(tail), chunk);
        pair.decode(&[5]);
    }
}
