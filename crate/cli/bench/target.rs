//! What the figures should be, and whether they are. Nothing fails here: a figure depends on the machine, and on what else it does.

use serde::Serialize;
use std::fmt::Write as _;

/// One figure and its limit.
#[derive(Debug, Serialize)]
pub(super) struct Target {
    pub(super) what: String,
    pub(super) found: f64,
    /// The largest value that meets it, or the smallest where `at_least` is set.
    pub(super) limit: f64,
    pub(super) at_least: bool,
    pub(super) met: bool,
}

impl Target {
    /// `found` should be at most `limit`.
    pub(super) fn at_most(what: impl Into<String>, found: f64, limit: f64) -> Self {
        Target { what: what.into(), found, limit, at_least: false, met: found <= limit }
    }

    /// `found` should be at least `limit`.
    pub(super) fn at_least(what: impl Into<String>, found: f64, limit: f64) -> Self {
        Target { what: what.into(), found, limit, at_least: true, met: found >= limit }
    }
}

/// The targets as a table.
pub(super) fn as_markdown(targets: &[Target]) -> String {
    let mut out = String::from("| target | found | limit | |\n|---|---|---|---|\n");
    for Target { what, found, limit, at_least, met } in targets {
        let (sign, verdict) = (if *at_least { "at least" } else { "at most" }, if *met { "met" } else { "missed" });
        let _ = writeln!(out, "| {what} | {} | {sign} {} | {verdict} |", number(*found), number(*limit));
    }
    out
}

/// Whole numbers as such, everything else with two digits after the point.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_judged() {
        let targets =
            [Target::at_most("a", 1.305, 1.3), Target::at_least("b", 0.5, 0.5), Target::at_most("c", 18.0, 18.0)];
        assert_eq!(targets.each_ref().map(|target| target.met), [false, true, true]);
        let text = as_markdown(&targets);
        assert!(
            text.contains("| a | 1.30 | at most 1.30 | missed |\n")
                || text.contains("| a | 1.31 | at most 1.30 | missed |\n")
        );
        assert!(text.contains("| c | 18 | at most 18 | met |\n"), "{text}");
    }
}
