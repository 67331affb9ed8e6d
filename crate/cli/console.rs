//! The two streams: data to standard output, everything else to standard error.

use super::hints;
use crate::lab::lang::Lang;
use crate::{Error, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

/// Where messages go, and in which language.
#[derive(Debug)]
pub(super) struct Console {
    pub(super) lang: Lang,
}

impl Console {
    pub(super) fn new(lang: Lang) -> Self {
        Console { lang }
    }

    /// Writes to standard output at once.
    ///
    /// # Errors
    /// [`Error::Io`] if it is closed.
    pub(super) fn print(&self, text: &str) -> Result<()> {
        let mut stdout = std::io::stdout().lock();
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        written.map_err(|source| Error::Io { path: "standard output".into(), source })
    }

    /// One line on standard error, in the language of the run. If nobody listens there, nobody misses it.
    pub(super) fn notice(&self, vi: impl Display, en: impl Display) {
        let line = self.lang.pick(vi.to_string(), en.to_string());
        let _ = writeln!(std::io::stderr(), "{line}");
    }

    /// The error in one line, and the obvious next step where there is one.
    pub(super) fn error(&self, error: &Error) {
        let _ = writeln!(std::io::stderr(), "error: {error}");
        if let Some((vi, en)) = hints::of(error) {
            self.notice(format!("gợi ý: {vi}"), format!("hint: {en}"));
        }
    }

    /// A bar of bytes; hidden when standard error is no terminal.
    pub(super) fn byte_bar(&self, total: u64) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {bytes} / {total_bytes} {bytes_per_sec} {msg}") {
            bar.set_style(style);
        }
        bar
    }

    /// Something that turns while there is no saying how long; hidden when standard error is no terminal.
    pub(super) fn spinner(&self, vi: &str, en: &str) -> ProgressBar {
        let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        spinner.set_style(ProgressStyle::default_spinner());
        spinner.set_message(self.lang.pick(vi, en).to_string());
        spinner.enable_steady_tick(Duration::from_millis(100));
        spinner
    }
}

/// A count with a comma every three digits.
pub(super) fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Bytes in decimal units, one decimal.
pub(super) fn size(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1000.0, 0);
    while value >= 999.95 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!([0, 999, 1000, 1_048_576].map(grouped), ["0", "999", "1,000", "1,048,576"]);
        assert_eq!(
            [0, 999, 1000, 999_949, 999_950, 165_000_000_000].map(size),
            ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "165.0 GB"]
        );
    }
}
