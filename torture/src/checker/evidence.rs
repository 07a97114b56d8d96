//! Everything that the checks compare, read once.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::ledger::Line;
use crate::program::Answer;
use crate::testbed::Testbed;
use workflow_tests::{Database, RawConnection};

use super::damage::damage;

/// Everything that the checks compare.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The lines of the ledger.
    pub lines: Vec<Line>,
    /// The runs by id.
    pub runs: BTreeMap<String, Row>,
    /// The recorded rows of the runs' current generations.
    pub attempts: Vec<Attempt>,
    /// The signals of the runs.
    pub signals: Vec<Signal>,
    /// The seats that runs hold or wait for although they have ended, as `run/step`.
    pub seats: Vec<String>,
    /// The rows of the triggers: kind, run and detail.
    pub noted: Vec<(String, String, String)>,
    /// Every claim, in the order of commits.
    pub claims: Vec<Claimed>,
    /// Every outcome of all generations, in the order of commits.
    pub outcomes: Vec<Outcome>,
    /// Every consumed signal, in the order of commits.
    pub taken: Vec<Taken>,
    /// The effects of transactions: the idempotency keys of their steps. `None` if the database has
    /// no table for them.
    pub effects: Option<Vec<String>>,
    /// The expected ends of runs.
    pub expected_answers: BTreeMap<String, Answer>,
    /// The processes that were killed.
    pub dead: BTreeSet<u32>,
    /// The processes that may have lost claims while they were alive.
    pub disturbed: BTreeSet<u32>,
    /// The processes whose database sessions may have been cut while they were alive, and with them
    /// the locks that show that they live.
    pub unlocked: BTreeSet<u32>,
    /// The processes of the workers, by worker id. Empty if they are unknown.
    pub workers: BTreeMap<String, u32>,
    /// Runs that end differently in a replay, with the reason.
    pub misfits: Vec<(String, String)>,
    /// Damage of the database itself.
    pub damage: Vec<String>,
    /// Forbidden texts in logs, with the processes that wrote them.
    pub complaints: Vec<String>,
    /// The maximum number of crashes per run.
    pub max_crashes: i64,
    /// `true` if the clocks of this host were wrong and moved.
    pub has_wrong_clocks: bool,
}

/// A row of a run.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    /// The id.
    pub id: String,
    /// The name of the workflow.
    pub workflow: String,
    /// The status.
    pub status: String,
    /// The epoch: how often the run was claimed.
    pub epoch: i64,
    /// How often the run continued as new.
    pub generation: i64,
    /// The attempt of the run.
    pub attempt: i64,
    /// The crashes since the run last parked.
    pub crashes: i64,
    /// The id of the parent.
    pub parent: Option<String>,
    /// The key of the parent's step that started this run.
    pub parent_step_key: Option<String>,
    /// The policy for the end of the parent.
    pub on_parent_end: Option<String>,
    /// The time of the first cancel.
    pub cancel_requested_at: Option<i64>,
    /// The time of the end.
    pub completed_at: Option<i64>,
    /// The idempotency key of the start.
    pub key: Option<String>,
    /// The output.
    pub output: Option<String>,
    /// The stored error.
    pub error: Option<String>,
}

impl Row {
    /// Returns `true` if the run has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "succeeded" | "failed" | "canceled")
    }
}

/// A row of a history.
#[derive(Clone, Debug, Deserialize)]
pub struct Attempt {
    /// The run.
    pub run: String,
    /// The step.
    pub step_key: String,
    /// The number of the attempt.
    pub attempt: i64,
    /// The kind.
    pub kind: String,
    /// The status.
    pub status: String,
    /// The position.
    pub position: Option<i64>,
    /// The epoch of the claim that wrote it.
    pub epoch: i64,
    /// The output.
    pub output: Option<String>,
}

/// A row of an inbox.
#[derive(Clone, Debug, Deserialize)]
pub struct Signal {
    /// The run.
    pub run: String,
    /// The number of the signal.
    pub seq: i64,
    /// The name.
    pub name: String,
    /// The payload.
    pub payload: String,
    /// The step that consumed it.
    pub consumed_by: Option<String>,
}

/// A claim, as the triggers recorded it.
#[derive(Clone, Debug, Deserialize)]
pub struct Claimed {
    /// The run.
    pub run: String,
    /// The generation of the run.
    pub generation: i64,
    /// The epoch of the claim.
    pub epoch: i64,
    /// The worker.
    pub worker: Option<String>,
}

