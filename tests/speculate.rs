//! Speculative decoding against decoding one by one, with a vocabulary so small that drafts are often right.

#[path = "support/mod.rs"]
mod support;

use flash890::blocks::b1a_input::Prompt;
use flash890::blocks::b6a_kv_cache::State;
use flash890::blocks::context::Context;
use flash890::blocks::tap::Silent;
use flash890::config::Config;
use flash890::generate::speculate::{self, Round};
use flash890::generate::{Sampler, Sampling, Speculation};
use flash890::gpu::{Choice, Gpu};
use flash890::model::gpu::GpuModel;
use flash890::model::{Engine, EngineState, Prefill, Reference};
use flash890::numerics::hash::Stream;
use flash890::numerics::precision::Precision;
use flash890::weights::Checkpoint;
use flash890::weights::tiny::TinySpec;
use pollster::block_on;
use std::sync::{Arc, LazyLock};
use support::appendix_e;

const VOCAB: u32 = 8;

/// The model of appendix E with eight tokens: every eighth draft is right by chance alone.
static CHECKPOINT: LazyLock<Arc<Checkpoint>> = LazyLock::new(|| {
    let vocab = VOCAB as usize;
    let config = Config {
        vocab_size: vocab,
        engram_compressed_vocab_size: VOCAB.into(),
        image_token_id: 6,
        ..appendix_e::config()
    };
    let token_map = (0..VOCAB).collect();
    appendix_e::checkpoint(&TinySpec { config, token_map, ..appendix_e::spec() })
});

/// In f32 and in released numerics.
fn cpu(precision: Precision) -> Engine {
    let context = Context::new(&CHECKPOINT.config, precision, precision);
    Arc::new(appendix_e::load(&CHECKPOINT, context)).into()
}

fn gpu(precision: Precision) -> Engine {
    let gpu = block_on(Gpu::open(&Choice::default())).expect("GPU tests need an adapter; a software one will do");
    block_on(GpuModel::load(gpu, CHECKPOINT.clone(), precision, precision, &mut |_, _, _| {})).unwrap().into()
}

fn reference(engine: &Engine) -> &Reference {
    match engine {
        Engine::Cpu(model) => model,
        Engine::Gpu(_) => panic!("a CPU engine was asked for"),
    }
}

/// What an answer took.
#[derive(Debug, Default)]
struct Counts {
    rounds: usize,
    drafted: usize,
    accepted: usize,
}

fn ids(name: &str, n: usize) -> Vec<u32> {
    let stream = Stream::new(name);
    (0..n as u64).map(|i| (stream.at(i) % u64::from(VOCAB)) as u32).collect()
}

/// `n` tokens after a prompt, and the state with all but the last of them in it.
fn answer(
    engine: &Engine,
    prompt: &[u32],
    sampler: &Sampler,
    how: Option<Speculation>,
    n: usize,
    counts: &mut Counts,
) -> (Vec<u32>, EngineState) {
    let mut state = engine.state().unwrap();
    let prompt = Prompt::text(prompt.to_vec());
    let logits = block_on(engine.prefill(&mut state, &prompt, Prefill::default())).unwrap().logits;
    let mut tokens = vec![sampler.sample(&logits, state.position()).unwrap()];
    while tokens.len() < n {
        let (start, anchor, most) = (state.position(), tokens[tokens.len() - 1], n - tokens.len());
        let Round { tokens: next, drafted } =
            block_on(speculate::round(engine, &mut state, anchor, sampler, how, most)).unwrap();
        speculate::settle(engine, &mut state, start + next.len()).unwrap();
        counts.rounds += 1;
        counts.drafted += drafted;
        counts.accepted += next.len() - 1;
        tokens.extend(next);
    }
    (tokens, state)
}

const ALWAYS: Option<Speculation> = Some(Speculation { confidence: 0.0 });

fn greedy() -> Sampler {
    Sampler::new(Sampling::GREEDY).unwrap()
}

