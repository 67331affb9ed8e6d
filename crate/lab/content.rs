//! What a chapter of the lab consists of. It is computed once, in both languages, and rendered by whoever shows it: the terminal, JSON, a page.

use super::figure::Figure;
use super::lang::Lang;
use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// A sentence in both languages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Text {
    /// Vietnamese.
    pub vi: Cow<'static, str>,
    /// English.
    pub en: Cow<'static, str>,
}

impl Text {
    /// A fixed sentence.
    pub const fn new(vi: &'static str, en: &'static str) -> Self {
        Text { vi: Cow::Borrowed(vi), en: Cow::Borrowed(en) }
    }

    /// A fixed text that reads the same in both languages.
    pub const fn both(text: &'static str) -> Self {
        Text { vi: Cow::Borrowed(text), en: Cow::Borrowed(text) }
    }

    /// A sentence with numbers of this run in it.
    pub fn of(vi: String, en: String) -> Self {
        Text { vi: Cow::Owned(vi), en: Cow::Owned(en) }
    }

    /// What was computed and reads the same in both languages: names, numbers, tokens.
    pub fn same(text: impl Into<String>) -> Self {
        let text = text.into();
        Text { vi: Cow::Owned(text.clone()), en: Cow::Owned(text) }
    }

    /// The sentence in `lang`.
    pub fn get(&self, lang: Lang) -> &str {
        match lang {
            Lang::Vi => &self.vi,
            Lang::En => &self.en,
        }
    }
}

/// Where a number comes from. Every table says it, so that nobody takes a config value for a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Badge {
    /// Computed in this run on the GPU.
    Gpu,
    /// Computed in this run by the CPU reference.
    CpuReference,
    /// Read from the config, or computed from it alone.
    Config,
    /// Counted in the tensors of the checkpoint.
    Checkpoint,
}

impl Badge {
    /// The badge in words.
    pub const fn text(self) -> Text {
        match self {
            Badge::Gpu => Text::new("đo trên GPU này", "measured on this GPU"),
            Badge::CpuReference => Text::new("CPU tham chiếu", "CPU reference"),
            Badge::Config => Text::new("theo cấu hình", "from config"),
            Badge::Checkpoint => Text::new("theo tệp trọng số", "from the checkpoint"),
        }
    }
}

/// A tensor that enters or leaves a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tensor {
    /// Name: that of the tap where there is one.
    pub name: String,
    /// Shape, rows first.
    pub shape: Vec<usize>,
    /// What it is.
    pub about: Text,
}

impl Tensor {
    /// A tensor.
    pub fn new(name: &str, shape: &[usize], about: Text) -> Self {
        Tensor { name: name.into(), shape: shape.to_vec(), about }
    }
}

/// One field of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nothing.
    Empty,
    /// A count, an index, a position.
    Int(i64),
    /// A real number.
    Number(f64),
    /// Words.
    Word(Text),
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Empty => serializer.serialize_unit(),
            Cell::Int(value) => serializer.serialize_i64(*value),
            Cell::Number(value) => serializer.serialize_f64(*value),
            Cell::Word(text) => text.serialize(serializer),
        }
    }
}

impl From<usize> for Cell {
    fn from(value: usize) -> Self {
        Cell::Int(value as i64)
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Cell::Int(value as i64)
    }
}

impl From<i64> for Cell {
    fn from(value: i64) -> Self {
        Cell::Int(value)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Cell::Number(value)
    }
}

impl From<f32> for Cell {
    fn from(value: f32) -> Self {
        Cell::Number(f64::from(value))
    }
}

impl From<Text> for Cell {
    fn from(value: Text) -> Self {
        Cell::Word(value)
    }
}

impl From<String> for Cell {
    fn from(value: String) -> Self {
        Cell::Word(Text::same(value))
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Cell::Word(Text::same(value))
    }
}

/// A table of numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// What it shows.
    pub title: Text,
    /// Where its numbers come from.
    pub badge: Badge,
    /// Heads of the columns.
    pub columns: Vec<Text>,
    /// Rows, each as long as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(title: Text, badge: Badge, columns: Vec<Text>) -> Self {
        Table { title, badge, columns, rows: Vec::new() }
    }

    /// Appends a row; missing fields at its end stay empty.
    pub fn push(&mut self, mut row: Vec<Cell>) {
        row.resize(self.columns.len(), Cell::Empty);
        self.rows.push(row);
    }
}

/// A statement about the run that holds or does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The statement.
    pub what: Text,
    /// Whether it holds.
    pub passed: bool,
    /// The numbers that decided.
    pub numbers: Text,
}

impl Check {
    /// A check with its numbers in words.
    pub fn new(what: Text, passed: bool, numbers: Text) -> Self {
        Check { what, passed, numbers }
    }

    /// Holds when nothing is wrong; with nothing to look at it does not hold.
    pub fn none_wrong(what: Text, wrong: usize, of: usize) -> Self {
        let numbers = Text::of(format!("sai {wrong} trong {of}"), format!("{wrong} wrong of {of}"));
        Check { what, passed: wrong == 0 && of > 0, numbers }
    }

    /// Holds when an error is within its limit; an error that is not a number is not.
    pub fn within(what: Text, error: f64, limit: f64) -> Self {
        let numbers = Text::of(
            format!("sai số lớn nhất {error:.1e}, giới hạn {limit:.0e}"),
            format!("largest error {error:.1e}, limit {limit:.0e}"),
        );
        Check { what, passed: error <= limit, numbers }
    }
}

/// One block, as the followed token met it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chapter {
    /// Code of the block, for example `3C`.
    pub code: &'static str,
    /// Name of the block.
    pub name: Text,
    /// One sentence: what to look for.
    pub look_for: Text,
    /// What comes in.
    pub inputs: Vec<Tensor>,
    /// What happens, in words.
    pub happens: Text,
    /// The same as formula, line by line.
    pub formula: &'static [Text],
    /// What goes out.
    pub outputs: Vec<Tensor>,
    /// Numbers of this run.
    pub tables: Vec<Table>,
    /// What is worth knowing about these numbers.
    pub notes: Vec<Text>,
    /// Statements that were tested on this run.
    pub checks: Vec<Check>,
    /// The numbers behind the chapter's picture.
    pub figure: Option<Figure>,
}

/// A position of the prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TokenLabel {
    /// Position.
    pub position: usize,
    /// Token id.
    pub id: u32,
    /// `text`, `start`, `image`, `newline` or `end`.
    pub kind: &'static str,
    /// The token in readable form.
    pub label: String,
}

/// The whole lab of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Lab {
    /// What ran, and how far it can be trusted: model, weights, arithmetic, picture.
    pub about: Vec<Text>,
    /// The prompt, position by position.
    pub tokens: Vec<TokenLabel>,
    /// Position of the followed token.
    pub followed: usize,
    /// The layer that the chapters look into.
    pub layer: usize,
    /// Chapters in the order of [`crate::blocks::ORDER`].
    pub chapters: Vec<Chapter>,
    /// Checks that passed.
    pub passed: usize,
    /// Checks that failed.
    pub failed: usize,
}
