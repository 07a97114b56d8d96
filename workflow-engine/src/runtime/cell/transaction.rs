//! Passes a step's transaction from the body that worked in it to the drive that commits it.

use std::fmt;
use std::sync::Arc;

use crate::model::{StepAttempt, StoredError};
use crate::replay::{CallId, CommitRow};
use crate::store::OpenTransaction;

use super::{Inner, Port, RunCell, lock};

/// A transaction whose body has succeeded, to be committed with the outcome of its step. Answered
/// by [`RunCell::transaction_ended`].
pub struct TransactionCommit {
    /// The call of the step.
    pub call: CallId,
    /// The position of the outcome.
    pub position: i64,
    /// The row of the outcome.
    pub row: StepAttempt,
    /// The transaction.
    pub transaction: OpenTransaction,
}

/// The methods that the drive calls.
impl RunCell {
    /// Takes the transactions to be committed.
    pub fn take_commits(&self) -> Vec<TransactionCommit> {
        std::mem::take(&mut lock(&self.inner).commits)
    }

    /// Notes that a transaction was committed, or that its commit failed and so did the attempt.
    /// Transactions may end in any order: an outcome is delivered after all outcomes with an
    /// earlier position.
    pub fn transaction_ended(&self, call: CallId, position: i64, result: Result<(), StoredError>) {
        lock(&self.inner).machine.transaction_ended(call, position, result, self.port.now());
    }
}

/// The methods that calls of the workflow use.
impl RunCell {
    /// Returns the port to the worker.
    pub fn port(&self) -> &Arc<dyn Port> {
        &self.port
    }

    /// Notes that the transaction of this call is open, so its body begins.
    pub fn transaction_opened(&self, call: CallId) {
        lock(&self.inner).machine.transaction_opened(call, self.port.now());
    }

    /// Stores the transaction in which the body of this call has done its work.
    pub fn attach_transaction(&self, call: CallId, transaction: OpenTransaction) {
        lock(&self.inner).slots[call.index()].transaction = Some(transaction);
    }
}

impl Inner {
    /// Pairs the transaction of a body that has ended with its outcome. Returns a transaction that
    /// is not to be committed.
    pub(super) fn pair_commit(&mut self, call: CallId) -> Option<OpenTransaction> {
        let transaction = self.slots[call.index()].transaction.take();
        match (self.machine.take_commits().pop(), transaction) {
            (Some(CommitRow { call, position, row }), Some(transaction)) => {
                self.commits.push(TransactionCommit { call, position, row, transaction });
                None
            }
            (_, transaction) => transaction,
        }
    }
}

impl fmt::Debug for TransactionCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionCommit")
            .field("position", &self.position)
            .field("row", &self.row)
            .finish_non_exhaustive()
    }
}
