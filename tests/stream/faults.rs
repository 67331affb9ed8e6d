//! The library against a server that misbehaves.

use std::sync::Arc;
use std::time::Duration;

use flash890::error::HttpFault;
use flash890::weights::folder::Folder;
use flash890::weights::http::{IN_FLIGHT, PIECE, Timing};
use flash890::weights::{Checkpoint, Files};
use flash890::{Error, Result};
use pollster::block_on;

use crate::server::{Fault, Server};
use crate::{files, golden};

/// Quick tries, so that the tests are quick.
fn timing() -> Timing {
    Timing { tries: 4, first_pause: Duration::from_millis(2), patience: Duration::from_millis(400) }
}

fn folder(server: &Server) -> Folder {
    Folder::http(&server.url(), timing()).unwrap()
}

fn open(server: &Server) -> Result<Checkpoint> {
    block_on(Checkpoint::open(&folder(server)))
}

/// One large file of 21 MiB.
fn large() -> Files {
    let bytes: Vec<u8> = (0..21u64 << 20).map(|i| (i ^ (i >> 9) ^ (i >> 17)) as u8).collect();
    Files::from([("large.bin".into(), bytes.into())])
}

/// Reads a range of the large file, beyond what opening it brings.
fn read_large(server: &Server) -> Result<Vec<u8>> {
    let source = block_on(folder(server).open("large.bin"))?.unwrap();
    block_on(source.read(100_000..20 << 20))
}

fn fault(result: Result<Vec<u8>>) -> (String, u64, HttpFault) {
    match result {
        Err(Error::Http { url, offset, fault }) => (url, offset, fault),
        other => panic!("needed a fault of the server, got {:?}", other.map(|bytes| bytes.len())),
    }
}

#[test]
fn a_checkpoint_has_the_same_bytes_as_on_disk() {
    for name in ["t12", "kv890"] {
        let server = Server::new(files(name));
        let disk = block_on(Checkpoint::from_files(files(name))).unwrap();
        let remote = open(&server).unwrap();
        assert_eq!(remote.tensors(), disk.tensors());
        assert!(remote.is_remote() && !disk.is_remote());
        for tensor in disk.names().step_by(7) {
            assert_eq!(block_on(remote.bytes(tensor)).unwrap(), block_on(disk.bytes(tensor)).unwrap(), "{tensor}");
        }
    }
}

