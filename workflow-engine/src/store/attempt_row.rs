//! The rows of attempts that a batch writes: one row may come from several writes.

use crate::faults::planted;
use crate::model::{AttemptStatus, RunId, StepKind, Timestamp};

use super::AttemptWrite;

/// The row of one attempt.
#[derive(Clone, Copy, Debug)]
pub struct AttemptRow<'w> {
    /// The write whose row is stored.
    pub write: &'w AttemptWrite,
    /// When the attempt began, according to the first write of it.
    pub started_at: Timestamp,
}

impl<'w> AttemptRow<'w> {
    /// Returns one row per (run, step key, attempt), sorted by these, with the content that the
    /// writes would leave if each was a batch of its own: the last write wins, but nothing follows
    /// a final row. So a step that ends before its beginning was committed costs one row, and no
    /// statement touches a row twice.
    #[must_use]
    pub fn of(mut writes: Vec<&'w AttemptWrite>) -> Vec<Self> {
        writes.sort_by(|a, b| a.identity().cmp(&b.identity()));
        let mut rows: Vec<Self> = Vec::with_capacity(writes.len());
        for write in writes {
            match rows.last_mut() {
                Some(row) if row.write.identity() == write.identity() => {
                    if row.write.row.status == AttemptStatus::Running {
                        row.write = write;
                    }
                }
                _ => rows.push(Self { write, started_at: write.row.started_at }),
            }
        }
        rows
    }

    /// Returns `true` for what most attempts are: the first attempt of a step, and a success.
    #[must_use]
    pub fn is_first_success(&self) -> bool {
        let row = &self.write.row;
        if planted("fast-path-all-first-successes") {
            return true;
        }
        row.attempt == 1 && row.kind == StepKind::Step && row.status == AttemptStatus::Succeeded && row.error.is_none()
    }
}

impl AttemptWrite {
    /// Returns what identifies the row: the run, the step and the number of the attempt.
    #[must_use]
    pub fn identity(&self) -> (RunId, &str, i64) {
        (self.claim.run_id, &self.row.step_key, self.row.attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Claim, Effect, StepAttempt, StepKind};

    fn write(status: AttemptStatus, started_at: i64) -> AttemptWrite {
        let started_at = Timestamp::from_micros(started_at);
        AttemptWrite {
            claim: Claim { run_id: uuid::Uuid::nil().into(), epoch: 1 },
            row: StepAttempt {
                step_key: "page".into(),
                attempt: 1,
                kind: StepKind::Step,
                status,
                position: None,
                output: None,
                error: None,
                epoch: 1,
                started_at,
                completed_at: None,
            },
            effect: Effect::None,
        }
    }

    #[test]
    fn an_attempt_has_one_row_and_nothing_follows_a_final_one() {
        use AttemptStatus::{Failed, Running, Succeeded};
        for (statuses, kept) in [
            (vec![Running], Running),
            (vec![Running, Running], Running),
            (vec![Running, Succeeded], Succeeded),
            (vec![Succeeded, Running], Succeeded),
            (vec![Running, Failed, Running, Succeeded], Failed),
        ] {
            let writes: Vec<_> = statuses.iter().zip(7..).map(|(status, at)| write(*status, at)).collect();
            let rows = AttemptRow::of(writes.iter().collect());
            assert_eq!(rows.len(), 1, "{statuses:?}");
            assert_eq!(rows[0].write.row.status, kept, "{statuses:?}");
            assert_eq!(rows[0].started_at, Timestamp::from_micros(7), "{statuses:?}");
        }
    }
}
