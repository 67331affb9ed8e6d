//! What enters the streams: embedding rows, pictures, n-gram memory.

use super::support::*;
use flash890::blocks::b1a_input::{self as input, Prompt};
use flash890::blocks::b1b_engram as engram;
use flash890::blocks::context::Context;
use flash890::blocks::layer::Rows;
use flash890::config::Config;
use flash890::image::TokenType;
use flash890::kernels::input::{embed, engram_gate};
use flash890::numerics::linear::Matrix;
use flash890::numerics::precision::Precision;

/// Text and a picture with its marks. Exact: rows are copied.
#[test]
fn rows_of_text_and_pictures() {
    let (vocab, dim) = (50, 70);
    let config = Config { dim, hc_mult: 4, ..Config::flash() };
    let context = Context::new(&config, Precision::F32, Precision::F32);
    let table: Vec<u16> = integers("table", vocab * dim, 0x7f00).into_iter().map(|v| v as u16).collect();
    let marks = ["start", "line", "end"].map(|name| numbers(name, dim, 1.0));
    let picture = numbers("picture", 2 * dim, 1.0);
    let weights = input::Weights {
        embed: Matrix::bf16(vocab, dim, table.clone()).unwrap(),
        image_marks: Some(marks.clone()),
        vision: None,
    };
    use TokenType::{End, Image, NewLine, Start};
    let mut prompt = Prompt::text(vec![3, 49, 0]);
    prompt.push_image(7, &[Start, Image, Image, NewLine, End], &picture);
    prompt.push_text(&[48]);
    let n = prompt.len();
    let embedding = input::embed(&weights, &prompt, 0..n, 0).unwrap();
    let expected = Rows::enter(&context, &embedding, prompt.types.clone(), 0);

    let rows = [&marks[0][..], &picture, &marks[1], &marks[2]].concat();
    let images = [embed::TEXT, embed::TEXT, embed::TEXT, 0, 1, 2, 3, 4, embed::TEXT];
    let bytes: &[u8] = bytemuck::cast_slice(&table);
    let (ids, images, rows) = (u32s(&[n], &prompt.ids), u32s(&[n], &images), f32s(&[5, dim], &rows));
    let ids_of_capacity = u32s(&[n + 2], &[&read_u32(&ids)[..], &[0, 0]].concat());
    let images_of_capacity = u32s(&[n + 2], &[&read_u32(&images)[..], &[0, 0]].concat());
    // Whole, and in pieces of seven rows and of one.
    for most in [None, Some(7 * 2 * dim as u64), Some(1)] {
        let table = embed::Table::new(&in_pieces(most), "table", [vocab, dim], bytes).unwrap();
        let (streams, pre) = (output(&[n + 2, 4, dim]), output(&[n + 2, 4]));
        run(|planner| {
            let tensors = [&ids_of_capacity, &images_of_capacity, &rows, &streams, &pre];
            embed::record(planner, &table, tensors, &call(0, n, 0), n + 2)
        });
        assert_bits(&read(&streams)[..n * 4 * dim], &expected.streams);
        assert_bits(&read(&pre)[..n * 4], &expected.pre);
        assert!(read(&streams)[n * 4 * dim..].iter().all(|&v| v == UNWRITTEN));
    }
}

/// Gates of both signs, one next to zero, and a position inside a picture, whose gate is closed.
#[test]
fn memory_enters_through_gates() {
    for numerics in [Precision::F32, Precision::Released] {
        let (n, lanes, dim) = (4, 4, 37);
        let config = Config { dim, hc_mult: lanes, norm_eps: 1e-20, ..Config::flash() };
        let context = Context::new(&config, numerics, Precision::F32);
        // An identity in f32 puts the projected keys and values in without any rounding.
        let width = (lanes + 1) * dim;
        let mut identity = vec![0.0; width * width];
        (0..width).for_each(|i| identity[i * width + i] = 1.0);
        let weights = engram::Weights {
            wkv: Matrix::f32(width, width, identity).unwrap(),
            q_weight: numbers("q", lanes * dim, 1.0),
            k_weight: numbers("k", lanes * dim, 1.0),
        };
        let types = [TokenType::Text, TokenType::Image, TokenType::Text, TokenType::Text];
        let projected = numbers("projected", n * width, 3.0);
        let mut expected = numbers("streams", n * lanes * dim, 5.0);
        let streams = f32s(&[n, lanes, dim], &expected);
        let gates = engram::apply(&context, &weights, &mut expected, &projected, &types);
        assert!(gates[4..8] == [0.0; 4] && gates.iter().any(|&g| g > 0.5) && gates.iter().any(|&g| g < 0.5));

        let mask = u32s(&[n], &types.map(|t| t.is_image().into()));
        let (q, k) = (f32s(&[lanes, dim], &weights.q_weight), f32s(&[lanes, dim], &weights.k_weight));
        let (projected, out) = (f32s(&[n, lanes + 1, dim], &projected), output(&[n, lanes]));
        let eps = config.norm_eps;
        run(|planner| {
            let tensors = [&projected, &q, &k, &mask, &streams, &out];
            engram_gate::record(planner, tensors, &call(0, n, 0), n, eps, numerics)
        });
        assert_close(&read(&out), &gates, SUMS);
        match numerics {
            Precision::F32 => assert_close(&read(&streams), &expected, SUMS),
            Precision::Released => assert_bf16_close(&read(&streams), &expected),
        }
    }
}
