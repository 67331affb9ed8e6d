//! Every tap that both engines show.

use super::*;
use flash890::blocks::tap::{Recorder, Tap};
use flash890::model::gpu::Trace;

fn compare(name: &str, case: &str, numerics: Precision, kv: Precision, limit: f64) {
    let (checkpoint, prompt) = (golden_checkpoint(name), golden_prompt(name, case));
    let (reference, model) = (reference(&checkpoint, numerics, kv), load(gpu(), &checkpoint, numerics, kv));

    let how = Prefill { all_logits: true, chunk: 64, ..Prefill::default() };
    let shown = [Tap::AttnInput, Tap::Query, Tap::Latent, Tap::Heads, Tap::AttnOut, Tap::FfnOut, Tap::Streams];
    let mut recorder = Recorder::new(|tap, _| shown.contains(&tap));
    let expected = block_on(reference.prefill(&mut reference.state(), &prompt, how, &mut recorder)).unwrap();
    let names: Vec<&str> = shown.iter().map(|tap| tap.name()).collect();
    let mut trace = Trace::default();
    let mut state = model.state().unwrap();
    let actual = block_on(model.prefill_traced(&mut state, &prompt, how, &names, &mut trace)).unwrap();

    let mut first = None;
    for (name, layer, _, values) in &trace.tensors {
        let tap = shown.iter().find(|tap| tap.name() == *name).unwrap();
        let own = &recorder.get(*tap, *layer).unwrap().f32;
        let n = own.len().min(values.len());
        let error = nmse(&values[..n], &own[..n]);
        if prompt.len() <= 64 && error.partial_cmp(&limit) != Some(std::cmp::Ordering::Less) {
            first.get_or_insert(format!("{name} of layer {layer}: {error:e}"));
        }
    }
    assert_eq!(first, None, "first tap that differs");
    assert_rows_close(&actual.logits, &expected.logits, model.config().vocab_size, limit, "logits");
}

/// The picture's rows are the golden ones, so that only the text model is judged.
#[test]
fn t12_image_f32kv() {
    assert!(golden_prompt("t12", "image").types.iter().filter(|t| t.is_image()).count() > 6);
    compare("t12", "image", Precision::F32, Precision::F32, 1e-8);
}

#[test]
fn t12_short_f32kv() {
    compare("t12", "short", Precision::F32, Precision::F32, 1e-8);
}

#[test]
fn t12_short() {
    compare("t12", "short", Precision::F32, Precision::Released, 1e-8);
}

#[test]
fn t12_long_f32kv() {
    compare("t12", "long", Precision::F32, Precision::F32, 1e-8);
}

#[test]
fn kv890_short_f32kv() {
    compare("kv890", "short", Precision::F32, Precision::F32, 1e-8);
}

#[test]
fn t40_long_f32kv() {
    compare("t40", "long", Precision::F32, Precision::F32, 1e-8);
}
