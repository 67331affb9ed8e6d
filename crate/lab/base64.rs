//! Bytes as text for JSON: the standard alphabet of RFC 4648 with padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 of `bytes`: four characters for every three bytes, the last group filled up with `=`.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let at = |i: usize| u32::from(group.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let code = ALPHABET[(bits >> (18 - 6 * place)) as usize % 64];
            text.push(if place > group.len() { '=' } else { char::from(code) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648, section 10.
    #[test]
    fn vectors_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text, "{bytes}");
        }
    }

    #[test]
    fn all_characters() {
        let bytes: Vec<u8> = (0..64u8).collect::<Vec<_>>().chunks(4).flat_map(packed).collect();
        assert_eq!(encode(&bytes).as_bytes(), ALPHABET);
        assert_eq!(encode(&[0xff, 0xfe, 0xfd]), "//79");
    }

    /// Four 6-bit numbers in three bytes.
    fn packed(codes: &[u8]) -> [u8; 3] {
        [codes[0] << 2 | codes[1] >> 4, codes[1] << 4 | codes[2] >> 2, codes[2] << 6 | codes[3]]
    }
}
