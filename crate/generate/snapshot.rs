//! A session as one file: written by either engine, in a tab or natively, and opened by any other that has the same model.
//!
//! All numbers are little-endian. `n` is the number of tokens; `s` runs over the KV sources in ascending order, `l` over the backbone layers and
//! then the draft stages. A plane is its codes, all rows, and then its scales, all rows, in the bytes of section 8.1 (f32 rows if the caches are
//! f32).
//!
//! ```text
//! magic        8   "flash890"
//! version      4   1
//! length       8   of the whole file
//! config       8   FNV-1a of the config as JSON
//! checkpoint   8   Checkpoint::fingerprint
//! numerics     1   0 f32, 1 released
//! kv           1   the same of the caches
//! form         1   0 full, 1 compact
//! has          1   1: a token waits, 2: logits follow, 3: both
//! n            8
//! ids          4 n
//! types        n   -1 text, 0 to 3 positions of a picture
//! waiting      4   a chosen token that has not run through the model
//! logits       4 vocab
//! entries, keys of every s    plane, plane
//! full only:
//!   open groups of every s    value and score [head_dim], f32; only where a group is open
//!   rings of every l          first position 8, then the plane of positions first .. n
//! checksum     8   FNV-1a of everything before
//! ```
//!
//! Of the release that is 890 bytes per token for entries and keys, five for id and type, and 2.9 MB for the rings. The compact form leaves the
//! rings out; opening it feeds the last tokens through the model once more, against the global KV that is there (section 4.3), which is exact.
//! Rows of pictures are not kept: a compact snapshot cannot have a picture among the tokens that are fed again.

use super::session::Session;
use super::speculate::{self, Speculation};
use super::usage::Usage;
use crate::blocks::b1a_input::Prompt;
use crate::blocks::b3b_compressor::Partial;
use crate::blocks::b6a_kv_cache::{Format, Plane, Ring, State};
use crate::config::Config;
use crate::image::TokenType;
use crate::model::replay::{compressed, replay_from};
use crate::model::{Engine, Prefill};
use crate::numerics::hash::fnv1a64_of;
use crate::numerics::precision::Precision;
use crate::text::Tokenizer;
use crate::{Error, Result};
use std::ops::ControlFlow;
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"flash890";
const VERSION: u32 = 1;
/// Bytes before the length, with it, and of the checksum.
const LENGTH_AT: usize = 12;
const PREFIX: usize = 20;
const CHECKSUM: usize = 8;

/// What a snapshot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// Everything: opening it computes nothing.
    #[default]
    Full,
    /// Global KV without rings: opening it feeds the last tokens again.
    Compact,
}

