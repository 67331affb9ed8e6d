//! 3A: which layer runs for which token.

mod parameters;

use super::b4a_latent_attention::attended_again;
use super::begin;
use crate::blocks::b3a_encoder_decoder::{active_parameters, layer_parameters, schedule};
use crate::blocks::tap::Tap;
use crate::config::{Config, Role};
use crate::lab::again::{SAME, worse};
use crate::lab::content::{Badge, Cell, Chapter, Check, Table, Tensor, Text};
use crate::lab::figure::{Figure, ScheduleFigure};
use crate::lab::judging::span;
use crate::lab::run::Run;

const LOOK_FOR: Text = Text::new(
    "Khi đọc prompt (prefill), đa số token chỉ đi qua nửa đầu của mạng; khi sinh từng token (decode), token mới đi qua mọi lớp.",
    "While a prompt is read (prefill), most tokens pass only the first half of the network; when a token is written (decode), it \
     passes every layer.",
);
const HAPPENS: Text = Text::new(
    "Nửa đầu là encoder (bộ mã hoá), nửa sau là decoder (bộ giải mã), cả hai đều nhân quả: không token nào nhìn về phía sau nó. Chỉ các \
     lớp nguồn ghi KV toàn cục, và mọi lớp decoder đọc cùng một bản do lớp nguồn cuối ghi. Vì vậy prompt chỉ cần encoder và phép chiếu KV \
     ấy; decoder chỉ phải chạy cho đoạn đuôi mà cửa sổ của các bước decode sẽ nhìn tới. Full: tự nén và tự chọn; Reindex: đọc KV của lớp \
     khác nhưng tự chọn; Reuse: dùng lại cả KV lẫn danh sách đã chọn.",
    "The first half is the encoder, the second the decoder, both causal: no token looks ahead. Only the source layers write global KV, \
     and all decoder layers read the one copy that the last source wrote. So a prompt needs the encoder and that KV projection; the decoder \
     runs only for the tail into which the windows of later steps will look. Full: compresses and selects by itself; Reindex: reads another \
     layer's KV but selects by itself; Reuse: takes over both the KV and the selection.",
);
const FORMULA: &[Text] = &[
    Text::new(
        "prefill : encoder(cả n token) → KV của lớp nguồn cuối → decoder(chỉ đoạn đuôi)",
        "prefill : encoder(all n tokens) → KV of the last source → decoder(last tail tokens only)",
    ),
    Text::new(
        "decode  : encoder(1 token) → KV của lớp nguồn cuối → decoder(1 token)",
        "decode  : encoder(1 token) → KV of the last source → decoder(1 token)",
    ),
];

/// The chapter.
pub(super) fn chapter(run: &Run) -> Chapter {
    let (config, layer) = (run.config(), run.layer);
    let mut chapter = begin(LOOK_FOR, HAPPENS, FORMULA);
    let rows = run.tail_rows.indices(Tap::Rows, layer).len();
    chapter.inputs.push(Tensor::new(
        Tap::Streams.name(),
        &[rows, config.hc_mult, config.dim],
        Text::of(
            format!("bốn luồng vào lớp {layer} khi prefill có đuôi"),
            format!("the streams that enter layer {layer} in a prefill with a tail"),
        ),
    ));
    chapter.outputs.push(Tensor::new(
        Tap::Rows.name(),
        &[rows],
        Text::of(
            format!("các vị trí chạy qua lớp {layer} khi đó"),
            format!("the positions that run through layer {layer} then"),
        ),
    ));
    chapter.tables.push(chosen(run));
    chapter.tables.push(ruler(run));
    chapter.tables.push(parameters::table(run));
    chapter.tables.push(ran(run));
    chapter.notes.extend(source_note(run));
    chapter.notes.push(tail_note(run));
    chapter.notes.push(Text::new(
        "Số 8 tỷ khi prefill đến từ việc chỉ nửa số lớp phải chạy, không phải từ tỷ lệ nén 2.",
        "The 8 billion of prefill come from running half of the layers, not from the compression ratio of 2.",
    ));
    chapter.checks.push(roles(run));
    chapter.checks.push(one_plane(run));
    chapter.checks.push(parameters::counted(run));
    chapter.checks.extend(tail_checks(run));
    chapter.checks.push(decode_rows(run));
    chapter.figure = Some(Figure::Schedule(figure(run)));
    chapter
}

