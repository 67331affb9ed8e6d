//! 1A: where the rows come from.

mod thumb;

use super::{begin, same};
use crate::blocks::tap::Tap;
use crate::config::VisionConfig;
use crate::image::TokenType;
use crate::lab::again;
use crate::lab::content::{Badge, Cell, Chapter, Check, Table, Tensor, Text};
use crate::lab::figure::{Figure, InputFigure, PictureFigure};
use crate::lab::labels;
use crate::lab::prompt::Seen;
use crate::lab::run::Run;
use crate::text::base64;

const LOOK_FOR: Text = Text::new(
    "Chữ và ảnh rốt cuộc đều thành những hàng số có cùng độ rộng; từ đây trở đi mô hình không cần biết hàng nào đến từ đâu.",
    "Text and picture both end up as rows of the same width; from here on the model need not know which row came from where.",
);
const HAPPENS: Text = Text::new(
    "Mỗi token chữ lấy một hàng của bảng nhúng E. Ảnh được cắt thành patch (mảnh) 14 × 14 điểm ảnh, đi qua ViT, rồi aligner gộp \
     mỗi ô 3 × 3 patch thành một hàng. START, NEW_LINE và END là ba hàng học được, đánh dấu đầu ảnh, cuối mỗi hàng ô và cuối ảnh.",
    "Each text token takes one row of the embedding table E. A picture is cut into patches of 14 x 14 pixels, passes the ViT, and \
     the aligner folds every 3 x 3 patches into one row. START, NEW_LINE and END are three learned rows that mark where the picture \
     begins, where each row of cells ends, and where the picture ends.",
);
const FORMULA: &[Text] = &[
    Text::new(
        "x_p = E[id_p]                                                  chữ",
        "x_p = E[id_p]                                                  text",
    ),
    Text::both("x_p = W₂ gelu(W₁ unfold₃ₓ₃(ViT(patches)) + b₁) + b₂            IMAGE"),
    Text::new(
        "ảnh = START, hàng × (cột × IMAGE, NEW_LINE), END",
        "picture = START, rows × (cols × IMAGE, NEW_LINE), END",
    ),
];

/// The chapter.
pub(super) fn chapter(run: &Run) -> Chapter {
    let config = run.config();
    let mut chapter = begin(LOOK_FOR, HAPPENS, FORMULA);
    let n = run.n();
    chapter.inputs.push(Tensor::new("ids", &[n], Text::new("mã token", "token ids")));
    if let (Some(picture), Some(vision)) = (&run.picture, &config.vision) {
        let shape = [picture.plan.patch_rows * picture.plan.patch_cols, 3 * vision.patch_size.pow(2)];
        chapter.inputs.push(Tensor::new("patches", &shape, Text::new("điểm ảnh, từ -1 đến 1", "pixels, -1 to 1")));
        chapter.tables.push(picture_table(picture));
        if picture.generated {
            chapter.notes.push(Text::new(
                "Ảnh này do lab tự vẽ (dải màu và một hình tròn); bạn có thể đưa ảnh của mình vào.",
                "The lab drew this picture itself (a colour ramp with a disc); a picture of your own may take its place.",
            ));
        }
    } else {
        chapter.notes.push(Text::new("Lần chạy này không có ảnh.", "There is no picture in this run."));
    }
    chapter.notes.push(Text::new(
        "Khối này đứng trước lớp 0: số ở đây không phụ thuộc vào lớp đang chọn.",
        "This block stands in front of layer 0: its numbers do not depend on the chosen layer.",
    ));
    let about = Text::new("các hàng đi vào mô hình", "the rows that enter the model");
    chapter.outputs.push(Tensor::new(Tap::Embedding.name(), &[n, config.dim], about));
    chapter.tables.push(strip(run));
    chapter.checks.push(text_rows(run));
    if let Some(picture) = &run.picture {
        chapter.checks.push(layout(run, picture));
        chapter.checks.extend(picture_rows(run, picture));
    }
    chapter.figure = Some(Figure::Input(figure(run)));
    chapter
}

fn figure(run: &Run) -> InputFigure {
    let row = |p: usize| run.seen.row(Tap::Embedding, 0, p);
    let picture = run.picture.as_ref().zip(run.config().vision.as_ref());
    InputFigure {
        picture: picture.map(|(picture, vision)| picture_figure(run, picture, vision)),
        row: row(run.at).to_vec(),
        lengths: (0..run.n()).map(|p| again::norm(row(p)) as f32).collect(),
    }
}

fn picture_figure(run: &Run, picture: &Seen, vision: &VisionConfig) -> PictureFigure {
    let (plan, small) = (&picture.plan, thumb::thumb(&picture.fitted));
    PictureFigure {
        generated: picture.generated,
        given: [picture.size.0, picture.size.1],
        fitted: [picture.fitted.width, picture.fitted.height],
        patch: vision.patch_size,
        merge: vision.downsample_ratio,
        patches: [plan.patch_cols, plan.patch_rows],
        cells: [plan.token_cols, plan.token_rows],
        start: run.prompt.types.iter().take_while(|&&t| t != TokenType::Start).count(),
        thumb: [small.width, small.height],
        rgb: base64::encode(&small.data),
    }
}

