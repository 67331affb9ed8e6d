//! `flash890 generate`: one prompt, one answer.

use super::backend::{self, AdapterArgs, Backend};
use super::cache::CacheArgs;
use super::console::{Console, grouped, size};
use super::options::{self, Rounding};
use super::place::Place;
use super::{devices, model};
use crate::blocks::b3a_encoder_decoder::DecoderTail;
use crate::blocks::context::Context;
use crate::config::Config;
use crate::generate::snapshot::Form;
use crate::generate::{Answer, Finish, Limits, Picture, Sampler, Sampling, Session, Speculation, prompt};
use crate::image;
use crate::model::Prefill;
use crate::model::slots::SlotUse;
use crate::numerics::precision::Precision;
use crate::text::prompt::{Message, Mode, Part, Piece, Role, SpecialIds, render};
use crate::text::{StopStrings, Tokenizer};
use crate::weights::ByteSource;
use crate::{Error, Result};
use clap::Args;
use pollster::block_on;
use serde_json::json;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Largest picture file and longest prompt that are read.
const MAX_INPUT: u64 = 256 << 20;
/// Longest snapshot: the release's longest sequence with f32 caches has 13 GB, of which nobody has the memory twice.
const MAX_SNAPSHOT: u64 = 4 << 30;

/// Options of `generate`.
#[derive(Debug, Args)]
pub(super) struct GenerateArgs {
    /// Checkpoint: a folder, or its address on a web server [default: the built-in lab model with random weights; with
    /// --chat nano, a small trained model].
    #[arg(long, value_name = "DIR|URL")]
    model: Option<Place>,
    #[command(flatten)]
    cache: CacheArgs,
    /// The prompt; `-` reads standard input, without its last line end. Not needed with --image or --load.
    #[arg(long, value_name = "TEXT", required_unless_present_any = ["image", "list_devices", "load"], default_value = "", hide_default_value = true)]
    prompt: String,
    /// A picture (PNG, JPEG or WebP), in front of the text; may be given several times.
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Put the prompt into the chat form. Without it the text is fed as it is, after BOS, and spellings such as <｜User｜> are control tokens.
    #[arg(long)]
    chat: bool,
    /// Think before answering; EFFORT is 1 to 100.
    #[arg(long, value_name = "EFFORT", requires = "chat", num_args = 0..=1, default_missing_value = "75")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
    thinking: Option<u8>,
    /// Instructions in front of the conversation.
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
    /// Most tokens of the answer.
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: u32,
    /// Always take the most probable token; so it is also without any of the four options below.
    #[arg(long, conflicts_with_all = ["temperature", "top_p", "seed"])]
    greedy: bool,
    /// Draw tokens: logits are divided by T; 0 is greedy [default with --top-p or --seed: 1].
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f64>,
    /// Draw from the smallest set of tokens with this probability together.
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    top_p: Option<f64>,
    /// Seed of the drawing: the same seed gives the same answer [default: 0].
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// End the answer before this text; may be given several times.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// What computes.
    #[arg(long, value_enum, default_value = "auto")]
    backend: Backend,
    #[command(flatten)]
    adapter: AdapterArgs,
    /// List the adapters, as `flash890 devices` does, and do nothing else.
    #[arg(long)]
    list_devices: bool,
    /// Keep room for this share of the routed experts only and read them as the router asks: on the CPU, or with --backend gpu in the
    /// GPU's memory. The answer is the same.
    #[arg(long, value_name = "PERCENT", value_parser = options::percent)]
    expert_budget: Option<f64>,
    /// Roundings between operations.
    #[arg(long, value_enum, default_value = "f32")]
    numerics: Rounding,
    /// Roundings of the caches; `released` is 4 bits per value.
    #[arg(long, value_enum, default_value = "released")]
    kv: Rounding,
    /// Prompt rows that run through the decoder: `all`, or the last N (faster; exact only for large N).
    #[arg(long, value_name = "all|N", default_value = "all", value_parser = options::decoder_tail)]
    decoder_tail: DecoderTail,
    /// Do not let the checkpoint's drafter propose tokens. The answer is the same, one token at a time.
    #[arg(long)]
    no_dspark: bool,
    /// Verify drafted tokens as long as the chance that they all survive is at least P.
    #[arg(long, value_name = "P", default_value_t = Speculation::default().confidence, conflicts_with = "no_dspark")]
    #[arg(value_parser = options::share)]
    dspark_confidence: f32,
    /// Go on with a conversation that --save wrote, here or in a browser. The prompt follows what is there; without one the answer goes on.
    #[arg(long, value_name = "FILE")]
    load: Option<PathBuf>,
    /// Write the conversation, answer included, to a file for --load. It needs the same model and numerics there.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Leave the window rings out of the file: 890 bytes per token and the ids; --load computes them again.
    #[arg(long, requires = "save")]
    save_compact: bool,
    /// Print one JSON object at the end instead of the text as it comes.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: GenerateArgs, console: &Console) -> Result<bool> {
    if args.list_devices {
        devices::list(args.json, console)?;
        return Ok(true);
    }
    args.adapter.check(args.backend)?;
    let sampler = Sampler::new(args.sampling())?;
    StopStrings::new(&args.stop)?;
    let text = read_prompt(&args.prompt)?;