/// A thousand prompts, half in each numerics: the same tokens and the same state with drafts and without.
#[test]
fn greedy_answers_are_those_of_single_tokens() {
    let mut counts = Counts::default();
    for precision in [Precision::F32, Precision::Released] {
        let engine = cpu(precision);
        for prompt in 0..500 {
            let prompt = ids(&format!("prompt {prompt}"), 1 + prompt % 11);
            let (expected, plain) = answer(&engine, &prompt, &greedy(), None, 8, &mut Counts::default());
            let (actual, state) = answer(&engine, &prompt, &greedy(), ALWAYS, 8, &mut counts);
            assert_eq!(actual, expected, "{prompt:?}");
            let (EngineState::Cpu(state), EngineState::Cpu(plain)) = (state, plain) else { panic!("CPU states") };
            assert!(state == plain, "{prompt:?}");
        }
    }
    println!("{counts:?}");
    assert!(counts.accepted > 300 && counts.drafted > counts.accepted, "{counts:?}");
}

/// Drawn tokens are those of single tokens too, seed by seed, with and without top-p.
#[test]
fn drawn_answers_are_those_of_single_tokens() {
    let engine = cpu(Precision::F32);
    let mut counts = Counts::default();
    for seed in 0..60 {
        let top_p = if seed % 2 == 0 { 1.0 } else { 0.8 };
        let sampler = Sampler::new(Sampling { temperature: 1.3, top_p, seed }).unwrap();
        let prompt = ids(&format!("seed {seed}"), 5);
        let (expected, _) = answer(&engine, &prompt, &sampler, None, 10, &mut Counts::default());
        let (actual, _) = answer(&engine, &prompt, &sampler, ALWAYS, 10, &mut counts);
        assert_eq!(actual, expected, "seed {seed}");
    }
    println!("{counts:?}");
    assert!(counts.accepted > 30, "{counts:?}");
}

