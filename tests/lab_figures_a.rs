//! Figures of blocks 1A, 1B, 2A, 3A and 3B: for every layer of the lab model they say what the tensors of the run say.

use flash890::blocks::tap::Tap;
use flash890::image::Rgb;
use flash890::lab::content::{Cell, Chapter, Table};
use flash890::lab::figure::{Figure, InputFigure};
use flash890::lab::prompt::{Picture, Request};
use flash890::lab::report;
use flash890::lab::run::Run;
use flash890::weights::{Checkpoint, tiny};
use pollster::block_on;
use std::sync::{Arc, LazyLock};

static LAB: LazyLock<Arc<Checkpoint>> = LazyLock::new(|| Arc::new(block_on(tiny::lab()).unwrap()));

const TEXT: &str = "Một lớp ghi, các lớp khác đọc: a window slides over these words.";

fn run(text: &str, picture: Picture, token: Option<usize>) -> Run {
    block_on(Run::new(LAB.clone(), Request { text: text.into(), picture, token })).unwrap()
}

/// Prompts of one position and of two, one that ends with an open group, and tokens before, in and behind a picture.
fn runs() -> Vec<Run> {
    vec![
        run("", Picture::None, None),
        run("a", Picture::None, None),
        run("ab", Picture::None, None),
        run(TEXT, Picture::None, None),
        run(TEXT, Picture::Generated, None),
        run(TEXT, Picture::Generated, Some(0)),
        run(TEXT, Picture::Generated, Some(5)),
        run(TEXT, Picture::Generated, Some(13)),
    ]
}

fn chapter(run: &Run, code: &str) -> Chapter {
    let chapter = report(run, Some(code)).chapters.remove(0);
    assert!(!chapter.inputs.is_empty(), "{code}");
    for check in &chapter.checks {
        assert!(check.passed, "{code}, layer {}: {check:?}", run.layer);
    }
    for table in &chapter.tables {
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
    }
    chapter
}

/// Runs `check` on every prompt, and in every layer.
fn everywhere(check: impl Fn(&Run)) {
    for mut run in runs() {
        for layer in 0..run.config().n_layers {
            run.layer = layer;
            check(&run);
        }
    }
}

fn number(cell: &Cell) -> f64 {
    match cell {
        Cell::Int(value) => *value as f64,
        Cell::Number(value) => *value,
        _ => panic!("{cell:?} is no number"),
    }
}

/// A row of a table from its column `from` on.
fn numbers(table: &Table, row: usize, from: usize) -> Vec<f64> {
    table.rows[row][from..].iter().map(number).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

#[track_caller]
fn near(actual: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(actual.len(), expected.len());
    let off = actual.iter().zip(expected).map(|(a, e)| (a - e).abs()).fold(0.0, f64::max);
    assert!(off <= tolerance && actual.iter().all(|v| v.is_finite()), "{actual:?} against {expected:?}");
}

fn decode_base64(text: &str) -> Vec<u8> {
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let codes: Vec<u32> = text.chars().filter_map(|c| alphabet.find(c)).map(|code| code as u32).collect();
    assert_eq!(text.len(), codes.len().div_ceil(4) * 4);
    let bytes = codes.chunks(4).flat_map(|group| {
        let bits = group.iter().enumerate().fold(0, |bits, (i, code)| bits | code << (18 - 6 * i));
        let bytes = [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8];
        bytes.into_iter().take(group.len() - 1)
    });
    bytes.collect()
}

fn input(run: &Run) -> (Chapter, InputFigure) {
    let chapter = chapter(run, "1A");
    let Some(Figure::Input(figure)) = chapter.figure.clone() else { panic!("{:?}", chapter.figure) };
    (chapter, figure)
}

#[test]
fn input_rows() {
    everywhere(|run| {
        let (chapter, figure) = input(run);
        assert_eq!(figure.row, run.seen.row(Tap::Embedding, 0, run.at));
        assert_eq!(figure.lengths.len(), run.n());
        let strip = chapter.tables.last().unwrap();
        let last = numbers(&Table { rows: vec![strip.rows.last().unwrap()[3..].to_vec()], ..strip.clone() }, 0, 0);
        near(&last[..1], &[f64::from(figure.lengths[run.at])], 1e-6);
        assert_eq!(last[1..], wide(&figure.row[..4]));
        assert_eq!(figure.picture.is_some(), run.picture.is_some());
    });
}

#[test]
fn input_picture() {
    let (chapter, figure) = input(&run("a", Picture::Generated, Some(0)));
    let picture = figure.picture.unwrap();
    assert!(picture.generated);
    assert_eq!((picture.given, picture.fitted, picture.thumb), ([126, 84], [126, 84], [126, 84]));
    assert_eq!((picture.patches, picture.cells, picture.start), ([9, 6], [3, 2], 1));
    assert_eq!(picture.patches, picture.fitted.map(|side| side / picture.patch));
    assert_eq!(picture.cells, picture.patches.map(|side| side.div_ceil(picture.merge)));
    assert_eq!(chapter.tables[0].rows[0][3], Cell::from("3 × 2"));
    let rgb = decode_base64(&picture.rgb);
    assert_eq!(rgb.len(), 126 * 84 * 3);
    // The ramp's first pixel, and the middle of the disc.
    assert_eq!(rgb[..3], [0, 0, 40]);
    assert_eq!(rgb[3 * (36 * 126 + 80)..][..3], [160, 108, 230]);
}

/// A larger picture is shown reduced, a small one never enlarged beyond its canvas.
#[test]
fn input_picture_of_the_reader() {
    let given = Rgb::new(640, 200, [200, 100, 50].repeat(640 * 200)).unwrap();
    let run = run("a", Picture::Given(given), None);
    let picture = input(&run).1.picture.unwrap();
    assert!(!picture.generated && picture.given == [640, 200] && picture.fitted[0] > 192);
    assert_eq!(picture.thumb[0], 192);
    let rgb = decode_base64(&picture.rgb);
    assert_eq!(rgb.len(), picture.thumb[0] * picture.thumb[1] * 3);
    let middle = (picture.thumb[1] / 2 * picture.thumb[0] + picture.thumb[0] / 2) * 3;
    assert_eq!(rgb[middle..middle + 3], [200, 100, 50]);
    let types = &run.prompt.types;
    assert_eq!(types[picture.start], flash890::image::TokenType::Start);
    let cells = types.iter().filter(|&&t| t == flash890::image::TokenType::Image).count();
    assert_eq!(cells, picture.cells[0] * picture.cells[1]);
}