fn picture_table(picture: &Seen) -> Table {
    let plan = &picture.plan;
    let columns = vec![
        Text::new("ảnh", "picture"),
        Text::new("khung ảnh", "canvas"),
        Text::new("lưới patch", "patches"),
        Text::new("lưới ô", "cells"),
        Text::new("vị trí trong prompt", "positions in the prompt"),
    ];
    let title = Text::new("Ảnh được chia thế nào (rộng × cao)", "How the picture is cut (width x height)");
    let mut table = Table::new(title, Badge::CpuReference, columns);
    let size = |width: usize, height: usize| Cell::from(format!("{width} × {height}"));
    table.push(vec![
        size(picture.size.0, picture.size.1),
        size(plan.canvas_width, plan.canvas_height),
        size(plan.patch_cols, plan.patch_rows),
        size(plan.token_cols, plan.token_rows),
        plan.tokens.into(),
    ]);
    table
}

/// The beginning of the prompt and the positions up to the followed one.
fn strip(run: &Run) -> Table {
    let mut columns =
        vec![Text::new("vị trí", "position"), Text::same("id"), Text::same("token"), Text::new("độ dài", "length")];
    columns.extend(same(&["x[0]", "x[1]", "x[2]", "x[3]"]));
    let title = Text::new("Các hàng, đến token đang theo", "Rows, up to the followed token");
    let mut table = Table::new(title, run.badge(), columns);
    let shown: Vec<usize> = (0..run.n()).filter(|&p| p < 7 || p + 6 > run.at).collect();
    let mut before = 0;
    for p in shown {
        if p > before + 1 {
            table.push(vec![Cell::from("…")]);
        }
        before = p;
        let label = labels::position(run, p);
        let row = run.seen.row(Tap::Embedding, 0, p);
        let mut cells: Vec<Cell> = vec![p.into(), u64::from(label.id).into(), label.label.into()];
        cells.push(again::norm(row).into());
        cells.extend(row.iter().take(4).map(|&v| Cell::from(v)));
        table.push(cells);
    }
    table
}

fn text_rows(run: &Run) -> Check {
    let text: Vec<usize> = (0..run.n()).filter(|&p| !run.prompt.types[p].is_image()).collect();
    let same = |&p: &usize| {
        let (stored, row) = (&run.table_rows[p], run.seen.row(Tap::Embedding, 0, p));
        // bf16 is the upper half of an f32.
        let bits: Vec<u32> = match stored.len() / row.len().max(1) {
            2 => stored.chunks_exact(2).map(|b| u32::from_le_bytes([0, 0, b[0], b[1]])).collect(),
            _ => stored.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        };
        row.iter().map(|v| v.to_bits()).eq(bits)
    };
    let wrong = text.iter().filter(|p| !same(p)).count();
    let what = Text::new(
        "Hàng của mỗi token chữ trùng từng bit với hàng của bảng nhúng trong tệp",
        "Each text token's row equals its row of the embedding table in the file, bit for bit",
    );
    Check::none_wrong(what, wrong, text.len())
}

/// START, IMAGE and NEW_LINE row by row, END, counted from the picture's size in patches.
fn layout(run: &Run, picture: &Seen) -> Check {
    let ratio = run.config().vision.as_ref().map_or(1, |vision| vision.downsample_ratio);
    let (rows, cols) = (picture.plan.patch_rows.div_ceil(ratio), picture.plan.patch_cols.div_ceil(ratio));
    let mut expected = vec![TokenType::Start];
    for _ in 0..rows {
        expected.extend((0..cols).map(|_| TokenType::Image).chain([TokenType::NewLine]));
    }
    expected.push(TokenType::End);
    let found: Vec<TokenType> = run.prompt.types.iter().copied().filter(|t| t.is_image()).collect();
    let what = Text::new(
        "Số vị trí của ảnh = START + hàng × (cột + 1) + END, và đúng thứ tự",
        "Positions of the picture = START + rows × (cols + 1) + END, and in that order",
    );
    let sum = 1 + rows * (cols + 1) + 1;
    let numbers = format!("1 + {rows} × ({cols} + 1) + 1 = {sum}, {} ", found.len());
    let numbers = Text::of(format!("{numbers}trong prompt"), format!("{numbers}in the prompt"));
    Check::new(what, found == expected && found.len() == sum, numbers)
}

/// Each position of the picture holds its mark or its aligner row.
fn picture_rows(run: &Run, picture: &Seen) -> Option<Check> {
    let mut cells = picture.rows.chunks_exact(run.config().dim);
    let (mut wrong, mut count) = (0, 0);
    for p in (0..run.n()).filter(|&p| run.prompt.types[p].is_image()) {
        let marks = run.model.input.image_marks.as_ref();
        let expected = match run.prompt.types[p] {
            TokenType::Start => marks.map(|marks| &marks[0][..]),
            TokenType::NewLine => marks.map(|marks| &marks[1][..]),
            TokenType::End => marks.map(|marks| &marks[2][..]),
            _ => cells.next(),
        };
        count += 1;
        wrong += usize::from(expected != Some(run.seen.row(Tap::Embedding, 0, p)));
    }
    let what = Text::new(
        "Mỗi vị trí của ảnh mang đúng hàng đánh dấu, hoặc hàng của aligner theo thứ tự đọc",
        "Each position of the picture holds its mark, or the aligner's rows in reading order",
    );
    // Behind a followed token that stands before the picture there is nothing to look at.
    (count > 0).then(|| Check::none_wrong(what, wrong, count))
}
