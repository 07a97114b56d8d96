//! Schedules.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use workflow_engine::model::{StoredSchedule, Timestamp};
use workflow_engine::store::DueSchedules;

use super::tables::Tables;

/// Returns the revisions of those of these schedules that exist.
pub(super) fn revisions(tables: &Tables, names: &BTreeSet<&str>) -> HashMap<String, i64> {
    let rows = names.iter().filter_map(|name| tables.schedules().get(*name));
    rows.map(|row| (row.name.clone(), row.revision)).collect()
}

/// Inserts or replaces a schedule.
pub(super) fn put(tables: &mut Tables, row: &StoredSchedule) {
    tables.schedules_mut().insert(row.name.clone(), row.clone());
}

/// Deletes a schedule.
pub(super) fn delete(tables: &mut Tables, name: &str) {
    tables.schedules_mut().remove(name);
}

/// See [`Store::schedules`](workflow_engine::store::Store::schedules).
pub(super) fn list(tables: &Tables, after: Option<&str>, limit: u32) -> Vec<StoredSchedule> {
    let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
    let rows = tables.schedules().range::<str, _>((begin, Bound::Unbounded));
    rows.map(|(_, row)| row.clone()).take(limit as usize).collect()
}

/// See [`Store::due_schedules`](workflow_engine::store::Store::due_schedules).
pub(super) fn due(tables: &Tables, computed: &[String], limit: u32, now: Timestamp) -> DueSchedules {
    let can_fire = |row: &&StoredSchedule| row.input.is_some() || computed.contains(&row.name);
    let mut rows: Vec<&StoredSchedule> = tables.schedules().values().filter(can_fire).collect();
    rows.sort_by_key(|row| (row.available_at, &row.name));
    let next = rows.iter().position(|row| row.available_at > now);
    let due = &rows[..next.unwrap_or(rows.len()).min(limit as usize)];
    let next = next.map(|next| rows[next]);
    DueSchedules::of(now, due.iter().copied().chain(next).cloned().collect())
}
