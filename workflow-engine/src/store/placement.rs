//! Where runs wait to be claimed, and changes of that.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;

use crate::model::{Lane, NewRun, Priority, Rank, RunId, RunStatus};

use super::target::Target;
use super::{Outcome, PlaceOutcome, Write};

/// Where a run waits to be claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The queue, the workflow and the version.
    pub lane: Lane,
    /// The gate of the queue; `None` behind no gate.
    pub gate: Option<String>,
    /// The rank among the due runs of the lane.
    pub rank: Rank,
}

/// The facts of a run that decide whether its placement may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedRun {
    /// The status.
    pub status: RunStatus,
    /// How often the run was claimed.
    pub epoch: i64,
    /// Where it waits.
    pub placement: Placement,
}

/// Changes where a run waits to be claimed. The run keeps its history, its signals and its
/// deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceWrite {
    /// The run.
    pub run_id: RunId,
    /// The change.
    pub change: PlaceChange,
}

/// A change of the place where a run waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlaceChange {
    /// Sets the priority with which the run waits for its first claim.
    Priority(Priority),
    /// Moves the run to another queue.
    Queue {
        /// The lane in the other queue. If the run no longer has this workflow and version, nothing
        /// changes.
        lane: Lane,
        /// The gate, which the run keeps. If the run has another one, nothing changes.
        gate: Option<String>,
    },
}

impl PlaceChange {
    /// Returns the outcome for this run, and its new place if it changes.
    ///
    /// A run that a worker holds does not move: it has a slot of its old queue, and no claim has
    /// counted one for it in the new queue.
    #[must_use]
    pub fn decide(&self, run: &PlacedRun) -> (Outcome, Option<Placement>) {
        let PlacedRun { status, epoch, placement: old } = run;
        let answer = |outcome| (Outcome::Placed(outcome), None);
        if status.is_terminal() {
            return answer(PlaceOutcome::Ended(*status));
        }
        let new = match self {
            Self::Priority(_) if old.rank == Rank::Begun && (*epoch > 0 || *status != RunStatus::Pending) => {
                return answer(PlaceOutcome::Begun);
            }
            Self::Priority(priority) => Placement { rank: Rank::New(*priority), ..old.clone() },
            Self::Queue { lane, gate } => {
                if (&lane.workflow, &lane.version, gate) != (&old.lane.workflow, &old.lane.version, &old.gate) {
                    return (Outcome::Lost, None);
                }
                Placement { lane: lane.clone(), ..old.clone() }
            }
        };
        if new == *old {
            answer(PlaceOutcome::Unchanged)
        } else if *status == RunStatus::Running {
            answer(PlaceOutcome::Held)
        } else {
            (Outcome::Placed(PlaceOutcome::Changed), Some(new))
        }
    }
}

/// The places of runs in a [`BatchTarget`](super::BatchTarget).
pub trait PlaceTarget: Target {
    /// Returns the runs with these ids, without ids that do not exist.
    fn read_placements(
        &mut self,
        runs: &BTreeSet<RunId>,
    ) -> impl Future<Output = Result<HashMap<RunId, PlacedRun>, Self::Error>> + Send;

    /// Gives runs that no worker holds other places. The time at which each is due stays.
    fn place_runs(&mut self, runs: &BTreeMap<RunId, Placement>)
    -> impl Future<Output = Result<(), Self::Error>> + Send;
}

impl Write {
    /// Returns the lanes that the write needs, each with a gate: those of the runs that it starts,
    /// and those to which it moves runs.
    pub fn new_places(&self) -> impl Iterator<Item = (&Lane, Option<&str>)> {
        let moved = std::iter::once(self).chain(self.chunk()).filter_map(|write| match write.inner() {
            Self::Place(PlaceWrite { change: PlaceChange::Queue { lane, gate }, .. }) => Some((lane, gate.as_deref())),
            _ => None,
        });
        self.new_runs().map(NewRun::place).chain(moved)
    }
}
