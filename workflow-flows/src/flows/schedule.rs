//! Triggers of the clock as schedules of the engine.

use std::time::Duration;

use serde_json::Value;
use workflow_sdk::operate::OperateError;
use workflow_sdk::{CatchUp, Client, ClientError, Declaration, Overlap as Missed, Schedule, Timestamp, Workflow};

use crate::client::{deadline_of, tags_of};
use crate::graph::{Overlap, Trigger};
use crate::{FlowVersion, FlowWorkflow, flow};

/// The most times that wait for the end of a run.
const MOST_WAITING: u32 = 1_000;
/// A time after which a cron expression must have an occurrence: 2026-01-01. A check has no clock.
const CHECKED_FROM: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// Makes the schedules of a flow those of its newest version. Repeating it changes nothing.
pub(super) async fn set_schedules(client: &Client, version: &FlowVersion) -> Result<(), OperateError> {
    let clocks: Vec<Clock<'_>> = version.definition.triggers.iter().filter_map(|it| Clock::of(it, version)).collect();
    for (number, clock) in clocks.iter().enumerate() {
        set_schedule(client, &schedule_name(&version.name, number), clock).await?;
    }
    delete_from(client, &version.name, clocks.len()).await
}

/// Returns the name of the schedule of the trigger with this number, from 0.
fn schedule_name(flow: &str, number: usize) -> String {
    format!("flow:{flow}:{number}")
}

/// A trigger of the clock.
struct Clock<'v> {
    cron: &'v str,
    zone: Option<&'v str>,
    overlap: Overlap,
    catch_up: Option<Duration>,
    input: &'v Value,
    version: &'v FlowVersion,
}

impl<'v> Clock<'v> {
    fn of(trigger: &'v Trigger, version: &'v FlowVersion) -> Option<Self> {
        let Trigger::Cron { cron, zone, overlap, catch_up, input } = trigger else { return None };
        Some(Self { cron, zone: zone.as_deref(), overlap: *overlap, catch_up: *catch_up, input, version })
    }

    /// Returns the declaration of the schedule. It holds no input, so the flow is not encoded.
    fn declaration(&self, name: &str) -> Result<Declaration, ClientError> {
        let schedule = self.outline(name).start_by_name(FlowWorkflow::NAME, &Value::Null);
        Ok(schedule.version(FlowWorkflow::VERSION).into_parts()?.declaration)
    }

    /// Returns the schedule, whose input holds the whole flow.
    fn schedule(&self, name: &str) -> Schedule {
        let start = self.version.clone().into_start().input(self.input.clone()).actor(&self.version.created_by);
        self.outline(name).start(flow, start)
    }

    /// Returns the schedule without the workflow and its input.
    fn outline(&self, name: &str) -> Schedule {
        let schedule = times(name, self.cron, self.zone, self.catch_up).overlap(match self.overlap {
            Overlap::Skip => Missed::Skip,
            Overlap::Queue => Missed::BufferAll { max: MOST_WAITING },
            Overlap::Allow => Missed::Allow,
        });
        let tags = tags_of(&self.version.name, &self.version.version);
        let schedule = tags.into_iter().fold(schedule, |schedule, (name, value)| schedule.tag(name, value));
        match deadline_of(&self.version.definition) {
            Some(deadline) => schedule.deadline(deadline),
            None => schedule,
        }
    }
}

fn times(name: &str, cron: &str, zone: Option<&str>, catch_up: Option<Duration>) -> Schedule {
    let schedule = Schedule::cron(name, cron).zone(zone.unwrap_or("UTC"));
    schedule.catch_up(match catch_up {
        Some(window) => CatchUp::Latest { window },
        None => CatchUp::Skip { within: CatchUp::PUNCTUAL },
    })
}

/// Returns why the engine would refuse these times.
pub(crate) fn refuse_times(cron: &str, zone: Option<&str>, catch_up: Option<Duration>) -> Option<String> {
    let schedule = times("trigger", cron, zone, catch_up).start_by_name("flow", &Value::Null);
    let declared = schedule.into_parts().and_then(|declared| declared.declaration.check("trigger", CHECKED_FROM));
    declared.err().map(|error| error.to_string().replace("schedule \"trigger\": ", ""))
}

/// Creates a schedule, or changes it if it is not as declared: a change would forget a time that is
/// due. The version in the tags stands for the input, which is made only if it is written.
async fn set_schedule(client: &Client, name: &str, clock: &Clock<'_>) -> Result<(), OperateError> {
    let handle = client.schedule(name);
    match handle.describe().await {
        Ok(present) if *present.declaration() == clock.declaration(name)? => Ok(()),
        Ok(_) => Ok(handle.update(clock.schedule(name)).await?),
        Err(ClientError::UnknownSchedule { .. }) => match client.create_schedule(clock.schedule(name)).await {
            // Another deploy of this version was first.
            Ok(_) | Err(ClientError::ScheduleExists { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        },
        Err(error) => Err(error.into()),
    }
}

/// Deletes the schedules of triggers that a former version had.
async fn delete_from(client: &Client, flow: &str, first: usize) -> Result<(), OperateError> {
    for number in first.. {
        let handle = client.schedule(schedule_name(flow, number));
        match handle.describe().await {
            Ok(_) => handle.delete().await?,
            Err(ClientError::UnknownSchedule { .. }) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::graph::Flow;

    #[test]
    fn a_schedule_is_compared_with_what_it_declares() {
        for (on_timeout, overlap, name) in
            [("fail", "skip", "1"), ("cancel", "queue", "1.4.0"), ("pause", "allow", "2")]
        {
            let cron = json!({ "cron": "0 8 * * *", "overlap": overlap, "catch_up": 60_000, "input": { "id": 7 } });
            let definition: Flow = serde_json::from_value(json!({
                "language": 1, "name": "daily", "input": true, "timeout": 86_400_000, "on_timeout": on_timeout,
                "body": { "do": [{ "id": "a", "kind": { "set": { "x": 1 } } }] },
                "triggers": [{ "event": { "name": "e" } }, { "cron": cron }],
            }))
            .unwrap();
            let version = FlowVersion {
                name: "daily".to_owned(),
                number: 1,
                version: name.to_owned(),
                digest: definition.digest(),
                definition,
                created_at: CHECKED_FROM,
                created_by: "ann".to_owned(),
            };
            let mut clocks = version.definition.triggers.iter().filter_map(|trigger| Clock::of(trigger, &version));
            let clock = clocks.next().unwrap();
            let declared = clock.schedule("flow:daily:0").into_parts().unwrap().declaration;
            assert_eq!(clock.declaration("flow:daily:0").unwrap(), declared, "{on_timeout}");
            assert!(clocks.next().is_none(), "an event is no trigger of the clock");
        }
    }
}
