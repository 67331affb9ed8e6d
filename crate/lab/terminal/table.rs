//! Tables: numbers aligned at their decimal points, words to the left.

use super::super::content::{Cell, Table};
use super::{Style, in_lang, pad};
use unicode_width::UnicodeWidthStr;

/// Prints a table, indented by four columns.
pub(super) fn render(out: &mut String, table: &Table, style: Style) {
    let columns: Vec<Vec<String>> = (0..table.columns.len()).map(|index| column(table, index, style)).collect();
    let widths: Vec<usize> =
        columns.iter().map(|cells| cells.iter().map(|cell| cell.width()).max().unwrap_or(0)).collect();
    for line in 0..=table.rows.len() {
        let mut text = String::from("    ");
        for (cells, &width) in columns.iter().zip(&widths) {
            text.push_str(&pad(&cells[line], width));
            text.push_str("  ");
        }
        let text = text.trim_end();
        out.push_str(&if line == 0 { style.faint(text) } else { text.to_string() });
        out.push('\n');
    }
}

/// Heading and cells of a column, each as wide as it wants to be but aligned among each other.
fn column(table: &Table, index: usize, style: Style) -> Vec<String> {
    let cells: Vec<&Cell> = table.rows.iter().map(|row| row.get(index).unwrap_or(&Cell::Empty)).collect();
    let texts: Vec<String> = cells.iter().map(|cell| text(cell, style)).collect();
    let is_number = |cell: &Cell| matches!(cell, Cell::Int(_) | Cell::Number(_));
    let numbers = || cells.iter().zip(&texts).filter(|(cell, _)| is_number(cell)).map(|(_, text)| text);
    let before = numbers().map(|text| point(text)).max().unwrap_or(0);
    let after = numbers().map(|text| text.width() - point(text)).max().unwrap_or(0);
    let numeric = numbers().next().is_some();

    let heading = in_lang(&table.columns[index], style);
    let width = (before + after).max(heading.width());
    let left = |text: &str| " ".repeat(width.saturating_sub(text.width()));
    let mut out = vec![if numeric { format!("{}{heading}", left(heading)) } else { heading.to_string() }];
    for (cell, text) in cells.iter().zip(texts) {
        out.push(match cell {
            cell if is_number(cell) => {
                let aligned = format!(
                    "{}{text}{}",
                    " ".repeat(before - point(&text)),
                    " ".repeat(after + point(&text) - text.width())
                );
                format!("{}{aligned}", left(&aligned))
            }
            _ if numeric => format!("{}{text}", left(&text)),
            _ => text,
        });
    }
    out
}

/// Columns in front of the decimal point.
fn point(text: &str) -> usize {
    text.find('.').unwrap_or(text.len())
}

fn text(cell: &Cell, style: Style) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Int(value) => grouped(*value),
        Cell::Number(value) => number(*value),
        Cell::Word(text) => in_lang(text, style).to_string(),
    }
}

/// An integer, from 10,000 on in groups of three digits.
fn grouped(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let sign = if value < 0 { "-" } else { "" };
    if digits.len() < 5 {
        return format!("{sign}{digits}");
    }
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap_or("")).collect();
    format!("{sign}{}", groups.join(" "))
}

/// Four significant digits; whole numbers as such.
fn number(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e6 {
        return format!("{:.0}", value + 0.0);
    }
    // The exponent after rounding: 0.99999 is 1.000, not 1.0000.
    let scientific = format!("{value:.3e}");
    let exponent = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    match exponent {
        Some(exponent @ -4..6) => format!("{value:.*}", (3 - exponent).max(0) as usize),
        _ => scientific,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::content::{Badge, Text};
    use super::super::super::lang::Lang;
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let texts = [0.0, -0.0, 890.0, 0.123456, -12.3456, 99999.96, 0.00012346, 1.2346e-7, 1.5e9, 0.99999].map(number);
        let expected = ["0", "0", "890", "0.1235", "-12.35", "100000", "0.0001235", "1.235e-7", "1.500e9", "1.000"];
        assert_eq!(texts, expected);
        assert_eq!([7, 9999, 16_130_606_192, -10_000].map(grouped), ["7", "9999", "16 130 606 192", "-10 000"]);
    }

    #[test]
    fn columns_align_at_the_point() {
        let title = Text::new("", "");
        let mut table = Table::new(title, Badge::Config, vec![Text::same("token"), Text::same("x")]);
        table.push(vec!["“đ”".into(), 12.5.into()]);
        table.push(vec!["BOS".into(), 0.001.into()]);
        table.push(vec!["a".into(), 3usize.into()]);
        let mut out = String::new();
        render(&mut out, &table, Style { lang: Lang::En, colour: false });
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines, ["    token          x", "    “đ”    12.50", "    BOS     0.001000", "    a       3"]);
    }
}