/// An outcome at the moment of its commit; also a child, when its step was recorded.
#[derive(Clone, Debug, Deserialize)]
pub struct Outcome {
    /// The run.
    pub run: String,
    /// The generation of the run.
    pub generation: i64,
    /// The step.
    pub step_key: String,
    /// The number of the attempt.
    pub attempt: i64,
    /// The kind.
    pub kind: String,
    /// The status.
    pub status: String,
    /// The position; `None` for a child that has not ended.
    pub position: Option<i64>,
    /// The epoch of the claim that wrote it.
    pub epoch: i64,
    /// The output.
    pub output: Option<String>,
    /// The time at which it began.
    pub started_at: i64,
    /// The time of the end.
    pub completed_at: Option<i64>,
}

impl Outcome {
    /// Returns the idempotency key, which is the subject of ledger lines.
    #[must_use]
    pub fn subject(&self) -> String {
        match self.generation {
            0 => format!("{}/{}", self.run, self.step_key),
            generation => format!("{}.{generation}/{}", self.run, self.step_key),
        }
    }
}

/// A signal at the moment at which it was consumed.
#[derive(Clone, Debug, Deserialize)]
pub struct Taken {
    /// The run.
    pub run: String,
    /// The number of the signal.
    pub seq: i64,
    /// The name.
    pub name: String,
    /// The payload.
    pub payload: String,
    /// The step that consumed it.
    pub consumed_by: String,
}

/// Reads the seats of ended runs.
const SEATS_OF_ENDED: &str = "SELECT CAST(run_id AS text) || '/' || step_key AS seat FROM workflow_seats AS s
    WHERE NOT EXISTS (SELECT 1 FROM workflow_runs AS r WHERE r.id = s.run_id AND r.status IN ('pending', 'running', 'parked'))";

impl Evidence {
    /// Reads the evidence of a testbed whose workers have ended. Facts that only the caller knows
    /// stay empty: the expected ends and the killed processes.
    pub async fn of(testbed: &Testbed) -> Self {
        let lines = testbed.ledger.lines();
        Self::read(&mut testbed.raw().await, testbed.database, lines, testbed.deadlocks_before).await
    }

    /// Reads the evidence of a database without a testbed. `deadlocks_before` is the number of
    /// deadlocks that are not evidence.
    pub async fn read(raw: &mut RawConnection, database: Database, lines: Vec<Line>, deadlocks_before: i64) -> Self {
        let has_effects = raw.table_names().await.contains("effects");
        let effects = match has_effects {
            true => Some(raw.lines("SELECT subject FROM effects", "subject").await),
            false => None,
        };
        let runs: Vec<Row> = rows(
            raw,
            "'id', id, 'workflow', workflow_name, 'status', status, 'epoch', epoch, 'generation', generation,
             'attempt', attempt, 'crashes', crashes, 'parent', parent_run_id, 'parent_step_key', parent_step_key,
             'on_parent_end', on_parent_end, 'cancel_requested_at', cancel_requested_at, 'completed_at', completed_at, 'key', key,
             'output', output, 'error', error",
            "workflow_runs",
        )
        .await;
        Self {
            lines,
            runs: runs.into_iter().map(|run| (run.id.clone(), run)).collect(),
            attempts: rows(
                raw,
                "'run', run_id, 'step_key', step_key, 'attempt', attempt, 'kind', kind, 'status', status,
                 'position', position, 'epoch', epoch, 'output', output",
                "step_attempts ORDER BY run_id, position, step_key, attempt",
            )
            .await,
            signals: rows(
                raw,
                "'run', run_id, 'seq', seq, 'name', name, 'payload', payload, 'consumed_by', consumed_by",
                "workflow_signals ORDER BY run_id, seq",
            )
            .await,
            seats: raw.lines(SEATS_OF_ENDED, "seat").await,
            noted: list(raw, "kind, run_id, detail", "audit").await,
            claims: rows(
                raw,
                "'run', run_id, 'generation', generation, 'epoch', epoch, 'worker', worker_id",
                "audit_claims ORDER BY n",
            )
            .await,
            outcomes: rows(
                raw,
                "'run', run_id, 'generation', generation, 'step_key', step_key, 'attempt', attempt, 'kind', kind,
                 'status', status, 'position', position, 'epoch', epoch, 'output', output, 'started_at', started_at,
                 'completed_at', completed_at",
                "audit_outcomes ORDER BY n",
            )
            .await,
            taken: rows(
                raw,
                "'run', run_id, 'seq', seq, 'name', name, 'payload', payload, 'consumed_by', consumed_by",
                "audit_taken ORDER BY n",
            )
            .await,
            effects,
            damage: damage(raw, database, deadlocks_before).await,
            max_crashes: i64::MAX,
            ..Self::default()
        }
    }

