//! Starts, signals and cancels in a step's transaction: kept until it commits, then applied with its outcome.

use workflow_engine::model::Timestamp;
use workflow_engine::store::{DatabaseError, DatabaseErrorKind, Outcome, Write};

use super::tables::Tables;
use super::{Arc, Database, commit};

const OPERATION: &str = "change runs in a transaction";

/// What a body asks of its transaction. In place of a driver's connection, of which there is none.
#[derive(Debug)]
pub(super) struct Within {
    database: Arc<Database>,
    writes: Vec<Write>,
    /// What the body was told of each.
    told: Vec<Outcome>,
}

impl Within {
    pub(super) fn new(database: Arc<Database>) -> Self {
        Self { database, writes: Vec::new(), told: Vec::new() }
    }

    /// Starts, signals or cancels a run: the write is applied when the transaction commits.
    ///
    /// # Errors
    /// Kind [`DatabaseErrorKind::Invalid`]: the client is connected to another database.
    pub(super) fn write(&mut self, database: &Arc<Database>, write: &Write) -> Result<Outcome, DatabaseError> {
        match self.tell(database, write.clone())? {
            Outcome::Started(outcome) => Ok(Outcome::Started(outcome.clone())),
            Outcome::Signaled(outcome) => Ok(Outcome::Signaled(*outcome)),
            Outcome::Canceled(outcome) => Ok(Outcome::Canceled(*outcome)),
            other => {
                let why = format!("a transaction starts, signals and cancels runs, not: {other:?}");
                Err(DatabaseError::new(DatabaseErrorKind::Invalid, OPERATION, why))
            }
        }
    }

    /// What the write comes to after those before it, as things stand now. Nobody else sees it.
    fn tell(&mut self, database: &Arc<Database>, write: Write) -> Result<&Outcome, DatabaseError> {
        if !Arc::ptr_eq(database, &self.database) {
            let why = "the transaction belongs to another database in memory than the client's";
            return Err(DatabaseError::new(DatabaseErrorKind::Invalid, OPERATION, why));
        }
        self.writes.push(write);
        let outcomes = self.database.look(|tables, now| {
            let mut tables = tables.clone();
            self.writes.iter().map(|write| one(&mut tables, write, now)).collect::<Result<Vec<_>, _>>()
        });
        self.told = outcomes.inspect_err(|_| drop(self.writes.pop()))?;
        self.told
            .last()
            .ok_or_else(|| DatabaseError::new(DatabaseErrorKind::Other, OPERATION, "a write has no outcome"))
    }

    /// Applies what was asked for, to tables that are thrown away if this fails.
    ///
    /// # Errors
    /// Kind [`DatabaseErrorKind::Busy`]: somebody has changed meanwhile what the body was told.
    pub(super) fn apply(&self, tables: &mut Tables, now: Timestamp) -> Result<(), DatabaseError> {
        for (write, told) in self.writes.iter().zip(&self.told) {
            let outcome = one(tables, write, now)?;
            if format!("{outcome:?}") != format!("{told:?}") {
                let why = format!("the body was told {told:?}, but now it is {outcome:?}");
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
