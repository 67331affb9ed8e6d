//! The sequential part of a draft: correction, choice, confidence (section 10.6).

use super::support::*;
use flash890::gpu::Tensor;
use flash890::kernels::head::choose::{Draw, NOT_FINITE};
use flash890::kernels::head::markov::{self, PIECE};
use flash890::kernels::head::{argmax, confidence};
use flash890::numerics::{bf16, gumbel, ops};

/// Rows of a block, tokens in three pieces, elements of an embedding, of a stream, and streams.
const BLOCK: usize = 4;
const VOCAB: usize = 2 * PIECE + 77;
const RANK: usize = 32;
const DIM: usize = 96;
const LANES: usize = 4;
const START: usize = 50;

/// A matrix that bf16 holds exactly, as numbers and as bytes on the GPU.
fn rows(name: &str) -> (Vec<f32>, Tensor) {
    let words: Vec<u16> = numbers(name, VOCAB * RANK, 1.0).into_iter().map(bf16::encode).collect();
    let tensor = Tensor::bytes(&GPU, name, &[VOCAB, 2 * RANK], bytemuck::cast_slice(&words)).unwrap();
    (words.iter().map(|&word| f32::from_bits(u32::from(word) << 16)).collect(), tensor)
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
}

/// Ids that a block drafts after `anchor`, on the GPU.
fn drafted(base: &[f32], [embed, head]: [&Tensor; 2], anchor: u32, temperature: f32) -> (Tensor, Tensor) {
    let base = f32s(&[BLOCK, VOCAB], base);
    let (ids, chosen) = (u32s(&[BLOCK], &[anchor; BLOCK]), output_u32(&[BLOCK]));
    let (values, best) = (output(&[VOCAB.div_ceil(PIECE)]), output_u32(&[VOCAB.div_ceil(PIECE)]));
    let (call, draw) = (call(START, BLOCK, 0), Tensor::uniform(&GPU, "draw", 4).unwrap());
    Draw::new(temperature, 9).write(&GPU, &draw);
    run(|planner| {
        (0..BLOCK).try_for_each(|row| {
            markov::record(planner, [&base, embed, head, &ids, &chosen, &values, &best], [&call, &draw], row)?;
            argmax::record(planner, [&values, &best, &chosen], row)
        })
    });
    (ids, chosen)
}

/// Each row is corrected by the token that the row before has chosen, greedily and with the noise of its position.
#[test]
fn rows_are_corrected_by_the_token_before() {
    let ((e, embed), (h, head)) = (rows("embed"), rows("head"));
    let base = numbers("base", BLOCK * VOCAB, 3.0);
    for (anchor, temperature) in [(5, 0.0), (588, 0.0), (5, 1.0), (17, 0.6)] {
        let (_, chosen) = drafted(&base, [&embed, &head], anchor, temperature);
        let (mut before, mut expected) = (anchor as usize, Vec::new());
        for (row, base) in base.chunks_exact(VOCAB).enumerate() {
            let e = &e[before * RANK..][..RANK];
            let logits: Vec<f32> = base.iter().zip(h.chunks_exact(RANK)).map(|(base, h)| base + dot(e, h)).collect();
            before = gumbel::choose(&logits, temperature, 9, (START + 1 + row) as u32) as usize;
            if temperature == 0.0 {
                assert_eq!(before, ops::argmax(&logits));
            }
            expected.push(before as u32);
        }
        assert_eq!(read_u32(&chosen), expected, "after {anchor} at {temperature}");
    }
    // A logit that is not finite wins, and the rows after it do not read beyond the table.
    let mut broken = base;
    broken[VOCAB + 300] = f32::NAN;
    let (_, chosen) = drafted(&broken, [&embed, &head], 5, 0.0);
    let chosen = read_u32(&chosen);
    assert_eq!(chosen[1], NOT_FINITE);
    assert!(chosen[2] < VOCAB as u32, "{chosen:?}");
}

#[test]
fn confidence_of_every_row() {
    use flash890::numerics::precision::Precision;
    let ((e, embed), (_, head)) = (rows("embed"), rows("head"));
    let (ids, chosen) = drafted(&numbers("base", BLOCK * VOCAB, 3.0), [&embed, &head], 5, 0.0);
    let (streams, pre) = (numbers("streams", BLOCK * LANES * DIM, 2.0), numbers("pre", BLOCK * LANES, 1.0));
    let weight = numbers("weight", DIM + RANK, 1.0);
    let before = [&[5], &read_u32(&chosen)[..]].concat();
    for numerics in [Precision::F32, Precision::Released] {
        let expected: Vec<f32> = (0..BLOCK)
            .map(|row| {
                let lane = |lane: usize| &streams[(row * LANES + lane) * DIM..][..DIM];
                let sum = |d: usize| (0..LANES).map(|c| pre[row * LANES + c] * lane(c)[d]).sum::<f32>();
                let mut x: Vec<f32> = (0..DIM).map(sum).collect();
                numerics.round(&mut x);
                x.extend(&e[before[row] as usize * RANK..][..RANK]);
                dot(&weight, &x)
            })
            .collect();
        let proposal = output_u32(&[2, BLOCK]);
        let [streams, pre, weight] =
            [(&streams, vec![BLOCK, LANES, DIM]), (&pre, vec![BLOCK, LANES]), (&weight, vec![DIM + RANK])]
                .map(|(values, shape)| f32s(&shape, values));
        run(|planner| {
            confidence::record(planner, [&streams, &pre, &weight, &embed, &ids, &chosen, &proposal], numerics)
        });
        let words = read_u32(&proposal);
        assert_eq!(words[..BLOCK], read_u32(&chosen));
        let actual: Vec<f32> = words[BLOCK..].iter().map(|&bits| f32::from_bits(bits)).collect();
        // In released numerics a collapsed element may fall on the other side of a rounding border.
        let limit = if numerics == Precision::F32 { SUMS } else { 1e-6 };
        assert_close(&actual, &expected, limit);
    }
}
