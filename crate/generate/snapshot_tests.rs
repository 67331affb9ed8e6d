//! Snapshots of tiny models: there and back, damaged, and of other models.

use super::*;
use crate::generate::{Finish, Limits, Sampler, Sampling};
use crate::model::Reference;
use crate::text::prompt::Piece;
use crate::weights::{Checkpoint, tiny};
use pollster::block_on;
use std::sync::LazyLock;

const RELEASED: Precision = Precision::Released;

static T12: LazyLock<Arc<Checkpoint>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/t12");
    Arc::new(block_on(Checkpoint::open_dir(folder)).unwrap())
});

fn tokenizer(checkpoint: &Checkpoint) -> Arc<Tokenizer> {
    Arc::new(Tokenizer::from_json(checkpoint.tokenizer_json().unwrap()).unwrap())
}

fn engine(checkpoint: &Arc<Checkpoint>, numerics: Precision, kv: Precision) -> Engine {
    Arc::new(block_on(Reference::load(checkpoint.clone(), numerics, kv, &mut |_, _, _| {})).unwrap()).into()
}

fn session(engine: &Engine, n: u32) -> Session {
    let mut session = Session::new(engine.clone(), tokenizer(engine.checkpoint())).unwrap();
    let ids = (0..n).map(|i| (7 * i * i + 3) % 200).collect();
    block_on(session.feed(&[Piece::Ids(ids)], &[], Prefill::default(), &|| 0.0)).unwrap();
    session
}

fn write(session: &mut Session, max_tokens: usize) -> Vec<u32> {
    let (sampler, limits) = (Sampler::new(Sampling::GREEDY).unwrap(), Limits { max_tokens, stop: Vec::new() });
    let answer = block_on(session.generate(&sampler, &limits, &|| 0.0, &mut |_| ControlFlow::Continue(()))).unwrap();
    assert!(matches!(answer.finish, Finish::MaxTokens | Finish::Eos));
    answer.ids
}

fn open(engine: &Engine, bytes: &[u8]) -> Result<Session> {
    block_on(Session::load(engine.clone(), tokenizer(engine.checkpoint()), bytes))
}

/// Even and odd lengths, with a token that waits and without, in both forms and both cache formats: the same state, and the same tokens after.
#[test]
fn there_and_back() {
    for kv in [Precision::F32, RELEASED] {
        let engine = engine(&T12, RELEASED, kv);
        for (n, written) in [(5, 0), (6, 0), (6, 3), (140, 2)] {
            let mut session = session(&engine, n);
            if written > 0 {
                write(&mut session, written);
            }
            let forms = [Form::Full, Form::Compact].map(|form| block_on(session.save(form)).unwrap());
            let expected = write(&mut session, 4);
            for bytes in &forms {
                let mut again = open(&engine, bytes).unwrap();
                assert_eq!(block_on(again.save(Form::Full)).unwrap(), forms[0], "{n} and {written} tokens, {kv:?}");
                assert_eq!(write(&mut again, 4), expected);
            }
        }
    }
}

/// The size is what the format says: in the released geometry 890 bytes per token of an even length, and five for ids and types.
#[test]
fn sizes() {
    let checkpoint = Arc::new(block_on(tiny::lab()).unwrap());
    let engine = engine(&checkpoint, Precision::F32, RELEASED);
    let (config, mut session) = (engine.config(), session(&engine, 8));
    write(&mut session, 1);
    let compact = block_on(session.save(Form::Compact)).unwrap().len();
    // Before the ids: 20 + 18 + 2 + 8 bytes; then the token that waits, and the checksum.
    assert_eq!(compact, 48 + 8 * (890 + 5) + 4 + 8);
    let rings = config.n_layers + config.n_mtp_layers;
    let full = block_on(session.save(Form::Full)).unwrap().len();
    assert_eq!(full - compact, rings * (8 + 8 * (config.head_dim + config.head_dim / 32)));
}

#[test]
fn damage_is_refused() {
    let engine = engine(&T12, RELEASED, RELEASED);
    let bytes = block_on(session(&engine, 5).save(Form::Full)).unwrap();
    let refused = |bytes: &[u8]| match open(&engine, bytes) {
        Err(Error::Integrity(problem)) => assert!(problem.starts_with("snapshot: "), "{problem}"),
        Err(Error::Usage(problem)) => panic!("not damaged but foreign: {problem}"),
        other => panic!("{other:?}"),
    };
    (0..bytes.len()).step_by(97).for_each(|end| refused(&bytes[..end]));
    refused(&[&bytes[..], &[0]].concat());
    for at in (0..bytes.len()).step_by(101).chain([0, 8, 12, 20, bytes.len() - 1]) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        refused(&flipped);
    }
    // With a checksum that fits, the content is still looked at.
    let forged = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut forged = bytes[..bytes.len() - CHECKSUM].to_vec();
        change(&mut forged);
        let length = (forged.len() + CHECKSUM) as u64;
        forged[LENGTH_AT..PREFIX].copy_from_slice(&length.to_le_bytes());
        forged.extend(fnv1a64_of(&forged).to_le_bytes());
        refused(&forged);
    };
    forged(&|bytes| bytes[38] = 9);
    forged(&|bytes| bytes[40..48].copy_from_slice(&u64::MAX.to_le_bytes()));
    forged(&|bytes| bytes[48..52].copy_from_slice(&u32::MAX.to_le_bytes()));
    forged(&|bytes| bytes[48 + 20] = 77);
    forged(&|bytes| bytes.push(0));
    forged(&|bytes| bytes.truncate(bytes.len() - 1));
    forged(&|bytes| {
        let rings = bytes.len() - (8 + 5 * (T12.config.head_dim + T12.config.head_dim / 32));
        bytes[rings..rings + 8].copy_from_slice(&6u64.to_le_bytes());
    });
}

#[test]
fn foreign_snapshots_are_refused() {
    let own = engine(&T12, RELEASED, RELEASED);
    let bytes = block_on(session(&own, 5).save(Form::Compact)).unwrap();
    let lab = Arc::new(block_on(tiny::lab()).unwrap());
    for (other, reason) in [
        (engine(&lab, RELEASED, RELEASED), "another config"),
        (engine(&T12, Precision::F32, RELEASED), "numerics released"),
        (engine(&T12, RELEASED, Precision::F32), "caches in released"),
    ] {
        let error = open(&other, &bytes).unwrap_err();
        assert!(matches!(&error, Error::Usage(problem) if problem.contains(reason)), "{error}");
    }
    // Another checkpoint of the same config: one number of its identity is turned.
    let mut other = bytes[..bytes.len() - CHECKSUM].to_vec();
    other[28] ^= 1;
    other.extend(fnv1a64_of(&other).to_le_bytes());
    let error = open(&own, &other).unwrap_err();
    assert!(matches!(&error, Error::Usage(problem) if problem.contains("another checkpoint")), "{error}");
}
