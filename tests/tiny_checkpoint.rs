//! The checkpoint writer against appendix E: what it writes opens, and its tables give the rows that the appendix prints.

mod support;

use flash890::numerics::{e4m3, e8m0};
use flash890::weights::Checkpoint;
use pollster::block_on;
use support::appendix_e;

#[test]
fn appendix_e_opens() {
    for spec in [appendix_e::spec(), appendix_e::spec_with_vision()] {
        let checkpoint = block_on(Checkpoint::from_files(spec.files().unwrap())).unwrap();
        assert_eq!(checkpoint.config, spec.config);
        assert_eq!(checkpoint.contains("aligner.w1.bias"), spec.config.vision.is_some());
    }
}

#[test]
fn prompt() {
    let printed = [1, 17, 43, 79, 125, 53, 119, 67, 25, 121, 99, 87, 85, 93, 111, 11, 49, 97, 27, 95, 45];
    assert_eq!(appendix_e::prompt(), printed);
}

#[test]
fn engram_tables_of_e_2() {
    let files = appendix_e::spec().files().unwrap();
    let tables = block_on(Checkpoint::from_files(files)).unwrap().engram;
    assert_eq!(tables.primes, [[97, 101, 103, 107, 109, 113], [127, 131, 137, 139, 149, 151]]);
    assert_eq!(tables.pad_id, 17);
    // Rows of position 20, by the hash of section 2.3; no place is blocked.
    let prompt = appendix_e::prompt();
    let ids: Vec<u64> = (0..4).map(|back| u64::from(tables.token_map[prompt[20 - back] as usize])).collect();
    let rows: Vec<Vec<u64>> = (0..2)
        .map(|layer| {
            let mut hash = ids[0] * tables.multipliers[layer][0];
            let mut rows = Vec::new();
            for (place, &id) in ids.iter().enumerate().skip(1) {
                hash ^= id * tables.multipliers[layer][place];
                for column in [2 * (place - 1), 2 * (place - 1) + 1] {
                    rows.push(hash % tables.primes[layer][column] + tables.offsets[layer][column]);
                }
            }
            rows
        })
        .collect();
    assert_eq!(rows, [[38, 114, 252, 349, 483, 620], [8, 158, 320, 456, 675, 683]]);
}

/// One weight of each quantised kind, from the definition in E.1 written out again.
#[test]
fn weights_follow_the_definition() {
    let checkpoint = block_on(Checkpoint::from_files(appendix_e::spec().files().unwrap())).unwrap();
    let bits = |name: &str, i: u64| {
        let seed =
            name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
        let mut z = seed.wrapping_add((i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    };
    let unit = |name: &str, i: u64| (bits(name, i) >> 40) as f32 / 8_388_608.0 - 1.0;

    let wo_b = block_on(checkpoint.matrix("layers.5.attn.wo_b")).unwrap().to_f32();
    let code = e4m3::decode(e4m3::encode(unit("layers.5.attn.wo_b.weight", 40 * 64 + 3) * 256.0));
    assert_eq!(wo_b[40 * 64 + 3], code * 2f32.powi(-9 + (bits("layers.5.attn.wo_b.scale", 2) & 1) as i32));

    let w1 = block_on(checkpoint.matrix("mtp.1.ffn.experts.3.w1")).unwrap().to_f32();
    let byte = bits("mtp.1.ffn.experts.3.w1.weight", 32 * 7 + 20) & 255;
    let high = flash890::numerics::e2m1::decode((byte >> 4) as u8);
    assert_eq!(w1[64 * 7 + 41], high * 2f32.powi(-4 + (bits("mtp.1.ffn.experts.3.w1.scale", 7 * 2 + 1) & 1) as i32));

    let row = block_on(checkpoint.table_row("layers.4.engram.embed", 833)).unwrap();
    let code = e4m3::encode(unit("layers.4.engram.embed.weight", 833 * 32 + 31) * 256.0);
    assert_eq!(row[31], e4m3::decode(code) * e8m0::decode(127 - 8));

    assert_eq!(
        block_on(checkpoint.vector("layers.0.hc_attn_fn")).unwrap()[100],
        unit("layers.0.hc_attn_fn", 100) * 0.1
    );
    assert_eq!(block_on(checkpoint.vector("mtp.0.attn.attn_sink")).unwrap()[3], unit("mtp.0.attn.attn_sink", 3));
}
