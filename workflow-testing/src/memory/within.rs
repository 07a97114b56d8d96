//! Starts, signals and cancels in the transaction of a step. They are collected until the
//! transaction commits, and then applied together with the step's outcome.

use workflow_engine::model::Timestamp;
use workflow_engine::store::{DatabaseError, DatabaseErrorKind, Outcome, Write};

use super::tables::Tables;
use super::{Arc, Database, commit};

const OPERATION: &str = "change runs in a transaction";

/// The writes that a body collects in its transaction. It stands in for a driver's connection.
#[derive(Debug)]
pub(super) struct Within {
    database: Arc<Database>,
    writes: Vec<Write>,
    /// The outcomes that the body was given, one per write.
    answered: Vec<Outcome>,
}

impl Within {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database, writes: Vec::new(), answered: Vec::new() }
    }

    /// Starts, signals or cancels a run: the write is applied when the transaction commits.
    ///
    /// # Errors
    /// Kind [`DatabaseErrorKind::Invalid`]: the client is connected to another database.
    pub(super) fn write(&mut self, database: &Arc<Database>, write: &Write) -> Result<Outcome, DatabaseError> {
        match self.add(database, write.clone())? {
            Outcome::Started(outcome) => Ok(Outcome::Started(outcome.clone())),
            Outcome::Signaled(outcome) => Ok(Outcome::Signaled(outcome.clone())),
            Outcome::Canceled(outcome) => Ok(Outcome::Canceled(*outcome)),
            Outcome::Emitted(emitted) => Ok(Outcome::Emitted(emitted.clone())),
            Outcome::QueueFull(full) => Ok(Outcome::QueueFull(full.clone())),
            other => {
                let why = format!("a transaction starts, signals and cancels runs, not: {other:?}");
                Err(DatabaseError::new(DatabaseErrorKind::Invalid, OPERATION, why))
            }
        }
    }

    /// Adds a write and returns its outcome as the tables are now, after the writes before it. The
    /// tables stay as they are.
    fn add(&mut self, database: &Arc<Database>, write: Write) -> Result<&Outcome, DatabaseError> {
        if !Arc::ptr_eq(database, &self.database) {
            let why = "the transaction belongs to another database in memory than the client's";
            return Err(DatabaseError::new(DatabaseErrorKind::Invalid, OPERATION, why));
        }
        self.writes.push(write);
        let outcomes = self.database.look(|tables, now| {
            let mut tables = tables.clone();
            self.writes.iter().map(|write| one(&mut tables, write, now)).collect::<Result<Vec<_>, _>>()
        });
        self.answered = outcomes.inspect_err(|_| drop(self.writes.pop()))?;
        self.answered
            .last()
            .ok_or_else(|| DatabaseError::new(DatabaseErrorKind::Other, OPERATION, "a write has no outcome"))
    }

    /// Applies the writes to tables that the caller throws away if this fails.
    ///
    /// # Errors
    /// Kind [`DatabaseErrorKind::Busy`] if another commit has changed an outcome that the body was
    /// given.
    pub(super) fn apply(&self, tables: &mut Tables, now: Timestamp) -> Result<(), DatabaseError> {
        for (write, answered) in self.writes.iter().zip(&self.answered) {
            let outcome = one(tables, write, now)?;
            if format!("{outcome:?}") != format!("{answered:?}") {
                let why = format!("the body was given the outcome {answered:?}, but now it is {outcome:?}");
                return Err(DatabaseError::new(DatabaseErrorKind::Busy, OPERATION, why));
            }
        }
        Ok(())
    }
}

fn one(tables: &mut Tables, write: &Write, now: Timestamp) -> Result<Outcome, DatabaseError> {
    let outcome = commit::commit(tables, std::slice::from_ref(write), now)?.pop();
    outcome.ok_or_else(|| DatabaseError::new(DatabaseErrorKind::Other, OPERATION, "a write has no outcome"))
}
