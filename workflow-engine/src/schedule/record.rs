use serde::{Deserialize, Serialize};

use crate::model::{RunId, StoredSchedule, Timestamp};

use super::fire::look_at;
use super::{Calendar, CatchUp, Declaration, InvalidSchedule, Overlap, PauseCause, SchedulePause, ScheduleState};

/// All that is stored about a schedule besides its name and its input. Every change is one of these
/// methods, and the row is then written if its revision is still the one that was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Where the schedule comes from.
    pub origin: Origin,
    /// The declaration of the code, or of the client that created the schedule.
    pub declared: Declaration,
    /// The declaration of an operator in its place. Only a schedule of code has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Declaration>,
    /// Its state.
    pub state: ScheduleState,
}

/// Where a schedule comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// A client created it.
    Api,
    /// A worker declares it when it starts.
    Code {
        /// The group of the worker, if it has one. It retires what it does not declare any more.
        group: Option<String>,
    },
}

/// The stored form of a schedule is not one that this program knows: a later release wrote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the row of schedule {name:?} is not understood: {reason}; use the release that wrote it, or a later one")]
pub struct UnreadableSchedule {
    /// The schedule.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// A schedule of this name exists, and something else declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict;

impl Record {
    /// Returns the record of a new schedule, whose first occurrence is after `now`.
    #[must_use]
    pub fn new(origin: Origin, declared: Declaration, calendar: &Calendar, now: Timestamp) -> Self {
        let state = ScheduleState {
            next_at: calendar.next_after(now),
            last_at: None,
            last_run: None,
            open: Vec::new(),
            waiting: Vec::new(),
            paused: None,
            started: 0,
            triggered: 0,
            skipped: 0,
            missed: 0,
            missed_since: 0,
            created_at: now,
            updated_at: now,
        };
        Self { origin, declared, changed: None, state }
    }

    /// Reads a row.
    ///
    /// # Errors
    /// [`UnreadableSchedule`].
    pub fn of(row: &StoredSchedule) -> Result<Self, UnreadableSchedule> {
        serde_json::from_str(&row.record)
            .map_err(|error| UnreadableSchedule { name: row.name.clone(), reason: error.to_string() })
    }

    /// Returns the row, with a new revision.
    #[must_use]
    pub fn to_row(&self, name: &str, input: Option<String>, calendar: &Calendar, now: Timestamp) -> StoredSchedule {
        // serde_json always writes strings, numbers and maps with string keys.
        let record = serde_json::to_string(self).unwrap_or_default();
        let available_at = self.available_at(name, calendar, now);
        StoredSchedule { name: name.to_owned(), revision: StoredSchedule::new_revision(), available_at, input, record }
    }

    /// Returns the declaration that holds.
    #[must_use]
    pub fn declaration(&self) -> &Declaration {
        self.changed.as_ref().unwrap_or(&self.declared)
    }

    /// Returns the calendar of the declaration that holds.
    ///
    /// # Errors
    /// [`InvalidSchedule`], if another release has accepted what this one does not.
    pub fn calendar(&self, name: &str) -> Result<Calendar, InvalidSchedule> {
        Calendar::of(name, &self.declaration().timing)
    }

    /// Returns when a worker has to look at the schedule.
    fn available_at(&self, name: &str, calendar: &Calendar, now: Timestamp) -> Timestamp {
        let state = &self.state;
        if state.paused.is_some() {
            return Timestamp::FAR_FUTURE;
        }
        let next = state.next_at.map(|next| calendar.due_at(name, next));
        let look = state.waiting.first().map(|waiting| look_at(waiting.since, now));
        [next, look].into_iter().flatten().min().unwrap_or(Timestamp::FAR_FUTURE)
    }