/// The first layer of the decoder: the last that writes global KV. A model without one has no decoder.
fn split(config: &Config) -> usize {
    config.last_kv_source().unwrap_or(config.n_layers)
}

fn figure(run: &Run) -> ScheduleFigure {
    let (config, positions) = (run.config(), run.prompt.len());
    let (here, release) = (active_parameters(config), active_parameters(&Config::flash()));
    let first = |layer| run.tail_rows.indices(Tap::Rows, layer).first().map_or(positions, |&p| p as usize);
    ScheduleFigure {
        positions,
        tail: run.tail,
        decoder: split(config),
        first: (0..config.n_layers).map(first).collect(),
        read: here.prefill,
        write: here.decode,
        released: [release.prefill, release.decode],
        by_layer: (0..config.n_layers).map(|layer| layer_parameters(config, layer)).collect(),
    }
}

/// The chosen layer, and whether the followed token met it.
fn chosen(run: &Run) -> Table {
    let (config, layer) = (run.config(), run.layer);
    let columns = vec![
        Text::new("nửa", "half"),
        Text::new("vai trò", "role"),
        Text::new("tỷ lệ", "ratio"),
        Text::new("đọc KV của", "reads KV of"),
        Text::new("danh sách của", "selection of"),
        Text::new("token, prefill", "token, prefill"),
        Text::new("tham số hoạt động", "active parameters"),
    ];
    let title = Text::of(format!("Lớp đang chọn: {layer}"), format!("The chosen layer: {layer}"));
    let mut table = Table::new(title, Badge::Config, columns);
    let source = |source: Option<usize>| source.map_or(Cell::Empty, Cell::from);
    let ran = run.tail_rows.indices(Tap::Rows, layer).contains(&(run.at as i64));
    table.push(vec![
        if layer < split(config) { "encoder" } else { "decoder" }.into(),
        config.role(layer).name().into(),
        config.ratio(layer).into(),
        source(config.kv_source(layer)),
        source(config.index_source(layer)),
        if ran { Text::new("có chạy", "runs") } else { Text::new("không chạy", "does not run") }.into(),
        layer_parameters(config, layer).into(),
    ]);
    table
}

/// The one layer of which a part runs for every position.
fn source_note(run: &Run) -> Option<Text> {
    let layer = split(run.config());
    (run.layer == layer).then(|| {
        Text::of(
            format!("Lớp {layer} chiếu KV của mọi vị trí, nhưng attention và chuyên gia của nó chỉ chạy cho đuôi."),
            format!(
                "Layer {layer} projects KV for every position, but its attention and experts run for the tail only."
            ),
        )
    })
}

/// How long the tail is, and what that means.
fn tail_note(run: &Run) -> Text {
    let (n, tail, window, exact) = (run.prompt.len(), run.tail, run.config().window_size, run.config().exact_tail());
    if tail == window {
        return Text::of(
            format!(
                "Đuôi ở đây là {tail} token cuối trong {n}: một cửa sổ, như khi phục vụ thật. Đó là xấp xỉ; chính xác tuyệt đối cần {exact}."
            ),
            format!(
                "The tail here is the last {tail} of {n} tokens: one window, as in production. That is an approximation; {exact} would be exact."
            ),
        );
    }
    Text::of(
        format!(
            "Prompt {n} token không dài hơn cửa sổ {window}, nên đuôi thật sẽ là cả prompt; ở đây lấy {tail} token cuối để thấy sự khác nhau."
        ),
        format!(
            "The prompt of {n} tokens is no longer than the window of {window}, so a real tail would be all of it; the last {tail} are taken here to show the difference."
        ),
    )
}

