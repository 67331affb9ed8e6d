//! A web server for tests: answers ranges of files that are in memory or made on the fly, and misbehaves when told to.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Where the server has its files from.
pub(crate) trait Content: Send + Sync + 'static {
    /// Length of a file, if there is one of that name.
    fn len(&self, name: &str) -> Option<u64>;
    /// Bytes of a file that is there.
    fn read(&self, name: &str, range: Range<u64>) -> Vec<u8>;
}

impl Content for BTreeMap<String, Arc<[u8]>> {
    fn len(&self, name: &str) -> Option<u64> {
        self.get(name).map(|bytes| bytes.len() as u64)
    }

    fn read(&self, name: &str, range: Range<u64>) -> Vec<u8> {
        self[name][range.start as usize..range.end as usize].to_vec()
    }
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// The answer comes late.
    Delay(Duration),
    /// The answer never comes; the connection stays open for this long.
    Silent(Duration),
    /// The connection closes before any answer.
    Hangup,
    /// The body ends after so many bytes.
    Cut(usize),
    /// One bit of the body is wrong.
    Corrupt,
    /// The file is said to lie elsewhere.
    Redirect(String),
    /// Ranges are ignored.
    Whole,
    /// The range begins so many bytes later than asked.
    Shifted(u64),
    /// The answer has fewer bytes, and says so.
    Shorter(u64),
    /// Content-Range names another length of the file.
    OtherTotal,
    /// Status 206 without Content-Range.
    NoContentRange,
    /// Content-Encoding on whatever is sent.
    Compressed,
    /// The ETag is another one.
    OtherTag,
    /// A web page with this status.
    Page(u16),
    /// Nothing but a status.
    Status(u16),
}

/// Which requests a fault is for.
struct Rule {
    file: String,
    /// Requests that begin here or later.
    from: u64,
    /// Requests for this byte only.
    holds: Option<u64>,
    times: usize,
    fault: Fault,
}

/// One request that arrived.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Seen {
    pub(crate) file: String,
    pub(crate) range: Option<Range<u64>>,
}

struct State {
    content: Box<dyn Content>,
    rules: Mutex<Vec<Rule>>,
    seen: Mutex<Vec<Seen>>,
    running: AtomicUsize,
    most_running: AtomicUsize,
    /// Pause after every 64 KiB.
    drip: Mutex<Duration>,
}

/// A running server; it ends with the process.
pub(crate) struct Server {
    port: u16,
    state: Arc<State>,
}

impl Server {
    pub(crate) fn new(content: impl Content) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            content: Box::new(content),
            rules: Mutex::default(),
            seen: Mutex::default(),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
            drip: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                // A client that goes away is part of the tests.
                std::thread::spawn(move || drop(state.serve(stream)));
            }
        });
        Server { port, state }
    }

    /// Address of the folder.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/model", self.port)
    }

    /// The next `times` requests for files whose name contains `file`, from byte `from` on, go wrong.
    pub(crate) fn fail(&self, file: &str, from: u64, times: usize, fault: Fault) {
        self.state.rules.lock().unwrap().push(Rule { file: file.into(), from, holds: None, times, fault });
    }

    /// The next request for byte `place` of files whose name contains `file` goes wrong.
    pub(crate) fn fail_at(&self, file: &str, place: u64, fault: Fault) {
        let rule = Rule { file: file.into(), from: 0, holds: Some(place), times: 1, fault };
        self.state.rules.lock().unwrap().push(rule);
    }

    /// Slows bodies down by a pause after every 64 KiB.
    pub(crate) fn drip(&self, pause: Duration) {
        *self.state.drip.lock().unwrap() = pause;
    }

    /// Requests since the last call.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state.seen.lock().unwrap())
    }

    /// Most requests that ran at once.
    pub(crate) fn most_running(&self) -> usize {
        self.state.most_running.load(SeqCst)
    }
}

