//! The lab behind the page, natively: the same calls that the browser's worker makes, on the CPU and on a GPU.

use flash890::lab::content::{Badge, Lab};
use flash890::lab::desk::{Desk, Event, Host, How, Kv, RunRequest, Where, Wish};
use flash890::weights::tiny;
use pollster::block_on;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

const TEXT: &str = "Bộ nhớ KV chỉ cần 890 byte";

fn desk(wish: Wish) -> (Desk, Rc<RefCell<Vec<String>>>) {
    let begin = Instant::now();
    let heard = Rc::new(RefCell::new(Vec::new()));
    let ear = heard.clone();
    let host = Host {
        clock: Box::new(move || begin.elapsed().as_secs_f64()),
        tell: Box::new(move |event| {
            ear.borrow_mut().push(match event {
                Event::Progress(stage, ..) => stage.to_string(),
                Event::Reading(_) => "reading".into(),
                Event::Lost(_) => "lost".into(),
                Event::Recovered => "recovered".into(),
            })
        }),
    };
    (block_on(Desk::open(block_on(tiny::lab()).unwrap(), wish, None, host)).unwrap(), heard)
}

fn request(kv: Kv) -> RunRequest {
    RunRequest { text: TEXT.into(), picture: None, token: None, layer: None, kv }
}

fn failed(lab: &Lab) -> Vec<String> {
    let checks = lab.chapters.iter().flat_map(|chapter| chapter.checks.iter().map(move |check| (chapter.code, check)));
    checks
        .filter(|(_, check)| !check.passed)
        .map(|(code, check)| format!("[{code}] {}: {}", check.what.en, check.numbers.en))
        .collect()
}

fn write(desk: &mut Desk, tokens: usize) -> Vec<u32> {
    (0..tokens).map(|_| block_on(desk.step(How::default())).unwrap().id).collect()
}

#[test]
fn one_prompt_from_every_side() {
    let (mut desk, _) = desk(Wish::Cpu);
    assert!(block_on(desk.report(Where::default())).is_err(), "nothing has run");
    let lab = block_on(desk.run(request(Kv::Released), None)).unwrap();
    assert_eq!((failed(&lab), lab.chapters.len(), lab.followed), (vec![], 10, lab.tokens.len() - 1));
    assert_eq!(lab.layer, 20);

    let other = block_on(desk.report(Where { token: Some(5), layer: Some(3) })).unwrap();
    assert_eq!((other.followed, other.layer, failed(&other)), (5, 3, vec![]));
    assert_eq!(other.tokens, lab.tokens);
    let back = block_on(desk.report(Where { token: Some(lab.followed), layer: Some(20) })).unwrap();
    assert_eq!(back, lab, "nothing is left of the detour");

    for place in [Where { token: Some(999), layer: None }, Where { token: None, layer: Some(40) }] {
        assert!(block_on(desk.report(place)).is_err(), "{place:?}");
    }
    let taps = desk.taps().unwrap();
    let streams = taps.iter().find(|tap| tap.tap == "2a.streams" && tap.layer == 7).unwrap();
    let (info, real, indices) = desk.tensor("2a.streams", 7).unwrap();
    assert_eq!((&info, real.len(), indices.len()), (streams, lab.tokens.len() * 4 * 64, 0));
    assert!(desk.tensor("2a.streams", 40).is_err());
}

/// What is written can be followed like what was given, and writing goes on as if nobody had looked.
#[test]
fn written_tokens_are_followed() {
    let (mut desk, _) = desk(Wish::Cpu);
    let lab = block_on(desk.run(request(Kv::Released), None)).unwrap();
    let n = lab.tokens.len();
    let undisturbed = write(&mut desk, 4);
    block_on(desk.run(request(Kv::Released), None)).unwrap();
    let first = write(&mut desk, 2);
    let seen = block_on(desk.report(Where { token: Some(n), layer: None })).unwrap();
    assert_eq!((seen.followed, seen.tokens.len(), seen.tokens[n].id), (n, n + 1, first[0]));
    assert_eq!(failed(&seen), Vec::<String>::new());
    let next = block_on(desk.report(Where { token: Some(n + 1), layer: None })).unwrap();
    assert_eq!([next.tokens[n].id, next.tokens[n + 1].id], first[..]);
    let given = block_on(desk.report(Where { token: Some(5), layer: None })).unwrap();
    assert_eq!((given.followed, given.tokens), (5, lab.tokens));
    let rest = write(&mut desk, 2);
    assert_eq!([first, rest].concat(), undisturbed);
}