/// Which layers ran for which positions, pass by pass; layers with the same positions in one row.
fn ran(run: &Run) -> Table {
    let columns = vec![
        Text::new("lượt", "pass"),
        Text::new("lớp", "layers"),
        Text::new("vị trí", "positions"),
        Text::new("số vị trí", "how many"),
    ];
    let title = Text::new("Lớp nào đã chạy cho vị trí nào", "Which layers ran for which positions");
    let mut table = Table::new(title, Badge::CpuReference, columns);
    for (name, rows) in [
        (Text::new("prefill đủ, tới token đang theo", "whole prefill, to the followed token"), &run.seen),
        (Text::new("prefill có đuôi", "prefill with a tail"), &run.tail_rows),
        (Text::new("decode một token", "decoding a token"), &run.decoded),
        (Text::new("kiểm bản nháp", "judging the draft"), &run.judged_rows),
    ] {
        let positions = |layer| rows.indices(Tap::Rows, layer);
        let mut first = 0;
        for layer in 1..=run.config().n_layers {
            if layer < run.config().n_layers && positions(layer) == positions(first) {
                continue;
            }
            if let (Some(&from), Some(&to)) = (positions(first).first(), positions(first).last()) {
                let (layers, held) = (span(first..layer), span(from as usize..to as usize + 1));
                table.push(vec![name.clone().into(), layers.into(), held.into(), positions(first).len().into()]);
            }
            first = layer;
        }
    }
    table
}

/// Layers in groups of the same kind.
fn ruler(run: &Run) -> Table {
    let config = run.config();
    let columns = vec![
        Text::new("lớp", "layers"),
        Text::new("nửa", "half"),
        Text::new("tỷ lệ", "ratio"),
        Text::new("vai trò", "role"),
        Text::new("đọc KV của", "reads KV of"),
        Text::new("danh sách của", "selection of"),
        Text::new("thêm", "also"),
        Text::new("prefill chạy", "prefill runs"),
        Text::new("decode chạy", "decode runs"),
    ];
    let mut table = Table::new(Text::new("Thước lớp", "Layer ruler"), Badge::Config, columns);
    let rows = schedule(config);
    let extra = |layer: usize| match (
        config.engram_layer_ids.contains(&layer),
        config.dspark_target_layer_ids.contains(&layer),
    ) {
        (true, _) => "Engram",
        (_, true) => "DSpark",
        _ => "",
    };
    let kind = |layer: usize| {
        (rows[layer].ratio, rows[layer].role, rows[layer].kv_source, rows[layer].index_source, extra(layer))
    };
    let mut first = 0;
    for layer in 0..rows.len() {
        if layer + 1 < rows.len() && kind(layer) == kind(layer + 1) {
            continue;
        }
        let row = rows[first];
        let span = if first == layer { layer.to_string() } else { format!("{first}–{layer}") };
        let source = |source: Option<usize>| source.map_or(Cell::Empty, Cell::from);
        table.push(vec![
            span.into(),
            if row.decoder { "decoder" } else { "encoder" }.into(),
            row.ratio.into(),
            row.role.name().into(),
            source(row.kv_source),
            source(row.index_source),
            extra(layer).into(),
            run.tail_rows.indices(Tap::Rows, first).len().into(),
            run.decoded.indices(Tap::Rows, first).len().into(),
        ]);
        first = layer + 1;
    }
    table
}

