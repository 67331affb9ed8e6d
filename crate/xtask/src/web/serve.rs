//! A small static server on this machine: enough for the page, which needs no special headers.

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::request::{self, Request};

/// What the page may load and run. It needs no more, and a lab that is tried under it works under any weaker one.
const POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'";

/// The port to try first. Another one is taken when it is in use.
const USUAL_PORT: u16 = 8890;

/// How long a browser may take to send its request or to read the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A server that is bound and not yet running.
pub(crate) struct Server {
    listener: TcpListener,
    dist: PathBuf,
    /// Where the page is.
    pub(crate) url: String,
}

impl Server {
    /// Binds to `port` of 127.0.0.1; to the usual or a free one when it is `None`, to a free one when it is 0.
    pub(crate) fn bind(dist: &Path, port: Option<u16>) -> Result<Self, String> {
        let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = match port {
            Some(port) => bind(port).map_err(|error| format!("cannot serve on port {port}: {error}"))?,
            None => bind(USUAL_PORT).or_else(|_| bind(0)).map_err(|error| format!("cannot serve: {error}"))?,
        };
        let address = listener.local_addr().map_err(|error| format!("cannot serve: {error}"))?;
        Ok(Self { listener, dist: dist.to_path_buf(), url: format!("http://{address}/") })
    }

    /// Answers requests until the process ends, each on a thread of its own.
    pub(crate) fn run(self) {
        for stream in self.listener.incoming().flatten() {
            let dist = self.dist.clone();
            // A browser that goes away in the middle is no concern of the server.
            std::thread::spawn(move || answer(&stream, &dist).ok());
        }
    }
}

fn answer(mut stream: &TcpStream, dist: &Path) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let Some(request) = request::receive(stream) else { return Ok(()) };
    stream.write_all(&response(&request, dist))
}

/// The whole answer to a request.
fn response(Request { method, target }: &Request, dist: &Path) -> Vec<u8> {
    if method != "GET" && method != "HEAD" {
        return message("405 Method Not Allowed", "text/plain", b"GET and HEAD only\n");
    }
    let found = request::file(dist, target).and_then(|file| Some((std::fs::read(&file).ok()?, file)));
    let (head, body) = match found {
        Some((body, file)) => (head("200 OK", request::media_type(&file), body.len()), body),
        None => {
            let body = b"<!doctype html><title>404</title><p>Not found. <a href=\"/\">The lab</a></p>\n".to_vec();
            (head("404 Not Found", "text/html; charset=utf-8", body.len()), body)
        }
    };
    if method == "HEAD" { head } else { [head, body].concat() }
}

fn message(status: &str, media_type: &str, body: &[u8]) -> Vec<u8> {
    [head(status, media_type, body.len()).as_slice(), body].concat()
}

/// `no-cache` lets a browser keep files and makes it ask each time: after a new build nothing old is shown.
fn head(status: &str, media_type: &str, length: usize) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\nContent-Security-Policy: {POLICY}\r\n\
         Cache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
    )
    .into_bytes()
}

/// Opens the user's browser; `false` where there is no display or nothing that opens one.
pub(crate) fn open_browser(url: &str) -> bool {
    let has_display = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let words: &[&str] = if cfg!(windows) {
        // `start` takes its first quoted word as a title.
        &["cmd", "/C", "start", ""]
    } else if cfg!(target_os = "macos") {
        &["open"]
    } else if has_display {
        &["xdg-open"]
    } else {
        return false;
    };
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn ask(url: &str, first_line: &str) -> String {
        let address = url.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "{first_line}\r\nHost: {address}\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn files_are_served_with_type_and_policy() {
        let dist = std::env::temp_dir().join(format!("xtask-serve-{}", std::process::id()));
        std::fs::create_dir_all(&dist).unwrap();
        std::fs::write(dist.join("index.html"), "<p>lab</p>").unwrap();
        let server = Server::bind(&dist, Some(0)).unwrap();
        let url = server.url.clone();
        std::thread::spawn(move || server.run());

        let page = ask(&url, "GET / HTTP/1.1");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/html"), "{page}");
        assert!(
            page.contains("script-src 'self' 'wasm-unsafe-eval';") && page.ends_with("\r\n\r\n<p>lab</p>"),
            "{page}"
        );
        let head = ask(&url, "HEAD /index.html HTTP/1.1");
        assert!(head.contains("Content-Length: 10\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(ask(&url, "GET /nothing HTTP/1.1").starts_with("HTTP/1.1 404 "));
        assert!(ask(&url, "POST / HTTP/1.1").starts_with("HTTP/1.1 405 "));
        assert_eq!(ask(&url, "nonsense"), "");
        std::fs::remove_dir_all(dist).unwrap();
    }

    #[test]
    fn a_port_in_use_is_named() {
        let first = Server::bind(Path::new("."), Some(0)).unwrap();
        let port = first.listener.local_addr().unwrap().port();
        let problem = Server::bind(Path::new("."), Some(port)).err().unwrap();
        assert!(problem.starts_with(&format!("cannot serve on port {port}")), "{problem}");
    }
}
