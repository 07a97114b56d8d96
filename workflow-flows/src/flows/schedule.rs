//! Triggers of the clock as schedules of the engine.

use std::time::Duration;

use serde_json::Value;
use workflow_sdk::operate::OperateError;
use workflow_sdk::{CatchUp, Client, ClientError, Declaration, Overlap as Missed, Schedule, Timestamp};

use crate::client::{deadline_of, tags_of};
use crate::graph::{Overlap, Trigger};
use crate::{FlowVersion, flow};

/// How late a time may be noticed if the trigger says nothing about missed times.
const PUNCTUAL: Duration = Duration::from_secs(60);
/// The most times that wait for the end of a run.
const MOST_WAITING: u32 = 1_000;
/// A time after which a cron expression must have an occurrence: 2026-01-01. A check has no clock.
const CHECKED_FROM: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

/// Makes the schedules of a flow those of its newest version. Repeating it changes nothing.
pub(super) async fn set_schedules(client: &Client, version: &FlowVersion) -> Result<(), OperateError> {
    let is_clock = |trigger: &&Trigger| matches!(trigger, Trigger::Cron { .. });
    let clocks: Vec<&Trigger> = version.definition.triggers.iter().filter(is_clock).collect();
    for (number, trigger) in clocks.iter().enumerate() {
        let name = schedule_name(&version.name, number);
        let make = || schedule_of(&name, trigger, version);
        if let (Some(declared), Some(schedule)) = (make(), make()) {
            let declared = declared.into_parts().map_err(ClientError::from)?.declaration;
            set_schedule(client, &name, &declared, schedule).await?;
        }
    }
    delete_from(client, &version.name, clocks.len()).await
}

/// Returns the name of the schedule of the trigger with this number, from 0.
fn schedule_name(flow: &str, number: usize) -> String {
    format!("flow:{flow}:{number}")
}

fn schedule_of(name: &str, trigger: &Trigger, version: &FlowVersion) -> Option<Schedule> {
    let Trigger::Cron { cron, zone, overlap, catch_up, input } = trigger else { return None };
    let start = version.clone().into_start().input(input.clone()).actor(&version.created_by);
    let (tags, deadline) = (tags_of(&start), deadline_of(&version.definition));
    let schedule = times(name, cron, zone.as_deref(), *catch_up)
        .overlap(match overlap {
            Overlap::Skip => Missed::Skip,
            Overlap::Queue => Missed::BufferAll { max: MOST_WAITING },
            Overlap::Allow => Missed::Allow,
        })
        .start(flow, start);
    let schedule = tags.into_iter().fold(schedule, |schedule, (name, value)| schedule.tag(name, value));
    Some(match deadline {
        Some(deadline) => schedule.deadline(deadline),
        None => schedule,
    })
}

fn times(name: &str, cron: &str, zone: Option<&str>, catch_up: Option<Duration>) -> Schedule {
    let schedule = Schedule::cron(name, cron).zone(zone.unwrap_or("UTC"));
    schedule.catch_up(match catch_up {
        Some(window) => CatchUp::Latest { window },
        None => CatchUp::Skip { within: PUNCTUAL },
    })
}

/// Returns why the engine would refuse these times.
pub(crate) fn refuse_times(cron: &str, zone: Option<&str>, catch_up: Option<Duration>) -> Option<String> {
    let schedule = times("trigger", cron, zone, catch_up).start_by_name("flow", &Value::Null);
    let declared = schedule.into_parts().and_then(|declared| declared.declaration.check("trigger", CHECKED_FROM));
    declared.err().map(|error| error.to_string().replace("schedule \"trigger\": ", ""))
}

/// Creates a schedule, or changes it if it is not as declared: a change would forget a time that is
/// due. The version in the tags stands for the input.
async fn set_schedule(
    client: &Client,
    name: &str,
    declared: &Declaration,
    schedule: Schedule,
) -> Result<(), OperateError> {
    let handle = client.schedule(name);
    match handle.describe().await {
        Ok(present) if present.declaration() == declared => Ok(()),
        Ok(_) => Ok(handle.update(schedule).await?),
        Err(ClientError::UnknownSchedule { .. }) => match client.create_schedule(schedule).await {
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