/// Every role brings its tensors, and only those.
fn roles(run: &Run) -> Check {
    let config = run.config();
    let (mut wrong, mut count) = (0, 0);
    for layer in 0..config.n_layers {
        let role = config.role(layer);
        for (tensor, needed) in [
            ("attn.compressor.wkv.weight", role == Role::Full),
            ("attn.compressor.wgate.weight", role == Role::Full && config.ratio(layer) == 2),
            ("attn.indexer.wk.weight", role == Role::Full),
            ("attn.indexer.wq_b.weight", matches!(role, Role::Full | Role::Reindex)),
            ("engram.wkv.weight", config.engram_layer_ids.contains(&layer)),
        ] {
            wrong += usize::from(run.checkpoint.contains(&format!("layers.{layer}.{tensor}")) != needed);
            count += 1;
        }
    }
    let what = Text::new(
        "Vai trò theo cấu hình khớp với các tensor có trong tệp trọng số",
        "Roles by config agree with the tensors that the checkpoint has",
    );
    Check::none_wrong(what, wrong, count)
}

/// All decoder layers attended to rows of one plane: their heads come out again from it.
fn one_plane(run: &Run) -> Check {
    let (config, source) = (run.config(), split(run.config()));
    let planes = (source + 1..config.n_layers).filter(|&layer| run.state.sources[layer].is_some()).count();
    let error = (source..config.n_layers).map(|layer| attended_again(run, layer, source)).fold(0.0, worse);
    let last = config.n_layers - 1;
    let what = Text::of(
        format!("Các lớp {source} đến {last} đọc cùng một bản KV của lớp {source} và không giữ bản nào khác"),
        format!("Layers {source} to {last} read one KV plane, that of layer {source}, and keep no other"),
    );
    let numbers = Text::of(
        format!("{planes} bản khác; đầu ra attention tính lại từ bản này lệch nhiều nhất {error:.1e}"),
        format!("{planes} other planes; attention computed again from this one is off by {error:.1e} at most"),
    );
    Check::new(what, planes == 0 && error <= SAME, numbers)
}

fn tail_checks(run: &Run) -> [Check; 2] {
    let (config, n) = (run.config(), run.prompt.len());
    let positions = |from: usize| (from as i64..n as i64).collect::<Vec<_>>();
    let expected = |layer: usize| if layer < split(config) { positions(0) } else { positions(n - run.tail) };
    let wrong =
        (0..config.n_layers).filter(|&layer| run.tail_rows.indices(Tap::Rows, layer) != expected(layer)).count();
    let ran = Text::new(
        "Với đuôi, encoder chạy cho mọi vị trí và decoder chỉ cho phần đuôi",
        "With a tail the encoder ran for every position and the decoder for the tail only",
    );
    let numbers = Text::of(
        format!("encoder {n} vị trí, decoder {}; sai {wrong} lớp trong {}", run.tail, config.n_layers),
        format!("encoder {n} positions, decoder {}; {wrong} layers wrong of {}", run.tail, config.n_layers),
    );
    let differing =
        (0..config.n_layers).filter(|&layer| run.state_tail.sources[layer] != run.state.sources[layer]).count();
    let bytes = run.state_tail.kv_bytes();
    let same = Text::new(
        "KV toàn cục của lần chạy có đuôi trùng từng bit với lần chạy đủ mọi lớp",
        "Global KV of the run with a tail equals that of the run through all layers, bit for bit",
    );
    let kv = Text::of(
        format!("{bytes} byte, {differing} lớp nguồn khác nhau"),
        format!("{bytes} bytes, {differing} sources differ"),
    );
    [Check::new(ran, wrong == 0, numbers), Check::new(same, differing == 0 && bytes == run.state.kv_bytes(), kv)]
}

fn decode_rows(run: &Run) -> Check {
    let (layers, position) = (run.config().n_layers, run.prompt.len() as i64);
    let wrong = (0..layers).filter(|&layer| run.decoded.indices(Tap::Rows, layer) != [position]).count();
    let what = Text::new(
        "Token decode đi qua mỗi lớp đúng một lần, ở vị trí ngay sau prompt",
        "The decoded token passed every layer once, at the position behind the prompt",
    );
    Check::none_wrong(what, wrong, layers)
}