/// Probabilities of the token after `tokens`, at a temperature of one.
fn distribution(model: &Reference, state: &State, tokens: &[u32]) -> Vec<f64> {
    let mut state = state.clone();
    let mut logits = Vec::new();
    for &id in tokens {
        logits = block_on(model.decode(&mut state, id, &mut Silent)).unwrap();
    }
    let weights: Vec<f64> = logits.iter().map(|&logit| f64::from(logit).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

/// Pairs of tokens after an anchor, drawn in rounds, against the model's own probabilities: Pearson's statistic over all pairs that are
/// expected often enough, the others together. 99.9 % of correct samplers stay below 103.4 with 63 degrees of freedom, and with fewer.
#[test]
fn drawn_pairs_follow_the_models_distribution() {
    let engine = cpu(Precision::F32);
    let model = reference(&engine);
    let mut start = model.state();
    block_on(model.prefill(&mut start, &Prompt::text(ids("start", 6)), Prefill::default(), &mut Silent)).unwrap();
    let (anchor, n) = (5, 1_500);
    let mut counts = [[0usize; VOCAB as usize]; VOCAB as usize];
    let mut accepted = 0;
    for seed in 0..n {
        let sampler = Sampler::new(Sampling { temperature: 1.0, top_p: 1.0, seed }).unwrap();
        let mut state = EngineState::Cpu(Box::new(start.clone()));
        let mut tokens = vec![anchor];
        while tokens.len() < 3 {
            let (from, last, most) = (state.position(), tokens[tokens.len() - 1], 3 - tokens.len());
            let round = block_on(speculate::round(&engine, &mut state, last, &sampler, ALWAYS, most)).unwrap();
            speculate::settle(&engine, &mut state, from + round.tokens.len()).unwrap();
            accepted += round.tokens.len() - 1;
            tokens.extend(round.tokens);
        }
        counts[tokens[1] as usize][tokens[2] as usize] += 1;
    }
    let first = distribution(model, &start, &[anchor]);
    let (mut statistic, mut rest) = (0.0, (0.0, 0.0));
    for a in 0..VOCAB {
        let second = distribution(model, &start, &[anchor, a]);
        for b in 0..VOCAB as usize {
            let expected = first[a as usize] * second[b] * n as f64;
            let count = counts[a as usize][b] as f64;
            if expected < 5.0 {
                rest = (rest.0 + count, rest.1 + expected);
            } else {
                statistic += (count - expected).powi(2) / expected;
            }
        }
    }
    if rest.1 > 0.0 {
        statistic += (rest.0 - rest.1).powi(2) / rest.1.max(1.0);
    }
    println!("statistic {statistic:.1}, {accepted} accepted, {rest:?} rare");
    assert!(statistic < 103.4 && accepted > 150, "{statistic}, {accepted} accepted, {counts:?}");
}

/// Without confidence nothing is drafted; with all of it the whole block is.
#[test]
fn confidence_cuts_drafts() {
    let engine = cpu(Precision::F32);
    let block = engine.config().dspark_block_size;
    let prompt = ids("confidence", 7);
    let [mut never, mut always] = [Counts::default(), Counts::default()];
    let certain = Some(Speculation { confidence: 1.1 });
    let (expected, _) = answer(&engine, &prompt, &greedy(), certain, 20, &mut never);
    let (actual, _) = answer(&engine, &prompt, &greedy(), ALWAYS, 20, &mut always);
    assert_eq!((actual, never.drafted, never.rounds), (expected, 0, 19));
    assert!(always.drafted <= block * always.rounds && always.drafted > 19, "{always:?}");
    // At the model's last positions there is room for fewer rows, and the last token has none.
    let mut model = reference(&engine).clone();
    model.context.config.max_position_embeddings = 10;
    let engine: Engine = Arc::new(model).into();
    let (tokens, state) = answer(&engine, &prompt, &greedy(), ALWAYS, 4, &mut always);
    assert_eq!((tokens.len(), state.position()), (4, 10));
}

/// On the GPU the six rows of a verification have the bits that each has alone, and so do eight rows and a chunk.
#[test]
fn rows_have_the_same_bits_among_others() {
    for precision in [Precision::F32, Precision::Released] {
        let engine = gpu(precision);
        let prompt = ids("rows", 33);
        let logits = |chunk: usize| -> Vec<f32> {
            let mut state = engine.state().unwrap();
            let how = Prefill { chunk, all_logits: true, ..Prefill::default() };
            block_on(engine.prefill(&mut state, &Prompt::text(prompt.clone()), how)).unwrap().logits
        };
        let alone = logits(1);
        for chunk in [2, 6, 33] {
            assert!(logits(chunk) == alone, "{chunk} rows, {precision:?}");
        }
    }
}

#[test]
fn answers_on_the_gpu() {
    let mut counts = Counts::default();
    for precision in [Precision::F32, Precision::Released] {
        let engine = gpu(precision);
        for prompt in 0..6 {
            let drawn = Sampling { temperature: 1.2, top_p: if prompt % 4 == 3 { 0.8 } else { 1.0 }, seed: prompt };
            let sampler = if prompt % 2 == 0 { greedy() } else { Sampler::new(drawn).unwrap() };
            let prompt = ids(&format!("prompt {prompt}"), 1 + prompt as usize);
            let (expected, plain) = answer(&engine, &prompt, &sampler, None, 10, &mut Counts::default());
            let (actual, state) = answer(&engine, &prompt, &sampler, ALWAYS, 10, &mut counts);
            assert_eq!(actual, expected, "{prompt:?}");
            let [state, plain] = [state, plain].map(|state| block_on(engine.download(&state)).unwrap());
            assert!(state == plain, "{prompt:?}");
        }
    }
    println!("{counts:?}");
    assert!(counts.accepted > 3, "{counts:?}");
}

/// What the GPU proposes is what the reference drafts.
#[test]
fn proposals_are_the_references_drafts() {
    let (on_gpu, on_cpu) = (gpu(Precision::F32), cpu(Precision::F32));
    let (Engine::Gpu(model), reference) = (&on_gpu, reference(&on_cpu)) else { panic!("a GPU engine was asked for") };
    for length in [1, 2, 9, 20] {
        let prompt = Prompt::text(ids("draft", length));
        let (mut state, mut own) = (model.state().unwrap(), reference.state());
        block_on(model.prefill(&mut state, &prompt, Prefill::default())).unwrap();
        block_on(reference.prefill(&mut own, &prompt, Prefill::default(), &mut Silent)).unwrap();
        let proposal = block_on(model.propose(&mut state, 3, 0.0, 0)).unwrap().unwrap();
        let draft = reference.draft(&own, 3).unwrap();
        assert_eq!(proposal.ids, draft.ids);
        for (a, e) in proposal.confidence.iter().zip(&draft.confidence) {
            assert!((a - e).abs() < 1e-4 * e.abs().max(1.0), "{proposal:?} {:?}", draft.confidence);
        }
    }
}
