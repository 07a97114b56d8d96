use std::collections::{BTreeSet, HashSet};

use crate::model::{Effect, RunId, RunStatus};

use super::Write;
use super::fence::{Asked, asked_by};
use super::sorted_batch::SortedBatch;

/// The runs that decide about a batch, and the existing runs that it changes.
///
/// A store whose transaction excludes every other one needs `claims` only. A store that locks rows
/// must lock all of them at once: a row that is locked later is locked out of order.
#[derive(Debug, Default)]
pub struct Locks {
    /// The runs that the fence must know, each with the epoch under which its writer holds it.
    pub claims: Asked,
    /// The runs whose row, inbox or children the batch changes. Of a run of `claims` that is not
    /// among them, the batch records attempts and nothing else.
    pub changed: BTreeSet<RunId>,
    /// Runs that the batch may end and whose children may then have to end.
    pub with_children: BTreeSet<RunId>,
    /// Runs that the batch may end or delete and whose parents it does not know.
    pub parents_unknown: BTreeSet<RunId>,
    /// Whether the batch ends runs under the claims of their workers.
    pub terminates: bool,
    /// Whether parents and children are left to be locked when they are changed.
    without_families: bool,
}

/// The events that the emissions of a batch have locked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockedEvents {
    /// The indexes of the emissions whose events another transaction holds.
    pub busy: HashSet<usize>,
    /// The runs that wait for the other events.
    pub waiting: BTreeSet<RunId>,
}

/// The state of a run, as far as it decides about pauses, resumes and revivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunState {
    /// The run's status.
    pub status: RunStatus,
    /// Which attempt of the run this is, from 1.
    pub attempt: i64,
}

impl Locks {
    /// Returns the locks that a batch needs.
    #[must_use]
    pub fn of(batch: &SortedBatch<'_>) -> Self {
        let ends = batch.ends.writes().iter();
        let canceled = || batch.cancels.writes().iter().chain(batch.terminations.writes()).copied();
        let deleted = || batch.deletions.writes().iter().map(|write| write.run_id);
        let with_children = ends.filter(|write| write.has_children).map(|write| write.claim.run_id);
        Self {
            claims: asked_by(batch.all.iter().copied()),
            changed: changed_by(batch).chain(canceled()).chain(deleted()).collect(),
            with_children: with_children.chain(canceled()).collect(),
            parents_unknown: canceled().chain(deleted()).collect(),
            terminates: !batch.terminations.is_empty(),
            without_families: false,
        }
    }

    /// Leaves the parents and children of runs that may end to be locked when they are changed.
    pub(super) fn without_families(self) -> Self {
        Self { with_children: BTreeSet::new(), parents_unknown: BTreeSet::new(), without_families: true, ..self }
    }

    /// Adds runs that the batch changes.
    pub(super) fn add_changed(&mut self, runs: impl IntoIterator<Item = RunId>) {
        self.changed.extend(runs);
    }

    /// Adds runs that the batch cancels.
    pub(super) fn add_canceled(&mut self, runs: impl IntoIterator<Item = RunId>) {
        for run in runs {
            self.changed.insert(run);
            if !self.without_families {
                self.with_children.insert(run);
                self.parents_unknown.insert(run);
            }
        }
    }

    /// Returns `true` if nothing has to be locked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.changed.is_empty()
    }
}

/// The existing runs that a batch changes, without those that it cancels, terminates or deletes.
/// The source of a fork is among them: it must not be deleted while its history is copied.
fn changed_by(batch: &SortedBatch<'_>) -> impl Iterator<Item = RunId> {
    let is_only_recorded =
        |write: &&Write| matches!(write, Write::Attempt(write) if matches!(write.effect, Effect::None));
    let claimed = batch.all.iter().copied().filter(move |write| !is_only_recorded(write)).filter_map(Write::fenced_by);
    let parents = batch.ends.writes().iter().filter_map(|write| write.parent_run_id);
    let signaled = batch.signals.writes().iter().map(|signal| signal.run_id);
    let forked = batch.forks.writes().iter().flat_map(|write| [Some(write.new.id), write.copied_source()]);
    let forked = forked.flatten();
    let revived = batch.revivals.writes().iter().map(|write| write.run_id);
    let paused = batch.pauses.writes().iter().chain(batch.resumes.writes()).copied();
    let placed = batch.placements.writes().iter().map(|write| write.run_id);
    let claimed = claimed.map(|claim| claim.run_id);
    claimed.chain(parents).chain(signaled).chain(forked).chain(revived).chain(paused).chain(placed)
}
