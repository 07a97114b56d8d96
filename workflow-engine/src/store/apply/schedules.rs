//! Changes of schedules in a batch.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::faults::planted;
use crate::model::{NewRun, StoredSchedule};
use crate::store::batch_target::BatchTarget;
use crate::store::{Outcome, ScheduleWrite};

use super::OpenBatch;

impl<'b, T: BatchTarget> OpenBatch<'b, T> {
    /// Changes the schedules whose revision is the one that the write has seen, and returns the
    /// runs that start with them. This comes before every other kind, so that no batch waits for a
    /// schedule while it holds a run.
    pub(super) async fn change_schedules(&mut self) -> Result<Vec<&'b NewRun>, T::Error> {
        let writes = &self.writes.schedules;
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        let names: BTreeSet<&str> = writes.writes().iter().map(|write| write.name.as_str()).collect();
        let existing = self.target.lock_schedules(&names).await?;
        let mut revisions = existing.clone();
        let mut changed: BTreeMap<&str, Option<&StoredSchedule>> = BTreeMap::new();
        let (mut starts, mut created) = (Vec::new(), Vec::new());
        for (index, write) in writes.iter() {
            let outcome = compare(&revisions, write);
            if matches!(outcome, Outcome::Applied) {
                changed.insert(&write.name, write.next.as_ref());
                match &write.next {
                    Some(row) => revisions.insert(write.name.clone(), row.revision),
                    None => revisions.remove(&write.name),
                };
                match existing.contains_key(&write.name) {
                    true => starts.extend(&write.starts),
                    false => created.push((index, write.name.as_str())),
                }
            }
            self.outcomes.set(index, outcome);
        }
        let rows = |exist: bool| -> Vec<&StoredSchedule> {
            changed
                .iter()
                .filter(|(name, _)| existing.contains_key(**name) == exist)
                .filter_map(|(_, row)| *row)
                .collect()
        };
        let (new, updated) = (rows(false), rows(true));
        let deleted: Vec<&str> = changed.iter().filter(|(_, row)| row.is_none()).map(|(name, _)| *name).collect();
        if !updated.is_empty() {
            self.target.update_schedules(&updated).await?;
        }
        if !deleted.is_empty() {
            self.target.delete_schedules(&deleted).await?;
        }
        if !new.is_empty() {
            let inserted = self.target.insert_schedules(&new).await?;
            let lost = created.into_iter().filter(|(_, name)| changed[name].is_some() && !inserted.contains(*name));
            for (index, _) in lost {
                self.outcomes.set(index, Outcome::Lost);
            }
        }
        Ok(starts)
    }
}

/// Compares the revision that a write has seen with that of the row. A row that is as the write
/// leaves it was written by an earlier commit of the same write.
fn compare(revisions: &HashMap<String, i64>, write: &ScheduleWrite) -> Outcome {
    let revision = revisions.get(&write.name).copied();
    let next = write.next.as_ref().map(|row| row.revision);
    if revision == next {
        Outcome::Duplicate
    } else if revision == write.seen || (revision.is_some() && planted("schedule-without-compare")) {
        Outcome::Applied
    } else {
        Outcome::Lost
    }
}