    /// Declares the schedule again, from code. Returns whether anything changed.
    ///
    /// # Errors
    /// [`Conflict`] if a client created the schedule.
    pub fn redeclare(
        &mut self,
        group: Option<&str>,
        declared: Declaration,
        calendar: &Calendar,
        now: Timestamp,
    ) -> Result<bool, Conflict> {
        let Origin::Code { group: known } = &mut self.origin else { return Err(Conflict) };
        let mut is_changed = known.as_deref() != group;
        *known = group.map(str::to_owned);
        if self.state.paused.as_ref().is_some_and(|pause| pause.cause == PauseCause::Retired) {
            self.resume_with(calendar, now);
            is_changed = true;
        }
        if self.declared != declared {
            let moves = self.changed.is_none() && self.declared.timing != declared.timing;
            // The code decides what is started, also while an operator's times and policies hold.
            if let Some(changed) = &mut self.changed {
                changed.lane.workflow.clone_from(&declared.lane.workflow);
                changed.lane.version.clone_from(&declared.lane.version);
            }
            self.declared = declared;
            self.state.updated_at = now;
            is_changed = true;
            self.rearm(moves, calendar, now);
        }
        Ok(is_changed)
    }

    /// Replaces the declaration that holds, on behalf of an operator. `None` returns to what the
    /// code declares.
    pub fn change(&mut self, declaration: Option<Declaration>, calendar: &Calendar, now: Timestamp) {
        let before = self.declaration().timing.clone();
        match (&self.origin, declaration) {
            (Origin::Api, Some(declaration)) => self.declared = declaration,
            (Origin::Api, None) => {}
            (Origin::Code { .. }, changed) => self.changed = changed.filter(|changed| *changed != self.declared),
        }
        self.state.updated_at = now;
        self.rearm(self.declaration().timing != before, calendar, now);
    }

    /// Computes the next occurrence anew after a change: if the times have changed, or if the
    /// schedule was over. It stays over if its limit is reached.
    fn rearm(&mut self, has_new_times: bool, calendar: &Calendar, now: Timestamp) {
        if self.remaining() == 0 {
            self.state.next_at = None;
        } else if has_new_times || self.state.next_at.is_none() {
            self.state.next_at = calendar.next_after(now);
        }
    }

    /// Pauses the schedule. Occurrences that wait are skipped. If the schedule is paused already,
    /// only an operator can change the reason.
    pub fn pause(&mut self, cause: PauseCause, reason: &str, now: Timestamp) {
        let state = &mut self.state;
        state.skipped += state.waiting.len() as u64;
        state.waiting.clear();
        if cause == PauseCause::Operator || state.paused.is_none() {
            let since = state.paused.as_ref().map_or(now, |pause| pause.since);
            state.paused = Some(SchedulePause { cause, since, reason: reason.to_owned() });
        }
    }

    /// Ends the pause, if there is one, and returns whether there was. What passed during the pause
    /// is not caught up.
    pub fn resume(&mut self, calendar: &Calendar, now: Timestamp) -> bool {
        let is_paused = self.state.paused.is_some();
        if is_paused {
            self.resume_with(calendar, now);
        }
        is_paused
    }

    fn resume_with(&mut self, calendar: &Calendar, now: Timestamp) {
        self.state.paused = None;
        self.state.next_at = calendar.next_after(now);
    }

    /// Counts a run that was triggered. It counts as one that has not ended.
    pub fn trigger(&mut self, run: RunId, now: Timestamp) {
        self.state.triggered += 1;
        self.started(run, now);
    }

    /// Counts a run.
    pub(super) fn started(&mut self, run: RunId, at: Timestamp) {
        let tracks = self.tracks_runs();
        let state = &mut self.state;
        state.started += 1;
        (state.last_at, state.last_run) = (Some(at), Some(run));
        if tracks {
            state.open.push(run);
            let most = CatchUp::MOST as usize;
            state.open.drain(..state.open.len().saturating_sub(most));
        }
    }

    /// Returns how many more runs the limit allows.
    pub(super) fn remaining(&self) -> u64 {
        let occurrences = self.state.started.saturating_sub(self.state.triggered);
        self.declaration().limit.map_or(u64::MAX, |limit| limit.saturating_sub(occurrences))
    }

    fn tracks_runs(&self) -> bool {
        let declaration = self.declaration();
        declaration.overlap != Overlap::Allow || declaration.pause_on_failure
    }
}
