use super::{DatabaseError, DatabaseErrorKind, Outcome};

/// The outcomes of a batch while it is applied, by the indexes of its writes.
#[derive(Debug)]
pub struct Outcomes(Vec<Option<Outcome>>);

/// A store left a write of a batch without an outcome. This is a bug in that store.
#[derive(Debug, thiserror::Error)]
#[error("write {index} of {writes} has no outcome")]
pub struct MissingOutcome {
    /// The index of the write in its batch.
    pub index: usize,
    /// The number of writes in the batch.
    pub writes: usize,
}

impl Outcomes {
    /// Returns an empty place for the outcome of each of this number of writes.
    #[must_use]
    pub fn of(writes: usize) -> Self {
        Self((0..writes).map(|_| None).collect())
    }

    /// Sets the outcome of the write at this index.
    pub fn set(&mut self, index: usize, outcome: Outcome) {
        if let Some(slot) = self.0.get_mut(index) {
            *slot = Some(outcome);
        }
    }

    /// Returns the outcome of the write at this index, if it has one.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Outcome> {
        self.0.get(index)?.as_ref()
    }

    /// Returns the outcome of each write, in their order.
    ///
    /// # Errors
    /// [`MissingOutcome`] if a write has none.
    pub fn complete(self) -> Result<Vec<Outcome>, MissingOutcome> {
        let writes = self.0.len();
        let complete =
            self.0.into_iter().enumerate().map(|(index, outcome)| outcome.ok_or(MissingOutcome { index, writes }));
        complete.collect()
    }
}

impl From<MissingOutcome> for DatabaseError {
    fn from(missing: MissingOutcome) -> Self {
        Self::new(DatabaseErrorKind::Other, "commit a batch", missing)
    }
}
