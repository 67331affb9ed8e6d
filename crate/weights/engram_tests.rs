//! The tables of section 2.2, the map of section 2.1, and the golden checkpoints' own tables.

use proptest::prelude::*;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::*;

const PRIMES: [[u64; 24]; 2] = [
    [
        16_000_057, 16_000_079, 16_000_081, 16_000_097, 16_000_121, 16_000_129, 16_000_133, 16_000_183, 16_000_189,
        16_000_207, 16_000_211, 16_000_253, 16_000_277, 16_000_289, 16_000_307, 16_000_321, 16_000_339, 16_000_381,
        16_000_393, 16_000_399, 16_000_403, 16_000_409, 16_000_447, 16_000_463,
    ],
    [
        16_000_477, 16_000_487, 16_000_499, 16_000_507, 16_000_511, 16_000_573, 16_000_609, 16_000_627, 16_000_667,
        16_000_669, 16_000_693, 16_000_697, 16_000_711, 16_000_729, 16_000_759, 16_000_769, 16_000_781, 16_000_799,
        16_000_813, 16_000_819, 16_000_841, 16_000_877, 16_000_879, 16_000_889,
    ],
];

const OFFSETS: [[u64; 24]; 2] = [
    [
        0,
        16_000_057,
        32_000_136,
        48_000_217,
        64_000_314,
        80_000_435,
        96_000_564,
        112_000_697,
        128_000_880,
        144_001_069,
        160_001_276,
        176_001_487,
        192_001_740,
        208_002_017,
        224_002_306,
        240_002_613,
        256_002_934,
        272_003_273,
        288_003_654,
        304_004_047,
        320_004_446,
        336_004_849,
        352_005_258,
        368_005_705,
    ],
    [
        0,
        16_000_477,
        32_000_964,
        48_001_463,
        64_001_970,
        80_002_481,
        96_003_054,
        112_003_663,
        128_004_290,
        144_004_957,
        160_005_626,
        176_006_319,
        192_007_016,
        208_007_727,
        224_008_456,
        240_009_215,
        256_009_984,
        272_010_765,
        288_011_564,
        304_012_377,
        320_013_196,
        336_014_037,
        352_014_914,
        368_015_793,
    ],
];

fn golden(folder: &str) -> (Config, Vec<u8>) {
    let read = |name| std::fs::read(format!("{}/tests/golden/{folder}/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    (Config::from_json(&read("config.json")).unwrap(), read(ENGRAM_FILE))
}

#[test]
fn released_constants() {
    let tables = EngramTables::released(&Config::flash()).unwrap();
    assert_eq!(multiplier_bound(99_092), 46_539_438_283_891);
    let multipliers = [
        [76_632_096_046_245, 4_839_876_093_313, 35_959_672_319_349, 73_987_337_458_391u64],
        [67_716_810_739_261, 51_510_806_800_915, 30_921_347_202_721, 82_619_226_485_591],
    ];
    assert_eq!(tables.multipliers, multipliers);
    assert_eq!(tables.primes, PRIMES);
    assert_eq!(tables.offsets, OFFSETS);
    let sums: Vec<u64> = tables.primes.iter().map(|primes| primes.iter().sum()).collect();
    assert_eq!(sums, [384_006_168, 384_016_682]);
    assert_eq!(tables.pad_id, 2);
}

/// CRC-32 as in zip files, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

#[test]
fn released_token_map() {
    let sha256 = Sha256::digest(RELEASED_MAP).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!(sha256, "c60a86322ec17b4142bfef3c57a8d81fb428550cdf487f88a4320cb59fe46481");
    assert_eq!(crc32(RELEASED_MAP), 0x8603_B89D);
    let map = released_map();
    assert_eq!(map.len(), 129_280);
    assert_eq!(map.iter().map(|&id| u64::from(id)).sum::<u64>(), 5_395_231_328);
    assert!((0..67).all(|id| map[id] == id as u32));
    assert_eq!(map[67..72], [35, 36, 37, 38, 39]);
    assert!((0..10).all(|i| map[129_270 + i] == 99_082 + i as u32));
    for (ids, compressed) in [
        (&[455, 1805, 20_852, 270, 671][..], 237),
        (&[223, 262, 201, 271], 174),
        (&[619, 71, 15_938], 39),
        (&[14_324, 23_126], 11_569),
        (&[14_771, 19], 19),
        (&[128_799], 98_611),
        (&[128_803], 98_615),
        (&[128_821], 98_633),
        (&[129_264], 99_076),
    ] {
        assert!(ids.iter().all(|&id| map[id] == compressed), "{ids:?}");
    }
}

#[test]
fn golden_tables_follow_from_their_configs() {
    for folder in ["t12", "t40", "kv890"] {
        let (config, bytes) = golden(folder);
        let read = EngramTables::from_json(&bytes, &config).unwrap();
        let computed = EngramTables::from_config(&config, read.token_map.clone()).unwrap();
        assert_eq!(read, computed, "{folder}");
        assert_eq!(EngramTables::from_json(read.to_json().as_bytes(), &config).unwrap(), read, "{folder}");
    }
}

#[test]
fn documents_that_contradict_the_config_are_refused() {
    let (config, bytes) = golden("t12");
    let good: Value = serde_json::from_slice(&bytes).unwrap();
    let cases = [
        ("/n_compressed", json!(433)),
        ("/pad_id", json!(3)),
        ("/primes/0/0", json!(509)),
        ("/offsets/1/5", json!(1)),
        ("/offsets/1", json!([0])),
        ("/multipliers/0/0", json!("2")),
        ("/multipliers/0/0", json!("-1")),
        ("/multipliers/0/0", json!("18446744073709551615")),
        ("/multipliers/0", json!(["1"])),
        ("/multipliers", json!([])),
        ("/token_map/7", json!(434)),
        ("/token_map/0", json!(1)),
        ("/token_map", json!([0, 1])),
    ];
    for (pointer, bad) in cases {
        let mut changed = good.clone();
        *changed.pointer_mut(pointer).unwrap() = bad;
        let result = EngramTables::from_json(changed.to_string().as_bytes(), &config);
        assert!(matches!(result, Err(Error::Integrity(_))), "{pointer}: {result:?}");
    }
    for (pointer, bad) in [("/multipliers/0/0", json!(3)), ("/token_map/0", json!(-1)), ("/primes", json!("x"))] {
        let mut changed = good.clone();
        *changed.pointer_mut(pointer).unwrap() = bad;
        let result = EngramTables::from_json(changed.to_string().as_bytes(), &config);
        assert!(matches!(result, Err(Error::Json { .. })), "{pointer}");
    }
}

#[test]
fn another_vocabulary_needs_a_file() {
    let error = EngramTables::released(&Config::lab()).unwrap_err();
    assert!(error.to_string().contains("engram_tables.json"), "{error}");
}

#[test]
fn a_model_without_memory_needs_no_map() {
    let config = Config { engram_layer_ids: vec![], engram_num_embeddings: vec![], ..Config::lab() };
    assert_eq!(EngramTables::released(&config).unwrap().primes, Vec::<Vec<u64>>::new());
}

proptest! {
    #[test]
    fn mutated_documents_never_panic(at in 0usize..3000, byte in any::<u8>()) {
        let (config, mut bytes) = golden("kv890");
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(tables) = EngramTables::from_json(&bytes, &config) {
            prop_assert_eq!(tables.primes, config.engram_primes());
        }
    }
}
