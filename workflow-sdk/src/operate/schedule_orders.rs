//! Orders that create, change and backfill schedules.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use workflow_engine::model::{Priority, Timestamp};
use workflow_engine::schedule::{CatchUp, Declaration, Overlap};

use crate::{Backfill, Client, Schedule};

use super::{OperateError, OperateErrorCode, Payload};

/// Creates a schedule: see [`Client::create_schedule`].
///
/// A second order with this name changes nothing if its settings and its input are equal. Otherwise
/// it is refused.
///
/// ```
/// # use workflow_sdk::prelude::*;
/// use workflow_sdk::operate::{Action, CreateSchedule, Order, OrderOutcome, Payload};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::connect("sqlite::memory:").await?;
/// let mut nightly = CreateSchedule::new("nightly", "report", Payload::new("{}")?);
/// nightly.settings.cron = Some(vec!["0 3 * * *".into()]);
/// nightly.settings.zone = Some("Europe/Berlin".into());
/// let order = Order::new(Action::CreateSchedule(Box::new(nightly)));
/// let done = client.operate().perform(order.clone()).await?;
/// assert_eq!(done.outcome, OrderOutcome::Changed);
/// assert_eq!(client.operate().perform(order).await?.outcome, OrderOutcome::Unchanged);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CreateSchedule {
    /// The name of the schedule. Range: 1 to 200 bytes without control characters.
    pub schedule: String,
    /// The name of the workflow that it starts.
    pub workflow: String,
    /// The input of each run.
    pub input: Payload,
    /// Its times, and everything else. A cron expression or an interval is needed.
    pub settings: ScheduleSettings,
}

impl CreateSchedule {
    /// Creates a schedule of this workflow with this input. It needs times too.
    #[must_use]
    pub fn new(schedule: impl Into<String>, workflow: impl Into<String>, input: Payload) -> Self {
        let settings = ScheduleSettings::default();
        Self { schedule: schedule.into(), workflow: workflow.into(), input, settings }
    }

    /// Returns the schedule as code declares it.
    pub(super) fn schedule(&self) -> Schedule {
        let (name, workflow) = (self.schedule.clone(), self.workflow.clone());
        Schedule::ordered(name, workflow, &self.input, |declaration| self.settings.apply(declaration))
    }
}

/// Changes a schedule. A setting that the order leaves out keeps its value, even if another order
/// changes it meanwhile. New times count from now.
///
/// Of a schedule that code declares, all but the input and the version can be changed. The change
/// holds until [`Action::RevertSchedule`](super::Action::RevertSchedule), also when a worker
/// declares the schedule again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct UpdateSchedule {
    /// The schedule.
    pub schedule: String,
    /// The input of each run from now on. Default: it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// The settings that are changed.
    #[serde(default)]
    pub settings: ScheduleSettings,
}

impl UpdateSchedule {
    /// Changes this schedule. Without a setting or an input, nothing is changed.
    #[must_use]
    pub fn new(schedule: impl Into<String>) -> Self {
        Self { schedule: schedule.into(), input: None, settings: ScheduleSettings::default() }
    }

    /// Returns `true` if the order changes no setting and no input.
    pub(super) fn is_empty(&self) -> bool {
        self.input.is_none() && self.settings == ScheduleSettings::default()
    }
}

/// Starts the runs of past occurrences: see [`ScheduleHandle::backfill`].
///
/// Occurrences that have a run are left out, so an order that was interrupted is repeated. Those of
/// the future are left to the schedule.
///
/// [`ScheduleHandle::backfill`]: crate::ScheduleHandle::backfill
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BackfillSchedule {
    /// The schedule.
    pub schedule: String,
    /// The time after which the occurrences are.
    pub after: Timestamp,
    /// The last time that an occurrence may have.
    pub until: Timestamp,
    /// The most occurrences; more are refused as a whole. Default:
    /// [`Backfill::DEFAULT_MAX`](crate::Backfill::DEFAULT_MAX). Range: 1 to
    /// [`BackfillSchedule::MAX`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// The input of these runs. Default: that of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
}

impl BackfillSchedule {
    /// The largest value of `max`. It is bounded because the times of all occurrences are computed
    /// before the first run starts.
    pub const MAX: u32 = 100_000;