    let open = if args.chat { model::open_or_nano } else { model::open };
    let checkpoint = open(args.model.as_ref(), &args.cache, console)?;
    let config = checkpoint.config.clone();
    let tokenizer = Arc::new(Tokenizer::from_json(checkpoint.tokenizer_json()?)?);
    let pictures = args.image.iter().map(|path| picture(path, &config)).collect::<Result<Vec<_>>>()?;
    let pieces = args.pieces(&text, &tokenizer, &config)?;
    let saved = args.load.as_deref().map(read_file).transpose()?;
    let context = Context::new(&config, args.numerics.into(), args.kv.into());
    let engine = match (args.expert_budget, args.backend) {
        (Some(percent), Backend::Gpu) => {
            backend::load_gpu_slotted(&args.adapter, &checkpoint, &context, percent, console)?
        }
        (Some(percent), _) => Arc::new(model::load_slotted(&checkpoint, context, percent, console)?).into(),
        (None, backend) => args.adapter.load(backend, &checkpoint, context, console)?,
    };
    let mut session = match &saved {
        Some(bytes) => block_on(Session::load(engine, tokenizer, bytes))?,
        None => Session::new(engine, tokenizer)?,
    };
    session.speculate((!args.no_dspark).then_some(Speculation { confidence: args.dspark_confidence }));

    let spinner = console.spinner("đang chuẩn bị", "warming up");
    let warm = block_on(session.warm_up());
    spinner.finish_and_clear();
    warm?;
    let begin = Instant::now();
    let clock = || begin.elapsed().as_secs_f64();
    let how = Prefill { tail: args.decoder_tail, ..Prefill::default() };
    if !pieces.is_empty() {
        let spinner = console.spinner("đang đọc câu hỏi", "reading the prompt");
        let fed = block_on(session.feed(&pieces, &pictures, how, &clock));
        spinner.finish_and_clear();
        fed?;
    }

    let limits = Limits { max_tokens: args.max_tokens as usize, stop: args.stop.clone() };
    let mut closed = None;
    let answer = block_on(session.generate(&sampler, &limits, &clock, &mut |text| {
        let printed = if args.json || text.is_empty() { Ok(()) } else { console.print(text) };
        match printed {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                closed = Some(error);
                ControlFlow::Break(())
            }
        }
    }))?;
    if let Some(error) = closed {
        return Err(error);
    }
    console.print(&if args.json { args.report(&answer, &session) } else { "\n".into() })?;
    args.statistics(&answer, &session, console);
    if let Some(path) = &args.save {
        let form = if args.save_compact { Form::Compact } else { Form::Full };
        let bytes = block_on(session.save(form))?;
        std::fs::write(path, &bytes).map_err(|source| Error::Io { path: path.display().to_string(), source })?;
        let (size, tokens, name) = (grouped(bytes.len() as u64), session.ids().len(), path.display());
        console.notice(
            format!("đã lưu {tokens} token vào {name}: {size} byte"),
            format!("saved {tokens} tokens to {name}: {size} bytes"),
        );
    }
    if let Some(slots) = session.engine().slots() {
        slot_statistics(&slots, console);
    }
    Ok(true)
}