    /// Returns `true` for a run whose steps need not all have outcomes: a run that failed, was
    /// canceled or continued as new may have left calls behind.
    #[must_use]
    pub fn is_cut_short(&self, run: &str) -> bool {
        self.runs.get(run).is_none_or(|run| run.status != "succeeded" || run.generation > 0)
    }

    /// Returns the end of a run, in microseconds since 1970.
    #[must_use]
    pub fn ended_at(&self, run: &str) -> Option<i64> {
        self.runs.get(run)?.completed_at
    }

    /// Keeps only the evidence of these runs. Violations that the triggers recorded for other runs
    /// stay, except for their ends.
    pub fn keep(&mut self, runs: &BTreeSet<String>) {
        self.runs.retain(|id, _| runs.contains(id));
        self.attempts.retain(|row| runs.contains(&row.run));
        self.signals.retain(|row| runs.contains(&row.run));
        self.claims.retain(|row| runs.contains(&row.run));
        self.outcomes.retain(|row| runs.contains(&row.run));
        self.taken.retain(|row| runs.contains(&row.run));
        self.lines.retain(|line| runs.contains(run_of(&line.subject)));
        self.noted.retain(|(kind, run, _)| kind != "end" || runs.contains(run));
        if let Some(effects) = &mut self.effects {
            effects.retain(|effect| runs.contains(run_of(effect)));
        }
    }

    /// Returns what a user sees of the runs that were started with a key, without ids and times, by
    /// key. It is equal on every database. Racing steps and the steps of canceled runs are left
    /// out, because chance decides how far they got.
    #[must_use]
    pub fn observable(&self) -> BTreeMap<String, Vec<String>> {
        let mut seen = BTreeMap::new();
        let keys: BTreeMap<&str, &str> =
            self.runs.values().filter_map(|run| Some((run.id.as_str(), run.key.as_deref()?))).collect();
        for (id, key) in &keys {
            let run = &self.runs[*id];
            let error = run.error.as_deref().unwrap_or_default();
            seen.insert((*key).to_owned(), vec![format!("{} {:?} {error}", run.status, run.output)]);
        }
        for outcome in self.outcomes.iter().filter(|outcome| outcome.position.is_some()) {
            let name = outcome.step_key.rsplit('/').next().unwrap_or_default();
            let is_racing = name.starts_with('r') && name.contains('-');
            let is_chance = is_racing || self.runs.get(&outcome.run).is_none_or(|run| run.status == "canceled");
            if let Some(key) = keys.get(outcome.run.as_str()).filter(|_| !is_chance)
                && let Some(lines) = seen.get_mut(*key)
            {
                let Outcome { generation, step_key, attempt, kind, status, output, .. } = outcome;
                let output = output.as_deref().filter(|_| kind != "sleep");
                lines.push(format!("{generation} {step_key} {attempt} {kind} {status} {output:?}"));
            }
        }
        seen.values_mut().for_each(|lines| lines[1..].sort_unstable());
        seen
    }
}

/// Returns the id of the run in the subject of a ledger line, without the generation and the step.
#[must_use]
pub fn run_of(subject: &str) -> &str {
    let key = subject.split_once('/').map_or(subject, |(run, _)| run);
    key.split_once('.').map_or(key, |(run, _)| run)
}

async fn rows<T: DeserializeOwned>(raw: &mut RawConnection, fields: &str, from: &str) -> Vec<T> {
    parse(raw, &object(raw, "json_object", "json_build_object", fields), from).await
}

async fn list<T: DeserializeOwned>(raw: &mut RawConnection, fields: &str, from: &str) -> Vec<T> {
    parse(raw, &object(raw, "json_array", "json_build_array", fields), from).await
}

fn object(raw: &RawConnection, sqlite: &str, postgres: &str, fields: &str) -> String {
    match raw {
        RawConnection::Sqlite(_) => format!("{sqlite}({fields})"),
        RawConnection::Postgres(_) => format!("{postgres}({fields})::text"),
    }
}

async fn parse<T: DeserializeOwned>(raw: &mut RawConnection, select: &str, from: &str) -> Vec<T> {
    let lines = raw.lines(format!("SELECT {select} AS line FROM {from}"), "line").await;
    lines.iter().map(|line| serde_json::from_str(line).expect("a row as JSON")).collect()
}
