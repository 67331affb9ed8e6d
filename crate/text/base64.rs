//! Bytes as text for JSON and for addresses: the standard alphabet of RFC 4648.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 of `bytes`: four characters for every three bytes, the last group filled up with `=`.
pub(crate) fn encode(bytes: &[u8]) -> String {
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

/// The bytes of base64, with padding or without. The error is the place of the first character that does not belong there.
pub(crate) fn decode(text: &str) -> std::result::Result<Vec<u8>, usize> {
    let digits = text.trim_end_matches('=');
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    let (mut bits, mut held) = (0u32, 0);
    for (at, digit) in digits.bytes().enumerate() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return Err(at),
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    // A single digit left over holds less than a byte.
    if digits.len() % 4 == 1 || text.len() - digits.len() > 2 { Err(digits.len()) } else { Ok(bytes) }
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
            assert_eq!(decode(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(decode("Zg").unwrap(), b"f");
        assert_eq!((decode("Zm9v!"), decode("Zm9vY"), decode("Zg===")), (Err(4), Err(5), Err(2)));
    }

    #[test]
    fn all_characters() {
        let bytes: Vec<u8> = (0..64u8).collect::<Vec<_>>().chunks(4).flat_map(packed).collect();
        assert_eq!(encode(&bytes).as_bytes(), ALPHABET);
        assert_eq!(encode(&[0xff, 0xfe, 0xfd]), "//79");
        assert_eq!(decode("//79").unwrap(), [0xff, 0xfe, 0xfd]);
    }

    /// Four 6-bit numbers in three bytes.
    fn packed(codes: &[u8]) -> [u8; 3] {
        [codes[0] << 2 | codes[1] >> 4, codes[1] << 4 | codes[2] >> 2, codes[2] << 6 | codes[3]]
    }
}