impl GenerateArgs {
    fn sampling(&self) -> Sampling {
        let drawn = self.temperature.is_some() || self.top_p.is_some() || self.seed.is_some();
        Sampling {
            temperature: self.temperature.unwrap_or(if drawn { 1.0 } else { 0.0 }),
            top_p: self.top_p.unwrap_or(1.0),
            seed: self.seed.unwrap_or(0),
        }
    }

    /// The prompt in the chat form, or as it is.
    fn pieces(&self, text: &str, tokenizer: &Tokenizer, config: &Config) -> Result<Vec<Piece>> {
        let pictures = self.image.len();
        if text.is_empty() && pictures == 0 && self.load.is_some() {
            return Ok(Vec::new());
        }
        if text.is_empty() && pictures == 0 {
            return Err(Error::Prompt("empty: needed some text or a picture".into()));
        }
        let mut pieces = if self.chat {
            self.chat_pieces(text, tokenizer)?
        } else {
            prompt::plain(text, pictures, tokenizer, config)?
        };
        if let (Some(Piece::Ids(ids)), Some(_)) = (pieces.first_mut(), &self.load) {
            // The beginning of a sequence is in the file.
            ids.retain(|&id| id != config.bos_token_id);
        }
        Ok(pieces)
    }

    fn chat_pieces(&self, text: &str, tokenizer: &Tokenizer) -> Result<Vec<Piece>> {
        let pictures = self.image.len();
        let mut parts: Vec<Part> = (0..pictures).map(Part::Image).collect();
        if !text.is_empty() {
            parts.push(Part::Text(text.into()));
        }
        let mut messages: Vec<Message> = self.system.iter().map(|text| Message::text(Role::System, text)).collect();
        messages.push(Message { role: Role::User, parts, reasoning: None });
        let mode = self.thinking.map_or(Mode::Chat, |effort| Mode::Thinking { effort });
        render(&messages, mode, &SpecialIds::find(tokenizer), tokenizer)
    }

    /// The answer as one line of JSON.
    fn report(&self, answer: &Answer, session: &Session) -> String {
        let sampling = self.sampling();
        let report = json!({
            "text": answer.text,
            "ids": answer.ids,
            "finish": answer.finish.name(),
            "usage": session.usage(),
            "kv_bytes": session.state().kv_bytes(),
            "ring_bytes": session.state().ring_bytes(),
            "settings": {
                "model": self.model.as_ref().map_or(if self.chat { "nano" } else { "lab" }.into(), Place::to_string),
                "backend": session.engine().name(),
                "device": session.engine().describe(),
                "numerics": Precision::from(self.numerics).name(),
                "kv": Precision::from(self.kv).name(),
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "seed": sampling.seed,
            },
        });
        format!("{report}\n")
    }

