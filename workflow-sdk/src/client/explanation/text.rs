//! The sentences of explanations.

use std::fmt;

use workflow_engine::model::{RunId, RunStatus, StoredError};

use crate::operate::Count;

use super::Explanation;

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { status: RunStatus::Canceled, at, .. } => write!(f, "the run was canceled at {at}"),
            Self::Ended { status, at, error } => {
                write!(f, "the run {status} at {at}")?;
                error.as_ref().map_or(Ok(()), |error| write!(f, ": {}", one_line(error)))
            }
            Self::Paused { since, worker: None } => {
                write!(f, "the run is paused since {since}; resume it to let it go on")
            }
            Self::Paused { since, worker: Some(worker) } => {
                write!(f, "the run is paused since {since}, and worker {worker} lets its running steps end")
            }
            Self::Running { worker, since, steps } => {
                write!(f, "the run is running on worker {worker}, first claimed at {since}")?;
                list(f, ", in ", " and ", steps)
            }
            Self::Stalled { worker, since } => write!(
                f,
                "the run is running on worker {worker}, but no step of it has begun or ended since {since}: its \
                 workflow awaits something that is not a call of its context, computes, or is in a transaction; \
                 the log of the worker says more"
            ),
            Self::Scheduled { at } => write!(f, "the run starts at {at}"),
            Self::Retrying { at, attempt, error } => {
                write!(f, "the run failed and is tried again at {at}, as attempt {attempt}: {}", one_line(error))
            }
            Self::Diverged { at, error } => {
                write!(f, "the run waits for other code and is tried again at {at}: {}", one_line(error))
            }
            Self::Waiting { until, on } => {
                f.write_str("the run waits")?;
                list(f, " for ", " or ", on)?;
                // The list above already shows the end of each wait that has one.
                let unnamed = until.filter(|until| on.iter().all(|awaited| awaited.until != Some(*until)));
                unnamed.map_or(Ok(()), |until| write!(f, ", until {until}"))
            }
            Self::Suspected { at, crashes } => write!(
                f,
                "the run may be what killed its worker {crashes} times; it waits to be driven among fewer runs, \
                 until {at}"
            ),
            Self::Due { since, workers: 1, ahead } => {
                write!(f, "the run is due since {since}; 1 worker serves it and takes it once it has room")?;
                before(f, *ahead)
            }
            Self::Due { since, workers, ahead } => {
                write!(
                    f,
                    "the run is due since {since}; {workers} workers serve it, and the first with room takes it"
                )?;
                before(f, *ahead)
            }
            Self::QueuePaused { since, queue, pause } => write!(
                f,
                "the run is due since {since}, but queue {queue} is paused since {}: {}; resume the queue to let its \
                 runs go on",
                pause.since, pause.reason
            ),
            Self::QueueFull { since, queue, limit: 0, .. } => write!(
                f,
                "the run is due since {since}, but the limit of queue {queue} is 0, so none of its runs may go on"
            ),
            Self::QueueFull { since, queue, limit, running, held_by, ahead } => {
                let number = running.map_or(limit.to_string(), number);
                write!(f, "the run is due since {since}, but {number} of {limit} runs of queue {queue} are under way")?;
                holders(f, *running, held_by)?;
                before(f, *ahead)
            }
            Self::QueueRate { since, queue, rate, next_at } => write!(
                f,
                "the run is due since {since}, but the rate of queue {queue} ({rate}) lets the next run begin at {next_at}"
            ),
            Self::GateFull { since, queue, gate, limit: 0, .. } => write!(
                f,
                "the run is due since {since}, but the limit of each gate of queue {queue} is 0, so no run behind gate \
                 {gate} may go on"
            ),
            Self::GateFull { since, queue, gate, limit, running, held_by, ahead } => {
                let number = running.map_or(limit.to_string(), number);
                write!(
                    f,
                    "the run is due since {since}, but {number} of {limit} runs behind gate {gate} of queue {queue} are \
                     under way"
                )?;
                holders(f, *running, held_by)?;
                before(f, *ahead)
            }
            Self::GateRate { since, queue, gate, rate, next_at } => write!(
                f,
                "the run is due since {since}, but the rate of gate {gate} of queue {queue} ({rate}) lets the next run \
                 begin at {next_at}"
            ),
            Self::WaitsForSeat { since, step, limit, key, concurrency, rate, begins_at, taken, ahead } => {
                write!(f, "step {step:?} waits since {since} for a seat of limit {limit} for key {key}: ")?;
                match (concurrency, rate) {
                    (Some(0), _) => f.write_str("the limit is 0, so no body may begin")?,
                    (Some(seats), _) => write!(f, "{taken} of {seats} are taken")?,
                    (None, Some(_)) => f.write_str("any number may be taken")?,
                    (None, None) => f.write_str("there is no limit any more")?,
                }
                if let (Some(rate), Some(begins_at)) = (rate, begins_at) {
                    write!(f, ", the rate ({rate}) lets it begin at {begins_at}")?;
                }
                match ahead {
                    0 => f.write_str(", and it is the next"),
                    1 => f.write_str(", and 1 step waits before it"),
                    ahead => write!(f, ", and {ahead} steps wait before it"),
                }
            }
            Self::NoRoom { full } => write!(f, "the start would be refused: {full}"),
            Self::Unserved { since, lane, served } => {
                write!(f, "the run is due since {since}, but no worker serves {lane}; ")?;
                if served.is_empty() {
                    return write!(f, "no worker knows {}", lane.workflow);
                }
                let names = served.iter().map(|other| match other.queue == lane.queue {
                    true => format!("version {}", other.version),
                    false => format!("version {} in queue {}", other.version, other.queue),
                });
                list(f, "workers serve ", " and ", &names.collect::<Vec<_>>())
            }
        }
    }
}

