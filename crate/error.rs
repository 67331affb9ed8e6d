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
    /// A server did not give the bytes that were asked for.
    #[error("{url}: at byte {offset}: {fault}")]
    Http {
        /// The address.
        url: String,
        /// First byte of the request.
        offset: u64,
        /// What went wrong.
        #[source]
        fault: HttpFault,
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
            Error::Http { fault, .. } if fault.is_untrue() => 4,
            Error::Integrity(_) | Error::Header { .. } | Error::Index { .. } | Error::NotFinite { .. } => 4,
            _ => 1,
        }
    }

    /// What kind of thing is wrong, in a word, for a page that has its own sentence for each: `usage`, `prompt`, `picture`, `does-not-fit`,
    /// `gpu`, `io`, `network`, `integrity`, `internal`.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Usage(_) => "usage",
            Error::Prompt(_) => "prompt",
            Error::Picture(_) => "picture",
            Error::DoesNotFit { .. } => "does-not-fit",
            Error::Gpu(_) => "gpu",
            Error::Io { .. } => "io",
            Error::Http { fault: HttpFault::Network(_) | HttpFault::Status(_), .. } => "network",
            Error::NotFiniteActivation { .. } => "internal",
            _ => "integrity",
        }
    }

    /// What exactly is wrong with a checkpoint at an address, for a page that has a sentence and a next step for it: `not-found`, `unreachable`,
    /// `status`, `web-page`, `no-ranges`, `changed`, `contract`, `not-a-checkpoint`, `too-large`.
    pub fn reason(&self) -> Option<&'static str> {
        Some(match self {
            Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => "not-found",
            Error::Http { fault, .. } => match fault {
                HttpFault::Network(_) | HttpFault::Length { .. } => "unreachable",
                HttpFault::Status(_) => "status",
                HttpFault::WebPage => "web-page",
                HttpFault::WholeFile | HttpFault::OtherRange { .. } | HttpFault::Compressed(_) => "no-ranges",
                HttpFault::Changed { .. } => "changed",
                HttpFault::TooLong { .. } => "not-a-checkpoint",
            },
            Error::Tensor { .. } => "contract",
            Error::Json { .. } | Error::Config { .. } | Error::Header { .. } | Error::Index { .. } => {
                "not-a-checkpoint"
            }
            Error::DoesNotFit { .. } => "too-large",
            _ => return None,
        })
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

/// One way an answer of a server can be wrong. Nothing of such an answer is used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HttpFault {
    /// No connection, or it broke, or it was silent for too long. Worth another try.
    #[error("network: {0}")]
    Network(String),
    /// A status that is neither success nor what was asked for.
    #[error("the server answered with status {0}")]
    Status(u16),
    /// A request for a range was answered with the whole file.
    #[error("asked for a range, the server answered with status 200 and the whole file; it has to support ranges")]
    WholeFile,
    /// The range of the answer is not the one asked for, or the file is no longer as long as it was.
    #[error("asked for bytes {needed}, the answer says it has {found}")]
    OtherRange {
        /// The range asked for, and the length where it is known: `0-7/100`.
        needed: String,
        /// Content-Range or Content-Length of the answer.
        found: String,
    },
    /// A part of a compressed file is not a part of the file.
    #[error("the answer is compressed ({0}); needed the bytes as they are")]
    Compressed(String),
    /// A page for people, such as a login, where bytes were asked for.
    #[error("needed a file, the answer is a web page (text/html)")]
    WebPage,
    /// The file is not the one whose beginning was read.
    #[error("the file changed while it was read: it was {before}, it is {after}")]
    Changed {
        /// ETag or date of the first answer.
        before: String,
        /// That of this one.
        after: String,
    },
    /// The body ended early or went on. Worth another try.
    #[error("needed {needed} bytes, {found} came")]
    Length {
        /// Bytes that the answer announced.
        needed: u64,
        /// Bytes that came.
        found: u64,
    },
    /// The file has more bytes than anyone should need.
    #[error("needed at most {most} bytes, the file has more")]
    TooLong {
        /// The limit.
        most: u64,
    },
}

impl HttpFault {
    /// Whether the same request may succeed later. What the client did wrong (4xx) stays wrong.
    pub fn is_passing(&self) -> bool {
        matches!(self, HttpFault::Network(_) | HttpFault::Length { .. } | HttpFault::Status(500..=599))
    }

    /// Whether there was an answer and it cannot be believed, as opposed to none.
    pub fn is_untrue(&self) -> bool {
        !matches!(self, HttpFault::Network(_) | HttpFault::Status(_))
    }
}