    /// What it took, measured on this machine.
    fn statistics(&self, answer: &Answer, session: &Session, console: &Console) {
        let (usage, state) = (session.usage(), session.state());
        let rate = |rate: Option<f64>| rate.map_or("-".into(), |rate| format!("{rate:.1}"));
        let (read, wrote) = (rate(usage.prefill_rate()), rate(usage.decode_rate()));
        let (prompt, pictures, answered) = (usage.prompt_tokens, usage.image_tokens, usage.generated_tokens);
        let (seconds, decode_seconds) = (usage.prefill_seconds, usage.decode_seconds);
        console.notice(
            format!("câu hỏi: {prompt} token ({pictures} của ảnh), {seconds:.2} giây, {read} token/giây"),
            format!("prompt: {prompt} tokens ({pictures} of pictures), {seconds:.2} s, {read} tokens/s"),
        );
        let (vi, en) = finish(answer.finish);
        console.notice(
            format!("trả lời: {answered} token, {decode_seconds:.2} giây, {wrote} token/giây; kết thúc vì {vi}"),
            format!("answer: {answered} tokens, {decode_seconds:.2} s, {wrote} tokens/s; ended by {en}"),
        );
        if usage.reused_tokens > 0 {
            let reused = usage.reused_tokens;
            console.notice(
                format!("dùng lại: {reused} token đã đọc từ trước"),
                format!("reused: {reused} tokens that were read before"),
            );
        }
        if usage.drafted_tokens > 0 {
            let (drafted, accepted, rounds) = (usage.drafted_tokens, usage.accepted_tokens, usage.rounds);
            let per_round = usage.decode_steps as f64 / rounds as f64;
            console.notice(
                format!("DSpark: nháp {drafted} token, nhận {accepted}; {rounds} lượt, {per_round:.2} token mỗi lượt"),
                format!(
                    "DSpark: {drafted} tokens drafted, {accepted} accepted; {rounds} rounds, {per_round:.2} tokens each"
                ),
            );
        }
        let (global, tokens) = (grouped(state.kv_bytes() as u64), state.position());
        let rings = size(state.ring_bytes() as u64);
        let (numerics, kv) = (Precision::from(self.numerics).name(), Precision::from(self.kv).name());
        let engine = session.engine().describe();
        console.notice(
            format!(
                "bộ nhớ KV: {global} byte cho {tokens} token, vòng cửa sổ {rings}; {engine}, numerics {numerics}, kv {kv}"
            ),
            format!(
                "KV cache: {global} bytes for {tokens} tokens, window rings {rings}; {engine}, numerics {numerics}, kv {kv}"
            ),
        );
    }
}

/// How often an expert was there, and how quickly the others came.
fn slot_statistics(used: &SlotUse, console: &Console) {
    let hits = 100.0 * used.hit_rate().unwrap_or(0.0);
    let (bytes, rate) = (size(used.bytes), used.rate().unwrap_or(0.0) / 1e9);
    console.notice(
        format!("chuyên gia: {hits:.1} % có sẵn, đã đọc {bytes}, {rate:.2} GB/s"),
        format!("experts: {hits:.1} % were there, {bytes} read, {rate:.2} GB/s"),
    );
}

/// Vietnamese and English.
fn finish(finish: Finish) -> (&'static str, &'static str) {
    match finish {
        Finish::Eos => ("mô hình kết thúc câu", "the model's end of sequence"),
        Finish::Stop => ("gặp chuỗi --stop", "a stop string"),
        Finish::MaxTokens => ("đủ --max-tokens", "--max-tokens"),
        Finish::PositionLimit => ("hết vị trí của mô hình", "the model's position limit"),
        Finish::Cancelled => ("bị dừng", "a request to stop"),
    }
}

/// A whole file; [`MAX_SNAPSHOT`] bytes at most.
fn read_file(path: &Path) -> Result<Vec<u8>> {
    let source = ByteSource::open(path)?;
    if source.len() > MAX_SNAPSHOT {
        let (file, found) = (path.display(), source.len());
        return Err(Error::Integrity(format!("{file}: {found} bytes; a snapshot has at most {MAX_SNAPSHOT}")));
    }
    block_on(source.read(0..source.len()))
}

fn read_prompt(prompt: &str) -> Result<String> {
    if prompt != "-" {
        return Ok(prompt.into());
    }
    let io = |source| Error::Io { path: "standard input".into(), source };
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(MAX_INPUT + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > MAX_INPUT {
        return Err(Error::Prompt(format!("standard input: needed at most {MAX_INPUT} bytes, found more")));
    }
    let text = String::from_utf8(bytes);
    let mut text =
        text.map_err(|error| Error::Prompt(format!("standard input: needed UTF-8: {}", error.utf8_error())))?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

fn picture(path: &Path, config: &Config) -> Result<Picture> {
    let Some(vision) = &config.vision else {
        return Err(Error::Prompt("there is a picture, but this checkpoint has no vision tower".into()));
    };
    let named = |error| match error {
        Error::Picture(problem) => Error::Picture(format!("{}: {problem}", path.display())),
        other => other,
    };
    let source = ByteSource::open(path)?;
    if source.len() > MAX_INPUT {
        return Err(named(Error::Picture(format!("{} bytes; allowed: {MAX_INPUT}", source.len()))));
    }
    let bytes = block_on(source.read(0..source.len()))?;
    image::decode(&bytes).and_then(|rgb| Picture::new(&rgb, vision)).map_err(named)
}