    /// Starts the runs of the occurrences after `after` and up to `until`.
    #[must_use]
    pub fn new(schedule: impl Into<String>, after: Timestamp, until: Timestamp) -> Self {
        Self { schedule: schedule.into(), after, until, max: None, input: None }
    }

    /// Returns the call of the client.
    ///
    /// # Errors
    /// [`BadLimit`](OperateErrorCode::BadLimit).
    pub(super) fn prepare(self, client: &Client) -> Result<Backfill, OperateError> {
        let Self { schedule, after, until, max, input } = self;
        let max = max.unwrap_or(Backfill::DEFAULT_MAX);
        if !(1..=Self::MAX).contains(&max) {
            let message = format!("a backfill of at most {max} runs is refused");
            return Err(OperateError::new(OperateErrorCode::BadLimit, message, "allow 1 to 100,000 runs"));
        }
        let backfill = client.schedule(schedule).backfill(after, until).max(max);
        Ok(match input {
            Some(input) => backfill.input_with(move |_| input.clone()),
            None => backfill,
        })
    }
}

/// The settings of a schedule. A field that is left out has its default where a schedule is
/// created, and stays as it is where one is changed. Each is explained at [`Schedule`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ScheduleSettings {
    /// Cron expressions of five fields, or of six with the seconds first. They replace an interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<Vec<String>>,
    /// The interval in milliseconds, whole seconds. It replaces cron expressions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_ms: Option<u64>,
    /// How many milliseconds later than its multiples the interval has its times. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset_ms: Option<u64>,
    /// Cron expressions of times that are left out. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub except: Option<Vec<String>>,
    /// The time zone of the expressions, as the IANA names it. Default: `UTC`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The earliest occurrence. Default: the first one from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// The latest occurrence. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// By how many milliseconds an occurrence may be delayed. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_ms: Option<u64>,
    /// The fate of an occurrence while a run of the schedule has not ended. Default: `skip`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// The fate of occurrences that passed while no worker was there. Default: the latest one of a
    /// day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<CatchUp>,
    /// After how many runs the schedule ends. Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// `true` if a run that fails pauses the schedule. Default: `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pause_on_failure: Option<bool>,
    /// The queue of the runs. Default: [`DEFAULT_QUEUE`](crate::DEFAULT_QUEUE).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The gate of the runs. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<String>,
    /// The version of the workflow. Default: [`DEFAULT_VERSION`](crate::DEFAULT_VERSION).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The priority of the runs. Default: normal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// In how many milliseconds a run fails if it has not ended. Default: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// All tags of the runs. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    /// The settings that get their default again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clear: Vec<ClearedSetting>,
}

/// A setting of a schedule that can be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClearedSetting {
    /// The earliest occurrence.
    From,
    /// The latest occurrence.
    Until,
    /// The number of runs after which the schedule ends.
    Limit,
    /// The gate.
    Gate,
    /// The priority.
    Priority,
    /// The deadline.
    Deadline,
}

impl ScheduleSettings {
    /// Changes a declaration: takes the cleared settings away, then sets the given ones.
    pub(super) fn apply(&self, declaration: &mut Declaration) {
        let Declaration { timing, lane, gate, tags, priority, deadline, overlap, catch_up, limit, pause_on_failure } =
            declaration;
        for cleared in &self.clear {
            match cleared {
                ClearedSetting::From => timing.from = None,
                ClearedSetting::Until => timing.until = None,
                ClearedSetting::Limit => *limit = None,
                ClearedSetting::Gate => *gate = None,
                ClearedSetting::Priority => *priority = None,
                ClearedSetting::Deadline => *deadline = None,
            }
        }
        if self.cron.is_some() || self.every_ms.is_some() {
            timing.cron = self.cron.clone().unwrap_or_default();
            timing.every = self.every_ms.map(Duration::from_millis);
            if timing.every.is_none() {
                timing.offset = Duration::ZERO;
            }
        }
        set(&mut timing.offset, self.offset_ms.map(Duration::from_millis));
        set(&mut timing.except, self.except.clone());
        set(&mut timing.zone, self.zone.clone());
        set(&mut timing.from, self.from.map(Some));
        set(&mut timing.until, self.until.map(Some));
        set(&mut timing.jitter, self.jitter_ms.map(Duration::from_millis));
        set(&mut lane.queue, self.queue.clone());
        set(&mut lane.version, self.version.clone());
        set(gate, self.gate.clone().map(Some));
        set(tags, self.tags.clone());
        set(priority, self.priority.map(Some));
        set(deadline, self.deadline_ms.map(|millis| Some(Duration::from_millis(millis))));
        set(overlap, self.overlap);
        set(catch_up, self.catch_up);
        set(limit, self.limit.map(Some));
        set(pause_on_failure, self.pause_on_failure);
    }

