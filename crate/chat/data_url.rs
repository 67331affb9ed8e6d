//! `data:` addresses, in which pictures come with a request.

use crate::text::base64;
use crate::{Error, Result};

/// Largest picture file.
const MOST: usize = 64 << 20;

/// The bytes of `data:image/png;base64,...`.
///
/// # Errors
/// [`Error::Usage`] that begins with `field` if it is no such address.
pub(super) fn decode(url: &str, field: &str) -> Result<Vec<u8>> {
    let wrong = |problem: String| Error::Usage(format!("{field}: {problem}"));
    let Some(rest) = url.strip_prefix("data:") else {
        let scheme: String = url.chars().take_while(|&c| c != ':').take(16).collect();
        return Err(wrong(format!("needed data:image/...;base64,..., found an address that begins with {scheme:?}")));
    };
    let (kind, data) = rest.split_once(',').ok_or_else(|| wrong("needed a comma before the data".into()))?;
    if !kind.ends_with(";base64") {
        return Err(wrong(format!(
            "needed ;base64 before the comma, found {:?}",
            kind.chars().take(64).collect::<String>()
        )));
    }
    if data.len() / 4 * 3 > MOST {
        return Err(wrong(format!("needed at most {MOST} bytes, found about {}", data.len() / 4 * 3)));
    }
    base64::decode(data).map_err(|at| wrong(format!("not base64 at character {at}")))
}

/// A picture file as such an address.
pub(super) fn encode(bytes: &[u8]) -> String {
    let kind = match bytes {
        [0x89, b'P', b'N', b'G', ..] => "png",
        [0xff, 0xd8, ..] => "jpeg",
        _ => "webp",
    };
    format!("data:image/{kind};base64,{}", base64::encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_picture_address_is_refused_by_name() {
        assert_eq!(decode("data:image/png;base64,Zm9v", "url").unwrap(), b"foo");
        for (url, words) in [
            ("https://example.org/a.png", "begins with \"https\""),
            ("data:image/png;base64", "comma"),
            ("data:image/png,abc", ";base64"),
            ("data:image/png;base64,a b", "character 1"),
        ] {
            let error = decode(url, "messages[0].content[1].image_url.url").unwrap_err();
            assert!(error.to_string().starts_with("messages[0].content[1].image_url.url: "), "{error}");
            assert!(error.to_string().contains(words) && error.kind() == "usage", "{error}");
        }
    }
}
