use pollster::block_on;
use proptest::prelude::*;

use super::*;

/// A file of the given header text and `data` zero bytes.
fn file(json: &str, data: usize) -> Vec<u8> {
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn read(bytes: Vec<u8>) -> Result<Vec<HeaderEntry>> {
    block_on(read_header(&ByteSource::memory("shard", bytes)))
}

/// The words of a refusal; panics if the header is accepted or refused otherwise.
fn refused(bytes: Vec<u8>) -> String {
    match read(bytes) {
        Err(Error::Header { file, problem }) => {
            assert_eq!(file, "shard");
            problem
        }
        other => panic!("expected a header error, got {other:?}"),
    }
}

const GOOD: &str = r#"{"__metadata__": {"format": "pt"}, "b": {"dtype": "F32", "shape": [2, 3], "data_offsets": [4, 28]},
    "a": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}, "s": {"dtype": "F8_E8M0", "shape": [], "data_offsets": [28, 29]}}  "#;

#[test]
fn a_good_header_lists_tensors_by_place() {
    let start = 8 + GOOD.len() as u64;
    let entries = read(file(GOOD, 29)).unwrap();
    let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "s"]);
    assert_eq!(entries[1].range, start + 4..start + 28);
    assert_eq!((entries[1].dtype, entries[1].shape.as_slice()), (Dtype::F32, &[2, 3][..]));
}

#[test]
fn lengths_that_lie_are_refused() {
    assert!(refused(vec![]).contains("8 bytes"));
    assert!(refused(vec![1, 0, 0]).contains("8 bytes"));
    assert!(refused(0u64.to_le_bytes().to_vec()).contains("found 0"));
    assert!(refused(u64::MAX.to_le_bytes().to_vec()).contains("found 18446744073709551615"));
    assert!(refused((MAX_HEADER + 1).to_le_bytes().to_vec()).contains("found 268435457"));
    assert!(refused(100u64.to_le_bytes().to_vec()).contains("100 bytes"));
}

#[test]
fn text_that_is_no_header_is_refused() {
    for json in ["[]", " {}", "{", "\u{0}", r#"{"a": 1}"#, r#"{"a": {"dtype": "F32"}}"#] {
        refused(file(json, 0));
    }
    assert!(
        refused(file(r#"{"tensor.x": {"dtype": "F7", "shape": [], "data_offsets": [0, 4]}}"#, 4)).contains("tensor.x")
    );
    assert!(refused(file(r#"{"x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}"#, 4)).contains("tensor x"));
    assert!(
        refused(file(r#"{"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], "y": 1}}"#, 4))
            .contains("tensor x")
    );
}

#[test]
fn places_that_do_not_fit_are_refused_with_the_tensor() {
    let two = |a: &str, b: &str| {
        format!(
            r#"{{"a": {{"dtype": "U8", "shape": [4], "data_offsets": {a}}}, "b": {{"dtype": "U8", "shape": [4], "data_offsets": {b}}}}}"#
        )
    };
    assert!(read(file(&two("[0, 4]", "[4, 8]"), 8)).is_ok());
    assert!(refused(file(&two("[0, 4]", "[2, 6]"), 6)).contains("tensor b overlaps"));
    assert!(refused(file(&two("[0, 4]", "[6, 10]"), 10)).contains("2 bytes in front of tensor b"));
    assert!(refused(file(&two("[2, 6]", "[6, 10]"), 10)).contains("2 bytes in front of tensor a"));
    assert!(refused(file(&two("[0, 4]", "[4, 8]"), 7)).contains("tensor b"));
    assert!(refused(file(&two("[0, 4]", "[4, 8]"), 9)).contains("1 bytes at the end"));
    assert!(refused(file(&two("[4, 0]", "[4, 8]"), 8)).contains("tensor a"));
    assert!(refused(file(&two("[0, 3]", "[3, 7]"), 7)).contains("needs 4 bytes, found 3"));
}

#[test]
fn a_name_listed_twice_is_refused() {
    let entry = r#"{"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}"#;
    assert!(refused(file(&format!(r#"{{"a": {entry}, "a": {entry}}}"#), 1)).contains("tensor a is listed twice"));
}

#[test]
fn products_that_overflow_are_refused() {
    for shape in ["[4294967296, 4294967296]", "[18446744073709551615, 2]", "[4611686018427387904]"] {
        let json = format!(r#"{{"huge": {{"dtype": "F32", "shape": {shape}, "data_offsets": [0, 0]}}}}"#);
        assert!(refused(file(&json, 0)).contains("tensor huge"), "{shape}");
    }
}

#[test]
fn offsets_above_4_gib_survive() {
    // One tensor of the size of the release's larger Engram table (P-27); only the header is there.
    let json = r#"{"a": {"dtype": "F8_E4M3", "shape": [384016682, 256], "data_offsets": [0, 98308270592]}, "b": {"dtype": "F8_E8M0",
        "shape": [384016682, 8], "data_offsets": [98308270592, 101380404048]}}"#;
    let entries = parse_header(json.as_bytes(), 1000, 1000 + 101_380_404_048).unwrap();
    assert_eq!(entries[1].range, 98_308_271_592..101_380_405_048);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        prop_assert!(read(bytes).is_err());
    }

    /// A valid file with some bytes replaced and its end cut off or extended: what is accepted still covers the file exactly.
    #[test]
    fn mutated_files_never_panic(edits in proptest::collection::vec((0usize..400, any::<u8>()), 0..4), cut in 0usize..400) {
        let mut bytes = file(GOOD, 29);
        for (at, byte) in edits {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if cut < bytes.len() && cut % 3 == 0 {
            bytes.truncate(cut);
        }
        let len = bytes.len() as u64;
        if let Ok(entries) = read(bytes) {
            prop_assert_eq!(entries.last().unwrap().range.end, len);
        }
    }

    /// Random numbers in all places of the JSON.
    #[test]
    fn random_numbers_never_panic(shape in proptest::collection::vec(any::<u64>(), 0..4), a in any::<u64>(), b in any::<u64>()) {
        let json = format!(r#"{{"x": {{"dtype": "F4", "shape": {shape:?}, "data_offsets": [{a}, {b}]}}}}"#);
        prop_assert!(read(file(&json, 16)).is_err());
    }
}
