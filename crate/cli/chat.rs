//! `flash890 chat`: a conversation, a line at a time.
//!
//! Answers go to standard output as they come, everything else to standard error. With standard input from a pipe or a file, every line is a
//! turn or a command, and the exit code is 1 if one of them could not be done.

mod command;
mod input;

use super::backend::{AdapterArgs, Backend};
use super::cache::CacheArgs;
use super::console::{Console, size};
use super::place::Place;
use super::{model, options};
use crate::blocks::context::Context;
use crate::chat::{Conversation, Part, Request, Step, Turn, Usage};
use crate::generate::{Sampling, Speculation};
use crate::image;
use crate::numerics::precision::Precision;
use crate::text::prompt::Role;
use crate::text::{StopStrings, Tokenizer};
use crate::{Error, Result};
use clap::Args;
use command::Command;
use input::{Input, Line};
use pollster::block_on;
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Largest picture or conversation that is read.
const MAX_INPUT: u64 = 256 << 20;

/// Options of `chat`.
#[derive(Debug, Args)]
pub(super) struct ChatArgs {
    /// Checkpoint: a folder, or its address on a web server [default: nano, a small trained model that comes with the program].
    #[arg(long, value_name = "DIR|URL")]
    model: Option<Place>,
    #[command(flatten)]
    cache: CacheArgs,
    /// Instructions in front of the conversation.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Most tokens of an answer.
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    max_tokens: u32,
    /// Draw tokens: logits are divided by T; 0 always takes the most probable token.
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temperature: f64,
    /// Draw from the smallest set of tokens with this probability together.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f64,
    /// Seed of the drawing: the same seed gives the same answers.
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// End answers before this text; may be given several times.
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// What computes.
    #[arg(long, value_enum, default_value = "auto")]
    backend: Backend,
    #[command(flatten)]
    adapter: AdapterArgs,
    /// Roundings between operations.
    #[arg(long, value_enum, default_value = "f32")]
    numerics: options::Rounding,
    /// Do not let the checkpoint's drafter propose tokens. The answers are the same, one token at a time.
    #[arg(long)]
    no_dspark: bool,
    /// Answer one request in the shape of OpenAI's chat completions, and end: a file, or `-` for standard input. The request says how tokens are
    /// chosen; the answer is one line of JSON.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["system", "max_tokens", "temperature", "top_p", "seed", "stop"])]
    request: Option<PathBuf>,
    /// Print every answer as one line of JSON, with its ids and what it took.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(mut args: ChatArgs, console: &Console) -> Result<bool> {
    args.adapter.check(args.backend)?;
    let request = args.request.as_deref().map(request).transpose()?;
    args.json |= request.is_some();
    let sampling = Sampling { temperature: args.temperature, top_p: args.top_p, seed: args.seed };
    sampling.check()?;
    StopStrings::new(&args.stop)?;

    let checkpoint = model::open_or_nano(args.model.as_ref(), &args.cache, console)?;
    let tokenizer = Arc::new(Tokenizer::from_json(checkpoint.tokenizer_json()?)?);
    let context = Context::new(&checkpoint.config, args.numerics.into(), Precision::Released);
    let engine = args.adapter.load(args.backend, &checkpoint, context, console)?;
    let begin = Instant::now();
    let mut conversation = Conversation::new(engine, tokenizer, Box::new(move || begin.elapsed().as_secs_f64()))?;
    conversation.speculate((!args.no_dspark).then(Speculation::default));
    let spinner = console.spinner("đang chuẩn bị", "warming up");
    let warm = block_on(conversation.warm_up());
    spinner.finish_and_clear();
    warm?;

