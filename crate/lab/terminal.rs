//! The lab as text for a terminal of 100 columns.

mod table;

use super::content::{Chapter, Check, Lab, Tensor, Text};
use super::lang::Lang;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Columns that every line fits into.
pub const WIDTH: usize = 100;

/// Tokens shown in front of the followed one.
const CONTEXT: usize = 10;

/// How to print.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Language.
    pub lang: Lang,
    /// Whether escape codes for colour may be used.
    pub colour: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn say(self, vi: &'static str, en: &'static str) -> &'static str {
        match self.lang {
            Lang::Vi => vi,
            Lang::En => en,
        }
    }
}

/// The whole lab, with a last line that counts the checks.
pub fn render(lab: &Lab, style: Style) -> String {
    let mut out = String::new();
    let title = style.say("flash890 lab: theo một token qua mười khối", "flash890 lab: one token through ten blocks");
    out.push_str(&format!("{}\n", style.bold(title)));
    for line in &lab.about {
        paragraph(&mut out, "  · ", line.get(style.lang));
    }
    out.push('\n');
    followed(&mut out, lab, style);
    for chapter in &lab.chapters {
        render_chapter(&mut out, chapter, style);
    }
    let (passed, failed) = (lab.passed, lab.failed);
    let closing = match style.lang {
        Lang::Vi => format!("{passed} phép kiểm đạt, {failed} không đạt"),
        Lang::En => format!("{passed} checks passed, {failed} failed"),
    };
    let colour = if failed == 0 { "1;32" } else { "1;31" };
    let _ = writeln!(out, "\n{}", style.paint(colour, &closing));
    out
}

/// Where the followed token stands.
fn followed(out: &mut String, lab: &Lab, style: Style) {
    let Some(token) = lab.tokens.get(lab.followed) else { return };
    let images = lab.tokens.iter().filter(|token| token.kind != "text").count();
    let n = lab.tokens.len();
    let line = match (style.lang, images) {
        (Lang::Vi, 0) => format!("Prompt có {n} vị trí."),
        (Lang::Vi, _) => format!("Prompt có {n} vị trí, {images} trong đó là của ảnh."),
        (Lang::En, 0) => format!("The prompt has {n} positions."),
        (Lang::En, _) => format!("The prompt has {n} positions, {images} of them a picture."),
    };
    let (position, id, label) = (token.position, token.id, &token.label);
    let who = style.say("Token đang theo: vị trí", "Followed token: position");
    let line = format!("{line} {who} {position}, id {id}, {label}");
    paragraph(out, "  ", &line);
    let first = lab.followed.saturating_sub(CONTEXT);
    let mut words: Vec<String> = lab.tokens[first..lab.followed].iter().map(|token| token.label.clone()).collect();
    if first > 0 {
        words.insert(0, "…".into());
    }
    words.push(format!("[{}]", token.label));
    if lab.followed + 1 < n {
        words.push("…".into());
    }
    // Labels may hold spaces, at which a paragraph would break; so lines are filled token by token.
    let mut line = String::from("  ");
    for word in words {
        if line.width() + 1 + word.width() > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line = String::from("  ");
        }
        line.push_str(&word);
        line.push(' ');
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

fn render_chapter(out: &mut String, chapter: &Chapter, style: Style) {
    let lang = style.lang;
    let heading = format!("[{}] {}", chapter.code, chapter.name.get(lang));
    let rule = "─".repeat(WIDTH.saturating_sub(heading.width() + 1));
    let _ = writeln!(out, "\n{} {}", style.bold(&heading), style.faint(&rule));
    paragraph(out, style.say("Nhìn gì: ", "Look for: "), chapter.look_for.get(lang));
    out.push('\n');
    tensors(out, style.say("Vào ", "In  "), &chapter.inputs, style);
    paragraph(out, style.say("Làm gì: ", "What happens: "), chapter.happens.get(lang));
    out.push('\n');
    for line in chapter.formula {
        let _ = writeln!(out, "    {}", line.get(lang));
    }
    out.push('\n');
    tensors(out, style.say("Ra  ", "Out "), &chapter.outputs, style);
    for table in &chapter.tables {
        out.push('\n');
        let title = format!("{} ({})", table.title.get(lang), table.badge.text().get(lang));
        paragraph(out, "  ", &title);
        table::render(out, table, style);
    }
    if !chapter.notes.is_empty() {
        out.push('\n');
    }
    for note in &chapter.notes {
        paragraph(out, "  · ", note.get(lang));
    }
    if !chapter.checks.is_empty() {
        let _ = writeln!(out, "\n  {}", style.say("Phép kiểm", "Checks"));
    }
    for check in &chapter.checks {
        render_check(out, check, style);
    }
}

fn render_check(out: &mut String, check: &Check, style: Style) {
    let (mark, colour) = match check.passed {
        true => (style.say("đạt ", "pass"), "32"),
        false => (style.say("SAI ", "FAIL"), "1;31"),
    };
    let mut text = String::new();
    paragraph(&mut text, "         ", check.what.get(style.lang));
    paragraph(&mut text, "         → ", check.numbers.get(style.lang));
    // The mark takes the place of the first line's indent, and its escape codes take no width.
    let _ = write!(out, "    {} {}", style.paint(colour, mark), text.trim_start());
}

fn tensors(out: &mut String, word: &str, tensors: &[Tensor], style: Style) {
    let shape = |tensor: &Tensor| {
        let sides: Vec<String> = tensor.shape.iter().map(usize::to_string).collect();
        format!("[{}]", sides.join(", "))
    };
    let wide = |text: &dyn Fn(&Tensor) -> String| tensors.iter().map(|tensor| text(tensor).width()).max().unwrap_or(0);
    let (names, shapes) = (wide(&|tensor| tensor.name.clone()), wide(&shape));
    for (index, tensor) in tensors.iter().enumerate() {
        let word = if index == 0 { word.to_string() } else { " ".repeat(word.width()) };
        let name = pad(&tensor.name, names);
        let line = format!("{word}{name}  {}  ", pad(&shape(tensor), shapes));
        paragraph(out, &line, tensor.about.get(style.lang));
    }
}

/// Fills up with spaces to `width` columns.
fn pad(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// A paragraph behind `lead`, its further lines indented as far as `lead` is wide.
fn paragraph(out: &mut String, lead: &str, text: &str) {
    let indent = lead.width();
    let mut line = lead.to_string();
    let mut empty = true;
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !empty && line.width() + 1 + word.width() > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// A heading in the language of the style.
fn in_lang(text: &Text, style: Style) -> &str {
    text.get(style.lang)
}
