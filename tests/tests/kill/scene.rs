//! A database, a ledger beside it, and the processes that work on them.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use sqlx::Executor;
use workflow_sdk::prelude::*;
use workflow_sdk::{RunId, StepAttempt, StepKind};
use workflow_tests::ledger::{Ledger, Line, What};
use workflow_tests::worker_process::{WorkerProcess, WorkerSettings};
use workflow_tests::workflows::{self, NAP, Site};
use workflow_tests::{Database, RawConnection, until};

use crate::place::Place;

/// A place of one test. Its clock is the real one: processes of their own work here.
pub struct Scene {
    pub database: Database,
    pub client: Client,
    pub ledger: Ledger,
    place: Place,
}

/// A run whose start was acknowledged, and the output that it must have.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    pub id: RunId,
    pub output: u64,
}

/// Of a test that fails, everything is left to be looked at.
impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.place.directory.disable_cleanup(true);
            eprintln!("left: {}, {}", self.directory().display(), self.place.schema.as_deref().unwrap_or("test.db"));
        }
    }
}

/// What stood in the database at one moment: outcomes whose bodies must never begin again.
pub struct Recorded {
    steps: HashSet<String>,
    /// Lines that the ledger had.
    lines: usize,
}

impl Scene {
    pub async fn new(database: Database) -> Self {
        Self::at(Place::new(database)).await
    }

    /// At this place, whatever is there.
    pub async fn at(place: Place) -> Self {
        let mut connect = Client::connect(&place.url).pool_size(4);
        if let Some(schema) = &place.schema {
            connect = connect.schema(schema);
        }
        let client = connect.await.expect("connect to a fresh database");
        let ledger = Ledger::inside(place.directory.path());
        let scene = Self { database: place.database, client, ledger, place };
        crate::audit::install(&mut scene.raw().await, scene.place.schema.as_deref()).await;
        scene
    }

    /// Removes what lies outside of the test's own directory.
    pub async fn sweep(self) {
        if let Some(schema) = &self.place.schema {
            let mut raw = self.raw().await;
            raw.execute(format!("SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")).await;
        }
    }

    pub async fn raw(&self) -> RawConnection {
        RawConnection::open(&self.place.url, self.place.schema.as_deref()).await
    }

    pub fn directory(&self) -> &Path {
        self.place.directory.path()
    }

    /// Lets the steps end that wait for this gate.
    pub fn open_gate(&self, name: &str) {
        std::fs::write(self.gate(name), "").expect("open a gate");
    }

    /// Makes later steps wait again.
    pub fn close_gate(&self, name: &str) {
        std::fs::remove_file(self.gate(name)).expect("close a gate");
    }

    /// Makes later steps wait for each of the gates that a gated run has.
    pub fn close_gates(&self) {
        for gate in ["one", "two"].map(|name| self.gate(name)).iter().filter(|gate| gate.exists()) {
            std::fs::remove_file(gate).expect("close a gate");
        }
    }

    fn gate(&self, name: &str) -> PathBuf {
        Site::new(self.directory().to_owned(), Duration::ZERO, 1).gate(name)
    }

    /// Defaults of the worker where they matter, else what keeps a test short.
    pub fn settings(&self) -> WorkerSettings {
        self.place.settings()
    }

    /// A worker process. Its name is that of its log.
    pub fn spawn(&self, name: &str, settings: &WorkerSettings) -> WorkerProcess {
        self.place.spawn(name, settings, None)
    }

    /// A worker process that dies, or stands still, at a point.
    pub fn spawn_to_die(&self, name: &str, settings: &WorkerSettings, failpoint: &str) -> WorkerProcess {
        self.place.spawn(name, settings, Some(failpoint))
    }

    /// Stops a worker at a moment at which it holds no lock of the database. On SQLite a process that stands still in the
    /// middle of a transaction holds up all others until it goes on or dies: there is no server that would end it.
    pub async fn stop(&self, worker: &WorkerProcess) {
        loop {
            worker.signal(Signal::STOP);
            worker.stands_still().await;
            if self.can_be_written().await {
                return;
            }
            worker.signal(Signal::CONT);
        }
    }

