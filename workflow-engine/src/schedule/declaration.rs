use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::model::{
    KeyReuse, Lane, NameSubject, NewRun, Priority, RunId, StartTime, Timestamp, check_name, check_queue, check_tags,
};

use super::{Calendar, CatchUp, InvalidSchedule, Occurrence, Overlap, Timing};

/// The longest name of a schedule. With a time or an id behind it, it is the key of a run.
pub const MAX_SCHEDULE_NAME_BYTES: usize = 200;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);

/// All that is declared about a schedule, except its name and the input of its runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Declaration {
    /// The times.
    pub timing: Timing,
    /// The lane of the runs.
    pub lane: Lane,
    /// The gate behind which the runs wait. If there is none and code computes the input of a run,
    /// the run waits behind the gate of that input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// The tags of the runs, besides those that name the schedule.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// The priority of the runs, if it is not normal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The deadline of a run, counted from its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::model::DurationDocument>))]
    pub deadline: Option<Duration>,
    /// The fate of an occurrence that is due while a run has not ended.
    pub overlap: Overlap,
    /// The fate of occurrences that passed while no worker was there.
    pub catch_up: CatchUp,
    /// The most runs that the schedule starts for its occurrences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// `true` if a run that fails pauses the schedule.
    #[serde(default)]
    pub pause_on_failure: bool,
}

impl Declaration {
    /// Checks everything, and returns the calendar.
    ///
    /// # Errors
    /// [`InvalidSchedule`], which names the value and says what to use instead.
    pub fn check(&self, name: &str, now: Timestamp) -> Result<Calendar, InvalidSchedule> {
        check_schedule_name(name)?;
        if self.lane.workflow.is_empty() {
            return Err(InvalidSchedule::NoWorkflow { name: name.to_owned() });
        }
        check_name(NameSubject::Workflow, &self.lane.workflow)?;
        check_name(NameSubject::Version, &self.lane.version)?;
        check_queue(&self.lane.queue)?;
        self.gate.as_deref().map_or(Ok(()), |gate| check_name(NameSubject::Gate, gate))?;
        check_tags(&self.tags).map_err(InvalidSchedule::Tags)?;
        self.check_durations(name)?;
        self.check_numbers(name)?;
        self.check_times(name, now)
    }

    /// Returns the run of an occurrence, with the id and the key that it has on every worker.
    #[must_use]
    pub fn run(&self, occurrence: &Occurrence, input: String) -> NewRun {
        self.run_as(occurrence, input, occurrence.run_id(), occurrence.key())
    }

    /// Returns a run that is triggered now.
    #[must_use]
    pub fn triggered_run(&self, now: &Occurrence, input: String) -> NewRun {
        let id = RunId::scheduled(now.at, Uuid::new_v4());
        self.run_as(now, input, id, format!("schedule:{}@trigger:{id}", now.schedule))
    }

    fn run_as(&self, occurrence: &Occurrence, input: String, id: RunId, key: String) -> NewRun {
        let mut tags = self.tags.clone();
        occurrence.add_to(&mut tags);
        NewRun {
            gate: self.gate.clone(),
            id,
            lane: self.lane.clone(),
            input,
            key: Some(key),
            key_reuse: KeyReuse::Never,
            single: None,
            priority: self.priority,
            start: StartTime::Now,
            deadline: self.deadline.map(StartTime::After),
            tags,
            parent: None,
            depth: 0,
            trace: None,
        }
    }

    fn check_durations(&self, name: &str) -> Result<(), InvalidSchedule> {
        let refuse = |what, value, range| InvalidSchedule::Duration { name: name.to_owned(), what, value, range };
        let Timing { every, offset, jitter, .. } = &self.timing;
        let is_whole = |duration: Duration| duration.subsec_nanos() == 0;
        if let Some(every) = *every
            && !(is_whole(every) && every >= SECOND && every <= YEAR)
        {
            return Err(refuse("the interval", every, "whole seconds, from one second to a year"));
        }
        if !is_whole(*offset) || every.map_or(!offset.is_zero(), |every| *offset >= every) {
            return Err(refuse("the offset", *offset, "whole seconds, less than the interval of Schedule::every(..)"));
        }
        if *jitter > DAY {
            return Err(refuse("the jitter", *jitter, "at most a day"));
        }
        let window = self.catch_up.window();
        if !(SECOND..=YEAR).contains(&window) {
            return Err(refuse("the window of the catch-up", window, "a second to a year"));
        }
        if let Some(deadline) = self.deadline.filter(Duration::is_zero) {
            return Err(refuse("the deadline", deadline, "more than nothing, or leave it out"));
        }
        Ok(())
    }

    fn check_numbers(&self, name: &str) -> Result<(), InvalidSchedule> {
        let refuse = |what, value, range| InvalidSchedule::Number { name: name.to_owned(), what, value, range };
        let is_allowed = |max: u32| (1..=CatchUp::MOST).contains(&max);
        if self.limit == Some(0) {
            return Err(refuse("the limit", 0, "1 or more; to start nothing, pause the schedule"));
        }
        match self.overlap {
            Overlap::BufferAll { max } if !is_allowed(max) => {
                return Err(refuse("the most occurrences that wait", max.into(), "1 to 1,000"));
            }
            _ => {}
        }
        match self.catch_up {
            CatchUp::All { max, .. } if !is_allowed(max) => {
                Err(refuse("the most runs of a catch-up", max.into(), "1 to 1,000"))
            }
            _ => Ok(()),
        }
    }

    fn check_times(&self, name: &str, now: Timestamp) -> Result<Calendar, InvalidSchedule> {
        let timing = &self.timing;
        if timing.cron.is_empty() && timing.every.is_none() {
            return Err(InvalidSchedule::NoTimes { name: name.to_owned() });
        }
        let calendar = Calendar::of(name, timing)?;
        let after = timing.from.map_or(now, |from| from.max(now));
        let never = |times: String| InvalidSchedule::NeverMatches { name: name.to_owned(), times, after };
        if let (Some(from), Some(until)) = (timing.from, timing.until)
            && until < from
        {
            return Err(never(format!("it ends at {until}, before it begins at {from}")));
        }
        // Each expression alone: one that never matches is a mistake, even beside one that does. A
        // schedule that is declared again after its end is over, and not wrong.
        let alone = |cron: Vec<String>, every| Timing { cron, every, until: None, ..timing.clone() };
        let cron = timing.cron.iter().map(|cron| (format!("{cron:?}"), alone(vec![cron.clone()], None)));
        let every = timing.every.map(|every| (format!("every {every:?}"), alone(Vec::new(), Some(every))));
        for (times, alone) in cron.chain(every) {
            let next = Calendar::of(name, &alone)?.next_after(after);
            if next.is_none_or(|next| next.since(after) > Calendar::LONGEST_WAIT) {
                return Err(never(times));
            }
        }
        Ok(calendar)
    }
}

fn check_schedule_name(name: &str) -> Result<(), InvalidSchedule> {
    if name.len() > MAX_SCHEDULE_NAME_BYTES {
        let shown = name.chars().take(40).collect();
        return Err(InvalidSchedule::LongName { shown, bytes: name.len(), limit: MAX_SCHEDULE_NAME_BYTES });
    }
    Ok(check_name(NameSubject::Schedule, name)?)
}
