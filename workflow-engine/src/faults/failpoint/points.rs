//! Lists every failpoint of the engine.

use Action::{Delay, Error, Kill, Lost, Stop};

/// The failure that a point injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `kill`: SIGKILL ends the process.
    Kill,
    /// `stop`: SIGSTOP stops the process.
    Stop,
    /// `delay`: the thread sleeps, by default for 100 ms.
    Delay,
    /// `error`: the operation does nothing and returns the error of an unreachable database.
    Error,
    /// `lost`: the operation succeeds but returns the error of an unreachable database, as if its
    /// reply was lost.
    Lost,
}

impl Action {
    /// All actions.
    pub const ALL: [Self; 5] = [Kill, Stop, Delay, Error, Lost];

    /// The actions of points in a test's own workflows.
    pub(super) const OF_TESTS: &[Self] = &[Kill, Stop, Delay];

    /// Returns the action's word in `WORKFLOW_FAILPOINT`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Kill => "kill",
            Stop => "stop",
            Delay => "delay",
            Error => "error",
            Lost => "lost",
        }
    }
}

/// A failpoint of the engine.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// The name: the part of the engine and the moment.
    pub name: &'static str,
    /// The state of the engine at this point.
    pub truth: &'static str,
    /// The actions that the point accepts.
    pub actions: &'static [Action],
    /// Whether a transaction is open at this point. On SQLite, a process that stops there blocks
    /// all others.
    pub in_transaction: bool,
    /// Whether only SQLite reaches this point.
    pub only_sqlite: bool,
}

impl Point {
    const fn new(name: &'static str, truth: &'static str, actions: &'static [Action]) -> Self {
        Self { name, truth, actions, in_transaction: false, only_sqlite: false }
    }

    const fn in_transaction(self) -> Self {
        Self { in_transaction: true, ..self }
    }

    const fn only_sqlite(self) -> Self {
        Self { only_sqlite: true, ..self }
    }
}

/// The actions of a point that cannot return an error.
const SILENT: &[Action] = &[Kill, Stop, Delay];
/// The actions of a point before an operation.
const BEFORE: &[Action] = &[Kill, Stop, Delay, Error];
/// The actions of a point after an operation.
const AFTER: &[Action] = &[Kill, Stop, Delay, Lost];

/// All failpoints of the engine. A test checks that the code contains exactly these.
pub const POINTS: &[Point] = &[
    Point::new("executor.before_commit", "a batch is taken from the queue, nothing of it is in the database", BEFORE),
    Point::new("executor.after_commit", "the batch is committed, its senders have no answer", AFTER),
    Point::new("executor.before_answer", "the batch is committed, no task and no process is notified", SILENT),
    Point::new("executor.before_hint", "a commit has changed runs, other processes are not notified", BEFORE),
    Point::new("store.in_transaction", "every statement of a batch is executed, the transaction is open", BEFORE)
        .in_transaction(),
    Point::new("claim.before_commit", "a worker has permits and is about to claim runs", BEFORE),
    Point::new("claim.after_commit", "runs are claimed, their drives have not started", AFTER),
    Point::new("drive.before_history", "a run is claimed, its history is not read", BEFORE),
    Point::new("drive.before_look", "a run waits for signals or children, the drive has not looked for them", BEFORE),
    Point::new("record.before_commit", "a drive has the outcome of a step, the executor does not have it", SILENT),
    Point::new("park.before_commit", "a drive has dropped its run, the park is not committed", BEFORE),
    Point::new("park.after_commit", "the run is parked, its drive is about to end", SILENT),
    Point::new("retry.before_commit", "the run has failed and will be retried, the retry is not committed", BEFORE),
    Point::new("retry.after_commit", "the retry of the run is committed", SILENT),
    Point::new("continue.before_commit", "a run continues as new, this is not committed", BEFORE),
    Point::new("continue.after_commit", "the next generation of the run is committed", SILENT),
    Point::new("end.before_commit", "a run has ended, its end is not committed", BEFORE),
    Point::new("end.after_commit", "the end is committed, or the claim was lost", SILENT),
    Point::new("transaction.before_begin", "a transactional step may begin, its transaction is not open", BEFORE),
    Point::new("transaction.begun", "the transaction is open, its body has not begun", SILENT).in_transaction(),
    Point::new("transaction.body_ended", "the body has ended, the transaction does not contain the outcome", SILENT)
        .in_transaction(),
    Point::new("transaction.before_commit", "the transaction contains the outcome and is open", BEFORE)
        .in_transaction(),
    Point::new("transaction.after_commit", "the transaction is committed, its drive has no answer", AFTER),
    Point::new("lease.after_open", "a worker is recorded and holds its lock, it has no claims", SILENT),
    Point::new("lease.before_renew", "a lease is due for renewal", BEFORE),
    Point::new("lease.after_renew", "the claims are renewed, their drives have no answer", AFTER),
    Point::new("lease.before_release", "another worker is known to be dead, its claims are not released", BEFORE),
    Point::new("lease.in_release", "the claims of a dead worker are released, it is still recorded", BEFORE)
        .only_sqlite(),
    Point::new("lease.after_release", "the claims of a dead worker are released, this process has not noticed", AFTER),
    Point::new("migrate.before_statements", "the migration lock is held, a migration is missing", BEFORE)
        .in_transaction(),
    Point::new(
        "migrate.before_version",
        "the statements of a migration are executed, its version is not recorded",
        BEFORE,
    )
    .in_transaction(),
    Point::new("migrate.before_commit", "all migrations are applied, the transaction is open", BEFORE).in_transaction(),
    Point::new("migrate.after_commit", "the migrations are committed, the process has no answer", AFTER),
    Point::new("start.before_commit", "an application starts a run, the executor does not have the write", BEFORE),
    Point::new("start.after_commit", "the run is committed, the application has no answer", AFTER),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_comes_before_or_after_and_never_both() {
        for point in POINTS {
            let both = point.actions.contains(&Error) && point.actions.contains(&Lost);
            assert!(!both, "{}", point.name);
        }
    }
}
