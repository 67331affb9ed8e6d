//! What is asked of a server, and whether its answer may be believed. No network in here: headers in, verdict out.

use std::ops::Range;

use crate::error::HttpFault;

/// The headers that decide about an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) content_type: Option<String>,
    pub(super) content_encoding: Option<String>,
    pub(super) content_range: Option<String>,
    pub(super) content_length: Option<u64>,
    pub(super) etag: Option<String>,
    pub(super) last_modified: Option<String>,
}

/// What a file is known by from one request to the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
}

impl Identity {
    pub(super) fn of(head: &Head) -> Identity {
        Identity { etag: head.etag.clone(), last_modified: head.last_modified.clone() }
    }

    /// The stronger of the two, for messages and keys.
    pub(crate) fn tag(&self) -> &str {
        self.etag.as_deref().or(self.last_modified.as_deref()).unwrap_or("without ETag")
    }

    /// Dates count only where there is no ETag: servers behind one address disagree about them more often.
    fn admit(&self, head: &Head) -> Result<(), HttpFault> {
        let now = Identity::of(head);
        let same = if self.etag.is_some() || now.etag.is_some() {
            self.etag == now.etag
        } else {
            self.last_modified == now.last_modified
        };
        if same {
            return Ok(());
        }
        Err(HttpFault::Changed { before: self.tag().into(), after: now.tag().into() })
    }
}

/// What a request wants.
#[derive(Debug, Clone)]
pub(super) enum Want {
    /// The whole of a small file.
    Whole {
        /// Most bytes that are taken.
        most: u64,
    },
    /// Bytes of a file of unknown length; fewer where it ends.
    Beginning(u64),
    /// Bytes of a file whose length and identity are known.
    Part { range: Range<u64>, len: u64, identity: Identity },
}

/// What an admitted answer brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admitted {
    /// Bytes of the body where they are known, otherwise the most that are taken.
    pub(super) body: Body,
    /// Length of the whole file, where the answer says so.
    pub(super) len: Option<u64>,
}

/// Length of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    Exactly(u64),
    AtMost(u64),
}

impl Want {
    /// Value of the header Range.
    pub(super) fn range_header(&self) -> Option<String> {
        match self {
            Want::Whole { .. } => None,
            Want::Beginning(bytes) => Some(format!("bytes=0-{}", bytes - 1)),
            Want::Part { range, .. } => Some(format!("bytes={}-{}", range.start, range.end - 1)),
        }
    }

    /// First byte asked for.
    pub(super) fn offset(&self) -> u64 {
        match self {
            Want::Whole { .. } | Want::Beginning(_) => 0,
            Want::Part { range, .. } => range.start,
        }
    }

    /// Judges an answer by its headers, before any of its body is read.
    pub(super) fn admit(&self, head: &Head) -> Result<Admitted, HttpFault> {
        let partial = !matches!(self, Want::Whole { .. });
        match (head.status, partial) {
            (206, true) | (200, false) => {}
            (200, true) if is_page(head) => return Err(HttpFault::WebPage),
            (200, true) => return Err(HttpFault::WholeFile),
            (other, _) => return Err(HttpFault::Status(other)),
        }
        if is_page(head) {
            return Err(HttpFault::WebPage);
        }
        if let Some(encoding) = head.content_encoding.as_deref().filter(|&encoding| encoding != "identity") {
            return Err(HttpFault::Compressed(encoding.into()));
        }
        match self {
            Want::Whole { most } => match head.content_length {
                Some(len) if len > *most => Err(HttpFault::TooLong { most: *most }),
                Some(len) => Ok(Admitted { body: Body::Exactly(len), len: Some(len) }),
                None => Ok(Admitted { body: Body::AtMost(*most), len: None }),
            },
            Want::Beginning(bytes) => admit_range(head, 0..*bytes, None),
            Want::Part { range, len, identity } => {
                identity.admit(head)?;
                admit_range(head, range.clone(), Some(*len))
            }
        }
    }
}

fn is_page(head: &Head) -> bool {
    let kind = head.content_type.as_deref().unwrap_or_default().to_ascii_lowercase();
    kind.starts_with("text/html") || kind.starts_with("application/xhtml")
}

/// Content-Range must say exactly what was asked for: a 206 alone says little (field experience: shifted and short answers with status 206).
fn admit_range(head: &Head, asked: Range<u64>, len: Option<u64>) -> Result<Admitted, HttpFault> {
    let shown = len.map_or("*".into(), |len| len.to_string());
    let other =
        |found: String| HttpFault::OtherRange { needed: format!("{}-{}/{shown}", asked.start, asked.end - 1), found };
    let said = head.content_range.as_deref();
    let (found, total) = said.and_then(parse_content_range).ok_or_else(|| {
        let absent = "no Content-Range (a server of another origin must expose this header)";
        other(said.map_or_else(|| absent.into(), str::to_string))
    })?;
    // A file of unknown length may end before the range does.
    let end = if len.is_none() { asked.end.min(total) } else { asked.end };
    if found != (asked.start..end) || len.is_some_and(|len| len != total) {
        return Err(other(said.unwrap_or_default().into()));
    }
    let body = end - asked.start;
    match head.content_length {
        Some(length) if length != body => Err(other(format!("Content-Length {length}"))),
        _ => Ok(Admitted { body: Body::Exactly(body), len: Some(total) }),
    }
}