#[test]
fn announced_tensors_come_in_few_requests() {
    let server = Server::new(files("t12"));
    let disk = block_on(Checkpoint::from_files(files("t12"))).unwrap();
    let remote = open(&server).unwrap();
    server.seen();
    block_on(remote.announce("layers.3.")).unwrap();
    let asked = server.seen().len();
    let names: Vec<&str> = disk.names().filter(|name| name.starts_with("layers.3.")).collect();
    assert!(names.len() > 50 && asked <= names.len() / 5, "{asked} requests for {} tensors", names.len());
    for tensor in names {
        assert_eq!(block_on(remote.bytes(tensor)).unwrap(), block_on(disk.bytes(tensor)).unwrap(), "{tensor}");
    }
    assert_eq!(server.seen(), []);
    // The whole of it, tables excepted: hardly more requests than shards.
    block_on(remote.announce("")).unwrap();
    assert!(server.seen().len() <= 5);
    for tensor in disk.names().filter(|name| !name.contains(".engram.embed.") && !name.starts_with("norm")) {
        assert_eq!(block_on(remote.bytes(tensor)).unwrap(), block_on(disk.bytes(tensor)).unwrap(), "{tensor}");
    }
    assert_eq!(server.seen(), []);
    // What is announced next drops what nobody asked for, and what was given out once is fetched again.
    block_on(remote.announce("layers.0.")).unwrap();
    server.seen();
    assert_eq!(block_on(remote.bytes("norm.weight")).unwrap(), block_on(disk.bytes("norm.weight")).unwrap());
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn long_ranges_come_in_pieces_and_few_at_once() {
    let server = Server::new(large());
    server.fail("large", 1, usize::MAX, Fault::Delay(Duration::from_millis(30)));
    let all = large()["large.bin"].clone();
    assert!(read_large(&server).unwrap() == all[100_000..20 << 20]);
    let ranges: Vec<_> = server.seen().into_iter().filter_map(|seen| seen.range).collect();
    assert_eq!(ranges.len(), 1 + 3);
    assert!(ranges.iter().all(|range| range.end - range.start <= PIECE));
    assert!((2..=IN_FLIGHT).contains(&server.most_running()), "{}", server.most_running());

    // Many small files at once: the shards of a checkpoint.
    let server = Server::new(files("t12"));
    server.fail("", 0, usize::MAX, Fault::Delay(Duration::from_millis(5)));
    open(&server).unwrap();
    assert!(server.most_running() <= IN_FLIGHT);
}

#[test]
fn what_passes_is_tried_again() {
    let all = large()["large.bin"].clone();
    for passing in [
        Fault::Hangup,
        Fault::Cut(0),
        Fault::Cut(1_000_000),
        Fault::Status(503),
        Fault::Delay(Duration::from_millis(100)),
        Fault::Silent(Duration::from_secs(2)),
    ] {
        let server = Server::new(large());
        // Pieces run at once, so one of them may meet a fault of the first rule and all of the second: three, of four
        // tries.
        server.fail("large", 0, 2, passing.clone());
        server.fail("large", 9 << 20, 2, passing.clone());
        assert!(read_large(&server).unwrap() == all[100_000..20 << 20], "{passing:?}");
    }
}

#[test]
fn what_does_not_pass_ends_after_so_many_tries() {
    for (lasting, expected) in [(Fault::Hangup, None), (Fault::Status(502), Some(HttpFault::Status(502)))] {
        let server = Server::new(large());
        server.fail("large", 10 << 20, usize::MAX, lasting.clone());
        let (url, offset, found) = fault(read_large(&server));
        assert_eq!((url, offset), (format!("{}/large.bin", server.url()), 100_000 + 2 * PIECE));
        assert!(expected.map_or(matches!(found, HttpFault::Network(_)), |expected| expected == found), "{found}");
        let tries = server.seen().iter().filter(|seen| seen.range.as_ref().is_some_and(|r| r.start > 10 << 20)).count();
        assert_eq!(tries, 4, "{lasting:?}");
    }
}

#[test]
fn what_the_client_did_wrong_is_not_tried_again() {
    for status in [400, 401, 403, 416, 429] {
        let server = Server::new(large());
        server.fail("large", 1, usize::MAX, Fault::Status(status));
        let source = block_on(folder(&server).open("large.bin")).unwrap().unwrap();
        server.seen();
        let read = block_on(source.read(1 << 20..2 << 20));
        assert_eq!(fault(read).2, HttpFault::Status(status));
        assert_eq!(server.seen().len(), 1);
    }
    // What is not there is no error of the server.
    let server = Server::new(large());
    assert!(block_on(folder(&server).open("other.bin")).unwrap().is_none());
    assert!(block_on(folder(&server).small("other.json", 10)).unwrap().is_none());
}

#[test]
fn an_untrue_answer_is_refused_at_once() {
    type Test = fn(&HttpFault) -> bool;
    let cases: [(Fault, Test); 10] = [
        (Fault::Whole, |f| *f == HttpFault::WholeFile),
        (Fault::Shifted(29), |f| matches!(f, HttpFault::OtherRange { .. })),
        (Fault::Shorter(1), |f| matches!(f, HttpFault::OtherRange { .. })),
        (Fault::OtherTotal, |f| matches!(f, HttpFault::OtherRange { .. })),
        (Fault::NoContentRange, |f| matches!(f, HttpFault::OtherRange { .. })),
        (Fault::Compressed, |f| *f == HttpFault::Compressed("gzip".into())),
        (Fault::OtherTag, |f| matches!(f, HttpFault::Changed { .. })),
        (Fault::Page(200), |f| *f == HttpFault::WebPage),
        (Fault::Page(206), |f| *f == HttpFault::WebPage),
        (Fault::Redirect("/elsewhere/page".into()), |f| *f == HttpFault::Status(404)),
    ];
    for (untrue, is_expected) in cases {
        let server = Server::new(large());
        server.fail("large", 1, usize::MAX, untrue.clone());
        let source = block_on(folder(&server).open("large.bin")).unwrap().unwrap();
        server.seen();
        let error = block_on(source.read(1 << 20..2 << 20)).unwrap_err();
        assert!(error.to_string().contains("large.bin: at byte 1048576: "), "{error}");
        let Error::Http { fault, .. } = &error else { panic!("{error}") };
        assert!(is_expected(fault), "{untrue:?}: {fault}");
        let asked = server.seen().iter().filter(|seen| seen.file == "large.bin").count();
        assert_eq!(asked, 1, "{untrue:?}");
        if fault.is_untrue() {
            assert_eq!(error.exit_code(), 4, "{untrue:?}");
        }
    }
}

#[test]
fn the_first_request_of_a_file_is_judged_as_well() {
    for untrue in [Fault::Whole, Fault::Shifted(1), Fault::Compressed, Fault::Page(200), Fault::NoContentRange] {
        let server = Server::new(files("t12"));
        server.fail("model-00002", 0, usize::MAX, untrue.clone());
        let error = open(&server).unwrap_err();
        assert_eq!(error.exit_code(), 4, "{untrue:?}: {error}");
        assert!(error.to_string().contains("model-00002-of-00003.safetensors"), "{error}");
    }
    let server = Server::new(files("t12"));
    server.fail("config.json", 0, 1, Fault::Page(200));
    assert!(open(&server).unwrap_err().to_string().contains("config.json: at byte 0: needed a file"));
    server.fail("config.json", 0, 1, Fault::Compressed);
    assert_eq!(open(&server).unwrap_err().exit_code(), 4);
    server.fail("model-00003", 0, 1, Fault::Status(404));
    assert!(matches!(open(&server), Err(Error::Index { .. })));
    open(&server).unwrap();
}

#[test]
fn redirects_are_followed_but_not_for_ever() {
    let server = Server::new(large());
    let to = |server: &Server| Fault::Redirect(format!("{}/large.bin", server.url()));
    server.fail("large", 1, 2, to(&server));
    assert_eq!(read_large(&server).unwrap().len(), (20 << 20) - 100_000);
    server.fail("large", 1, usize::MAX, to(&server));
    let (_, _, found) = fault(read_large(&server));
    assert!(found.to_string().contains("redirects"), "{found}");
}

#[test]
fn a_refused_connection_is_named() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/model");
    let folder = Folder::http(&url, timing()).unwrap();
    let error = block_on(Checkpoint::open(&folder)).unwrap_err();
    assert!(matches!(&error, Error::Http { fault: HttpFault::Network(_), .. }), "{error}");
    assert_eq!(error.exit_code(), 1);
    assert!(error.to_string().starts_with(&url), "{error}");
}

