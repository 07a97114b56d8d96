//! All that the checks look at, read once.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::ledger::Line;
use crate::program::Answer;
use crate::testbed::Testbed;
use workflow_tests::{Database, RawConnection};

use super::damage::damage;

/// All that the checks look at.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The ledger.
    pub lines: Vec<Line>,
    /// The runs, by their ids.
    pub runs: BTreeMap<String, Row>,
    /// What is recorded of their present generations.
    pub attempts: Vec<Attempt>,
    /// Their inboxes.
    pub signals: Vec<Signal>,
    /// What the triggers noted: kind, run, what.
    pub noted: Vec<(String, String, String)>,
    /// Every claim, in order.
    pub claims: Vec<Claimed>,
    /// Every outcome, in order, of all generations.
    pub outcomes: Vec<Outcome>,
    /// Every signal that was taken, in order.
    pub taken: Vec<Taken>,
    /// The effects of transactions: the idempotency keys of their steps. `None`: the testbed has no table for them.
    pub effects: Option<Vec<String>>,
    /// How runs end that others know beforehand.
    pub expected_answers: BTreeMap<String, Answer>,
    /// Processes that were killed.
    pub dead: BTreeSet<u32>,
    /// Processes that may have lost claims while they lived.
    pub disturbed: BTreeSet<u32>,
    /// Processes whose sessions may have been cut while they lived, and with them the locks by which others see that they do.
    pub unlocked: BTreeSet<u32>,
    /// The processes of workers, by the ids of those. None: nobody knows.
    pub workers: BTreeMap<String, u32>,
    /// Runs that a replay does not end as they have ended, and why.
    pub misfits: Vec<(String, String)>,
    /// What is wrong with the database itself.
    pub damage: Vec<String>,
    /// What processes wrote that they must not, with the names of the processes.
    pub complaints: Vec<String>,
    /// The limit of crashes.
    pub max_crashes: i64,
    /// Whether the clocks of this host were wrong, and moved.
    pub has_wrong_clocks: bool,
}

/// A run.
#[derive(Clone, Debug, Deserialize)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// Its workflow.
    pub workflow: String,
    /// Its status.
    pub status: String,
    /// How often it was claimed.
    pub epoch: i64,
    /// How often it continued as new.
    pub generation: i64,
    /// How often it was tried.
    pub attempt: i64,
    /// Crashes since it last parked.
    pub crashes: i64,
    /// Its parent, and the key of the step there.
    pub parent: Option<String>,
    /// See [`Row::parent`].
    pub parent_step_key: Option<String>,
    /// What becomes of it when that ends.
    pub on_parent_end: Option<String>,
    /// When somebody asked it to end.
    pub cancel_requested_at: Option<i64>,
    /// When it ended.
    pub completed_at: Option<i64>,
    /// The idempotency key of its start.
    pub key: Option<String>,
    /// What it gave.
    pub output: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
}

impl Row {
    /// Whether it has ended.
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
    /// Which attempt.
    pub attempt: i64,
    /// What kind.
    pub kind: String,
    /// What became of it.
    pub status: String,
    /// Its place.
    pub position: Option<i64>,
    /// By which claim.
    pub epoch: i64,
    /// What it gave.
    pub output: Option<String>,
}

/// A row of an inbox.
#[derive(Clone, Debug, Deserialize)]
pub struct Signal {
    /// The run.
    pub run: String,
    /// Its number.
    pub seq: i64,
    /// Its name.
    pub name: String,
    /// Its payload.
    pub payload: String,
    /// The step that took it.
    pub consumed_by: Option<String>,
}

/// A claim.
#[derive(Clone, Debug, Deserialize)]
pub struct Claimed {
    /// Of this run.
    pub run: String,
    /// In this generation.
    pub generation: i64,
    /// The epoch.
    pub epoch: i64,
    /// By this worker.
    pub worker: Option<String>,
}

/// An outcome at the moment at which it was recorded; or a child, when its step was.
#[derive(Clone, Debug, Deserialize)]
pub struct Outcome {
    /// The run.
    pub run: String,
    /// Its generation.
    pub generation: i64,
    /// The step.
    pub step_key: String,
    /// Which attempt.
    pub attempt: i64,
    /// What kind.
    pub kind: String,
    /// What became of it.
    pub status: String,
    /// Its place; `None` for a child that has not ended.
    pub position: Option<i64>,
    /// By which claim.
    pub epoch: i64,
    /// What it gave.
    pub output: Option<String>,
    /// When it began.
    pub started_at: i64,
    /// When it ended.
    pub completed_at: Option<i64>,
}

impl Outcome {
    /// Its idempotency key, which the ledger has.
    #[must_use]
    pub fn subject(&self) -> String {
        match self.generation {
            0 => format!("{}/{}", self.run, self.step_key),
            generation => format!("{}.{generation}/{}", self.run, self.step_key),
        }
    }
}

/// A signal at the moment at which it was taken.
#[derive(Clone, Debug, Deserialize)]
pub struct Taken {
    /// The run.
    pub run: String,
    /// Its number.
    pub seq: i64,
    /// Its name.
    pub name: String,
    /// Its payload.
    pub payload: String,
    /// The step that took it.
    pub consumed_by: String,
}

impl Evidence {
    /// What there is of a testbed, whose workers have ended. What only the caller knows is left empty: what was expected_answers, and who
    /// was killed.
    pub async fn of(testbed: &Testbed) -> Self {
        Self::read(&mut testbed.raw().await, testbed.database, testbed.ledger.lines()).await
    }

    /// The same, of a database without a testbed.
    pub async fn read(raw: &mut RawConnection, database: Database, lines: Vec<Line>) -> Self {
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
            damage: damage(raw, database).await,
            max_crashes: i64::MAX,
            ..Self::default()
        }
    }

    /// The ids of the runs whose steps need not all have outcomes: those that failed, were canceled or continued as new may
    /// have left calls behind.
    #[must_use]
    pub fn is_cut_short(&self, run: &str) -> bool {
        self.runs.get(run).is_none_or(|run| run.status != "succeeded" || run.generation > 0)
    }

    /// When a run ended, in microseconds since 1970.
    #[must_use]
    pub fn ended_at(&self, run: &str) -> Option<i64> {
        self.runs.get(run)?.completed_at
    }

    /// Of these runs alone. What the triggers noted of others stays, unless it says only how they ended.
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

    /// What a user sees of the runs that were started by a key, without ids and times, in the order of the keys: the same on
    /// every database. Of a race only that it was won, and of a canceled run only that it is: how far they got is chance.
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

/// Run and generation, and the rest, of a subject in the ledger.
#[must_use]
pub(crate) fn run_of(subject: &str) -> &str {
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
