//! Limits for steps, and their seats.

use workflow_engine::model::{RunId, RunStatus, SeatLine, SeatWait, Timestamp};
use workflow_engine::store::{AskedSeat, CALL_PATIENCE, ListedSeat, ReadRates, SeatCounts, SeatList, SeatRow};

use super::tables::{Seat, Tables};

/// Returns the rows of these lines, for a batch in which these steps ask for a seat.
pub(super) fn read(
    tables: &Tables,
    lines: &[(&SeatLine, u32)],
    asking: &[(RunId, &str)],
    now: Timestamp,
) -> Vec<Vec<SeatRow>> {
    lines.iter().map(|(line, most)| read_line(tables, (line, *most as usize), asking, now)).collect()
}

fn read_line(
    tables: &Tables,
    (line, most): (&SeatLine, usize),
    asking: &[(RunId, &str)],
    now: Timestamp,
) -> Vec<SeatRow> {
    let (mut rows, mut waiting) = (Vec::new(), Vec::new());
    for ((run_id, step_key), seat) in tables.seats().iter().filter(|(_, seat)| seat.line == *line) {
        let Some(run) = tables.run(*run_id) else { continue };
        let is_late = seat.called_at.is_some_and(|at| at + CALL_PATIENCE <= now);
        let row = SeatRow {
            run_id: *run_id,
            step_key: step_key.clone(),
            asked_at: seat.asked_at,
            called: seat.called_at.is_some() && !is_late,
            asks_at: seat.asks_at,
            epoch: seat.epoch,
            run_epoch: run.epoch,
            run_status: run.status,
        };
        let queue = tables.queues().get(&run.lane.queue);
        let may_go_on = match run.status {
            RunStatus::Running => true,
            RunStatus::Parked => queue.is_none_or(|queue| queue.pause.is_none()),
            _ => false,
        };
        let is_here = may_go_on && run.paused_at.is_none();
        let asks = || asking.contains(&(*run_id, step_key.as_str()));
        match seat.epoch {
            Some(_) => rows.push(row),
            None if is_here && (!is_late || asks()) => waiting.push(row),
            None => {}
        }
    }
    waiting.sort_by_key(|row| row.asked_at);
    rows.extend(waiting.into_iter().take(most));
    rows
}

/// Writes the row of a step that asks for a seat.
pub(super) fn write(tables: &mut Tables, asked: AskedSeat<'_>, now: Timestamp) {
    let AskedSeat { run_id, step_key, line, epoch, asks_at } = asked;
    let of_line = tables.seats().values().filter(|seat| seat.line == *line);
    let last = of_line.map(|seat| seat.asked_at.as_micros()).max();
    let place = (run_id, step_key.to_owned());
    let kept = tables.seats().get(&place).filter(|seat| seat.line == *line).map(|seat| seat.asked_at);
    let after_all = Timestamp::from_micros(now.as_micros().max(last.map_or(i64::MIN, |last| last + 1)));
    let seat = Seat { line: line.clone(), asked_at: kept.unwrap_or(after_all), called_at: None, asks_at, epoch };
    tables.seats_mut().insert(place, seat);
}

/// Notes that a waiting step was called.
pub(super) fn mark_called(tables: &mut Tables, step: &(RunId, String), now: Timestamp) {
    if let Some(seat) = tables.seats_mut().get_mut(step).filter(|seat| seat.epoch.is_none()) {
        seat.called_at = Some(now);
    }
}

/// Returns until when the rates of these lines are used up.
pub(super) fn read_rates(tables: &Tables, lines: &[&SeatLine], now: Timestamp) -> ReadRates {
    let used = |line: &&SeatLine| tables.line_rates().get(*line).copied().unwrap_or(Timestamp::from_micros(0));
    ReadRates { now, used_until: lines.iter().map(used).collect() }
}

/// Forgets at most this number of rates that are not used up any more.
pub(super) fn forget_rates(tables: &mut Tables, at_most: u32, now: Timestamp) {
    let over = tables.line_rates().iter().filter(|(_, until)| **until <= now).map(|(line, _)| line.clone());
    let over: Vec<SeatLine> = over.take(at_most as usize).collect();
    for line in over {
        tables.line_rates_mut().remove(&line);
    }
}

/// Returns the lines after this one in which a step waits.
pub(super) fn waiting_lines(tables: &Tables, after: Option<&SeatLine>, limit: u32) -> Vec<SeatLine> {
    let waiting = tables.seats().values().filter(|seat| seat.epoch.is_none());
    let lines: std::collections::BTreeSet<&SeatLine> = waiting.map(|seat| &seat.line).collect();
    lines.into_iter().filter(|line| after.is_none_or(|after| *line > after)).take(limit as usize).cloned().collect()
}

/// Counts the seats of a limit, each to at most this number.
pub(super) fn counts(tables: &Tables, limit: &str, at_most: u32) -> SeatCounts {
    let of_limit = || tables.seats().iter().filter(|(_, seat)| seat.line.limit == limit);
    let is_held = |(id, seat): (RunId, &Seat)| {
        tables.run(id).is_some_and(|run| run.status == RunStatus::Running && Some(run.epoch) == seat.epoch)
    };
    let held = of_limit().filter(|((id, _), seat)| is_held((*id, *seat))).take(at_most as usize).count();
    let waiting = of_limit().filter(|(_, seat)| seat.epoch.is_none()).take(at_most as usize).count();
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    SeatCounts { held: number(held), waiting: number(waiting) }
}

/// Returns seats of a limit.
pub(super) fn listed(tables: &Tables, list: SeatList<'_>) -> Vec<ListedSeat> {
    let is_asked = |seat: &Seat| {
        let place = (seat.line.key.as_str(), seat.asked_at);
        seat.line.limit == list.limit && seat.epoch.is_none() == list.waiting && place > list.after
    };
    let of_limit = tables.seats().iter().filter(|(_, seat)| is_asked(seat));
    let mut seats: Vec<ListedSeat> = of_limit.filter_map(|(step, seat)| listed_seat(tables, step, seat)).collect();
    seats.sort_by(|one, other| (&one.key, one.asked_at).cmp(&(&other.key, other.asked_at)));
    seats.truncate(list.at_most as usize);
    seats
}

fn listed_seat(tables: &Tables, (id, step_key): &(RunId, String), seat: &Seat) -> Option<ListedSeat> {
    let run = tables.run(*id)?;
    Some(ListedSeat {
        run_id: *id,
        workflow: run.lane.workflow.clone(),
        run_status: run.status,
        run_epoch: run.epoch,
        step_key: step_key.clone(),
        key: seat.line.key.clone(),
        asked_at: seat.asked_at,
        called_at: seat.called_at,
        asks_at: seat.asks_at,
        epoch: seat.epoch,
    })
}

/// Returns the steps of a run that wait for a seat.
pub(super) fn waits_of(tables: &Tables, run: RunId) -> Vec<SeatWait> {
    let of_run = tables.seats().iter().filter(|((id, _), seat)| *id == run && seat.epoch.is_none());
    of_run
        .map(|((_, step_key), seat)| SeatWait {
            step_key: step_key.clone(),
            line: seat.line.clone(),
            asked_at: seat.asked_at,
        })
        .collect()
}