    /// # Errors
    /// [`BadInput`](OperateErrorCode::BadInput), if the settings contradict each other.
    pub(super) fn check(&self) -> Result<(), OperateError> {
        if self.cron.is_some() && self.every_ms.is_some() {
            let message = "cron expressions and an interval replace each other, and the order has both";
            return Err(OperateError::new(OperateErrorCode::BadInput, message, "leave out cron or every_ms"));
        }
        Ok(())
    }

    /// Returns the settings as an audit row has them: without tags, as a start.
    pub(super) fn audited(&self) -> Value {
        json!(Self { tags: None, ..self.clone() })
    }
}

fn set<T>(place: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *place = given;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use workflow_engine::schedule::Timing;

    use super::*;

    fn declared(settings: Value) -> Declaration {
        let create = json!({ "schedule": "s", "workflow": "w", "input": 1, "settings": settings });
        let create: CreateSchedule = serde_json::from_value(create).unwrap();
        create.schedule().into_parts().unwrap().declaration
    }

    #[test]
    fn what_is_left_out_has_its_default_and_stays() {
        let mut declaration = declared(json!({ "cron": ["0 7 * * *"], "limit": 3, "gate": "g", "tags": { "a": "b" } }));
        let timing = Timing { cron: vec!["0 7 * * *".into()], zone: "UTC".into(), ..Timing::default() };
        assert_eq!(declaration.timing, timing);
        assert_eq!((declaration.lane.queue.as_str(), declaration.lane.version.as_str()), ("default", "1"));
        assert_eq!((declaration.overlap, declaration.catch_up), (Overlap::Skip, CatchUp::default()));
        let before = declaration.clone();
        ScheduleSettings::default().apply(&mut declaration);
        assert_eq!(declaration, before);
        let settings =
            json!({ "zone": "Europe/Berlin", "clear": ["limit", "gate"], "overlap": { "buffer_all": { "max": 2 } } });
        serde_json::from_value::<ScheduleSettings>(settings).unwrap().apply(&mut declaration);
        assert_eq!(
            (declaration.timing.zone.as_str(), &declaration.timing.cron),
            ("Europe/Berlin", &before.timing.cron)
        );
        assert_eq!((declaration.limit, declaration.gate.as_ref(), &declaration.tags), (None, None, &before.tags));
        assert_eq!(declaration.overlap, Overlap::BufferAll { max: 2 });
    }

    #[test]
    fn an_interval_and_cron_expressions_replace_each_other() {
        let mut declaration = declared(json!({ "every_ms": 900_000, "offset_ms": 180_000 }));
        let every = ScheduleSettings { every_ms: Some(600_000), ..ScheduleSettings::default() };
        every.apply(&mut declaration);
        let Timing { every, offset, .. } = &declaration.timing;
        assert_eq!((*every, *offset), (Some(Duration::from_secs(600)), Duration::from_secs(180)));
        let cron = ScheduleSettings { cron: Some(vec!["0 7 * * *".into()]), ..ScheduleSettings::default() };
        cron.apply(&mut declaration);
        let Timing { cron, every, offset, .. } = &declaration.timing;
        assert_eq!((cron.len(), *every, *offset), (1, None, Duration::ZERO));
    }

    #[test]
    fn a_field_that_no_setting_has_is_refused() {
        let refused = serde_json::from_value::<ScheduleSettings>(json!({ "corn": ["0 7 * * *"] })).unwrap_err();
        assert!(refused.to_string().contains("unknown field `corn`"), "{refused}");
        let every = ScheduleSettings { every_ms: Some(1), tags: Some(BTreeMap::new()), ..ScheduleSettings::default() };
        assert_eq!(every.audited(), json!({ "every_ms": 1 }));
        assert!(UpdateSchedule::new("s").is_empty());
    }
}