    let turns = args.system.iter().map(|text| Turn::text(Role::System, text)).collect();
    let mut talk = Talk { conversation, turns, pictures: Vec::new(), sampling, args, console };
    if let Some(request) = request {
        return talk.answer(&request).map(|_| true);
    }
    let mut input = Input::open(console)?;
    if input.is_terminal() {
        console.notice(
            "/help: các lệnh; Ctrl-C: dừng câu trả lời; Ctrl-D: kết thúc",
            "/help: commands; Ctrl-C: stop an answer; Ctrl-D: end",
        );
    }
    let mut all_done = true;
    loop {
        let line = match input.line()? {
            Line::End => break,
            Line::Interrupted => {
                console.notice("Ctrl-D hoặc /quit để kết thúc", "Ctrl-D or /quit ends");
                continue;
            }
            Line::Text(line) => line,
        };
        let done = match Command::read(&line) {
            Command::Nothing => Ok(()),
            Command::Quit => break,
            Command::Say(text) => talk.say(text),
            other => talk.obey(other),
        };
        match done {
            Ok(()) => {}
            // Whoever read the answers has seen enough.
            Err(error @ Error::Io { .. }) if is_closed(&error) => return Err(error),
            Err(error) => {
                console.error(&error);
                all_done = false;
            }
        }
    }
    input.close();
    Ok(all_done || input.is_terminal())
}

fn is_closed(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe)
}

/// A conversation and its settings.
struct Talk<'c> {
    conversation: Conversation,
    turns: Vec<Turn>,
    /// Picture files that go with the next turn.
    pictures: Vec<Arc<[u8]>>,
    sampling: Sampling,
    args: ChatArgs,
    console: &'c Console,
}

