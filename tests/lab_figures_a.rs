//! Figures of blocks 1A, 1B, 2A, 3A and 3B: for every layer of the lab model they say what the tensors of the run say.

use flash890::blocks::tap::Tap;
use flash890::image::Rgb;
use flash890::lab::content::{Cell, Chapter, Table};
use flash890::lab::figure::{
    CompressorFigure, EngramFigure, Figure, InputFigure, MixFigure, ScheduleFigure, StreamsFigure,
};
use flash890::lab::lang::Lang;
use flash890::lab::prompt::{Picture, Request};
use flash890::lab::report;
use flash890::lab::run::Run;
use flash890::lab::terminal::{Style, WIDTH, render};
use flash890::weights::{Checkpoint, tiny};
use pollster::block_on;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use unicode_width::UnicodeWidthStr;

static LAB: LazyLock<Arc<Checkpoint>> = LazyLock::new(|| Arc::new(block_on(tiny::lab()).unwrap()));

const TEXT: &str = "Một lớp ghi, các lớp khác đọc: a window slides over these words.";

fn run(text: &str, picture: Picture, token: Option<usize>) -> Run {
    block_on(Run::new(LAB.clone(), Request { text: text.into(), picture, token })).unwrap()
}

/// A text without and with a picture.
static LONG: LazyLock<Mutex<Vec<Run>>> =
    LazyLock::new(|| Mutex::new(vec![run(TEXT, Picture::None, None), run(TEXT, Picture::Generated, None)]));

/// Prompts of one position, two and three, and tokens before, in and behind a picture.
static SHORT: LazyLock<Mutex<Vec<Run>>> = LazyLock::new(|| {
    let mut runs: Vec<Run> = ["", "a", "ab"].map(|text| run(text, Picture::None, None)).into();
    runs.extend([0, 5, 11].map(|token| run("a b", Picture::Generated, Some(token))));
    Mutex::new(runs)
});

/// One layer of every kind: window without and with Engram, full, reuse, full with Engram, the last of the encoder, the decoder's source,
/// reindex, the last.
const KINDS: [usize; 9] = [0, 1, 2, 5, 14, 19, 20, 24, 39];

/// A chapter that is complete: inputs, checks that pass, tables with rows, sentences in both languages, and lines that fit a terminal.
fn chapter(run: &Run, code: &str) -> Chapter {
    let mut lab = report(run, Some(code));
    for lang in Lang::ALL {
        for line in render(&lab, Style { lang, colour: false }).lines() {
            assert!(line.width() <= WIDTH, "{} columns: {line}", line.width());
        }
    }
    let chapter = lab.chapters.remove(0);
    let at = (code, run.layer);
    assert!(!chapter.inputs.is_empty(), "{at:?}");
    for check in &chapter.checks {
        assert!(check.passed, "{at:?}: {check:?}");
    }
    for table in &chapter.tables {
        assert!(!table.rows.is_empty(), "{at:?}: {}", table.title.en);
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
    }
    for text in chapter.notes.iter().chain(chapter.tables.iter().map(|table| &table.title)) {
        assert!(!text.vi.is_empty() && text.vi != text.en, "{at:?}: {text:?}");
    }
    chapter
}

