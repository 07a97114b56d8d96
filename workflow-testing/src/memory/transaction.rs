//! Transactions of steps. There is no SQL in memory. The outcome, the fence and the client's writes
//! in the transaction behave as on the databases.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;

use workflow_engine::faults::failpoint;
use workflow_engine::model::Claim;
use workflow_engine::store::{
    Asked, AttemptRow, AttemptWrite, DatabaseError, DatabaseErrorKind, StepCommit, StepTransaction, StoreId,
};

use super::{Handle, Within, attempt, commit};

const OPERATION: &str = "commit a transaction";

/// The number of no handle: a change in its name wakes all listeners.
const NO_HANDLE: u64 = u64::MAX;

/// A transaction that locks nothing while the body works, as on PostgreSQL. The commit checks the
/// fence.
#[derive(Debug)]
struct MemoryTransaction {
    handle: Arc<Handle>,
    within: Within,
}

/// See [`Store::begin`].
pub(super) fn begin(handle: &Arc<Handle>, claim: Claim) -> Result<Option<Box<dyn StepTransaction>>, DatabaseError> {
    let database = handle.open("begin a transaction")?;
    let asked = Asked::from([(claim.run_id, Some(claim.epoch))]);
    if database.look(|tables, _| commit::read_fence(tables, &asked).refusal(claim).is_some()) {
        return Ok(None);
    }
    let within = Within::new(Arc::clone(&handle.database));
    Ok(Some(Box::new(MemoryTransaction { handle: Arc::clone(handle), within })))
}

#[async_trait]
impl StepTransaction for MemoryTransaction {
    fn connection(&mut self) -> &mut (dyn Any + Send) {
        &mut self.within
    }

    fn database(&self) -> &'static str {
        super::MEMORY
    }

    fn store(&self) -> StoreId {
        self.handle.id
    }

    async fn commit(self: Box<Self>, outcome: AttemptWrite) -> StepCommit {
        let database = match self.handle.open(OPERATION) {
            Ok(database) => database,
            Err(error) => return StepCommit::RolledBack(error),
        };
        failpoint("transaction.before_commit");
        let asked = Asked::from([(outcome.claim.run_id, Some(outcome.claim.epoch))]);
        // The workers of its own handle must hear of it too, because no executor announces this
        // commit.
        let committed = database.change(NO_HANDLE, |tables, now| {
            if commit::read_fence(tables, &asked).refusal(outcome.claim).is_some() {
                return Ok(StepCommit::Lost);
            }
            let mut changed = tables.clone();
            self.within.apply(&mut changed, now)?;
            let row = AttemptRow { write: &outcome, started_at: outcome.row.started_at };
            if !attempt::record(&mut changed, row) {
                let why =
                    format!("attempt {} of step {:?} has ended already", outcome.row.attempt, outcome.row.step_key);
                return Ok(StepCommit::Unknown(DatabaseError::new(DatabaseErrorKind::Other, OPERATION, why)));
            }
            *tables = changed;
            Ok(StepCommit::Committed)
        });
        committed.unwrap_or_else(StepCommit::RolledBack)
    }

    async fn roll_back(self: Box<Self>) {}
}
