//! Starts, signals and cancels in a step's transaction: kept until it commits, then applied with its outcome.

use crate::backend::{Backend, BackendError, BackendErrorKind, CancelOutcome, Outcome, StartOutcome, Write};
use crate::model::{NewRun, NewSignal, RunId, SignalOutcome, Timestamp};

use super::tables::Tables;
use super::{Arc, Database, MemoryBackend, commit};

const OPERATION: &str = "change runs in a transaction";

/// What a body asks of its transaction. In place of a driver's connection, of which there is none.
#[derive(Debug)]
pub(crate) struct Within {
    database: Arc<Database>,
    writes: Vec<Write>,
    /// What the body was told of each.
    told: Vec<Outcome>,
}

impl Within {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database, writes: Vec::new(), told: Vec::new() }
    }

    /// Whether the handle is one of the same database.
    pub(super) fn belongs_to(&self, backend: &dyn Backend) -> bool {
        let backend = backend.as_any().downcast_ref::<MemoryBackend>();
        backend.is_some_and(|backend| Arc::ptr_eq(&backend.handle.database, &self.database))
    }

    /// Starts a run.
    ///
    /// # Errors
    /// Kind [`BackendErrorKind::Invalid`]: the client is connected to another database.
    pub(crate) fn start(&mut self, backend: &dyn Backend, run: &NewRun) -> Result<StartOutcome, BackendError> {
        match self.tell(backend, Write::Start(run.clone()))? {
            Outcome::Started(outcome) => Ok(outcome.clone()),
            other => Err(unexpected(other)),
        }
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// As [`Within::start`].
    pub(crate) fn signal(&mut self, backend: &dyn Backend, signal: &NewSignal) -> Result<SignalOutcome, BackendError> {
        match self.tell(backend, Write::Signal(signal.clone()))? {
            Outcome::Signaled(outcome) => Ok(*outcome),
            other => Err(unexpected(other)),
        }
    }

    /// Cancels a run.
    ///
    /// # Errors
    /// As [`Within::start`].
    pub(crate) fn cancel(&mut self, backend: &dyn Backend, run: RunId) -> Result<CancelOutcome, BackendError> {
        match self.tell(backend, Write::Cancel(run))? {
            Outcome::Canceled(outcome) => Ok(*outcome),
            other => Err(unexpected(other)),
        }
    }

    /// What the write comes to after those before it, as things stand now. Nobody else sees it.
    fn tell(&mut self, backend: &dyn Backend, write: Write) -> Result<&Outcome, BackendError> {
        if !self.belongs_to(backend) {
            let why = "the transaction belongs to another database in memory than the client's";
            return Err(BackendError::new(BackendErrorKind::Invalid, OPERATION, why));
        }
        self.writes.push(write);
        let outcomes = self.database.look(|tables, now| {
            let mut tables = tables.clone();
            self.writes.iter().map(|write| one(&mut tables, write, now)).collect::<Result<Vec<_>, _>>()
        });
        self.told = outcomes.inspect_err(|_| drop(self.writes.pop()))?;
        self.told.last().ok_or_else(|| BackendError::new(BackendErrorKind::Other, OPERATION, "a write has no outcome"))
    }

    /// Applies what was asked for, to tables that are thrown away if this fails.
    ///
    /// # Errors
    /// Kind [`BackendErrorKind::Busy`]: somebody has changed meanwhile what the body was told.
    pub(super) fn apply(&self, tables: &mut Tables, now: Timestamp) -> Result<(), BackendError> {
        for (write, told) in self.writes.iter().zip(&self.told) {
            let outcome = one(tables, write, now)?;
            if format!("{outcome:?}") != format!("{told:?}") {
                let why = format!("the body was told {told:?}, but now it is {outcome:?}");
                return Err(BackendError::new(BackendErrorKind::Busy, OPERATION, why));
            }
        }
        Ok(())
    }
}

fn one(tables: &mut Tables, write: &Write, now: Timestamp) -> Result<Outcome, BackendError> {
    let outcome = commit::commit(tables, std::slice::from_ref(write), now)?.pop();
    outcome.ok_or_else(|| BackendError::new(BackendErrorKind::Other, OPERATION, "a write has no outcome"))
}

fn unexpected(outcome: &Outcome) -> BackendError {
    BackendError::new(BackendErrorKind::Other, OPERATION, format!("another write's outcome: {outcome:?}"))
}
