//! Lines from a terminal, with editing and a history, or from anything else.

use crate::cli::console::Console;
use crate::kernels::canary::cache_folder;
use crate::{Error, Result};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use std::io::{BufRead, IsTerminal, Stdin};
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Lines that the history keeps.
const HISTORY: usize = 1000;
/// Longest line from a pipe.
const MAX_LINE: u64 = 16 << 20;

/// Whether an answer is on its way: then Ctrl-C ends it and nothing else.
static ANSWERING: AtomicBool = AtomicBool::new(false);
/// Whether Ctrl-C was pressed since the answer began.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// The time in which an answer is on its way.
pub(super) struct Answering;

impl Answering {
    pub(super) fn begin() -> Answering {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| {
            // Without a handler Ctrl-C ends the program, as it does elsewhere.
            let _ = ctrlc::set_handler(|| {
                if !ANSWERING.load(Relaxed) {
                    std::process::exit(130);
                }
                STOPPED.store(true, Relaxed);
            });
        });
        STOPPED.store(false, Relaxed);
        ANSWERING.store(true, Relaxed);
        Answering
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        ANSWERING.store(false, Relaxed);
    }
}

/// Whether somebody wants the answer to end.
pub(super) fn is_stopped() -> bool {
    STOPPED.load(Relaxed)
}

/// What came.
pub(super) enum Line {
    Text(String),
    /// Ctrl-C in a line.
    Interrupted,
    End,
}

/// Where lines come from.
pub(super) enum Input {
    Terminal { editor: Box<Editor<(), FileHistory>>, prompt: &'static str, history: Option<PathBuf> },
    Pipe(Stdin),
}

impl Input {
    /// # Errors
    /// [`Error::Io`] if the terminal cannot be used.
    pub(super) fn open(console: &Console) -> Result<Input> {
        let stdin = std::io::stdin();
        if !stdin.is_terminal() {
            return Ok(Input::Pipe(stdin));
        }
        let config = Config::builder().max_history_size(HISTORY).map_err(failed)?.auto_add_history(true).build();
        let mut editor = Editor::with_config(config).map_err(failed)?;
        let folder = cache_folder(&|name| std::env::var_os(name).map(PathBuf::from));
        let history = folder.map(|folder| folder.join("flash890").join("chat-history.txt"));
        if let Some(path) = &history {
            // The first time there is none.
            let _ = editor.load_history(path);
        }
        Ok(Input::Terminal { editor: Box::new(editor), prompt: console.lang.pick("bạn> ", "you> "), history })
    }

    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Input::Terminal { .. })
    }

    /// The next line.
    ///
    /// # Errors
    /// [`Error::Io`] if there is none to be had, [`Error::Prompt`] for one that is not UTF-8 or too long.
    pub(super) fn line(&mut self) -> Result<Line> {
        match self {
            Input::Terminal { editor, prompt, .. } => match editor.readline(*prompt) {
                Ok(line) => Ok(Line::Text(line)),
                Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
                Err(ReadlineError::Eof) => Ok(Line::End),
                Err(error) => Err(failed(error)),
            },
            Input::Pipe(stdin) => from_pipe(&mut stdin.lock()),
        }
    }

    /// Keeps the history.
    pub(super) fn close(&mut self) {
        if let Input::Terminal { editor, history: Some(path), .. } = self {
            if let Some(folder) = path.parent() {
                // Without a place for it there is no history the next time.
                let _ = std::fs::create_dir_all(folder);
            }
            let _ = editor.save_history(path);
        }
    }
}

fn from_pipe(input: &mut impl BufRead) -> Result<Line> {
    let mut bytes = Vec::new();
    let mut limited = std::io::Read::take(input, MAX_LINE + 1);
    limited.read_until(b'\n', &mut bytes).map_err(|source| Error::Io { path: "standard input".into(), source })?;
    if bytes.is_empty() {
        return Ok(Line::End);
    }
    if bytes.len() as u64 > MAX_LINE {
        return Err(Error::Prompt(format!("standard input: needed lines of at most {MAX_LINE} bytes")));
    }
    let text = String::from_utf8(bytes);
    text.map(Line::Text).map_err(|error| Error::Prompt(format!("standard input: needed UTF-8: {}", error.utf8_error())))
}

fn failed(error: ReadlineError) -> Error {
    let source = match error {
        ReadlineError::Io(source) => source,
        other => std::io::Error::other(other.to_string()),
    };
    Error::Io { path: "the terminal".into(), source }
}
