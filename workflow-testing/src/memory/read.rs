//! Reads outside of commits.

use std::collections::{BTreeMap, BTreeSet};

use workflow_engine::model::{
    AttemptStatus, InboxSignal, Lane, Run, RunId, StepAttempt, StepKind, Timestamp, decision_of,
};
use workflow_engine::store::{
    ApprovalList, Direction, EmittedItem, EndedRun, HistoryRow, HistoryRows, HistoryScan, INBOX_PAGE, Inbox, RunScan,
    ScannedRuns, WaitingApproval,
};

use super::tables::{Place, Tables};

/// Returns the earliest due time in these lanes.
pub(super) fn next_due(tables: &Tables, lanes: &[Lane]) -> Option<Timestamp> {
    let earliest = lanes.iter().filter_map(|lane| tables.next_due(lane));
    earliest.min().filter(|at| *at < Timestamp::FAR_FUTURE)
}

/// See [`Store::scan`](workflow_engine::store::Store::scan).
pub(super) fn scan(tables: &Tables, scan: &RunScan) -> ScannedRuns {
    let rows = usize::try_from(scan.rows).unwrap_or(usize::MAX);
    let source = tables.runs_between(scan.newer_than, scan.older_than).filter(|run| scan.source.has(run));
    let read: Vec<&Run> = match scan.direction {
        Direction::Older => source.rev().take(rows).collect(),
        Direction::Newer => source.take(rows).collect(),
    };
    let end = if read.len() == rows { read.last().map(|run| run.id) } else { None };
    let limit = usize::try_from(scan.limit).unwrap_or(usize::MAX);
    let found = read.into_iter().filter(|run| scan.conditions.hold_for(run)).take(limit);
    ScannedRuns { runs: found.map(Run::without_payloads).collect(), end }
}

/// See [`Store::history`](workflow_engine::store::Store::history).
pub(super) fn history(tables: &Tables, id: RunId) -> Vec<StepAttempt> {
    let mut last_items: BTreeMap<&str, i64> = BTreeMap::new();
    for row in tables.attempts(id).filter(|row| row.kind == StepKind::Emitted) {
        // Rows come in the order of attempts, so the last one stays.
        last_items.insert(&row.step_key, row.attempt);
    }
    let is_shown = |row: &&StepAttempt| {
        row.kind != StepKind::Emitted || row.attempt == 0 || last_items.get(row.step_key.as_str()) == Some(&row.attempt)
    };
    let without_items = |row: &StepAttempt| match row.kind {
        StepKind::Emitted if row.attempt > 0 => StepAttempt { output: None, ..row.clone() },
        _ => row.clone(),
    };
    let mut rows: Vec<StepAttempt> = tables.attempts(id).filter(is_shown).map(without_items).collect();
    // Stable: rows without a position stay in the order of step key and attempt.
    rows.sort_by_key(|row| row.position.unwrap_or(i64::MAX));
    rows
}

fn is_note(kind: StepKind) -> bool {
    matches!(kind, StepKind::Patch | StepKind::Published | StepKind::Emitted)
}

/// See [`Store::history_page`](workflow_engine::store::Store::history_page).
pub(super) fn history_page(tables: &Tables, scan: &HistoryScan) -> Vec<HistoryRow> {
    let shown = |row: &StepAttempt| HistoryRow::of(row, scan.payload_bytes);
    match &scan.rows {
        HistoryRows::Delivered { after, limit } => {
            let rows = history(tables, scan.run);
            let is_asked = |row: &&StepAttempt| after.as_ref().is_none_or(|place| place.is_before(row));
            rows.iter().filter(is_asked).take(*limit as usize).map(shown).collect()
        }
        HistoryRows::Begun { from, limit } => {
            let mut steps: BTreeMap<&str, Vec<&StepAttempt>> = BTreeMap::new();
            for row in tables.attempts(scan.run).filter(|row| !is_note(row.kind)) {
                steps.entry(&row.step_key).or_default().push(row);
            }
            let began = |rows: &[&StepAttempt]| rows.iter().map(|row| row.started_at).min();
            let mut steps: Vec<_> = steps.into_values().collect();
            // Stable: steps that began at one time stay in the order of their keys.
            steps.sort_by_key(|rows| began(rows));
            let page = steps.into_iter().skip(*from as usize).take(*limit as usize);
            page.flatten().map(shown).collect()
        }
        HistoryRows::Open { limit } => {
            let decided: BTreeSet<&str> = tables
                .attempts(scan.run)
                .filter(|row| row.position.is_some())
                .map(|row| row.step_key.as_str())
                .collect();
            let last = tables.attempts(scan.run).filter_map(|row| row.position).max();
            let is_asked = |row: &&StepAttempt| match row.position {
                Some(_) => row.position == last,
                None => !is_note(row.kind) && !decided.contains(row.step_key.as_str()),
            };
            tables.attempts(scan.run).filter(is_asked).take(*limit as usize).map(shown).collect()
        }
        HistoryRows::Attempt { step_key, attempt } => {
            tables.attempt(scan.run, step_key, *attempt).map(shown).into_iter().collect()
        }
    }
}

