//! Experts in slots: the same bits at any number of slots, and what the slots say of themselves.

use super::{T12, emulated, gpu, load, text};
use flash890::blocks::b3a_encoder_decoder::DecoderTail;
use flash890::gpu::Gpu;
use flash890::model::Prefill;
use flash890::model::gpu::{GpuModel, GpuState, SlotWish};
use flash890::numerics::precision::Precision;
use pollster::block_on;
use std::rc::Rc;
use std::time::Instant;

fn slotted(gpu: Gpu, count: usize, numerics: Precision) -> GpuModel {
    let begin = Instant::now();
    let wish = SlotWish { count, clock: Rc::new(move || begin.elapsed().as_secs_f64()) };
    let precision = (numerics, Precision::Released);
    block_on(GpuModel::load_slotted(gpu, T12.clone(), precision, Some(wish), &mut |_, _, _| {})).unwrap()
}

/// Logits of a prompt with and without a tail, of tokens behind it, a verified draft and a rewind: everything that runs layers.
fn all(model: &GpuModel) -> (Vec<Vec<f32>>, Vec<u32>) {
    block_on(async {
        let (vocab, mut logits, mut ids) = (model.config().vocab_size, Vec::new(), Vec::new());
        let mut state: GpuState = model.state().unwrap();
        let prompt = text(vocab, 70, "slots");
        let how = Prefill { all_logits: true, ..Prefill::default() };
        logits.push(model.prefill(&mut state, &prompt, how).await.unwrap().logits);
        for id in [5, 6] {
            logits.push(model.decode(&mut state, id).await.unwrap());
        }
        ids.push(model.decode_greedy(&mut state, 7).await.unwrap());
        ids.extend(model.propose(&mut state, ids[0], 0.0, 0).await.unwrap().unwrap().ids);
        let drafted = ids.clone();
        ids.extend(model.verify(&mut state, &drafted, 0.0, 0).await.unwrap());
        let mut tailed = model.state().unwrap();
        let how = Prefill { tail: DecoderTail::Last(9), ..Prefill::default() };
        logits.push(model.prefill(&mut tailed, &prompt, how).await.unwrap().logits);
        model.rewind(&mut tailed, &prompt, 3).await.unwrap();
        logits.push(model.decode(&mut tailed, 8).await.unwrap());
        (logits, ids)
    })
}

#[test]
fn any_number_of_slots_gives_the_same_bits() {
    let config = &T12.config;
    let (k, experts) = (config.n_activated_experts, config.n_layers * config.n_routed_experts);
    for numerics in [Precision::F32, Precision::Released] {
        let expected = all(&load(gpu(), &T12, numerics, Precision::Released));
        for count in [1, k + 1, experts / 10, experts / 2, experts, 2 * experts] {
            let model = slotted(gpu(), count, numerics);
            assert!(all(&model) == expected, "{count} slots, {numerics:?}");
            let used = model.slots().unwrap();
            assert_eq!(model.slot_count(), Some(count.clamp(k, experts)));
            assert!(used.misses > 0 && used.bytes > 0 && used.seconds > 0.0 && used.early > 0, "{used:?}");
            if count >= experts {
                // Each expert is read once at most.
                assert!(used.misses + used.early <= experts as u64, "{used:?}");
                assert!(used.hit_rate() > Some(0.8), "{used:?}");
            }
        }
    }
}

#[test]
fn a_lost_device_keeps_its_slots() {
    let model = slotted(emulated(), 9, Precision::F32);
    let again = block_on(model.reload()).unwrap();
    assert_eq!(again.slot_count(), Some(9));
    let decode = |model: &GpuModel| block_on(model.decode(&mut model.state().unwrap(), 3)).unwrap();
    assert_eq!(decode(&model), decode(&again));
}