impl Session {
    /// The session as a file. Usage does not go with it.
    ///
    /// # Errors
    /// [`Error::Usage`] for a session that is over, or a compact form with a picture among the tokens that have to be fed again; [`Error::Gpu`].
    pub async fn save(&mut self, form: Form) -> Result<Vec<u8>> {
        self.check_usable()?;
        self.recover().await?;
        let n = self.sequence.len();
        if form == Form::Compact
            && self.sequence.types[replay_from(self.model.config(), n)..].iter().any(|t| t.is_image())
        {
            return Err(Error::Usage(
                "a compact snapshot cannot end so soon after a picture; the full form can".into(),
            ));
        }
        let state = self.model.download(&self.state).await?;
        let mut out = Vec::from(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 8]);
        out.extend(Identity::of(&self.model).await?.bytes());
        out.push(form as u8);
        out.push(u8::from(self.unfed.is_some()) | u8::from(!self.logits.is_empty()) << 1);
        out.extend((n as u64).to_le_bytes());
        self.sequence.ids.iter().for_each(|id| out.extend(id.to_le_bytes()));
        out.extend(self.sequence.types.iter().map(|kind| kind.code() as i8 as u8));
        self.unfed.iter().for_each(|id| out.extend(id.to_le_bytes()));
        self.logits.iter().for_each(|logit| out.extend(logit.to_le_bytes()));
        for source in state.sources.iter().flatten() {
            write_plane(&mut out, &source.entries);
            write_plane(&mut out, &source.keys);
        }
        if form == Form::Full {
            for source in state.sources.iter().flatten() {
                let group = source.partial.value.iter().chain(&source.partial.score);
                group.for_each(|value| out.extend(value.to_le_bytes()));
            }
            for ring in state.windows.iter().chain(&state.draft_windows) {
                out.extend((ring.positions().start as u64).to_le_bytes());
                write_plane(&mut out, &ring.in_order());
            }
        }
        let length = (out.len() + CHECKSUM) as u64;
        out[LENGTH_AT..PREFIX].copy_from_slice(&length.to_le_bytes());
        out.extend(fnv1a64_of(&out).to_le_bytes());
        Ok(out)
    }

    /// Opens a snapshot on an engine that holds the same model with the same numerics. The session goes on as the saved one would have.
    ///
    /// # Errors
    /// [`Error::Integrity`] with what is damaged, [`Error::Usage`] with what is different about a snapshot of another model; what the engine says.
    pub async fn load(model: impl Into<Engine>, tokenizer: Arc<Tokenizer>, bytes: &[u8]) -> Result<Session> {
        let model = model.into();
        let mut reader = Reader { bytes: check(bytes)?, at: PREFIX };
        Identity::of(&model).await?.check(&mut reader)?;
        let form = match reader.byte()? {
            0 => Form::Full,
            1 => Form::Compact,
            other => return Err(damaged(format!("form {other}"))),
        };
        let (has, config) = (reader.byte()?, model.config());
        let sequence = reader.sequence(config)?;
        let unfed = if has & 1 == 1 { Some(reader.id(config)?) } else { None };
        let mut logits = if has & 2 == 2 { reader.floats(config.vocab_size)? } else { Vec::new() };
        let mut state = State::new(config, model.precision().1);
        reader.global(&mut state, sequence.len())?;
        let last = sequence.len();
        let state = if form == Form::Full {
            let map = &model.checkpoint().engram.token_map;
            let first = last.saturating_sub(config.engram_max_ngram_size - 1);
            state.engram_history = compressed(&sequence, first..last, map);
            reader.rings(&mut state, config)?;
            reader.end()?;
            model.upload(state).await?
        } else {
            reader.end()?;
            logits.clear();
            // Without a token that waits the last one runs again, for its logits.
            let position = if unfed.is_some() { last } else { last.saturating_sub(1) };
            model.restore(state, &sequence, position).await?
        };
        let speculation = speculate::drafts(&model).then(Speculation::default);
        let position = state.position();
        let rest = sequence.piece(position..last, model.config().dim);
        let sequence = sequence.piece(0..position, model.config().dim);
        let (in_flight, broken) = (false, false);
        let usage = Usage { reused_tokens: position, ..Usage::default() };
        let mut session =
            Session { model, tokenizer, state, sequence, logits, unfed, speculation, in_flight, broken, usage };
        if !rest.is_empty() {
            session.read(&rest, Prefill::default(), &mut |_| ControlFlow::Continue(())).await?;
        }
        Ok(session)
    }
}

/// Which model a snapshot belongs to.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    config: u64,
    checkpoint: u64,
    numerics: u8,
    kv: u8,
}

impl Identity {
    async fn of(model: &Engine) -> Result<Identity> {
        let (numerics, kv) = model.precision();
        Ok(Identity {
            config: fnv1a64_of(model.config().to_json().as_bytes()),
            checkpoint: model.checkpoint().fingerprint().await?,
            numerics: numerics as u8,
            kv: kv as u8,
        })
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::from(self.config.to_le_bytes());
        out.extend(self.checkpoint.to_le_bytes());
        out.extend([self.numerics, self.kv]);
        out
    }

    /// Whether the snapshot is one of this model.
    fn check(&self, reader: &mut Reader<'_>) -> Result<()> {
        let found = Identity {
            config: reader.number()?,
            checkpoint: reader.number()?,
            numerics: reader.byte()?,
            kv: reader.byte()?,
        };
        let name = |code| if code == Precision::F32 as u8 { "f32" } else { "released" };
        let problem = if found.config != self.config {
            "a model with another config".into()
        } else if found.checkpoint != self.checkpoint {
            "another checkpoint of the same config".into()
        } else if found.numerics != self.numerics {
            format!("numerics {}, the model runs with {}", name(found.numerics), name(self.numerics))
        } else if found.kv != self.kv {
            format!("caches in {}, those of the model are in {}", name(found.kv), name(self.kv))
        } else {
            return Ok(());
        };
        Err(Error::Usage(format!("the snapshot is of {problem}")))
    }
}

fn damaged(problem: impl std::fmt::Display) -> Error {
    Error::Integrity(format!("snapshot: {problem}"))
}

