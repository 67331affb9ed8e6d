//! How many submits a long plan takes, so that none keeps a slow adapter busy for long: others want to draw, and browsers and drivers end what
//! runs for seconds.

use std::cell::Cell;

/// Milliseconds that a submit should take at most.
const GOAL: f64 = 100.0;
/// Runs that are measured: the first one also compiles.
const MEASURED: u32 = 2;
/// Submits of a plan before anything was measured.
const AT_FIRST: usize = 8;

/// What is known about an adapter's speed. Work is rows times steps.
#[derive(Debug, Default)]
pub struct Pace {
    ms_per_work: Cell<f64>,
    measured: Cell<u32>,
}

impl Pace {
    /// Submits for a plan of that many steps on that many rows.
    pub fn submits(&self, rows: usize, steps: usize) -> usize {
        if self.measured.get() == 0 {
            return AT_FIRST;
        }
        ((self.ms_per_work.get() * (rows * steps) as f64 / GOAL).ceil() as usize).clamp(1, steps.max(1))
    }

    /// Whether it is worth waiting for the next plan to end, to see how long it takes.
    pub fn is_open(&self) -> bool {
        self.measured.get() < MEASURED
    }

    /// Notes how long a plan took.
    pub fn saw(&self, rows: usize, steps: usize, ms: f64) {
        self.ms_per_work.set(ms / (rows * steps).max(1) as f64);
        self.measured.set(self.measured.get() + 1);
    }
}

/// Milliseconds since some moment.
#[cfg(not(target_arch = "wasm32"))]
pub fn now() -> f64 {
    use std::sync::LazyLock;
    use std::time::Instant;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    1e3 * START.elapsed().as_secs_f64()
}

/// Milliseconds since some moment.
#[cfg(target_arch = "wasm32")]
pub fn now() -> f64 {
    js_sys::Date::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submits_follow_the_last_measurement() {
        let pace = Pace::default();
        assert!(pace.is_open());
        assert_eq!(pace.submits(64, 700), AT_FIRST);
        pace.saw(64, 700, 5000.0);
        assert!(pace.is_open());
        assert_eq!(pace.submits(64, 700), 50);
        pace.saw(32, 700, 200.0);
        assert!(!pace.is_open());
        assert_eq!((pace.submits(64, 700), pace.submits(16, 700), pace.submits(64, 350)), (4, 1, 2));
        pace.saw(64, 700, 0.0);
        assert_eq!(pace.submits(64, 700), 1);
    }
}
