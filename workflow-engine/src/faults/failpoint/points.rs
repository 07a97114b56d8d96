//! Every point of the engine.

use Action::{Delay, Error, Kill, Lost, Stop};

/// What goes wrong at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `kill`: the process dies by SIGKILL.
    Kill,
    /// `stop`: the process is stopped by SIGSTOP.
    Stop,
    /// `delay`: the thread stands still for a while; 100 ms unless it says otherwise.
    Delay,
    /// `error`: the operation answers with an error of a database that is away, and nothing was done.
    Error,
    /// `lost`: the operation was done, and answers with such an error all the same: its reply was lost.
    Lost,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 5] = [Kill, Stop, Delay, Error, Lost];

    /// Those of points in the bodies of a test's own workflows.
    pub(super) const OF_TESTS: &[Self] = &[Kill, Stop, Delay];

    /// Its word in `WORKFLOW_FAILPOINT`.
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

/// A point of the engine.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Its name: the part of the engine, and the moment.
    pub name: &'static str,
    /// What is true there.
    pub truth: &'static str,
    /// What it can do.
    pub actions: &'static [Action],
    /// Whether a transaction is open there: a process that is stopped holds up all others on SQLite.
    pub in_transaction: bool,
    /// Whether only SQLite has it.
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

/// Where nothing can be answered.
const SILENT: &[Action] = &[Kill, Stop, Delay];
/// Before something is done.
const BEFORE: &[Action] = &[Kill, Stop, Delay, Error];
/// After it was done.
const AFTER: &[Action] = &[Kill, Stop, Delay, Lost];

/// All points of the engine. A test holds that each of them is in the code, and nothing else.
pub const POINTS: &[Point] = &[
    Point::new("executor.before_commit", "a batch was taken from the queue, nothing of it is in the database", BEFORE),
    Point::new("executor.after_commit", "the batch is committed, none of its senders knows", AFTER),
    Point::new("executor.before_answer", "the batch is committed, nobody in the process or outside was told", SILENT),
    Point::new("executor.before_hint", "runs were changed by a commit, other processes do not know", BEFORE),
    Point::new("store.in_transaction", "every statement of a batch was executed, the transaction is open", BEFORE)
        .in_transaction(),
    Point::new("claim.before_commit", "a worker has permits and is about to ask for runs", BEFORE),
    Point::new("claim.after_commit", "runs are claimed, no drive was started", AFTER),
    Point::new("drive.before_history", "a run is claimed, its history was not read", BEFORE),
    Point::new("drive.before_look", "a run waits for signals or children, they were not looked for", BEFORE),
    Point::new("record.before_commit", "a drive has an outcome of a step, the executor does not have it", SILENT),
    Point::new("park.before_commit", "a drive has dropped its run, the database does not know that it waits", BEFORE),
    Point::new("park.after_commit", "the run is given back, its drive is about to end", SILENT),
    Point::new("retry.before_commit", "a drive has a failure of its run that another attempt follows", BEFORE),
    Point::new("retry.after_commit", "it is written that another attempt follows", SILENT),
    Point::new("continue.before_commit", "a run continues as new, the database does not know", BEFORE),
    Point::new("continue.after_commit", "the next generation has begun in the database", SILENT),
    Point::new("end.before_commit", "a drive has an answer of its run, the database does not have it", BEFORE),
    Point::new("end.after_commit", "the answer is written, or the claim was lost", SILENT),
    Point::new("transaction.before_begin", "the body of a transaction may begin, its transaction is not open", BEFORE),
    Point::new("transaction.begun", "the transaction is open, its body has not begun", SILENT).in_transaction(),
    Point::new(
        "transaction.body_ended",
        "the body has done its work in the transaction, which lacks the outcome",
        SILENT,
    )
    .in_transaction(),
    Point::new("transaction.before_commit", "the outcome was written too, the transaction is open", BEFORE)
        .in_transaction(),
    Point::new("transaction.after_commit", "the transaction is committed, its drive does not know", AFTER),
    Point::new("lease.after_open", "a worker is recorded and holds its lock, it has claimed nothing", SILENT),
    Point::new("lease.before_renew", "a lease has used a third of its time", BEFORE),
    Point::new("lease.after_renew", "the claims are renewed, their drives do not know", AFTER),
    Point::new("lease.before_release", "another worker is known to be dead, its claims are its own", BEFORE),
    Point::new("lease.in_release", "its claims are due, it is still recorded", BEFORE).only_sqlite(),
    Point::new("lease.after_release", "its claims are due, nobody in this process knows", AFTER),
    Point::new("migrate.before_statements", "the lock on migrations is held, a migration is missing", BEFORE)
        .in_transaction(),
    Point::new(
        "migrate.before_version",
        "the statements of a migration were executed, its row of the versions is missing",
        BEFORE,
    )
    .in_transaction(),
    Point::new("migrate.before_commit", "all migrations were applied, the transaction is open", BEFORE)
        .in_transaction(),
    Point::new("migrate.after_commit", "the schema is up to date, the process that did it does not know", AFTER),
    Point::new("start.before_commit", "an application starts a run, the executor does not know", BEFORE),
    Point::new("start.after_commit", "the run is there, the application does not know", AFTER),
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