/// See [`Store::published`](workflow_engine::store::Store::published).
pub(super) fn published(tables: &Tables, id: RunId, name: &str) -> Option<String> {
    let row = tables.attempt(id, &StepKind::Published.key_of(name), 1)?;
    if row.kind == StepKind::Published { row.output.clone() } else { None }
}

/// See [`Store::emitted`](workflow_engine::store::Store::emitted).
pub(super) fn emitted(tables: &Tables, id: RunId, name: &str, after: i64, limit: u32) -> Vec<EmittedItem> {
    let key = StepKind::Emitted.key_of(name);
    let is_asked =
        |row: &&StepAttempt| row.kind == StepKind::Emitted && row.step_key == key && row.attempt > after.max(0);
    let item = |row: &StepAttempt| EmittedItem { number: row.attempt, item: row.output.clone().unwrap_or_default() };
    tables.attempts(id).filter(is_asked).take(usize::try_from(limit).unwrap_or(usize::MAX)).map(item).collect()
}

/// Returns these runs, each once even if it is named several times.
fn once_each<'a>(tables: &'a Tables, ids: &[RunId]) -> impl Iterator<Item = &'a Run> {
    let ids: BTreeSet<RunId> = ids.iter().copied().collect();
    ids.into_iter().filter_map(|id| tables.run(id))
}

/// See [`Store::missing`](workflow_engine::store::Store::missing).
pub(super) fn missing(tables: &Tables, ids: &[RunId]) -> Vec<RunId> {
    ids.iter().copied().filter(|id| tables.run(*id).is_none()).collect()
}

/// See [`Store::wakes`](workflow_engine::store::Store::wakes).
pub(super) fn wakes(tables: &Tables, ids: &[RunId]) -> Vec<(RunId, i64)> {
    once_each(tables, ids).map(|run| (run.id, run.wakes)).collect()
}

/// See [`Store::ended`](workflow_engine::store::Store::ended).
pub(super) fn ended(tables: &Tables, ids: &[RunId]) -> Vec<EndedRun> {
    let ended = once_each(tables, ids).filter(|run| run.status.is_terminal());
    ended
        .map(|run| EndedRun { id: run.id, status: run.status, output: run.output.clone(), error: run.error.clone() })
        .collect()
}

/// See [`Store::inbox`](workflow_engine::store::Store::inbox).
pub(super) fn inbox(tables: &Tables, id: RunId, names: &[String]) -> Option<Inbox> {
    let run = tables.run(id)?;
    let waiting = tables.signals(id).filter(|(_, signal)| signal.consumed_by.is_none() && names.contains(&signal.name));
    let signals = waiting
        .take(INBOX_PAGE as usize)
        .map(|(seq, signal)| InboxSignal { seq, name: signal.name.clone(), payload: signal.payload.clone() })
        .collect();
    Some(Inbox { wakes: run.wakes, cancel_requested: run.cancel_requested_at.is_some(), signals })
}

/// See [`Store::approvals`](workflow_engine::store::Store::approvals).
pub(super) fn approvals(tables: &Tables, list: &ApprovalList) -> Vec<WaitingApproval> {
    let asked: Vec<RunId> = match list.run {
        Some(run) => vec![run],
        None => tables.runs_with_attempts().collect(),
    };
    let mut waiting = Vec::new();
    for run in asked.into_iter().filter_map(|id| tables.run(id)).filter(|run| !run.status.is_terminal()) {
        let is_asked = |row: &StepAttempt| match row.kind {
            StepKind::Approval => true,
            StepKind::Signal => list.decisions && decision_of(&row.step_key).is_some(),
            _ => false,
        };
        let waits = |row: &&StepAttempt| row.status == AttemptStatus::Running && is_asked(row);
        waiting.extend(tables.attempts(run.id).filter(waits).map(|row| WaitingApproval {
            run_id: run.id,
            lane: run.lane.clone(),
            step_key: row.step_key.clone(),
            kind: row.kind,
            output: row.output.clone(),
            started_at: row.started_at,
        }));
    }
    waiting.retain(|waiting| waiting.cursor() > list.after);
    waiting.sort_by_key(WaitingApproval::cursor);
    waiting.truncate(usize::try_from(list.limit).unwrap_or(usize::MAX));
    waiting
}

/// See [`Store::due_lanes`](workflow_engine::store::Store::due_lanes).
pub(super) fn due_lanes(tables: &Tables, lanes: &[Lane], now: Timestamp) -> Vec<Lane> {
    let is_asked =
        |found: &&Lane| lanes.iter().any(|lane| lane.queue == found.queue && lane.workflow == found.workflow);
    let is_due = |(lane, gate): &&Place| tables.next_due_behind(lane, gate.as_deref()).is_some_and(|at| at <= now);
    let due = tables.places().filter(|(lane, _)| is_asked(&lane)).filter(is_due).map(|(lane, _)| lane.clone());
    due.collect::<BTreeSet<_>>().into_iter().collect()
}