/// Checks all that can be checked without a model; returns everything before the checksum.
fn check(bytes: &[u8]) -> Result<&[u8]> {
    let found = bytes.len();
    if bytes.get(..MAGIC.len()) != Some(MAGIC) {
        return Err(damaged("does not begin as one"));
    }
    let mut reader = Reader { bytes, at: MAGIC.len() };
    let version = u32::from_le_bytes(reader.array()?);
    if version != VERSION {
        return Err(damaged(format!("version {version}; this program reads version {VERSION}")));
    }
    let length = reader.number()?;
    if length != found as u64 || found < PREFIX + CHECKSUM {
        return Err(damaged(format!("{found} bytes; it says that it has {length}")));
    }
    let (content, sum) = bytes.split_at(found - CHECKSUM);
    if fnv1a64_of(content).to_le_bytes() != sum {
        return Err(damaged("its checksum is not that of its bytes"));
    }
    Ok(content)
}

fn write_plane(out: &mut Vec<u8>, plane: &Plane) {
    out.extend(&plane.codes);
    out.extend(&plane.scales);
    plane.values.iter().for_each(|value| out.extend(value.to_le_bytes()));
}

/// Reads front to back; what is not there is an error.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..count).ok_or_else(|| damaged(format!("{count} bytes needed, {} left", rest.len())))?;
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn number(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn floats(&mut self, count: usize) -> Result<Vec<f32>> {
        let bytes = self.take(count.saturating_mul(4))?;
        Ok(bytes.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect())
    }

    fn id(&mut self, config: &Config) -> Result<u32> {
        let id = u32::from_le_bytes(self.array()?);
        if id as usize >= config.vocab_size {
            return Err(damaged(format!("token {id}; the vocabulary has {} entries", config.vocab_size)));
        }
        Ok(id)
    }

    fn sequence(&mut self, config: &Config) -> Result<Prompt> {
        let (n, limit) = (self.number()?, config.max_position_embeddings);
        if n > limit as u64 {
            return Err(damaged(format!("{n} tokens; the model has {limit} positions")));
        }
        let n = n as usize;
        let mut ids = Vec::new();
        for _ in 0..n {
            ids.push(self.id(config)?);
        }
        let kind = |&code: &u8| {
            TokenType::from_code(i32::from(code as i8)).ok_or_else(|| damaged(format!("token type {code}")))
        };
        let types = self.take(n)?.iter().map(kind).collect::<Result<_>>()?;
        Ok(Prompt { ids, types, image_rows: Vec::new() })
    }

    fn plane(&mut self, format: Format, width: usize, rows: usize) -> Result<Plane> {
        let mut plane = Plane::new(format, width);
        if format == Format::F32 {
            plane.values = self.floats(rows.saturating_mul(width))?;
            return Ok(plane);
        }
        let (codes, scales) = Plane::row_bytes(format, width);
        plane.codes = self.take(rows.saturating_mul(codes))?.to_vec();
        plane.scales = self.take(rows.saturating_mul(scales))?.to_vec();
        Ok(plane)
    }

    /// Entries and index keys of `tokens` tokens; open groups are filled with zeros.
    fn global(&mut self, state: &mut State, tokens: usize) -> Result<()> {
        state.position = tokens;
        for source in state.sources.iter_mut().flatten() {
            let rows = tokens / source.ratio;
            let width = source.entries.width;
            source.entries = self.plane(source.entries.format, width, rows)?;
            source.keys = self.plane(source.keys.format, source.keys.width, rows)?;
            if source.ratio == 2 && !tokens.is_multiple_of(2) {
                source.partial = Partial { value: vec![0.0; width], score: vec![0.0; width] };
            }
        }
        Ok(())
    }

    fn rings(&mut self, state: &mut State, config: &Config) -> Result<()> {
        for source in state.sources.iter_mut().flatten().filter(|source| source.partial.is_open()) {
            let width = source.entries.width;
            source.partial = Partial { value: self.floats(width)?, score: self.floats(width)? };
        }
        let (end, window) = (state.position, config.window_size);
        for ring in state.windows.iter_mut().chain(&mut state.draft_windows) {
            let first = usize::try_from(self.number()?).unwrap_or(usize::MAX);
            if first > end || end - first > window {
                return Err(damaged(format!("a ring from {first} to {end}; a window has {window} rows")));
            }
            let (format, width) = ring.shape();
            let rows = self.plane(format, width, end - first)?;
            *ring = Ring::from_order(&rows, window, first);
        }
        Ok(())
    }

    fn end(&self) -> Result<()> {
        match self.bytes.len() - self.at {
            0 => Ok(()),
            left => Err(damaged(format!("{left} bytes too many"))),
        }
    }
}

#[cfg(test)]
#[path = "snapshot_tests.rs"]
mod tests;
