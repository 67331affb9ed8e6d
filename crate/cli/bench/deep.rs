//! A long context without the hours that reading it takes: the caches of a short one, again and again. A kernel's time does not depend on what
//! the rows hold, only on how many there are.

use crate::blocks::b6a_kv_cache::{Plane, Ring, State};

/// A state of `tokens` tokens, an even number, whose caches repeat those of `short`, which fills its windows.
pub(super) fn stretched(short: &State, tokens: usize) -> State {
    let mut long = short.clone();
    long.position = tokens;
    for source in long.sources.iter_mut().flatten() {
        source.entries = repeated(&source.entries, tokens / source.ratio);
        source.keys = repeated(&source.keys, tokens / source.ratio);
    }
    for ring in long.windows.iter_mut().chain(&mut long.draft_windows) {
        let rows = ring.in_order();
        *ring = Ring::from_order(&rows, rows.len().max(1), tokens - rows.len());
    }
    long
}

/// The rows of a plane, from the first again after the last, `len` of them.
fn repeated(plane: &Plane, len: usize) -> Plane {
    let mut out = plane.clone();
    out.resize(len);
    for row in plane.len()..len {
        out.copy_row(row, plane, row % plane.len());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::b6a_kv_cache::Format;

    #[test]
    fn rows_repeat() {
        let mut plane = Plane::new(Format::F32, 2);
        plane.extend(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(repeated(&plane, 5).values, [1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0]);
    }
}
