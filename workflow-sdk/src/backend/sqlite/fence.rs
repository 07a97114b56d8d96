//! Which claims of a batch still hold.

use std::collections::{BTreeSet, HashMap};

use sqlx::SqliteConnection;

use crate::backend::{BackendError, Outcome, Write};
use crate::model::{Claim, RunId, RunStatus};

use super::error::During;
use super::{row, sql};

/// The epoch and status of every run that a claim or a signal of the batch names. It holds until the commit: the transaction has the
/// write lock.
#[derive(Debug, Default)]
pub(super) struct Fence(HashMap<RunId, (i64, RunStatus)>);

impl Fence {
    /// Reads them with one statement; none if the batch names no such run.
    pub(super) async fn read(connection: &mut SqliteConnection, writes: &[Write]) -> Result<Self, BackendError> {
        let runs: BTreeSet<RunId> = writes.iter().filter_map(run_of).collect();
        Self::of(connection, &runs).await
    }

    /// Reads these runs.
    pub(super) async fn of(connection: &mut SqliteConnection, runs: &BTreeSet<RunId>) -> Result<Self, BackendError> {
        const OPERATION: &str = "check claims";
        if runs.is_empty() {
            return Ok(Self::default());
        }
        let query = sqlx::query(sql::READ_FENCE).bind(serde_json::to_string(runs).during(OPERATION)?);
        let rows = query.fetch_all(connection).await.during(OPERATION)?;
        let facts = rows.iter().map(|row| Ok((row::id(row, "id")?, (row::get(row, "epoch")?, row::status(row)?))));
        facts.collect::<Result<_, BackendError>>().map(Self)
    }

    /// What the run was; `None` if there is none.
    pub(super) fn status(&self, run: RunId) -> Option<RunStatus> {
        self.0.get(&run).map(|(_, status)| *status)
    }

    /// Whether the run is there and has not ended.
    pub(super) fn is_open(&self, run: RunId) -> bool {
        self.status(run).is_some_and(|status| !status.is_terminal())
    }

    /// `None` if the claim holds, else the outcome of its writes. A claim whose run is no longer running was ended by
    /// itself: by a write whose reply was lost.
    pub(super) fn refusal(&self, claim: Claim) -> Option<Outcome> {
        match self.0.get(&claim.run_id) {
            Some((epoch, RunStatus::Running)) if *epoch == claim.epoch => None,
            Some((epoch, _)) if *epoch == claim.epoch => Some(Outcome::Duplicate),
            _ => Some(Outcome::Lost),
        }
    }

    /// Notes that a write of this batch ended the claim, so that a second one finds it ended.
    pub(super) fn ended(&mut self, claim: Claim, status: RunStatus) {
        self.0.insert(claim.run_id, (claim.epoch, status));
    }
}

/// The run whose epoch or status decides about the write.
fn run_of(write: &Write) -> Option<RunId> {
    match write {
        Write::Attempt(write) => Some(write.claim.run_id),
        Write::Signal(signal) => Some(signal.run_id),
        Write::End(write) => Some(write.claim.run_id),
        Write::Park(write) => Some(write.claim.run_id),
        Write::Retry(write) => Some(write.claim.run_id),
        Write::Fork(_) | Write::Revive(_) | Write::Pause(_) | Write::Resume(_) => None,
        Write::Start(_) | Write::Disown { .. } | Write::Cancel(_) | Write::Expire { .. } | Write::Claim(_) => None,
    }
}
