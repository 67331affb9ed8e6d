//! Going back (section 10.8): whatever is appended, speculated, rejected, rewound and cut into chunks, the state is the one that the surviving
//! tokens leave when they are fed one by one.

use super::*;
use flash890::model::replay::replay_from;

/// Tokens of the longest sequence.
const LONGEST: usize = 40;

/// A model and the state after every prefix of one sequence. What survives a program is always such a prefix.
struct Prefixes {
    model: &'static Reference,
    sequence: Prompt,
    states: Vec<State>,
}

impl Prefixes {
    fn new(model: &'static Reference) -> Self {
        let sequence = text(model, LONGEST);
        let mut states = vec![model.state()];
        for &id in &sequence.ids {
            let mut next = states[states.len() - 1].clone();
            block_on(model.decode(&mut next, id, &mut Silent)).unwrap();
            states.push(next);
        }
        Prefixes { model, sequence, states }
    }

    /// Feeds `right` tokens of the sequence and then `wrong` others, in chunks.
    fn feed(&self, state: &mut State, right: usize, wrong: usize, chunk: usize) {
        let from = state.position;
        let vocab = self.model.config().vocab_size as u32;
        let mut prompt = piece(self.model, &self.sequence, from..from + right);
        let wrong: Vec<u32> = (0..wrong).map(|i| (self.sequence.ids[from + right + i] + 1) % vocab).collect();
        prompt.push_text(&wrong);
        if !prompt.is_empty() {
            feed(self.model, state, &prompt, Prefill { chunk, tail: DecoderTail::All, all_logits: false });
        }
    }

    /// Runs a random program of `steps` steps; returns what it did, for the message.
    fn run(&self, stream: &Stream, steps: usize) -> (State, String) {
        let mut draws = 0;
        let mut draw = |below: usize| {
            draws += 1;
            (stream.at(draws) % below as u64) as usize
        };
        // Most programs start from the middle of the sequence, where the window is full.
        let mut state = self.states[draw(LONGEST - 8)].clone();
        let mut log = format!("from {}", state.position);
        for _ in 0..steps {
            let room = LONGEST - state.position;
            match draw(32) {
                0..8 => {
                    let (n, chunk) = (draw(5.min(room + 1)), 1 + draw(4));
                    log += &format!(", append {n} by {chunk}");
                    self.feed(&mut state, n, 0, chunk);
                }
                8..31 => {
                    let rows = draw(7.min(room + 1));
                    let (right, chunk, begin) = (draw(rows + 1), 1 + draw(6), state.position);
                    // The accepted ones, or fewer: an answer may end in the middle of them.
                    let keep = begin + draw(right + 1);
                    log += &format!(", speculate {rows}, of which {right} are right, keep {}", keep - begin);
                    state.begin();
                    if begin > 0 {
                        self.model.draft(&state, 3);
                    }
                    self.feed(&mut state, right, rows - right, chunk);
                    state.settle(keep).unwrap();
                }
                _ => {
                    let position = draw(state.position + 1);
                    log += &format!(", rewind to {position}");
                    block_on(self.model.rewind(&mut state, &self.sequence, position)).unwrap();
                }
            }
        }
        (state, log)
    }
}

/// Ten thousand programs with f32 caches and in released numerics together.
#[test]
fn programs_end_where_plain_feeding_does() {
    for model in TINY.iter() {
        let prefixes = Prefixes::new(model);
        for program in 0..5_000 {
            let (state, log) = prefixes.run(&Stream::new(&format!("program {program}")), 1 + program % 3);
            assert!(state == prefixes.states[state.position], "program {program}: {log}");
        }
    }
}

/// A replay that begins inside the sequence is exact, pictures included.
#[test]
fn replays_from_inside_are_exact() {
    for model in &*TINY {
        let reach = 80;
        let prompt = with_picture(model);
        let mut long = prompt.clone();
        long.push_text(&ids(model, reach, "long"));
        assert!(replay_from(model.config(), long.len() - 7) > 0, "the replay begins inside");
        let (_, mut state) = one_piece(model, &long);
        for position in [long.len() - 7, 30, 11, 1, 0] {
            block_on(model.rewind(&mut state, &long, position)).unwrap();
            let mut plain = model.state();
            if position > 0 {
                feed(model, &mut plain, &piece(model, &long, 0..position), how(9, DecoderTail::All));
            }
            assert!(state == plain, "back to {position}");
        }
    }
}

#[test]
fn what_cannot_be_kept_is_refused() {
    let model = &TINY[0];
    let prompt = text(model, 12);
    let mut state = model.state();
    assert!(state.settle(0).is_err(), "nothing is open");
    feed(model, &mut state, &prompt, how(12, DecoderTail::All));
    let before = state.clone();
    state.begin();
    assert!(state.is_speculating());
    for position in [11, 13] {
        let error = state.settle(position).unwrap_err();
        assert!(error.to_string().contains("12..13"), "{error}");
    }
    assert!(state == before && state.is_speculating());
    for position in [13, 40] {
        assert!(block_on(model.rewind(&mut state, &prompt, position)).is_err());
    }
    state.settle(12).unwrap();
    assert!(state == before && !state.is_speculating());
}
