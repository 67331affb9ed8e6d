//! One variant per way a file, a request or a machine can be wrong.
//!
//! Every message says what was needed, what was found and where. A variant also fixes the exit code of the command line
//! ([`Error::exit_code`]), so that scripts can tell a wrong file from a machine that is too small.

use thiserror::Error;

/// Result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can be wrong with input. No function of this crate panics on a file, a network answer or a request.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or a folder could not be opened or read.
    #[error("{path}: {source}")]
    Io {
        /// The path as the user gave it.
        path: String,
        /// What the operating system said.
        #[source]
        source: std::io::Error,
    },
    /// A JSON document is not JSON, or not of the expected form.
    #[error("{file}: not valid JSON for {what}: {problem}")]
    Json {
        /// The file.
        file: String,
        /// What it should be, for example "a safetensors index".
        what: &'static str,
        /// The parser's words, with line and column.
        problem: String,
    },
    /// A value in config.json is missing, of the wrong type, absurd, or contradicts another one.
    #[error("config.json: {key}: {problem}")]
    Config {
        /// Dotted key, for example `text_config.head_dim`.
        key: String,
        /// What is wrong with it: needed and found.
        problem: String,
    },
    /// The header of a safetensors file is damaged.
    #[error("{file}: damaged safetensors header: {problem}")]
    Header {
        /// The shard.
        file: String,
        /// What is wrong and at which byte or tensor.
        problem: String,
    },
    /// The shard index names something that is not there or must not be named.
    #[error("{file}: shard index: {problem}")]
    Index {
        /// The index file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A tensor is missing, or its type or shape is not what the config asks for.
    #[error("tensor {name}: {problem}")]
    Tensor {
        /// Full tensor name.
        name: String,
        /// Needed and found.
        problem: String,
    },
    /// A weight is not a finite number.
    #[error("tensor {name}: element {index} is not a finite number")]
    NotFinite {
        /// Full tensor name.
        name: String,
        /// First bad element, row-major.
        index: u64,
    },
    /// A computed value is not a finite number.
    #[error("{tap} of layer {layer}: value {index} is not a finite number; first block where it appears")]
    NotFiniteActivation {
        /// The first tap with a bad value.
        tap: &'static str,
        /// Its layer.
        layer: usize,
        /// Its index in the tensor; on the GPU in what the step computes in which it arose.
        index: usize,
    },
    /// tokenizer.json is of another type than byte-level BPE, or inconsistent.
    #[error("tokenizer.json: {0}")]
    Tokenizer(String),
    /// A picture cannot be decoded or does not fit the resize plan.
    #[error("picture: {0}")]
    Picture(String),
    /// A prompt is empty, too long, or mixes images and text in a way the model has no form for.
    #[error("prompt: {0}")]
    Prompt(String),
    /// A golden file lacks a tensor or does not fit the checkpoint.
    #[error("golden file {file}: {problem}")]
    Golden {
        /// The golden file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// The run needs more than the machine or the model has.
    #[error("does not fit: {what} needs {needed}, available: {available}")]
    DoesNotFit {
        /// What does not fit.
        what: String,
        /// How much it needs.
        needed: String,
        /// How much there is.
        available: String,
    },
    /// There is no GPU adapter, or it refused, failed or was lost.
    #[error("GPU: {0}")]
    Gpu(String),
    /// Bytes are not what a checksum or a length says.
    #[error("integrity: {0}")]
    Integrity(String),
    /// The command line asks for something that does not exist or does not go together.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// Exit code of the command line: 1 run error, 2 usage, 3 does not fit, 4 integrity.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            Error::DoesNotFit { .. } => 3,
            Error::Integrity(_) | Error::Header { .. } | Error::Index { .. } | Error::NotFinite { .. } => 4,
            _ => 1,
        }
    }

    /// What kind of thing is wrong, in a word, for a page that has its own sentence for each: `usage`, `prompt`, `picture`, `does-not-fit`,
    /// `gpu`, `io`, `integrity`, `internal`.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Usage(_) => "usage",
            Error::Prompt(_) => "prompt",
            Error::Picture(_) => "picture",
            Error::DoesNotFit { .. } => "does-not-fit",
            Error::Gpu(_) => "gpu",
            Error::Io { .. } => "io",
            Error::NotFiniteActivation { .. } => "internal",
            _ => "integrity",
        }
    }

    /// Shorthand for [`Error::Config`].
    pub fn config(key: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Config { key: key.into(), problem: problem.into() }
    }

    /// Shorthand for [`Error::Tensor`].
    pub fn tensor(name: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Tensor { name: name.into(), problem: problem.into() }
    }
}
