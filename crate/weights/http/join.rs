//! Several futures at once, on one thread.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use crate::error::Result;

/// Runs all futures, at most `most` of them at a time, in order of their start. The first error ends it and drops the rest.
///
/// # Errors
/// That of the first future that fails.
pub(crate) async fn join<F: Future<Output = Result<()>>>(
    futures: impl IntoIterator<Item = F>,
    most: usize,
) -> Result<()> {
    let mut waiting = futures.into_iter();
    let mut active: Vec<Pin<Box<F>>> = waiting.by_ref().take(most.max(1)).map(Box::pin).collect();
    poll_fn(move |cx| {
        loop {
            let (mut at, mut renewed) = (0, false);
            while at < active.len() {
                match active[at].as_mut().poll(cx) {
                    Poll::Pending => at += 1,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Ready(Ok(())) => match waiting.next() {
                        // The newcomer takes the place of the one that is done, and its turn comes in the next round.
                        Some(next) => {
                            active[at] = Box::pin(next);
                            (at, renewed) = (at + 1, true);
                        }
                        None => drop(active.swap_remove(at)),
                    },
                }
            }
            if !renewed {
                return if active.is_empty() { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::Error;

    /// Pending for `turns` polls.
    async fn wait(mut turns: u32) {
        poll_fn(|cx| {
            cx.waker().wake_by_ref();
            turns = turns.saturating_sub(1);
            if turns == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    #[test]
    fn no_more_than_allowed_run_at_once_and_all_end() {
        let (running, most, done) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let one = |turns| {
            let (running, most, done) = (&running, &most, &done);
            async move {
                running.set(running.get() + 1);
                most.set(running.get().max(most.get()));
                wait(turns).await;
                running.set(running.get() - 1);
                done.set(done.get() + 1);
                Ok(())
            }
        };
        pollster::block_on(join([1, 9, 2, 2, 7, 1, 1, 3].map(one), 3)).unwrap();
        assert_eq!((most.get(), done.get()), (3, 8));
    }

    #[test]
    fn the_first_error_ends_it() {
        let started = Cell::new(0);
        let one = |fails: bool| {
            started.set(started.get() + 1);
            async move { if fails { Err(Error::Usage("no".into())) } else { Ok(()) } }
        };
        let joined = join([false, true, false, false, false].into_iter().map(one), 2);
        assert!(pollster::block_on(joined).is_err());
        assert!(started.get() < 5);
    }
}