/// Reading from several threads that each block on their own: nothing waits for a runtime that is not there.
#[test]
fn several_callers_at_once() {
    let server = Server::new(files("t12"));
    let remote = Arc::new(open(&server).unwrap());
    let disk = block_on(Checkpoint::from_files(files("t12"))).unwrap();
    let names: Vec<String> = disk.names().take(64).map(str::to_string).collect();
    std::thread::scope(|scope| {
        for part in names.chunks(16) {
            let (remote, disk) = (&remote, &disk);
            scope.spawn(move || {
                for name in part {
                    assert_eq!(block_on(remote.bytes(name)).unwrap(), block_on(disk.bytes(name)).unwrap());
                }
            });
        }
    });
}

/// A small checkpoint comes whole and is then read from memory, also from a server that knows no ranges; a large one stays where it is.
#[test]
fn a_small_checkpoint_comes_whole() {
    for ranges in [true, false] {
        let server = Server::new(files("t12"));
        if !ranges {
            server.fail("model-00001-of-00003.safetensors", 0, usize::MAX, Fault::Whole);
        }
        let told = std::cell::Cell::new(0);
        let whole = block_on(folder(&server).whole_if_small(64 << 20, &|bytes| told.set(bytes))).unwrap();
        let checkpoint = block_on(Checkpoint::open(&whole)).unwrap();
        assert_eq!((checkpoint.is_remote(), checkpoint.total_bytes()), (false, told.get()));
        assert!(!server.seen().is_empty());
        let on_disk = block_on(Checkpoint::open_dir(golden("t12"))).unwrap();
        for tensor in on_disk.tensors() {
            assert!(
                block_on(checkpoint.bytes(&tensor.name)).unwrap() == block_on(on_disk.bytes(&tensor.name)).unwrap()
            );
        }
        // What was seen has been taken: nothing was asked since.
        assert!(server.seen().is_empty());
    }
    let server = Server::new(files("t12"));
    let large = block_on(folder(&server).whole_if_small(1 << 10, &|_| panic!("it is not small"))).unwrap();
    assert!(block_on(Checkpoint::open(&large)).unwrap().is_remote());
}