#[test]
fn temperature_draws_by_seed_and_position() {
    let (mut desk, _) = desk(Wish::Cpu);
    let mut drawn = |seed| {
        block_on(desk.run(request(Kv::F32), None)).unwrap();
        let how = How { temperature: 1.5, seed };
        (0..6).map(|_| block_on(desk.step(how)).unwrap().id).collect::<Vec<_>>()
    };
    let (a, b, again) = (drawn(1), drawn(2), drawn(1));
    assert_eq!(a, again);
    assert_ne!(a, b);
    assert!(block_on(desk.step(How { temperature: -1.0, seed: 0 })).is_err());
}

#[test]
fn requests_that_make_no_sense_are_refused_and_change_nothing() {
    let (mut desk, _) = desk(Wish::Cpu);
    let lab = block_on(desk.run(request(Kv::Released), None)).unwrap();
    let long = RunRequest { text: "a".repeat(100_000), ..request(Kv::Released) };
    let picture = |name: &str| RunRequest { picture: Some(name.into()), ..request(Kv::Released) };
    for (request, own) in [
        (long, None),
        (RunRequest { token: Some(500), ..request(Kv::Released) }, None),
        (RunRequest { layer: Some(40), ..request(Kv::Released) }, None),
        (picture("sunset"), None),
        (picture("own"), None),
        (picture("own"), Some(&b"GIF89a not a picture that is read"[..])),
    ] {
        assert!(block_on(desk.run(request.clone(), own)).is_err(), "{:?}", request.picture);
    }
    assert_eq!(block_on(desk.report(Where::default())).unwrap(), lab);
}

/// With unquantised caches both compute the same, so that every tap and every written token agree.
#[test]
fn the_gpu_says_what_the_reference_says() {
    let ((mut gpu, heard), (mut cpu, _)) = (desk(Wish::Gpu), desk(Wish::Cpu));
    let picture = RunRequest { picture: Some("grid".into()), ..request(Kv::F32) };
    let on_gpu = block_on(gpu.run(picture.clone(), None)).unwrap();
    let on_cpu = block_on(cpu.run(picture, None)).unwrap();
    assert_eq!(on_gpu.tokens, on_cpu.tokens);
    let parity = block_on(gpu.parity()).unwrap();
    let rows = parity.rows.unwrap();
    let off: Vec<_> = rows.iter().filter(|row| !row.passed).collect();
    assert!(off.is_empty() && rows.len() > 700, "{} rows, of which {off:?}", rows.len());
    assert!(block_on(cpu.parity()).unwrap().rows.is_none());
    assert_eq!(write(&mut gpu, 3), write(&mut cpu, 3));

    // The device is lost in the middle: the answer goes on.
    gpu.lose_device();
    assert_eq!(write(&mut gpu, 2), write(&mut cpu, 2));
    assert!(heard.borrow().ends_with(&["lost".into(), "recovered".into()]), "{:?}", heard.borrow());
}

/// Every check of the lab holds for the GPU's own numbers, caches as released.
#[test]
fn the_chapters_hold_on_the_gpu() {
    let (mut desk, _) = desk(Wish::Gpu);
    let lab = block_on(desk.run(request(Kv::Released), None)).unwrap();
    assert_eq!(failed(&lab), Vec::<String>::new());
    let measured = lab.chapters.iter().flat_map(|chapter| &chapter.tables).filter(|table| table.badge == Badge::Gpu);
    assert!(measured.count() >= 10);
}