/// Names the runs that hold the slots, and how many more hold one.
fn holders(f: &mut fmt::Formatter<'_>, running: Option<Count>, held_by: &[RunId]) -> fmt::Result {
    let named = u32::try_from(held_by.len()).unwrap_or(u32::MAX);
    let more = running.map(|all| Count { runs: all.runs.saturating_sub(named), ..all });
    let more = more.filter(|more| named > 0 && (more.runs > 0 || more.at_least));
    let between = if more.is_some() { ", " } else { " and " };
    let (last, first) = held_by.split_last().map_or((None, held_by), |(last, first)| (Some(last), first));
    list(f, ": ", ", ", first)?;
    if let Some(last) = last {
        write!(f, "{}{last}", if first.is_empty() { ": " } else { between })?;
    }
    more.map_or(Ok(()), |more| write!(f, " and {} more", number(more)))
}

/// Tells how many runs are claimed before the run.
fn before(f: &mut fmt::Formatter<'_>, ahead: Option<Count>) -> fmt::Result {
    match ahead {
        None => Ok(()),
        Some(Count { runs: 0, at_least: false }) => f.write_str("; no due run of its lane and gate is before it"),
        Some(Count { runs: 1, at_least: false }) => f.write_str("; 1 due run of its lane and gate is before it"),
        Some(ahead) => write!(f, "; {} due runs of its lane and gate are before it", number(ahead)),
    }
}

fn number(count: Count) -> String {
    if count.at_least { format!("{}+", count.runs) } else { count.runs.to_string() }
}

fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, before: &str, between: &str, items: &[T]) -> fmt::Result {
    for (place, item) in items.iter().enumerate() {
        write!(f, "{}{item}", if place == 0 { before } else { between })?;
    }
    Ok(())
}

/// Shortens a report of several lines to its first line and the difference. The whole report stands
/// in the run's error.
fn one_line(error: &StoredError) -> String {
    let text = error.to_string();
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    match lines.find_map(|line| line.strip_prefix("differs:")) {
        Some(difference) => format!("{first}: {}", difference.trim()),
        None => first.to_owned(),
    }
}