    /// Whether nobody holds the write lock of the file.
    pub async fn can_be_written(&self) -> bool {
        let RawConnection::Sqlite(mut connection) = self.raw().await else { return true };
        let brief = "PRAGMA busy_timeout = 100; BEGIN IMMEDIATE; ROLLBACK";
        connection.execute(sqlx::raw_sql(brief)).await.is_ok()
    }

    /// Starts so many runs of every workflow that ends by itself.
    pub async fn start_mix(&self, chains: u64, fans: u64, sleepers: u64) -> Vec<Started> {
        let mut started = Vec::new();
        let handles = self.client.start_many(workflows::chain, 0..chains).await.expect("start chains");
        started.extend(handles.iter().zip(0..).map(|(run, n)| Started { id: run.id(), output: 10 * n + 45 }));
        let handles = self.client.start_many(workflows::fan, 0..fans).await.expect("start fans");
        started.extend(handles.iter().zip(0..).map(|(run, n)| Started { id: run.id(), output: 5 * n + 10 }));
        let handles = self.client.start_many(workflows::sleepy, 0..sleepers).await.expect("start sleepers");
        started.extend(handles.iter().zip(0..).map(|(run, n)| Started { id: run.id(), output: 2 * n + 1 }));
        started
    }

    /// Starts so many runs of a map.
    pub async fn start_maps(&self, maps: u64) -> Vec<Started> {
        let handles = self.client.start_many(workflows::pages, 0..maps).await.expect("start maps");
        handles.iter().zip(0..).map(|(run, n)| Started { id: run.id(), output: 60 * n + 870 }).collect()
    }

    /// Makes the table for the effects of transactions.
    pub async fn make_effects(&self) {
        self.raw().await.execute("CREATE TABLE effects (subject TEXT NOT NULL)").await;
    }

    /// Starts so many runs of transactions.
    pub async fn start_debits(&self, count: u64) -> Vec<Started> {
        let handles = self.client.start_many(workflows::debits, 0..count).await.expect("start debits");
        handles.iter().zip(0..).map(|(run, n)| Started { id: run.id(), output: 5 * n + 10 }).collect()
    }

    /// Asserts that each transaction of these runs, which have ended, had its effect exactly once, and is recorded.
    pub async fn check_effects(&self, runs: &[Started]) {
        let mut effects = self.raw().await.lines("SELECT subject FROM effects ORDER BY subject", "subject").await;
        let mut recorded = Vec::new();
        for run in runs {
            let rows = self.history(run.id).await.into_iter();
            let debits = rows.filter(|row| row.kind == StepKind::Transaction && row.position.is_some());
            let debits: Vec<String> = debits.map(|row| subject(run.id, &row.step_key)).collect();
            assert_eq!(debits.len(), workflows::DEBITS, "{debits:?}");
            recorded.extend(debits);
        }
        effects.sort_unstable();
        recorded.sort_unstable();
        assert_eq!(effects, recorded, "one row of effect for each recorded transaction");
    }

