//! Requests that cannot be served, and weights that are no numbers: clear errors, and a state as before.

use super::*;
use flash890::error::Error;
use flash890::weights::tiny::TinySpec;

/// The error of feeding `prompt` after three tokens; the state must be as before.
fn refused(model: &Reference, prompt: &Prompt) -> String {
    let (_, mut state) = one_piece(model, &text(model, 3));
    let before = state.clone();
    let error = [DecoderTail::All, DecoderTail::Last(2)].map(|tail| {
        let error = block_on(model.prefill(&mut state, prompt, how(2, tail), &mut Silent)).unwrap_err();
        assert!(matches!(error, Error::Prompt(_)), "{error:?}");
        assert!(state == before, "{error}");
        error.to_string()
    });
    assert_eq!(error[0], error[1]);
    let [error, _] = error;
    error
}

#[test]
fn prompts() {
    let model = &TINY[1];
    assert_eq!(refused(model, &Prompt::default()), "prompt: empty: at least one token is needed");
    let long = Prompt::text(vec![1; 1022]);
    assert_eq!(refused(model, &long), "prompt: 1025 positions with what is already there; the model has 1024");
    let alien = Prompt::text(vec![1, 2, 3, 4, 128]);
    assert_eq!(refused(model, &alien), "prompt: token id 128 at place 4: the vocabulary has 128 entries");
    let untyped = Prompt { types: Vec::new(), ..Prompt::text(vec![1, 2]) };
    assert_eq!(refused(model, &untyped), "prompt: 2 ids but 0 token types");
}

#[test]
fn pictures() {
    let model = &TINY[1];
    let picture = with_picture(model);
    let bare = Prompt { image_rows: Vec::new(), ..picture.clone() };
    assert_eq!(refused(model, &bare), "prompt: pictures bring 0 numbers for image positions that need 384");
    let mut short = picture.clone();
    short.image_rows.pop();
    assert_eq!(refused(model, &short), "prompt: pictures bring 383 numbers for image positions that need 384");

    let spec = appendix_e::spec();
    let context = Context::new(&spec.config, Precision::Released, Precision::Released);
    let blind = appendix_e::load(&appendix_e::checkpoint(&spec), context);
    assert_eq!(refused(&blind, &picture), "prompt: the prompt has a picture, but this checkpoint has no vision tower");
}

/// The last position can be used, the one after it cannot.
#[test]
fn position_limit() {
    let config = flash890::config::Config { max_position_embeddings: 24, ..appendix_e::config() };
    let spec = TinySpec { config, ..appendix_e::spec() };
    let context = Context::new(&spec.config, Precision::F32, Precision::F32);
    let model = appendix_e::load(&appendix_e::checkpoint(&spec), context);
    let (_, mut state) = one_piece(&model, &text(&model, 23));
    assert_eq!(block_on(model.decode(&mut state, 5, &mut Silent)).unwrap().len(), 128);
    let before = state.clone();
    let error = block_on(model.decode(&mut state, 5, &mut Silent)).unwrap_err();
    assert_eq!(error.to_string(), "prompt: 25 positions with what is already there; the model has 24");
    assert!(state == before);
}

#[test]
fn drafts_from_an_id_beyond_the_vocabulary() {
    let (_, state) = one_piece(&TINY[1], &text(&TINY[1], 3));
    assert_eq!(TINY[1].draft(&state, 128), None);
}

/// Loads the model of appendix E with `bytes` written over the beginning of a tensor, from its element `element` of that many bytes.
fn load_damaged(tensor: &str, element: u64, bytes: &[u8]) -> Result<Reference, Error> {
    let spec = appendix_e::spec();
    let mut files = spec.files().unwrap();
    let whole = appendix_e::checkpoint(&spec);
    let info = whole.info(tensor).unwrap();
    let file = files.get_mut(whole.shard_name(info.file)).unwrap();
    let mut damaged = file.to_vec();
    let at = (info.range.start + element * bytes.len() as u64) as usize;
    damaged[at..at + bytes.len()].copy_from_slice(bytes);
    *file = damaged.into();
    let checkpoint = Arc::new(block_on(Checkpoint::from_files(files))?);
    let context = Context::new(&spec.config, Precision::Released, Precision::Released);
    block_on(Reference::load_with(checkpoint, context, &mut |_, _, _| {}))
}

/// Weights that are not finite are refused by tensor name, in each format: bf16, f32, FP8 code, E8M0 scale.
#[test]
fn weights_that_are_no_numbers() {
    let cases: [(&str, u64, &[u8]); 5] = [
        ("layers.2.attn.q_norm.weight", 7, &0x7FC0u16.to_le_bytes()),
        ("mtp.1.markov_head.embed.weight", 40, &0xFF80u16.to_le_bytes()),
        ("layers.0.hc_attn_fn", 9, &f32::NAN.to_le_bytes()),
        ("layers.5.attn.wq_a.weight", 33, &[0x7F]),
        ("layers.3.ffn.experts.2.w1.scale", 5, &[255]),
    ];
    for (tensor, element, bytes) in cases {
        let error = load_damaged(tensor, element, bytes).unwrap_err();
        assert_eq!(error.to_string(), format!("tensor {tensor}: element {element} is not a finite number"));
    }
}

/// The n-gram tables are read row by row while running: a bad row is refused when a prompt comes upon it.
#[test]
fn table_rows_that_are_no_numbers() {
    let model = load_damaged("layers.4.engram.embed.weight", 683 * 32 + 6, &[0xFF]).unwrap();
    let mut state = model.state();
    let prompt = Prompt::text(appendix_e::prompt());
    let error = block_on(model.prefill(&mut state, &prompt, Prefill::default(), &mut Silent)).unwrap_err();
    assert_eq!(error.to_string(), "tensor layers.4.engram.embed.weight: element 21862 is not a finite number");
    assert!(state == model.state());
}
