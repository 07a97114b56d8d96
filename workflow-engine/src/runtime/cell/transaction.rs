//! Transactions between the body that did its work in one and the drive that commits it.

use std::fmt;
use std::sync::Arc;

use crate::model::{StepAttempt, StoredError};
use crate::replay::{CallId, CommitRow};
use crate::store::OpenTransaction;

use super::{Inner, Port, RunCell, lock};

/// A transaction whose body has ended well, to be committed with the outcome of its step. Answered by
/// [`RunCell::transaction_ended`].
pub struct TransactionCommit {
    /// Whose outcome it is.
    pub call: CallId,
    /// The place of the outcome.
    pub position: i64,
    /// The outcome.
    pub row: StepAttempt,
    /// The transaction.
    pub transaction: OpenTransaction,
}

/// The drive's side.
impl RunCell {
    /// The transactions to be committed.
    pub fn take_commits(&self) -> Vec<TransactionCommit> {
        std::mem::take(&mut lock(&self.inner).commits)
    }

    /// A transaction was committed, or was not: then the attempt has failed. Says nothing of the order: an outcome is
    /// delivered after all that have an earlier position.
    pub fn transaction_ended(&self, call: CallId, position: i64, result: Result<(), StoredError>) {
        lock(&self.inner).machine.transaction_ended(call, position, result, self.port.now());
    }
}

/// The calls' side.
impl RunCell {
    /// Returns the port to the worker.
    pub fn port(&self) -> &Arc<dyn Port> {
        &self.port
    }

    /// Notes that the transaction of this call is open: its body begins.
    pub fn transaction_opened(&self, call: CallId) {
        lock(&self.inner).machine.transaction_opened(call, self.port.now());
    }

    /// The body of this call has done its work in this transaction.
    pub fn hand_over(&self, call: CallId, transaction: OpenTransaction) {
        lock(&self.inner).slots[call.index()].transaction = Some(transaction);
    }
}

impl Inner {
    /// After the end of a body: brings its transaction and its outcome together. Gives back a transaction that is not to be
    /// committed.
    pub(super) fn keep_commit(&mut self, call: CallId) -> Option<OpenTransaction> {
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