/// `bytes 0-7/100` as `(0..8, 100)`. A total of `*` says nothing to compare and is no answer here.
fn parse_content_range(value: &str) -> Option<(Range<u64>, u64)> {
    let (range, total) = value.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (first, last, total) = (number(first)?, number(last)?, number(total)?);
    let end = last.checked_add(1)?;
    (first < end && end <= total).then_some((first..end, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partial(range: &str) -> Head {
        Head { status: 206, content_range: Some(range.into()), etag: Some("\"a\"".into()), ..Head::default() }
    }

    fn part() -> Want {
        let identity = Identity { etag: Some("\"a\"".into()), last_modified: None };
        Want::Part { range: 8..16, len: 100, identity }
    }

    #[test]
    fn the_range_asked_for_is_taken() {
        let admitted = Admitted { body: Body::Exactly(8), len: Some(100) };
        assert_eq!(part().admit(&partial("bytes 8-15/100")), Ok(admitted));
        let short = Admitted { body: Body::Exactly(5), len: Some(5) };
        assert_eq!(Want::Beginning(64).admit(&partial("bytes 0-4/5")), Ok(short));
        assert_eq!(part().range_header().as_deref(), Some("bytes=8-15"));
    }

    #[test]
    fn every_other_range_is_refused() {
        for said in [
            "bytes 8-14/100",
            "bytes 8-16/100",
            "bytes 7-15/100",
            "bytes 8-15/101",
            "bytes 8-15/*",
            "bytes */100",
            "8-15/100",
            "bytes 15-8/100",
            "bytes 8-15",
            "bytes 8-18446744073709551615/100",
        ] {
            assert!(matches!(part().admit(&partial(said)), Err(HttpFault::OtherRange { .. })), "{said}");
        }
        let lacking = Head { content_range: None, ..partial("") };
        assert!(matches!(part().admit(&lacking), Err(HttpFault::OtherRange { .. })));
        let short = Head { content_length: Some(7), ..partial("bytes 8-15/100") };
        assert!(matches!(part().admit(&short), Err(HttpFault::OtherRange { .. })));
        // What begins elsewhere is no beginning, and one that ends early must be the end.
        for said in ["bytes 1-63/100", "bytes 0-9/100"] {
            assert!(matches!(Want::Beginning(64).admit(&partial(said)), Err(HttpFault::OtherRange { .. })), "{said}");
        }
    }

    #[test]
    fn whole_files_pages_and_compressed_parts_are_refused() {
        let good = partial("bytes 8-15/100");
        let page = Some("Text/HTML; charset=utf-8".to_string());
        for (head, fault) in [
            (Head { status: 200, ..good.clone() }, HttpFault::WholeFile),
            (Head { status: 200, content_type: page.clone(), ..good.clone() }, HttpFault::WebPage),
            (Head { content_type: page.clone(), ..good.clone() }, HttpFault::WebPage),
            (Head { content_encoding: Some("gzip".into()), ..good.clone() }, HttpFault::Compressed("gzip".into())),
            (Head { status: 404, ..good.clone() }, HttpFault::Status(404)),
            (Head { status: 304, ..good.clone() }, HttpFault::Status(304)),
        ] {
            assert_eq!(part().admit(&head), Err(fault));
        }
        let whole = Want::Whole { most: 10 };
        let head = Head { status: 200, content_length: Some(11), ..Head::default() };
        assert_eq!(whole.admit(&head), Err(HttpFault::TooLong { most: 10 }));
        assert_eq!(whole.admit(&Head { content_type: page, ..head.clone() }), Err(HttpFault::WebPage));
        assert_eq!(whole.admit(&Head { status: 206, ..head }), Err(HttpFault::Status(206)));
    }

    #[test]
    fn a_changed_file_is_noticed_by_tag_or_date() {
        let changed = Head { etag: Some("\"b\"".into()), ..partial("bytes 8-15/100") };
        let fault = HttpFault::Changed { before: "\"a\"".into(), after: "\"b\"".into() };
        assert_eq!(part().admit(&changed), Err(fault));
        let lost = Head { etag: None, ..partial("bytes 8-15/100") };
        assert!(matches!(part().admit(&lost), Err(HttpFault::Changed { .. })));
        let dated = |date: &str| Identity { etag: None, last_modified: Some(date.into()) };
        let head = Head { etag: None, last_modified: Some("Monday".into()), ..Head::default() };
        assert!(dated("Monday").admit(&head).is_ok() && dated("Tuesday").admit(&head).is_err());
    }
}
