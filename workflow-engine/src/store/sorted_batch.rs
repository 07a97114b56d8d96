use std::time::Duration;

use crate::model::{Claim, NewAudit, NewEmission, NewRun, NewSignal, RunId, SeatLine, WorkerId};

use super::{
    AttemptWrite, ClaimRequest, ContinueWrite, CrashesWrite, DeleteWrite, EndWrite, ForkWrite, LimitWrite, ParkWrite,
    PlaceWrite, QueueWrite, RetryWrite, ReviveWrite, ScheduleWrite, StatisticsWrite, Write,
};

/// The writes of a batch by kind, in the order in which [`apply`](super::apply()) applies the
/// kinds.
#[derive(Debug, Default)]
pub struct SortedBatch<'w> {
    /// All writes, in their order.
    pub all: Vec<&'w Write>,
    /// Of [`Write::Queue`].
    pub queues: Indexed<&'w QueueWrite>,
    /// Of [`Write::Limit`].
    pub limits: Indexed<&'w LimitWrite>,
    /// Of [`Write::Schedule`].
    pub schedules: Indexed<&'w ScheduleWrite>,
    /// Of [`Write::Start`], without a single key.
    pub starts: Indexed<&'w NewRun>,
    /// Of [`Write::Start`], with a single key.
    pub singles: Indexed<&'w NewRun>,
    /// Of [`Write::Fork`].
    pub forks: Indexed<&'w ForkWrite>,
    /// Of [`Write::Attempt`].
    pub attempts: Indexed<&'w AttemptWrite>,
    /// Of [`Write::Signal`].
    pub signals: Indexed<&'w NewSignal>,
    /// Of [`Write::Emit`].
    pub emissions: Indexed<&'w NewEmission>,
    /// Of [`Write::Crashes`].
    pub crashes: Indexed<&'w CrashesWrite>,
    /// Of [`Write::End`].
    pub ends: Indexed<&'w EndWrite>,
    /// Of [`Write::Park`].
    pub parks: Indexed<&'w ParkWrite>,
    /// Of [`Write::Continue`].
    pub continues: Indexed<&'w ContinueWrite>,
    /// Of [`Write::Retry`].
    pub retries: Indexed<&'w RetryWrite>,
    /// Of [`Write::Revive`].
    pub revivals: Indexed<&'w ReviveWrite>,
    /// Of [`Write::Pause`].
    pub pauses: Indexed<RunId>,
    /// Of [`Write::Resume`].
    pub resumes: Indexed<RunId>,
    /// Of [`Write::Place`].
    pub placements: Indexed<&'w PlaceWrite>,
    /// Of [`Write::ReleaseUnknown`]: a worker and the claims that it knows.
    pub unknown_claims: Indexed<(WorkerId, &'w [Claim])>,
    /// Of [`Write::Cancel`].
    pub cancels: Indexed<RunId>,
    /// Of [`Write::Terminate`].
    pub terminations: Indexed<RunId>,
    /// Of [`Write::Expire`]: limit and patience.
    pub expiries: Indexed<(u32, Duration)>,
    /// Of [`Write::Delete`].
    pub deletions: Indexed<&'w DeleteWrite>,
    /// Of [`Write::CallSeats`].
    pub calls: Indexed<&'w SeatLine>,
    /// Of [`Write::Claim`].
    pub claims: Indexed<&'w ClaimRequest>,
    /// The audit rows of [`Write::Audited`], each with the index of its write.
    pub audits: Indexed<&'w NewAudit>,
    /// Of [`Write::Statistics`].
    pub statistics: Indexed<&'w StatisticsWrite>,
}

impl<'w> SortedBatch<'w> {
    /// Sorts the writes. Within a kind they keep their order.
    #[must_use]
    pub fn of(writes: &'w [Write]) -> Self {
        Self::with(writes, std::iter::empty())
    }

    /// Sorts the writes, and those of the chunks of bulk operations, which stand behind them.
    pub(super) fn with(writes: &'w [Write], chunks: impl Iterator<Item = &'w Write>) -> Self {
        let all: Vec<&'w Write> = writes.iter().chain(chunks).collect();
        let mut batch = Self::default();
        for (index, write) in all.iter().copied().enumerate() {
            if let Write::Audited(audited) = write {
                batch.audits.push(index, &audited.order);
            }
            match write.inner() {
                Write::Queue(write) => batch.queues.push(index, write),
                Write::Limit(write) => batch.limits.push(index, write),
                Write::Schedule(write) => batch.schedules.push(index, write),
                Write::Start(run) if run.single.is_some() => batch.singles.push(index, run),
                Write::Start(run) => batch.starts.push(index, run),
                Write::Fork(write) => batch.forks.push(index, write),
                Write::Attempt(write) => batch.attempts.push(index, write),
                Write::Signal(signal) => batch.signals.push(index, signal),
                Write::Emit(emission) => batch.emissions.push(index, emission),
                Write::Crashes(write) => batch.crashes.push(index, write),
                Write::End(write) => batch.ends.push(index, write),
                Write::Park(write) => batch.parks.push(index, write),
                Write::Continue(write) => batch.continues.push(index, write),
                Write::Retry(write) => batch.retries.push(index, write),
                Write::Revive(write) => batch.revivals.push(index, write),
                Write::Pause(run) => batch.pauses.push(index, *run),
                Write::Resume(run) => batch.resumes.push(index, *run),
                Write::Place(write) => batch.placements.push(index, write),
                Write::ReleaseUnknown { worker, known } => batch.unknown_claims.push(index, (*worker, known)),
                Write::Cancel(run) => batch.cancels.push(index, *run),
                Write::Terminate(run) => batch.terminations.push(index, *run),
                Write::Expire { limit, patience } => batch.expiries.push(index, (*limit, *patience)),
                Write::Delete(write) => batch.deletions.push(index, write),
                Write::CallSeats(line) => batch.calls.push(index, line),
                Write::Claim(request) => batch.claims.push(index, request),
                Write::Statistics(write) => batch.statistics.push(index, write),
                // The write inside is another one, and chunks stand behind all writes.
                Write::Audited(_) | Write::Bulk(_) => {}
            }
        }
        Self { all, ..batch }
    }
}

/// The writes of one kind, each with its index in the batch.
#[derive(Debug)]
pub struct Indexed<W> {
    indexes: Vec<usize>,
    writes: Vec<W>,
}

impl<W> Default for Indexed<W> {
    fn default() -> Self {
        Self { indexes: Vec::new(), writes: Vec::new() }
    }
}

impl<W: Copy> Indexed<W> {
    fn push(&mut self, index: usize, write: W) {
        self.indexes.push(index);
        self.writes.push(write);
    }

    /// Returns the writes.
    #[must_use]
    pub fn writes(&self) -> &[W] {
        &self.writes
    }

    /// Returns the index of each write in the batch.
    pub fn indexes(&self) -> impl Iterator<Item = usize> {
        self.indexes.iter().copied()
    }

    /// Returns each write with its index in the batch.
    pub fn iter(&self) -> impl Iterator<Item = (usize, W)> {
        self.indexes().zip(self.writes.iter().copied())
    }

    /// Returns the number of writes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Returns `true` if the batch has no write of this kind.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}
