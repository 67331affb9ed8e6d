//! The figures of chapters 3C, 4A, 6A, 5A and 6B, for every layer; the recorded run; FP4 caches against f32.

use flash890::blocks::b3a_encoder_decoder::DecoderTail;
use flash890::blocks::context::Context;
use flash890::blocks::tap::{Silent, Tap};
use flash890::config::Role;
use flash890::lab::chapters::chapter;
use flash890::lab::content::Cell;
use flash890::lab::figure::{
    AttentionFigure, CacheFigure, EntryBytes, ExpertsFigure, Figure, HeadFigure, WindowFigure,
};
use flash890::lab::lang::Lang;
use flash890::lab::page::compare_kv;
use flash890::lab::prompt::{Picture, Request};
use flash890::lab::recorded::record;
use flash890::lab::run::Run;
use flash890::lab::terminal::{Style, WIDTH, render};
use flash890::lab::{SENTENCE, SHORT_SENTENCE, report};
use flash890::model::Prefill;
use flash890::numerics::ops::{argmax, nmse};
use flash890::numerics::precision::Precision;
use flash890::numerics::{e2m1, e4m3, e8m0, rope};
use flash890::weights::{Checkpoint, tiny};
use pollster::block_on;
use std::sync::{Arc, LazyLock};
use unicode_width::UnicodeWidthStr;

static LAB: LazyLock<Arc<Checkpoint>> = LazyLock::new(|| Arc::new(block_on(tiny::lab()).unwrap()));

fn run(text: &str, picture: Picture, token: Option<usize>) -> Run {
    block_on(Run::new(LAB.clone(), Request { text: text.into(), picture, token })).unwrap()
}

/// The figure of a chapter, whose checks must all hold.
fn figure(run: &Run, code: &str) -> Figure {
    let chapter = chapter(run, code).unwrap();
    let failed: Vec<_> = chapter.checks.iter().filter(|check| !check.passed).collect();
    assert!(failed.is_empty(), "{code} in layer {}: {failed:#?}", run.layer);
    for table in &chapter.tables {
        assert!(!table.rows.is_empty(), "{code} in layer {}: an empty table", run.layer);
    }
    for lang in Lang::ALL {
        let text = render(&report(run, Some(code)), Style { lang, colour: false });
        assert!(text.lines().all(|line| line.width() <= WIDTH), "{text}");
    }
    chapter.figure.unwrap()
}

/// Looks at every layer of a run.
fn every_layer(mut run: Run) {
    for layer in 0..run.config().n_layers {
        run.look_at(layer).unwrap();
        match figure(&run, "3C") {
            Figure::Window(figure) => window(&run, &figure),
            other => panic!("{other:?}"),
        }
        match figure(&run, "4A") {
            Figure::Attention(figure) => attention(&run, &figure),
            other => panic!("{other:?}"),
        }
        match figure(&run, "6A") {
            Figure::Cache(figure) => cache(&run, &figure),
            other => panic!("{other:?}"),
        }
        match figure(&run, "5A") {
            Figure::Experts(figure) => experts(&run, &figure),
            other => panic!("{other:?}"),
        }
    }
    assert!(run.look_at(run.config().n_layers).is_err_and(|error| error.to_string().contains("layers 0 to 39")));
    match figure(&run, "6B") {
        Figure::Head(figure) => head(&run, &figure),
        other => panic!("{other:?}"),
    }
}

/// The best `k` by score, ascending; of equals the lower place first.
fn best(scores: impl Iterator<Item = (usize, f32)>, k: usize) -> Vec<usize> {
    let mut order: Vec<_> = scores.collect();
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut chosen: Vec<usize> = order.into_iter().take(k).map(|(place, _)| place).collect();
    chosen.sort_unstable();
    chosen
}

