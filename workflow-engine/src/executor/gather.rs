//! How long the executor waits for more writes before it closes a batch.

use std::time::Duration;

use tokio::time::Instant;

use super::queue::Queue;

/// The longest time for which the executor gathers. The last commit may have taken far longer,
/// because the database was away.
const LONGEST_GATHER: Duration = Duration::from_millis(5);

/// Time between two looks at the queue.
const LOOK: Duration = Duration::from_micros(50);

/// How the executor waits for senders that are about to send.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Gather {
    /// It sleeps, because it has a thread of its own.
    Asleep,
    /// It does not wait, because the senders run on its own thread.
    Never,
}

/// The last commit, from which the size of the next batch is estimated.
#[derive(Clone, Copy, Default)]
pub(super) struct LastCommit {
    writes: usize,
    took: Duration,
    ended: Option<Instant>,
}

impl LastCommit {
    /// Notes a commit. Its time counts from the end of the commit before it, if it was handed to
    /// the store earlier than that.
    pub(super) fn note(&mut self, writes: usize, begun: Instant, ended: Instant) {
        let begun = self.ended.map_or(begun, |before| before.max(begun));
        *self = Self { writes, took: ended.saturating_duration_since(begun), ended: Some(ended) };
    }

    /// Returns the number of writes with which the next batch need not wait any longer. A quarter
    /// of the last batch is enough: while these are being committed, the other senders run. With
    /// half, the database would be idle twice as long between two commits.
    pub(super) fn enough(&self) -> usize {
        self.writes / 4
    }

    /// Returns the longest wait for the next batch: half the time of the last commit, at most
    /// [`LONGEST_GATHER`].
    fn longest_wait(&self) -> Duration {
        (self.took / 2).min(LONGEST_GATHER)
    }
}

impl Gather {
    /// Takes further writes from the queue while more are expected.
    ///
    /// The answers to the last commit have just woken many senders. A commit of the first write
    /// alone would make all others wait for two commits. A single sender never waits.
    ///
    /// The thread sleeps, because the timer of the runtime is too coarse for this.
    pub(super) fn gather(self, queue: &mut Queue, last: LastCommit) {
        if self == Self::Never {
            return;
        }
        let until = Instant::now() + last.longest_wait();
        while queue.writes() < last.enough() && Instant::now() < until {
            std::thread::sleep(LOOK);
            queue.take_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(writes: usize, millis: u64) -> LastCommit {
        LastCommit { writes, took: Duration::from_millis(millis), ended: None }
    }

    #[test]
    fn a_single_sender_never_waits() {
        assert_eq!((LastCommit::default().enough(), LastCommit::default().longest_wait()), (0, Duration::ZERO));
        assert_eq!(after(3, 2).enough(), 0, "at least one write is always queued");
    }

    #[test]
    fn a_quarter_of_the_last_batch_is_awaited_for_half_of_its_time() {
        let last = after(500, 2);
        assert_eq!((last.enough(), last.longest_wait()), (125, Duration::from_millis(1)));
        assert_eq!(after(500, 20_000).longest_wait(), LONGEST_GATHER, "the database was away");
    }

    #[test]
    fn the_time_in_line_behind_another_commit_does_not_count() {
        let begun = Instant::now();
        let after = |millis| begun + Duration::from_millis(millis);
        let mut last = LastCommit::default();
        last.note(100, begun, after(8));
        assert_eq!(last.took, Duration::from_millis(8));
        last.note(100, after(4), after(10));
        assert_eq!(last.took, Duration::from_millis(2));
        last.note(100, after(20), after(23));
        assert_eq!(last.took, Duration::from_millis(3));
    }
}