/// Runs `check` in every layer of the long prompts, and in one of every kind of the short ones.
fn everywhere(check: impl Fn(&Run)) {
    for (runs, layers) in [(&LONG, (0..40).collect::<Vec<_>>()), (&SHORT, KINDS.to_vec())] {
        for run in runs.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            assert_eq!(run.config().n_layers, 40);
            for &layer in &layers {
                run.layer = layer;
                check(run);
            }
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

fn schedule(run: &Run) -> (Chapter, ScheduleFigure) {
    let chapter = chapter(run, "3A");
    let Some(Figure::Schedule(figure)) = chapter.figure.clone() else { panic!("{:?}", chapter.figure) };
    (chapter, figure)
}

/// Which layer ran for which position, and what that costs.
#[test]
fn schedule_of_layers() {
    everywhere(|run| {
        let (chapter, figure) = schedule(run);
        let n = run.prompt.len();
        assert_eq!((figure.positions, figure.tail, figure.decoder), (n, run.tail, 20));
        assert_eq!((figure.first.len(), figure.by_layer.len()), (40, 40));
        for (layer, &first) in figure.first.iter().enumerate() {
            assert_eq!(first, if layer < 20 { 0 } else { n - run.tail }, "layer {layer}");
            assert_eq!(run.tail_rows.indices(Tap::Rows, layer)[0], first as i64);
        }
        let first = figure.first[run.layer];
        assert_eq!((chapter.inputs[0].shape[0], chapter.outputs[0].shape[0]), (n - first, n - first));

        // Reading costs the encoder and a little of layer 20, writing all layers and more.
        let (encoder, all): (u64, u64) = (figure.by_layer[..20].iter().sum(), figure.by_layer.iter().sum());
        assert!(figure.read > encoder && figure.read < encoder + figure.by_layer[20] && figure.write > all);
        assert!((7.5e9..8.5e9).contains(&(figure.released[0] as f64)), "{:?}", figure.released);
        assert!((15.5e9..16.5e9).contains(&(figure.released[1] as f64)), "{:?}", figure.released);
        let parameters = &chapter.tables[2];
        assert_eq!(numbers(parameters, 0, 1)[..2], [figure.read, figure.write].map(|count| count as f64));
        assert_eq!(numbers(parameters, 1, 1)[..2], figure.released.map(|count| count as f64));
        let chosen = &chapter.tables[0].rows[0];
        assert_eq!(chosen[0], Cell::from(if run.layer < 20 { "encoder" } else { "decoder" }));
        assert_eq!(chosen[1], Cell::from(run.config().role(run.layer).name()));
        let Cell::Word(ran) = &chosen[5] else { panic!("{:?}", chosen[5]) };
        assert_eq!(ran.en, if run.at >= first { "runs" } else { "does not run" });
        assert_eq!(number(&chosen[6]), figure.by_layer[run.layer] as f64);
    });
}

fn compressor(run: &Run) -> (Chapter, CompressorFigure) {
    let chapter = chapter(run, "3B");
    let Some(Figure::Compressor(figure)) = chapter.figure.clone() else { panic!("{:?}", chapter.figure) };
    (chapter, figure)
}

/// The entry is what weights and values give, and the one that the chosen layer reads.
#[test]
fn compressor_entry() {
    everywhere(|run| {
        let (chapter, figure) = compressor(run);
        let (layer, config) = (run.layer, run.config());
        let role = format!("{:?}", config.role(layer)).to_lowercase();
        assert_eq!((figure.layer, figure.role, figure.ratio), (layer, &role[..], config.ratio(layer)));
        assert_eq!(figure.source, config.kv_source(layer));
        let last: Vec<f64> = chapter.tables[0].rows[3][..4].iter().map(number).collect();
        assert_eq!(last, [20.0, 1.0, run.n() as f64, 0.0]);
        assert_eq!(number(&chapter.tables[0].rows[0][3]), (run.n() % 2) as f64);
        let Some(entry) = figure.entry else {
            assert!(figure.ratio == 0 || run.n() < figure.ratio);
            assert!(figure.tokens.is_empty() && figure.weights.is_empty() && figure.values.is_empty());
            assert!(figure.pooled.is_empty() && chapter.tables.len() == 1 && chapter.notes.len() == 1);
            return;
        };
        let (source, ratio) = (figure.source.unwrap(), figure.ratio);
        assert_eq!(chapter.notes.len(), usize::from(source != layer));
        assert_eq!(entry, run.n() / ratio - 1);
        assert_eq!(figure.tokens, (entry * ratio..(entry + 1) * ratio).collect::<Vec<_>>());
        assert_eq!(figure.pooled, run.seen.row(Tap::Latent, source, entry));
        assert_eq!(chapter.outputs[0].shape, [run.n() / ratio, config.head_dim]);
        pooled_again(run, &figure, source);
        // Channel, values, (scores, weight, pooled,) latent.
        let table = &chapter.tables[1];
        for d in 0..6 {
            let row = numbers(table, d, 1);
            assert_eq!(row[..ratio], figure.values.iter().map(|v| f64::from(v[d])).collect::<Vec<_>>());
            assert_eq!(*row.last().unwrap(), f64::from(figure.pooled[d]));
            if ratio == 2 {
                near(&[row[4]], &[f64::from(figure.weights[0][d])], 1e-6);
            }
        }
    });
}

/// Weights sum to one, and pooled and normalised values are the entry.
fn pooled_again(run: &Run, figure: &CompressorFigure, source: usize) {
    let (width, config) = (run.config().head_dim, run.config());
    assert_eq!((figure.weights.len(), figure.values.len()), (figure.ratio, figure.ratio));
    let mut pooled = vec![0.0; width];
    let mut sums = vec![0.0; width];
    for (weights, values) in figure.weights.iter().zip(&figure.values) {
        assert_eq!((weights.len(), values.len()), (width, width));
        for d in 0..width {
            pooled[d] += f64::from(weights[d]) * f64::from(values[d]);
            sums[d] += f64::from(weights[d]);
        }
    }
    near(&sums, &vec![1.0; width], 1e-6);
    let size = (pooled.iter().map(|v| v * v).sum::<f64>() / width as f64 + f64::from(config.norm_eps)).sqrt();
    let norm = &run.model.layers[source].compressor.as_ref().unwrap().norm;
    let expected: Vec<f64> = pooled.iter().zip(norm).map(|(v, &w)| v / size * f64::from(w)).collect();
    let largest = expected.iter().fold(0.0f64, |max, v| max.max(v.abs()));
    near(&wide(&figure.pooled), &expected, 2e-5 * largest);
    if figure.ratio == 2 {
        assert!(figure.weights[0].iter().any(|w| (w - 0.5).abs() > 0.01), "all channels mix evenly");
    }
}

/// A page reads camelCase keys and a `block`.
#[test]
fn json_keys() {
    for (code, keys) in [
        ("1A", &["picture", "row", "lengths"][..]),
        ("1B", &["layer", "blocked", "steps", "rows", "gates"]),
        ("2A", &["layer", "before", "after", "attn", "ffn"]),
        ("3A", &["positions", "tail", "decoder", "first", "read", "write", "released", "byLayer"]),
        ("3B", &["layer", "source", "role", "ratio", "entry", "tokens", "weights", "values", "pooled"]),
    ] {
        let figure =
            LONG.lock().unwrap_or_else(PoisonError::into_inner).last().map(|run| chapter(run, code)).unwrap().figure;
        let json = serde_json::to_value(figure).unwrap();
        let found: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(found, [&["block"], keys].concat());
        assert_eq!(json["block"], code);
        if code == "2A" {
            let keys: Vec<_> = json["attn"].as_object().unwrap().keys().collect();
            assert_eq!(keys, ["pre", "post", "comb", "sinkhorn", "rowError"]);
        }
    }
}
