//! Figures of blocks 1A, 1B, 2A, 3A and 3B: for every layer of the lab model they say what the tensors of the run say.

use flash890::blocks::tap::Tap;
use flash890::image::Rgb;
use flash890::lab::content::{Cell, Chapter, Table};
use flash890::lab::figure::{EngramFigure, Figure, InputFigure, MixFigure, StreamsFigure};
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

fn engram(run: &Run) -> (Chapter, EngramFigure) {
    let chapter = chapter(run, "1B");
    let Some(Figure::Engram(figure)) = chapter.figure.clone() else { panic!("{:?}", chapter.figure) };
    (chapter, figure)
}

fn hex(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap()
}

/// The figure's hash is a machine that runs: every step follows from the one before, and ends at the rows that the run read.
#[test]
fn engram_hash() {
    everywhere(|run| {
        let (chapter, figure) = engram(run);
        assert_eq!(figure.layer, if run.layer < 14 { 1 } else { 14 });
        assert_eq!(figure.steps.len(), 4);
        let tables = &run.checkpoint.engram;
        let which = usize::from(figure.layer == 14);
        let mut hash = 0;
        let mut hashes = Vec::new();
        let mut blocked = false;
        for (back, step) in figure.steps.iter().enumerate() {
            let place = run.at.checked_sub(back).filter(|&place| !run.prompt.types[place].is_image());
            blocked |= place.is_none();
            assert_eq!((step.back, step.position), (back, place.filter(|_| !blocked)));
            let id = step.position.map_or(tables.pad_id, |place| tables.token_map[run.prompt.ids[place] as usize]);
            assert_eq!((step.compressed, step.label == "(pad)"), (id, blocked));
            assert_eq!(hex(&step.multiplier), tables.multipliers[which][back]);
            assert_eq!(hex(&step.product), u64::from(id) * hex(&step.multiplier));
            hash ^= hex(&step.product);
            assert_eq!(hex(&step.hash), hash);
            hashes.push(hash);
        }
        assert_eq!(chapter.tables[0].rows.len(), 4);
        assert_eq!(chapter.tables[0].rows[3][4], Cell::from(figure.steps[3].hash.clone()));
        let read = run.seen.index_row(Tap::EngramRows, figure.layer, run.at);
        assert_eq!(figure.rows.iter().map(|row| row.row as usize).collect::<Vec<_>>(), read);
        for (column, row) in figure.rows.iter().enumerate() {
            assert_eq!((row.size, row.head), (column / 4 + 2, column % 4));
            assert_eq!((row.prime, row.offset), (tables.primes[which][column], tables.offsets[which][column]));
            assert_eq!(row.remainder, hashes[row.size - 1] % row.prime);
            assert_eq!(row.row, row.remainder + row.offset);
        }
        let shown: Vec<_> = figure.rows.iter().filter(|row| row.head < 2).map(|row| row.row as f64).collect();
        let table: Vec<_> =
            (0..chapter.tables[1].rows.len()).map(|row| numbers(&chapter.tables[1], row, 5)[0]).collect();
        assert_eq!(table, shown);
        assert_eq!(chapter.inputs[1].shape[0] as u64, run.config().engram_num_embeddings[which]);
    });
}

#[test]
fn engram_gates() {
    everywhere(|run| {
        let (chapter, figure) = engram(run);
        let image = run.prompt.types[run.at].is_image();
        assert_eq!((figure.blocked, figure.gates.len()), (image, 2));
        for (index, (gates, layer)) in figure.gates.iter().zip([1, 14]).enumerate() {
            assert_eq!((gates.layer, gates.gates.len()), (layer, 4));
            assert_eq!(numbers(&chapter.tables[2], index, 1), wide(&gates.gates));
            assert!(gates.gates.iter().all(|&gate| if image { gate == 0.0 } else { gate > 0.0 && gate < 1.0 }));
        }
        assert_eq!(chapter.notes.len(), usize::from(![1, 14].contains(&run.layer)) + usize::from(image));
    });
}

fn streams(run: &Run) -> (Chapter, StreamsFigure) {
    let chapter = chapter(run, "2A");
    let Some(Figure::Streams(figure)) = chapter.figure.clone() else { panic!("{:?}", chapter.figure) };
    (chapter, figure)
}

/// Sinkhorn ends at the matrix that the run recorded, in both sub-layers, Engram layers included.
#[test]
fn streams_mixing() {
    everywhere(|run| {
        let (chapter, figure) = streams(run);
        assert_eq!(figure.layer, run.layer);
        let row = |tap| run.seen.row(tap, run.layer, run.at);
        for (mix, [pre, post, comb], table) in [
            (&figure.attn, [Tap::AttnPre, Tap::AttnPost, Tap::AttnComb], &chapter.tables[1]),
            (&figure.ffn, [Tap::FfnPre, Tap::FfnPost, Tap::FfnComb], &chapter.tables[2]),
        ] {
            assert_eq!((&mix.pre[..], &mix.post[..], &mix.comb[..]), (row(pre), row(post), row(comb)));
            sinkhorn(mix);
            for i in 0..4 {
                let cells = numbers(table, i, 1);
                assert_eq!(cells[..4], wide(&mix.comb[4 * i..][..4]));
                near(&cells[4..], &[cells[..4].iter().sum()], 1e-6);
            }
        }
        let lanes = &chapter.tables[0];
        for lane in 0..4 {
            let parts = [&figure.before, &figure.attn.pre, &figure.attn.post, &figure.ffn.pre, &figure.ffn.post];
            let expected: Vec<_> = parts.into_iter().chain([&figure.after]).map(|part| f64::from(part[lane])).collect();
            assert_eq!(numbers(lanes, lane, 1), expected);
        }
    });
}

/// A softmax, then 20 steps of which each ends with columns that sum to one, the last the recorded matrix.
fn sinkhorn(mix: &MixFigure) {
    assert_eq!((mix.sinkhorn.len(), mix.row_error.len()), (21, 21));
    near(&wide(&mix.sinkhorn[20]), &wide(&mix.comb), 2e-5);
    for (step, (m, &error)) in mix.sinkhorn.iter().zip(&mix.row_error).enumerate() {
        let m = wide(m);
        let rows: Vec<f64> = m.chunks(4).map(|row| row.iter().sum()).collect();
        let columns: Vec<f64> = (0..4).map(|j| m.iter().skip(j).step_by(4).sum()).collect();
        let off = rows.iter().map(|sum| (sum - 1.0).abs()).fold(0.0, f64::max);
        near(&[f64::from(error)], &[off], 1e-6);
        near(if step == 0 { &rows } else { &columns }, &[1.0; 4], 1e-5);
    }
}

#[test]
fn streams_lengths() {
    everywhere(|run| {
        let (_, figure) = streams(run);
        let dim = run.config().dim;
        let lengths = |streams: &[f32]| -> Vec<f64> {
            streams.chunks(dim).map(|h| wide(h).iter().map(|v| v * v).sum::<f64>().sqrt()).collect()
        };
        let entering = match run.layer {
            0 => run.seen.row(Tap::Embedding, 0, run.at).repeat(4),
            layer => run.seen.row(Tap::Streams, layer - 1, run.at).to_vec(),
        };
        near(&wide(&figure.before), &lengths(&entering), 1e-4);
        near(&wide(&figure.after), &lengths(run.seen.row(Tap::Streams, run.layer, run.at)), 1e-4);
    });
}
