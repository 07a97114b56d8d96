//! Reads outside of commits.

use std::collections::{BTreeMap, BTreeSet};

use workflow_engine::model::{
    AttemptStatus, InboxSignal, Lane, Run, RunId, StepAttempt, StepKind, Timestamp, decision_of,
};
use workflow_engine::store::{
    APPROVAL_BUDGET, ApprovalList, Direction, EmittedItem, EndedRun, HistoryRow, HistoryRows, HistoryScan, INBOX_PAGE,
    Inbox, ListedApprovals, MOST_UNDECIDED, RunScan, RunWakes, ScannedRuns, StepBounds, WaitingApproval,
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

/// Returns the attempts of a run without an outcome, by step key and attempt, at most as many as
/// one read looks at, and one more. Items of streams are left out.
fn without_outcome(tables: &Tables, id: RunId) -> impl Iterator<Item = &StepAttempt> {
    let rows = tables.attempts(id).filter(|row| row.position.is_none() && row.kind != StepKind::Emitted);
    rows.take(MOST_UNDECIDED as usize + 1)
}

fn has_more_undecided(tables: &Tables, id: RunId) -> bool {
    without_outcome(tables, id).count() > MOST_UNDECIDED as usize
}

/// Returns those of the attempts without an outcome whose steps have no outcome either.
fn undecided(tables: &Tables, id: RunId) -> impl Iterator<Item = &StepAttempt> {
    let decided: BTreeSet<&str> =
        tables.attempts(id).filter(|row| row.position.is_some()).map(|row| row.step_key.as_str()).collect();
    without_outcome(tables, id).filter(move |row| !is_note(row.kind) && !decided.contains(row.step_key.as_str()))
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
        HistoryRows::Steps { after, limit, attempts } => {
            let outcomes: BTreeMap<i64, &str> =
                tables.attempts(scan.run).filter_map(|row| Some((row.position?, row.step_key.as_str()))).collect();
            let last = outcomes.keys().next_back().copied().unwrap_or_default();
            let limit = *limit as usize;
            let mut steps: Vec<&str> =
                outcomes.range(after.saturating_add(1)..).map(|(_, key)| *key).take(limit).collect();
            let looks_for_more = steps.len() < limit;
            if looks_for_more {
                let begun = usize::try_from(after.saturating_sub(last)).unwrap_or_default();
                let keys: BTreeSet<&str> = undecided(tables, scan.run).map(|row| row.step_key.as_str()).collect();
                steps.extend(keys.into_iter().skip(begun).take(limit - steps.len()));
            }
            let is_cut = looks_for_more && has_more_undecided(tables, scan.run);
            let rows_of = |key: &str| {
                let rows: Vec<&StepAttempt> = tables.attempts(scan.run).filter(|row| row.step_key == key).collect();
                let skipped = rows.len().saturating_sub(*attempts as usize);
                rows.into_iter().skip(skipped).map(|row| HistoryRow { is_cut, ..shown(row) }).collect::<Vec<_>>()
            };
            steps.into_iter().flat_map(rows_of).collect()
        }
        HistoryRows::Open { limit } => {
            let last = tables.attempts(scan.run).filter(|row| row.position.is_some()).max_by_key(|row| row.position);
            let mut rows: Vec<&StepAttempt> = undecided(tables, scan.run).chain(last).collect();
            rows.sort_by(|one, other| (&one.step_key, one.attempt).cmp(&(&other.step_key, other.attempt)));
            let is_cut = has_more_undecided(tables, scan.run);
            let cut = |row: &StepAttempt| HistoryRow { is_cut, ..shown(row) };
            rows.into_iter().take(*limit as usize).map(cut).collect()
        }
        HistoryRows::OfStep { step_key, after, limit } => {
            let bounds = StepBounds::new(step_key, after.as_ref());
            let rows = tables.attempts(scan.run).filter(|row| bounds.contains(row));
            rows.take(*limit as usize).map(shown).collect()
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
pub(super) fn wakes(tables: &Tables, ids: &[RunId]) -> Vec<RunWakes> {
    let of = |run: &Run| RunWakes {
        id: run.id,
        wakes: run.wakes,
        cancel_requested: run.cancel_requested_at.is_some(),
        paused: run.paused_at.is_some(),
    };
    once_each(tables, ids).map(of).collect()
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
pub(super) fn approvals(tables: &Tables, list: &ApprovalList) -> ListedApprovals {
    let runs: Vec<RunId> = match list.run {
        Some(run) => vec![run],
        None => tables.runs_with_attempts().collect(),
    };
    let is_asked = |row: &&StepAttempt| match row.kind {
        StepKind::Approval => row.status == AttemptStatus::Running,
        StepKind::Signal => row.status == AttemptStatus::Running && decision_of(&row.step_key).is_some(),
        _ => false,
    };
    let mut waiting = Vec::new();
    for run in runs.into_iter().filter_map(|id| tables.run(id)) {
        let asked = tables.attempts(run.id).filter(is_asked).map(|row| WaitingApproval {
            run_id: run.id,
            lane: run.lane.clone(),
            tags: run.tags.clone(),
            step_key: row.step_key.clone(),
            kind: row.kind,
            output: row.output.clone(),
            started_at: row.started_at,
        });
        waiting.extend(asked.map(|asked| (run.status.is_terminal(), asked)));
    }
    waiting.retain(|(_, waiting)| waiting.cursor() > list.after);
    waiting.sort_by_key(|(_, waiting)| waiting.cursor());
    let budget = if list.run.is_some() { usize::MAX } else { APPROVAL_BUDGET as usize };
    waiting.truncate(budget);
    let end = waiting.last().filter(|_| waiting.len() == budget).map(|(_, last)| last.cursor());
    waiting.retain(|(has_ended, asked)| !has_ended && (list.decisions || asked.kind == StepKind::Approval));
    waiting.truncate(usize::try_from(list.limit).unwrap_or(usize::MAX));
    ListedApprovals { waiting: waiting.into_iter().map(|(_, asked)| asked).collect(), end }
}

/// See [`Store::due_lanes`](workflow_engine::store::Store::due_lanes).
pub(super) fn due_lanes(tables: &Tables, lanes: &[Lane], now: Timestamp) -> Vec<Lane> {
    let is_asked =
        |found: &&Lane| lanes.iter().any(|lane| lane.queue == found.queue && lane.workflow == found.workflow);
    let is_due = |(lane, gate): &&Place| tables.next_due_behind(lane, gate.as_deref()).is_some_and(|at| at <= now);
    let due = tables.places().filter(|(lane, _)| is_asked(&lane)).filter(is_due).map(|(lane, _)| lane.clone());
    due.collect::<BTreeSet<_>>().into_iter().collect()
}