    /// Asserts that what is in the database at this moment is whole: each effect has its record, each record its effect.
    pub async fn check_effects_so_far(&self) {
        let lone = "SELECT count(*) FROM effects WHERE NOT EXISTS (SELECT 1 FROM step_attempts AS a
            WHERE a.run_id || '/' || a.step_key = effects.subject AND a.status = 'succeeded')";
        assert_eq!(self.raw().await.number(lone).await, 0, "effects without a record");
        let missing = "SELECT count(*) FROM step_attempts AS a WHERE a.kind = 'transaction' AND a.status = 'succeeded'
            AND NOT EXISTS (SELECT 1 FROM effects WHERE effects.subject = a.run_id || '/' || a.step_key)";
        assert_eq!(self.raw().await.number(missing).await, 0, "records without an effect");
    }

    /// Asserts that each run which has a parent is a child that its parent has recorded.
    pub async fn check_children_so_far(&self) {
        let lone = "SELECT count(*) FROM workflow_runs AS r WHERE r.parent_run_id IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM step_attempts AS a
            WHERE a.run_id = r.parent_run_id AND a.step_key = r.parent_step_key AND a.kind = 'child')";
        assert_eq!(self.raw().await.number(lone).await, 0, "children that no parent knows");
    }

    /// Starts a run that waits for the gates.
    pub async fn start_gated(&self, n: u64) -> Started {
        let run = self.client.start(workflows::gated, n).await.expect("start a gated run");
        Started { id: run.id(), output: n + 2 }
    }

    /// The outcomes that stand in the database now.
    pub async fn recorded(&self, runs: &[Started]) -> Recorded {
        let mut steps = HashSet::new();
        for run in runs {
            let outcomes = self.history(run.id).await.into_iter().filter(|row| row.position.is_some());
            steps.extend(outcomes.map(|row| subject(run.id, &row.step_key)));
        }
        Recorded { steps, lines: self.ledger.lines().len() }
    }

    pub async fn history(&self, id: RunId) -> Vec<StepAttempt> {
        self.client.history(id).await.expect("read a history")
    }

    /// Waits until every run has ended. Patient as long as runs end.
    pub async fn all_end(&self, runs: &[Started]) {
        let ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();
        let mut ended = 0;
        while ended < runs.len() {
            ended = until(&format!("more than {ended} of {} runs end", runs.len()), async || {
                let now = self.client.backend().ended(&ids).await.expect("look for ended runs").len();
                (now > ended || now == ids.len()).then_some(now)
            })
            .await;
        }
    }

    /// Waits until a body begins in this process.
    pub async fn begins_in(&self, worker: &WorkerProcess) -> Line {
        let pid = worker.pid();
        until(&format!("a body begins in process {pid}"), async || {
            self.ledger.begins().into_iter().find(|line| line.pid == pid)
        })
        .await
    }

    /// Waits until this many bodies have begun.
    pub async fn begun(&self, count: usize) -> Vec<Line> {
        until(&format!("{count} bodies begin"), async || {
            let begins = self.ledger.begins();
            (begins.len() >= count).then_some(begins)
        })
        .await
    }

    /// Waits until the body of this step begins, in whatever process.
    pub async fn step_begins(&self, id: RunId, step_key: &str) {
        let subject = subject(id, step_key);
        until(&format!("{subject} begins"), async || {
            self.ledger.begins().iter().any(|line| line.subject == subject).then_some(())
        })
        .await;
    }

    /// Waits until the ledger has this many lines.
    pub async fn lines(&self, count: usize) {
        until(&format!("{count} lines in the ledger"), async || (self.ledger.lines().len() >= count).then_some(()))
            .await;
    }

    /// Whether a body began in this process and did not come to its end.
    pub fn is_cut(&self, pid: u32) -> bool {
        let lines = self.ledger.lines();
        let count = |what| lines.iter().filter(|line| line.pid == pid && line.what == what).count();
        count(What::Begin) > count(What::End)
    }

    /// How often the run was claimed.
    pub async fn epoch(&self, id: RunId) -> i64 {
        self.raw().await.number(format!("SELECT epoch FROM workflow_runs WHERE id = '{id}'")).await
    }

    /// How often a claim found its run's worker dead.
    pub async fn crashes_counted(&self) -> i64 {
        self.raw().await.number("SELECT count(*) FROM audit WHERE kind = 'crash'").await
    }

    /// What must hold of every run once all have ended, whoever was killed: `dead` are the processes that were.
    pub async fn check(&self, runs: &[Started], dead: &[u32]) {
        self.check_beside(runs, dead, &[]).await;
    }

    /// The same beside processes that stood still and came back: what each was about to begin when it was stopped, it begins
    /// after another has taken over, and is refused its outcome.
    pub async fn check_beside(&self, runs: &[Started], dead: &[u32], stopped: &[u32]) {
        let violations = self.raw().await.lines(crate::audit::VIOLATIONS, "violation").await;
        assert_eq!(violations, Vec::<String>::new(), "what the database saw");
        let mut begins: BTreeMap<String, Vec<Line>> = BTreeMap::new();
        for line in self.ledger.begins() {
            begins.entry(line.subject.clone()).or_default().push(line);
        }
        for run in runs {
            self.check_run(*run, &mut begins).await;
        }
        let orphans: Vec<&String> =
            begins.keys().filter(|subject| runs.iter().any(|run| subject.starts_with(&run.id.to_string()))).collect();
        assert!(orphans.is_empty(), "bodies that ran and left no outcome: {orphans:?}");
        // One workflow fails on purpose, and attempts a step again.
        for line in self.ledger.begins().into_iter().filter(|line| !line.subject.ends_with("/stubborn")) {
            let mut again = self.ledger_begins_after(&line);
            again.retain(|line| !stopped.contains(&line.pid));
            assert!(
                again.is_empty() || dead.contains(&line.pid),
                "{} began in {}, which was not killed, and again: {again:?}",
                line.subject,
                line.pid
            );
        }
    }

    fn ledger_begins_after(&self, first: &Line) -> Vec<Line> {
        let begins = self.ledger.begins();
        let place = begins.iter().position(|line| line == first).expect("a line of the ledger");
        begins.into_iter().skip(place + 1).filter(|line| line.subject == first.subject).collect()
    }

    /// Takes the begun bodies of this run out of `begins`.
    async fn check_run(&self, started: Started, begins: &mut BTreeMap<String, Vec<Line>>) {
        let run = self.client.run(started.id).await.expect("an acknowledged start is never lost");
        assert_eq!(run.status, RunStatus::Succeeded, "{run:?}");
        assert_eq!(run.output.as_deref(), Some(started.output.to_string().as_str()), "{run:?}");
        let history = self.history(run.id).await;
        let outcomes: Vec<&StepAttempt> = history.iter().filter(|row| row.position.is_some()).collect();
        let keys: HashSet<&str> = outcomes.iter().map(|row| row.step_key.as_str()).collect();
        assert_eq!(keys.len(), outcomes.len(), "one outcome a step: {history:?}");
        let rise = outcomes.is_sorted_by(|one, next| one.position < next.position);
        assert!(rise, "each outcome has a position of its own: {history:?}");
        for row in &outcomes {
            let subject = subject(run.id, &row.step_key);
            let bodies = begins.remove(&subject);
            match row.kind {
                StepKind::Sleep | StepKind::Signal | StepKind::Approval | StepKind::Child => {
                    assert_eq!(bodies, None, "a wait has no body");
                }
                _ => assert!(bodies.is_some(), "{subject} has an outcome, but its body never began"),
            }
        }
        self.check_nap(run.id, &outcomes);
    }

    /// A sleep fires once, and not too early, however often its run changed hands.
    fn check_nap(&self, id: RunId, outcomes: &[&StepAttempt]) {
        let naps: Vec<_> = outcomes.iter().filter(|row| row.kind == StepKind::Sleep).collect();
        let Some(nap) = naps.first() else { return };
        assert_eq!(naps.len(), 1, "{outcomes:?}");
        let after = subject(id, "after");
        let woke = self.ledger.begins().into_iter().find(|line| line.subject == after).expect("the step after it");
        let began = u128::try_from(nap.started_at.as_micros()).expect("a time after 1970");
        // The worker's clock follows the database's within the time that one statement takes.
        let slack = Duration::from_millis(10);
        assert!(woke.at + slack.as_micros() >= began + NAP.as_micros(), "woke {} us after {nap:?}", woke.at - began);
    }

    /// Asserts that no body began before the outcomes that it follows were committed: a workflow that went on past a step
    /// has seen its outcome.
    pub fn check_order(&self, recorded: &Recorded) {
        for line in self.ledger.lines().into_iter().take(recorded.lines).filter(|line| line.what == What::Begin) {
            let (run, step_key) = line.subject.split_once('/').expect("run and step");
            for before in workflows::before(step_key) {
                let seen = format!("{run}/{before}");
                assert!(recorded.steps.contains(&seen), "{} began, but {seen} is not recorded", line.subject);
            }
        }
    }

    /// Asserts that no body began again whose outcome stood in the database then.
    pub fn check_never_again(&self, recorded: &Recorded) {
        let later = self.ledger.lines().split_off(recorded.lines);
        let again: Vec<&Line> =
            later.iter().filter(|line| line.what == What::Begin && recorded.steps.contains(&line.subject)).collect();
        assert!(again.is_empty(), "recorded steps began again: {again:?}");
    }
}

impl Recorded {
    pub fn len(&self) -> usize {
        self.steps.len()
    }
}

fn subject(run: RunId, step_key: &str) -> String {
    format!("{run}/{step_key}")
}