fn window(run: &Run, figure: &WindowFigure) {
    let (config, n) = (run.config(), run.at + 1);
    assert_eq!((figure.layer, figure.slots.len()), (run.layer, config.window_size));
    assert_eq!(figure.slots[figure.head], Some(run.at));
    let mut held: Vec<usize> = figure.slots.iter().flatten().copied().collect();
    held.sort_unstable();
    assert_eq!(held, (n.saturating_sub(config.window_size)..n).collect::<Vec<_>>());
    for (slot, position) in figure.slots.iter().enumerate() {
        assert!(position.is_none_or(|p| p % config.window_size == slot));
    }

    assert_eq!(figure.index_source.is_none(), config.role(run.layer) == Role::Window);
    let Some(source) = figure.index_source else {
        assert!(figure.scores.is_empty() && figure.chosen.is_empty() && figure.blocks.is_empty() && figure.ratio == 0);
        return;
    };
    assert_eq!(figure.scores.len(), n / figure.ratio);
    let scored = || figure.scores.iter().enumerate().filter_map(|(entry, score)| Some((entry, (*score)?)));
    assert_eq!(figure.chosen, best(scored(), figure.top_k), "layer {}", run.layer);
    assert_eq!(figure.blocks.is_empty(), source < config.candidate_source_layer || figure.scores.is_empty());
    let inside = |entry: usize| figure.blocks.contains(&(entry / figure.block_size));
    for (entry, score) in figure.scores.iter().enumerate() {
        // Behind the candidate source the pool limits what is scored; everywhere else every visible entry is.
        assert_eq!(score.is_some(), source <= config.candidate_source_layer || inside(entry));
    }
    assert!(source <= config.candidate_source_layer || figure.chosen.iter().all(|&entry| inside(entry)));
    let newest = figure.scores.len().checked_sub(1).filter(|_| !figure.blocks.is_empty());
    assert!(newest.is_none_or(inside), "the newest block is always kept");
    assert!(figure.blocks.is_sorted() && figure.blocks.len() <= config.candidate_topk_blocks);
}

fn attention(run: &Run, figure: &AttentionFigure) {
    let (config, rows) = (run.config(), figure.window.len() + figure.entries.len());
    assert_eq!(figure.window.last(), Some(&run.at));
    assert_eq!((figure.ratio, figure.groups), (config.ratio(run.layer), config.o_groups));
    assert_eq!(figure.weights.len(), config.n_heads);
    for weights in &figure.weights {
        assert_eq!(weights.len(), rows + 1);
        let sum: f64 = weights.iter().map(|&w| f64::from(w)).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{sum}");
    }
    let angles = run.model.context.rope(run.layer).angles(run.at);
    assert_eq!((figure.tail_before.len(), figure.tail_after.len()), (config.n_heads, config.n_heads));
    for (before, after) in figure.tail_before.iter().zip(&figure.tail_after) {
        let mut back = before.clone();
        rope::rotate_back(&mut back, &angles);
        assert_eq!(&back, after);
        assert_eq!(before == after, run.at == 0, "a rotation that changes nothing");
    }
}

fn cache(run: &Run, figure: &CacheFigure) {
    let config = run.config();
    let source = config.kv_source(run.layer).unwrap_or(2);
    assert_eq!((figure.layer, figure.tokens), (source, run.prompt.len()));
    assert_eq!(figure.ledger.iter().map(|line| line.layer).collect::<Vec<_>>(), config.kv_source_layers);
    let bytes: usize = figure.ledger.iter().flat_map(|line| line.parts).sum();
    assert_eq!((bytes, bytes), (figure.bytes, run.state.kv_bytes()));
    assert_eq!(figure.bytes, 890 * (figure.tokens - figure.tokens % 2) + figure.tokens % 2 * 356);
    assert_eq!((figure.ledger.iter().map(|line| line.per_token).sum::<f64>(), figure.per_token), (890.0, 890.0));
    assert!(figure.ledger.iter().all(|line| line.entries == figure.tokens / line.ratio));
    assert_eq!((figure.rings, figure.open > 0), (run.state.ring_bytes(), figure.tokens % 2 == 1));
    let entries = (run.at + 1) / config.ratio(source);
    assert_eq!(figure.entry.as_ref().map(|entry| entry.index), entries.checked_sub(1));
    if let Some(entry) = &figure.entry {
        entry_bytes(run, source, entry);
    }
}

/// The code of element `i`: low nibble first.
fn code(codes: &[u8], i: usize) -> f32 {
    e2m1::decode(codes[i / 2] >> (4 * (i % 2)) & 15)
}

fn entry_bytes(run: &Run, source: usize, entry: &EntryBytes) {
    let config = run.config();
    let (width, key) = (config.head_dim, config.index_head_dim);
    let sizes = [entry.codes.len(), entry.scales.len(), entry.key_codes.len(), entry.key_scales.len()];
    assert_eq!(sizes, [width / 2, width / 16, key / 2, key / 32]);
    let stored: Vec<f32> = (0..width).map(|i| code(&entry.codes, i) * e4m3::decode(entry.scales[i / 16])).collect();
    assert_eq!(stored, entry.stored);
    let keys: Vec<f32> = (0..key).map(|i| code(&entry.key_codes, i) * e8m0::decode(entry.key_scales[i / 32])).collect();
    assert_eq!(keys, run.seen.row(Tap::IndexKeys, source, entry.index));
    let error = nmse(&entry.stored, &entry.exact);
    assert!(error > 1e-4 && error < 2e-2, "FP4 loses something, but not much: {error}");
}

