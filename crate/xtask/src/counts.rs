//! Counting what passed and what failed.

use std::fmt;
use std::ops::AddAssign;

/// How many tests or steps passed and failed. Its text is the closing line of `cargo xtask test`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Counts {
    /// A step that counts as one.
    pub(crate) fn one(success: bool) -> Self {
        Self { passed: u64::from(success), failed: u64::from(!success) }
    }

    /// Whether something passed and nothing failed: a run that found nothing to do is no success.
    pub(crate) fn is_success(self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// What `cargo test` did, summed over its test programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TestRun {
    pub(crate) counts: Counts,
    /// Tests marked `#[ignore]` and doc tests marked `ignore`: shown, so that none goes missing unseen.
    pub(crate) ignored: u64,
}

/// Sums the result lines in the stdout of `cargo test`.
///
/// A run that failed without a failed test (it did not compile, or a test program crashed) counts as one failure, and
/// so does a run without any result line.
pub(crate) fn read_test_run(succeeded: bool, stdout: &str) -> TestRun {
    let mut total = TestRun::default();
    let mut programs = 0;
    for run in stdout.lines().filter_map(read_result_line) {
        total.counts += run.counts;
        total.ignored += run.ignored;
        programs += 1;
    }
    if total.counts.failed == 0 && (!succeeded || programs == 0) {
        total.counts.failed = 1;
    }
    total
}

/// Reads the closing lines of `node --test`: `pass 3`, `fail 1` and so on, each behind a sign that depends on the reporter.
///
/// A test that was cancelled has failed; one that is skipped or left to do shows as ignored. As above, a run that failed
/// without a failed test, or that ran none, counts as one failure.
pub(crate) fn read_node_run(succeeded: bool, stdout: &str) -> TestRun {
    let number_of = |name: &str| {
        let read = |line: &str| without_colours(line).rsplit_once(name)?.1.trim().parse::<u64>().ok();
        stdout.lines().rev().find_map(read).unwrap_or(0)
    };
    let (passed, ignored) = (number_of(" pass "), number_of(" skipped ") + number_of(" todo "));
    let failed = number_of(" fail ") + number_of(" cancelled ");
    let nothing_said = failed == 0 && (!succeeded || passed == 0);
    TestRun { counts: Counts { passed, failed: failed + u64::from(nothing_said) }, ignored }
}

/// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; ...`; `None` for any other line.
fn read_result_line(line: &str) -> Option<TestRun> {
    let line = without_colours(line);
    let (_verdict, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number_of = |name: &str| {
        let words = numbers.split(';').find_map(|part| part.trim().strip_suffix(name))?;
        words.trim().parse::<u64>().ok()
    };
    let counts = Counts { passed: number_of("passed")?, failed: number_of("failed")? };
    Some(TestRun { counts, ignored: number_of("ignored").unwrap_or(0) })
}

/// The text without terminal colour sequences (`ESC [ ... m`).
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            let _sequence = chars.by_ref().find(|&end| end == 'm');
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO_PROGRAMS: &str = "\
running 2 tests
test a ... ok
test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 4 tests
test result: \u{1b}[31mFAILED\u{1b}[m. 1 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.50s
";

    #[test]
    fn result_lines_are_summed() {
        let expected = TestRun { counts: Counts { passed: 3, failed: 2 }, ignored: 1 };
        assert_eq!(read_test_run(false, TWO_PROGRAMS), expected);
    }

    #[test]
    fn other_lines_are_not_result_lines() {
        for line in
            ["test result: ok", "test result: ok. many passed; 0 failed", "test a::result ... ok", "", "\u{1b}["]
        {
            assert_eq!(read_result_line(line), None, "{line}");
        }
    }

    #[test]
    fn a_compile_error_is_one_failure() {
        assert_eq!(read_test_run(false, "").counts, Counts { passed: 0, failed: 1 });
    }

    #[test]
    fn a_crashed_test_program_is_one_failure() {
        let stdout = "test result: ok. 7 passed; 0 failed; 0 ignored\nrunning 3 tests\n";
        assert_eq!(read_test_run(false, stdout).counts, Counts { passed: 7, failed: 1 });
    }

    #[test]
    fn node_runs_are_read_from_their_closing_lines() {
        let stdout = "\u{2714} loads, all pass 7 (3 ms)\n\u{2139} tests 6\n\u{2139} pass 3\n\u{1b}[34m\u{2139} fail 1\u{1b}[39m\n\
                      \u{2139} cancelled 1\n\u{2139} skipped 1\n\u{2139} todo 0\n\u{2139} duration_ms 12.5\n";
        let expected = TestRun { counts: Counts { passed: 3, failed: 2 }, ignored: 1 };
        assert_eq!(read_node_run(false, stdout), expected);
        assert_eq!(read_node_run(true, "# pass 2\n# fail 0\n").counts, Counts { passed: 2, failed: 0 });
        assert_eq!(read_node_run(false, "# pass 2\n# fail 0\n").counts, Counts { passed: 2, failed: 1 });
        assert_eq!(read_node_run(true, "").counts, Counts { passed: 0, failed: 1 });
    }

    #[test]
    fn a_run_without_any_test_program_fails() {
        assert_eq!(read_test_run(true, "nothing here").counts, Counts { passed: 0, failed: 1 });
    }

    #[test]
    fn the_closing_line_is_as_ci_expects_it() {
        let mut counts = Counts::one(true);
        counts += Counts::one(false);
        counts += Counts { passed: 40, failed: 0 };
        assert_eq!(counts.to_string(), "41 passed, 1 failed");
        assert!(!counts.is_success());
        assert!(Counts::one(true).is_success());
        assert!(!Counts::default().is_success());
    }
}