impl State {
    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let file = line.split(' ').nth(1).and_then(|path| path.strip_prefix("/model/")).unwrap_or_default().to_string();
        let mut range = None;
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header)? == 0 || header == "\r\n" {
                break;
            }
            if let Some(value) = header.to_ascii_lowercase().strip_prefix("range: bytes=") {
                let (first, last) = value.trim().split_once('-').unwrap();
                range = Some(first.parse().unwrap()..last.parse::<u64>().unwrap() + 1);
            }
        }
        let running = self.running.fetch_add(1, SeqCst) + 1;
        self.most_running.fetch_max(running, SeqCst);
        self.seen.lock().unwrap().push(Seen { file: file.clone(), range: range.clone() });
        let fault = self.fault_for(&file, range.as_ref());
        let answered = self.answer(&mut stream, &file, range, fault);
        self.running.fetch_sub(1, SeqCst);
        answered
    }

    fn fault_for(&self, file: &str, range: Option<&Range<u64>>) -> Option<Fault> {
        let mut rules = self.rules.lock().unwrap();
        let from = range.map_or(0, |range| range.start);
        let holds = |place: u64| range.is_some_and(|range| range.contains(&place));
        let rule = rules.iter_mut().find(|rule| {
            file.contains(&rule.file) && from >= rule.from && rule.holds.is_none_or(holds) && rule.times > 0
        })?;
        rule.times -= 1;
        Some(rule.fault.clone())
    }

    fn answer(
        &self,
        stream: &mut TcpStream,
        file: &str,
        range: Option<Range<u64>>,
        fault: Option<Fault>,
    ) -> std::io::Result<()> {
        let close = "Connection: close\r\n";
        let page = "<!doctype html><title>Sign in</title>";
        match &fault {
            Some(Fault::Delay(time)) => std::thread::sleep(*time),
            Some(Fault::Silent(time)) => {
                std::thread::sleep(*time);
                return Ok(());
            }
            Some(Fault::Hangup) => return Ok(()),
            Some(Fault::Redirect(to)) => {
                return write!(stream, "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n{close}\r\n");
            }
            Some(Fault::Status(status)) => {
                return write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\n{close}\r\n");
            }
            Some(Fault::Page(status)) => {
                let len = page.len();
                let range = range.map_or(String::new(), |range| {
                    let total = self.content.len(file).unwrap_or(0);
                    format!("Content-Range: bytes {}-{}/{total}\r\n", range.start, range.end - 1)
                });
                let head = format!("HTTP/1.1 {status} OK\r\nContent-Type: text/html; charset=utf-8\r\n{range}");
                return write!(stream, "{head}Content-Length: {len}\r\n{close}\r\n{page}");
            }
            _ => {}
        }
        let Some(len) = self.content.len(file) else {
            return write!(stream, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n{close}\r\n");
        };
        let range = range.filter(|_| fault != Some(Fault::Whole));
        let mut sent = range.clone().unwrap_or(0..len);
        sent.end = sent.end.min(len);
        match fault {
            Some(Fault::Shifted(by)) => sent.start += by,
            Some(Fault::Shorter(by)) => sent.end -= by,
            _ => {}
        }
        let total = if fault == Some(Fault::OtherTotal) { len + 1 } else { len };
        let mut head =
            String::from(if range.is_some() { "HTTP/1.1 206 Partial Content\r\n" } else { "HTTP/1.1 200 OK\r\n" });
        if range.is_some() && fault != Some(Fault::NoContentRange) {
            head += &format!("Content-Range: bytes {}-{}/{total}\r\n", sent.start, sent.end - 1);
        }
        if fault == Some(Fault::Compressed) {
            head += "Content-Encoding: gzip\r\n";
        }
        let tag = if fault == Some(Fault::OtherTag) { "other" } else { "first" };
        head += &format!("ETag: \"{tag}\"\r\nContent-Length: {}\r\n{close}\r\n", sent.end - sent.start);
        stream.write_all(head.as_bytes())?;
        self.send(stream, file, sent, fault)
    }

    fn send(&self, stream: &mut TcpStream, file: &str, range: Range<u64>, fault: Option<Fault>) -> std::io::Result<()> {
        let drip = *self.drip.lock().unwrap();
        let mut left = if let Some(Fault::Cut(bytes)) = fault { bytes as u64 } else { u64::MAX };
        for start in range.clone().step_by(64 << 10) {
            let end = (start + (64 << 10)).min(range.end).min(start.saturating_add(left));
            left -= end - start;
            let mut bytes = self.content.read(file, start..end);
            if fault == Some(Fault::Corrupt) && start == range.start {
                bytes[0] ^= 1;
            }
            stream.write_all(&bytes)?;
            if left == 0 {
                break;
            }
            if !drip.is_zero() {
                std::thread::sleep(drip);
            }
        }
        Ok(())
    }
}