fn experts(run: &Run, figure: &ExpertsFigure) {
    let config = run.config();
    let weights = &run.model.layers[run.layer].layer.experts;
    assert_eq!(figure.picture, run.prompt.types[run.at].is_image());
    assert_eq!(figure.bias, if figure.picture { &weights.bias_vl[..] } else { &weights.bias[..] });
    let biased = figure.scores.iter().zip(&figure.bias).map(|(score, bias)| score + bias).enumerate();
    let mut chosen = figure.chosen.clone();
    chosen.sort_unstable();
    assert_eq!(chosen, best(biased, config.n_activated_experts));
    let sum: f32 = figure.chosen.iter().map(|&expert| figure.scores[expert]).sum();
    for (&expert, &weight) in figure.chosen.iter().zip(&figure.weights) {
        assert!((weight - config.route_scale * figure.scores[expert] / sum).abs() < 1e-5);
    }
    assert_eq!(figure.paths.len(), config.n_layers);
    assert_eq!(figure.paths[run.layer], figure.chosen);
}

/// The verdicts are what the main network says when it is fed one token after the other.
fn head(run: &Run, figure: &HeadFigure) {
    let logits = run.seen.row(Tap::Logits, 0, 0);
    assert_eq!((figure.top.len(), figure.top[0].id as usize), (10, argmax(logits)));
    assert!(figure.top.is_sorted_by(|a, b| a.logit >= b.logit && a.probability >= b.probability));
    let draft = figure.draft.as_ref().unwrap();
    assert_eq!((draft.anchor.id, draft.tokens.len()), (run.next, run.config().dspark_block_size));
    let mut state = run.state.clone();
    let (mut before, mut agreed, mut accepted) = (draft.anchor.id, true, 0);
    for (token, verdict) in draft.tokens.iter().zip(run.verdicts()) {
        let logits = block_on(run.model.decode(&mut state, before, &mut Silent)).unwrap();
        assert_eq!(argmax(&logits) as u32, verdict);
        assert_eq!((token.agrees, token.main.is_empty()), (token.id == verdict, false));
        assert!(token.confidence > 0.0 && token.confidence < 1.0);
        agreed &= token.agrees;
        accepted += usize::from(agreed);
        before = token.id;
    }
    assert_eq!(draft.accepted, accepted);
}

/// Long enough for the ring to be full, and for the indexer to leave entries and blocks out.
#[test]
fn text_alone_with_a_window_that_slid() {
    let text: String = SENTENCE.en.chars().take(230).collect();
    let run = run(&text, Picture::None, None);
    assert!((128..160).contains(&run.at), "{}", run.at);
    every_layer(run);
}

#[test]
fn text_behind_a_picture() {
    every_layer(run("One token passes ten blocks.", Picture::Generated, None));
}

/// A token inside the picture has the other bias; an odd length leaves a group open.
#[test]
fn inside_a_picture() {
    every_layer(run("a", Picture::Generated, Some(4)));
}

/// One token: no group of two is full, and layers that would read such entries have none.
#[test]
fn one_token() {
    let run = run("", Picture::None, None);
    assert_eq!(run.prompt.len(), 1);
    every_layer(run);
}

/// Untrained drafts are hardly ever accepted, so one is planted: what the main network says after the anchor.
#[test]
fn an_accepted_draft_token() {
    let mut run = run("a b", Picture::None, None);
    let verdict = run.verdicts()[0];
    run.draft.as_mut().unwrap().0.ids[0] = verdict;
    run.draft.as_mut().unwrap().0.ids[1] = run.verdicts()[1] ^ 1;
    assert_eq!(run.accepted(), 1);
    let Some(Figure::Head(figure)) = chapter(&run, "6B").unwrap().figure else { panic!("no figure") };
    let draft = figure.draft.unwrap();
    assert_eq!((draft.accepted, draft.tokens[0].agrees, draft.tokens[1].agrees), (1, true, false));
}

