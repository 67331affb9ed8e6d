//! What the static server understands of HTTP, and which file a path means.

use std::io::Read;
use std::path::{Path, PathBuf};

/// The longest request that is read; a browser sends one or two thousand bytes.
const LONGEST: usize = 16 * 1024;

/// The first line of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    /// As sent: percent-encoded and with the query.
    pub(super) target: String,
}

/// Reads a request up to its empty line; `None` when it is not HTTP, is too long, or the connection ends before.
pub(super) fn receive(mut stream: impl Read) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 1024];
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut chunk).ok().filter(|&count| count > 0)?;
        bytes.extend_from_slice(&chunk[..count]);
        if bytes.len() > LONGEST {
            return None;
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut words = text.lines().next()?.split(' ');
    let request = Request { method: words.next()?.to_owned(), target: words.next()?.to_owned() };
    words.next()?.starts_with("HTTP/1.").then_some(request)
}

/// The file in `dist` that a target means; `None` when there is none, or when it lies outside.
pub(super) fn file(dist: &Path, target: &str) -> Option<PathBuf> {
    let path = decode(target.split(['?', '#']).next()?)?;
    let mut file = dist.to_path_buf();
    for part in path.strip_prefix('/')?.split('/') {
        // `.` and `..` leave the folder, and so does a drive or a folder separator of Windows.
        if part.starts_with('.') || part.contains(['\\', ':', '\0']) {
            return None;
        }
        file.push(part);
    }
    if file.is_dir() {
        file.push("index.html");
    }
    // A link inside the folder may lead out of it.
    let real = file.canonicalize().ok()?;
    (real.is_file() && real.starts_with(dist.canonicalize().ok()?)).then_some(real)
}

/// Undoes percent encoding; `None` when it is broken or the result is not UTF-8.
fn decode(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok().filter(|text| !text.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

/// The type of a file, from its ending.
pub(super) fn media_type(file: &Path) -> &'static str {
    match file.extension().and_then(|ending| ending.to_str()).unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" => "application/json",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_its_first_line() {
        let expected = Request { method: "GET".to_owned(), target: "/a?b=1".to_owned() };
        assert_eq!(receive(b"GET /a?b=1 HTTP/1.1\r\nHost: x\r\n\r\n".as_slice()), Some(expected));
    }

    #[test]
    fn anything_else_is_refused() {
        let long = [b"GET / HTTP/1.1\r\nA: ".as_slice(), &[b'a'; LONGEST]].concat();
        for bytes in [b"GET / HTTP/1.1\r\n".as_slice(), b"hello\r\n\r\n", b"GET /\r\n\r\n", b"", &long] {
            assert_eq!(receive(bytes), None);
        }
    }

    #[test]
    fn only_files_inside_the_folder_are_found() {
        let root = std::env::temp_dir().join(format!("xtask-files-{}", std::process::id()));
        let dist = root.join("dist");
        std::fs::create_dir_all(dist.join("a b")).unwrap();
        for name in ["dist/index.html", "dist/a b/đ.js", "outside.txt"] {
            std::fs::write(root.join(name), "").unwrap();
        }
        for target in ["/", "/index.html?x=/../y", "/a%20b/%C4%91.js"] {
            assert!(file(&dist, target).is_some(), "{target}");
        }
        let outside =
            ["/../outside.txt", "/%2e%2e/outside.txt", "/..%5coutside.txt", "//etc/hosts", "/a b/../../outside.txt"];
        let broken = ["", "index.html", "/%", "/%zz", "/%+1", "/%ff", "/nothing.html", "/a%20b", "/index.html%00"];
        for target in outside.iter().chain(&broken) {
            assert_eq!(file(&dist, target), None, "{target}");
        }
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn types_are_what_browsers_insist_on() {
        assert_eq!(media_type(Path::new("a/core.wasm")), "application/wasm");
        assert!(media_type(Path::new("a.b.js")).starts_with("text/javascript"));
        assert_eq!(media_type(Path::new("none")), "application/octet-stream");
    }
}