impl Talk<'_> {
    /// Everything but what is said.
    fn obey(&mut self, command: Command) -> Result<()> {
        match command {
            Command::Reset => {
                self.turns.retain(|turn| turn.role == Role::System);
                self.pictures.clear();
                self.console.notice("bắt đầu lại từ đầu", "beginning anew");
                Ok(())
            }
            Command::Help => {
                command::help(self.console);
                Ok(())
            }
            Command::Save(path) => self.save(&path),
            Command::Load(path) => self.load(&path),
            Command::Image(path) => self.image(&path),
            Command::Unknown(problem) => Err(Error::Usage(problem)),
            Command::Nothing | Command::Quit | Command::Say(_) => Ok(()),
        }
    }

    /// One turn and its answer. What fails leaves the conversation as it was; what is stopped stays as far as it goes.
    fn say(&mut self, text: String) -> Result<()> {
        let mut parts: Vec<Part> = self.pictures.iter().cloned().map(Part::Picture).collect();
        parts.push(Part::Text(text));
        self.turns.push(Turn { role: Role::User, parts });
        let request = Request {
            sampling: self.sampling,
            max_tokens: Some(self.args.max_tokens as usize),
            stop: self.args.stop.clone(),
            ..Request::greedy(self.turns.clone())
        };
        match self.answer(&request) {
            Ok(text) if text.is_empty() => {
                self.turns.pop();
                Ok(())
            }
            Ok(text) => {
                self.turns.push(Turn::text(Role::Assistant, text));
                self.pictures.clear();
                Ok(())
            }
            Err(error) => {
                self.turns.pop();
                Err(error)
            }
        }
    }

    /// Prints an answer as it comes; returns its text.
    fn answer(&mut self, request: &Request) -> Result<String> {
        let _answering = input::Answering::begin();
        let spinner = self.console.spinner("đang đọc", "reading");
        let begun = block_on(self.conversation.begin(request));
        if begun.is_err() {
            spinner.finish_and_clear();
        }
        begun?;
        let mut text = String::new();
        loop {
            let step = block_on(self.conversation.next());
            if !matches!(&step, Ok(Step { reading: Some(_), .. })) {
                spinner.finish_and_clear();
            }
            let step = step?;
            if !self.args.json {
                self.console.print(&step.text)?;
            }
            text += &step.text;
            if let Some(done) = step.done {
                let report = json!({
                    "text": text,
                    "ids": done.ids,
                    "finish_reason": done.finish_reason,
                    "usage": done.usage,
                });
                self.console.print(&if self.args.json { format!("{report}\n") } else { "\n".into() })?;
                self.statistics(&done.usage);
                return Ok(text);
            }
            if input::is_stopped() {
                spinner.finish_and_clear();
                self.conversation.stop();
                let report = json!({ "text": text, "finish_reason": Value::Null });
                self.console.print(&if self.args.json { format!("{report}\n") } else { "\n".into() })?;
                self.console.notice("đã dừng", "stopped");
                return Ok(text);
            }
        }
    }

    fn statistics(&self, usage: &Usage) {
        let (prompt, answer) = (usage.prompt_tokens, usage.completion_tokens);
        let reused = usage.prompt_tokens_details.cached_tokens;
        let details = &usage.flash890;
        // The first token comes from the prompt's own logits.
        let steps = answer.saturating_sub(1) as f64;
        let rate = if details.decode_seconds > 0.0 { steps / details.decode_seconds } else { 0.0 };
        let (mut vi, mut en) = (
            format!("câu hỏi {prompt} token ({reused} dùng lại), trả lời {answer} token, {rate:.1} token/giây"),
            format!("prompt {prompt} tokens ({reused} reused), answer {answer} tokens, {rate:.1} tokens/s"),
        );
        if details.drafted > 0 {
            let per_round = steps / details.rounds.max(1) as f64;
            vi += &format!("; DSpark {per_round:.2} token mỗi lượt");
            en += &format!("; DSpark {per_round:.2} tokens per round");
        }
        self.console.notice(vi, en);
    }

    /// Writes the conversation in the shape of a request, so that any host can go on with it.
    fn save(&self, path: &Path) -> Result<()> {
        let messages: Vec<Value> = self.turns.iter().map(Turn::to_json).collect();
        let document = format!("{:#}\n", json!({ "messages": messages }));
        std::fs::write(path, &document).map_err(|source| io(path, source))?;
        let (count, size, name) = (messages.len(), size(document.len() as u64), path.display());
        self.console.notice(
            format!("đã lưu {count} lượt vào {name}, {size}"),
            format!("saved {count} turns to {name}, {size}"),
        );
        Ok(())
    }

    fn load(&mut self, path: &Path) -> Result<()> {
        let name = path.display().to_string();
        let json = |problem| Error::Json { file: name.clone(), what: "a conversation", problem };
        let document: Value = serde_json::from_slice(&read(path)?).map_err(|error| json(error.to_string()))?;
        let messages = document["messages"].as_array().ok_or_else(|| json("needed a list called messages".into()))?;
        let turn = |(at, message)| Turn::from_json(message, &format!("{name}: messages[{at}]"));
        self.turns = messages.iter().enumerate().map(turn).collect::<Result<_>>()?;
        self.pictures.clear();
        let count = self.turns.len();
        self.console.notice(format!("đã mở {count} lượt từ {name}"), format!("{count} turns from {name}"));
        Ok(())
    }

    /// Puts a picture in front of the next turn.
    fn image(&mut self, path: &Path) -> Result<()> {
        if self.conversation.session().engine().config().vision.is_none() {
            return Err(Error::Prompt("there is a picture, but this checkpoint has no vision tower".into()));
        }
        let bytes = read(path)?;
        let rgb = image::decode(&bytes).map_err(|error| match error {
            Error::Picture(problem) => Error::Picture(format!("{}: {problem}", path.display())),
            other => other,
        })?;
        self.pictures.push(bytes.into());
        let (width, height) = (rgb.width, rgb.height);
        self.console.notice(
            format!("ảnh {width} x {height} sẽ đi cùng câu tiếp theo"),
            format!("the picture, {width} x {height}, goes with the next turn"),
        );
        Ok(())
    }
}

fn request(path: &Path) -> Result<Request> {
    let bytes = match path.to_str() {
        Some("-") => {
            let (mut bytes, name) = (Vec::new(), "standard input");
            let read = std::io::stdin().lock().take(MAX_INPUT).read_to_end(&mut bytes);
            read.map_err(|source| io(Path::new(name), source))?;
            bytes
        }
        _ => read(path)?,
    };
    let text = String::from_utf8(bytes);
    Request::from_json(
        &text.map_err(|error| Error::Usage(format!("the request: needed UTF-8: {}", error.utf8_error())))?,
    )
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let source = crate::weights::ByteSource::open(path)?;
    if source.len() > MAX_INPUT {
        let (name, found) = (path.display(), source.len());
        return Err(Error::Usage(format!("{name}: needed at most {MAX_INPUT} bytes, found {found}")));
    }
    block_on(source.read(0..source.len()))
}

fn io(path: &Path, source: std::io::Error) -> Error {
    Error::Io { path: path.display().to_string(), source }
}