/// What 6B says of the rollback, from the lengths alone: `n` tokens of the prompt, a block of drafts, `accepted` of them kept.
fn rolled_back(run: &Run) {
    let (config, n) = (run.config(), run.prompt.len());
    let [judged, kept] = [n + 1 + config.dspark_block_size, n + 1 + run.accepted()];
    let ring = |n: usize| format!("{}–{}", n.saturating_sub(config.window_size), n - 1);
    let entries = |n: usize| {
        config.kv_source_layers.iter().map(|&l| (n / config.ratio(l)).to_string()).collect::<Vec<_>>().join(" + ")
    };
    let pairs = config.kv_source_layers.iter().filter(|&&layer| config.ratio(layer) == 2).count();
    let open = |n: usize| (n % 2 * pairs).to_string();
    let chapter = chapter(run, "6B").unwrap();
    let table = chapter.tables.last().unwrap();
    let cell = |row: usize, column: usize| match &table.rows[row][column] {
        Cell::Word(text) => text.vi.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!((table.rows.len(), run.rolled.len()), (7, 7));
    for (column, n) in [(1, n), (2, judged), (3, kept)] {
        let found: Vec<String> = (0..7).map(|row| cell(row, column)).collect();
        let expected = [ring(n), entries(n), entries(n), open(n), found[4].clone(), ring(n), n.to_string()];
        assert_eq!(found, expected, "column {column}, {} accepted", run.accepted());
    }
    // One token further along, the history has moved by one.
    let history = |row: &str| row.split(' ').map(str::to_string).collect::<Vec<_>>();
    let (before, after) = (history(&cell(4, 1)), history(&cell(4, 3)));
    let stay = (n + 1 + run.accepted()).min(after.len()).saturating_sub(1 + run.accepted());
    assert_eq!(before[before.len() - stay..], after[..stay], "{before:?} {after:?}");
    assert!(run.rolled.iter().all(|part| part.same) && chapter.checks.iter().all(|check| check.passed));
}

/// Odd and even lengths, a window that is not full and one that slides; then nano, whose drafts are right now and then.
#[test]
fn what_a_judged_draft_leaves() {
    for text in ["a b", "a bc", &SENTENCE.en[..230]] {
        let mut run = run(text, Picture::None, None);
        rolled_back(&run);
        run.rolled[3].same = false;
        let failed = chapter(&run, "6B").unwrap().checks.into_iter().filter(|check| !check.passed).count();
        assert_eq!(failed, 1, "a part that differs is said");
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/web/nano");
    let nano = Arc::new(block_on(Checkpoint::open_dir(folder)).unwrap());
    let mut accepted = Vec::new();
    for text in ["890 byte", "890 byte được cộng thế nào? 890 byte"] {
        let request = Request { text: text.into(), picture: Picture::None, token: None };
        let run = block_on(Run::new(nano.clone(), request)).unwrap();
        rolled_back(&run);
        accepted.push(run.accepted());
    }
    assert!(accepted.iter().any(|&count| count > 0), "{accepted:?}");
}

/// Which layers ran for which positions: pass by pass, as recorded.
#[test]
fn which_layers_ran() {
    let run = run("a bc", Picture::None, Some(1));
    let (n, split) = (run.prompt.len(), run.config().last_kv_source().unwrap());
    let chapter = chapter(&run, "3A").unwrap();
    let table = chapter.tables.last().unwrap();
    let word = |cell: &Cell| match cell {
        Cell::Word(text) => text.en.to_string(),
        Cell::Int(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    let rows: Vec<Vec<String>> = table.rows.iter().map(|row| row[1..].iter().map(word).collect()).collect();
    let layers = run.config().n_layers - 1;
    let block = run.config().dspark_block_size;
    assert_eq!(
        rows,
        [
            [format!("0–{layers}"), "0–1".into(), "2".into()],
            [format!("0–{}", split - 1), format!("0–{}", n - 1), n.to_string()],
            [format!("{split}–{layers}"), format!("{}–{}", n - run.tail, n - 1), run.tail.to_string()],
            [format!("0–{layers}"), n.to_string(), "1".into()],
            [format!("0–{layers}"), format!("{n}–{}", n + block), (block + 1).to_string()],
        ]
    );
}

#[test]
fn the_recorded_run() {
    let mut run = run(SHORT_SENTENCE.get(Default::default()), Picture::Generated, None);
    assert!(run.prompt.len() <= 24 && run.picture.is_some());
    let text = record(&mut run, "a sentence").unwrap().to_json().unwrap();
    assert!(text.len() < 1_500_000, "{} bytes", text.len());
    assert_eq!(run.layer, 20);
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((json["recorded"].as_bool(), json["tensors"].as_array().map(Vec::len)), (Some(true), Some(0)));
    let info = &json["info"];
    assert_eq!((info["backend"].as_str(), info["sentence"]["vi"].as_str()), (Some("recorded"), Some("a sentence")));
    for key in ["build", "adapter", "software", "reason", "limits", "tokenBytes", "model"] {
        assert!(!info[key].is_null(), "{key}");
    }
    let mark = &info["model"]["layers"][24];
    assert_eq!((mark["role"].as_str(), mark["side"].as_str()), (Some("reindex"), Some("decoder")));
    assert_eq!((mark["kvSource"].as_u64(), mark["indexSource"].as_u64()), (Some(20), Some(24)));
    let layers: Vec<_> = json["labs"].as_array().unwrap().iter().map(|lab| lab["layer"].as_u64().unwrap()).collect();
    assert_eq!(layers, [1, 2, 8, 14, 20, 24, 39]);
    for lab in json["labs"].as_array().unwrap() {
        assert_eq!((&lab["lab"]["layer"], &lab["lab"]["followed"]), (&lab["layer"], &lab["token"]));
        for chapter in lab["lab"]["chapters"].as_array().unwrap() {
            if ["3C", "4A", "6A", "5A", "6B"].contains(&chapter["code"].as_str().unwrap()) {
                assert_eq!(chapter["figure"]["block"], chapter["code"]);
            }
        }
    }
    let figure = &json["labs"][4]["lab"]["chapters"][7]["figure"];
    assert_eq!((figure["perToken"].as_f64(), figure["entry"]["keyCodes"].as_array().unwrap().len()), (Some(890.0), 64));
}

/// FP4 against f32, and f32 against FP4, say the same; and "before" is what a run with caches in f32 says.
#[test]
fn what_quantised_caches_change() {
    let request = || Request { text: "Four layers write.".into(), picture: Picture::None, token: None };
    let released = run(&request().text, Picture::None, None);
    let found = block_on(compare_kv(&released)).unwrap();
    let context = Context::new(&LAB.config, Precision::F32, Precision::F32);
    let exact = block_on(Run::with_context(LAB.clone(), context, request())).unwrap();
    assert_eq!(block_on(compare_kv(&exact)).unwrap(), found);
    let (before, after) = (argmax(&exact.logits), argmax(&released.logits));
    assert_eq!((found.before[0].id as usize, found.after[0].id as usize), (before, after));
    assert_eq!((found.argmax_same, found.before.len(), found.after.len()), (before == after, 5, 5));
    let differences = exact.logits.iter().zip(&released.logits).map(|(a, b)| f64::from((a - b).abs()));
    assert_eq!(found.max_logit, differences.fold(0.0, f64::max));
    assert_eq!(found.nmse, nmse(&released.logits, &exact.logits));
    assert!(found.nmse > 0.0 && found.max_logit > 0.0, "{found:?}");
    let how = Prefill { chunk: 1, tail: DecoderTail::All, all_logits: false };
    let again = block_on(released.model.prefill(&mut released.model.state(), &released.prompt, how, &mut Silent));
    assert_eq!(again.unwrap().logits, released.logits, "comparing leaves the run as it was");
    // Without quantisation there are no bytes to show.
    assert!(matches!(chapter(&exact, "6A").unwrap().figure, Some(Figure::Cache(CacheFigure { entry: None, .. }))));
}

#[test]
fn command_line() {
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_flash890"));
        let output = command.arg("lab").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, json, _) = run(&["--text", "a", "--no-image", "--layer", "30", "--block", "3c", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, json["layer"].as_u64()), (Some(0), Some(30)));
    assert_eq!(json["chapters"][0]["figure"]["indexSource"], 28);
    let (code, _, error) = run(&["--text", "a", "--no-image", "--layer", "40"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("layers 0 to 39"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recorded.json");
    let (_, _, notice) = run(&["--lang", "vi", "--record", path.to_str().unwrap()]);
    assert!(notice.contains("7 lớp"), "{notice}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(json["info"]["sentence"]["en"], SHORT_SENTENCE.vi.as_ref());
    let missing = folder.path().join("no/such/folder.json");
    let (code, _, error) = run(&["--record", missing.to_str().unwrap()]);
    assert!(code != Some(0) && error.contains("folder.json"), "{error}");
}
