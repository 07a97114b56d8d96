//! One round: a testbed, its workers, its load, and its end.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;
use workflow_engine::model::Clock;
use workflow_sdk::testing::replay;
use workflow_sdk::{LimitRule, Replayed};

use super::wire::until;
use super::{Load, LoadOptions, LoadResult, Part, Report, RoundViolation};
use crate::checker::{self, Evidence, Violation};
use crate::ledger::LedgerReader;
use crate::program::{Shape, program};
use crate::testbed::{Testbed, TestbedOptions};
use crate::worker_process::{WorkerProcess, WorkerSettings};
use crate::workflows::Site;
use crate::workflows::limited::LIMIT;
use workflow_tests::log_secrets;

/// Options of a round.
#[derive(Clone, Debug)]
pub struct RoundOptions {
    /// The number of worker processes.
    pub workers: usize,
    /// The number of concurrent programs.
    pub at_once: usize,
    /// The maximum number of programs.
    pub most: usize,
    /// The size of the programs.
    pub shape: Shape,
    /// The number of gates over which the programs are spread.
    pub gates: usize,
    /// The rule of the limit whose seats the programs need; `None` if they need none.
    pub limit: Option<LimitRule>,
    /// Texts that no log may contain.
    pub forbidden: &'static [&'static str],
    /// The directory of the SQLite file; `None`: the directory of the testbed.
    pub files: Option<PathBuf>,
    /// The clock of the client, if it is not the true one. Then the clocks of the workers are
    /// wrong, too.
    pub clock: Option<Clock>,
}

/// Texts that no process may log, whatever happens to other processes.
pub const FORBIDDEN: &[&str] = &["ERROR", "panicked", "database is locked", "SQLITE_BUSY", "deadlock"];

impl Default for RoundOptions {
    fn default() -> Self {
        Self {
            workers: 3,
            at_once: 24,
            most: usize::MAX,
            shape: Shape::default(),
            gates: 0,
            limit: None,
            forbidden: FORBIDDEN,
            files: None,
            clock: None,
        }
    }
}

/// A round in progress.
#[derive(Debug)]
pub struct Round {
    /// The part of the campaign that this round does.
    pub part: Part,
    /// The random numbers of the kind.
    pub random: Rng,
    /// The database and the ledger.
    pub testbed: Testbed,
    /// The settings of workers that are spawned from now on.
    pub settings: WorkerSettings,
    /// The living workers.
    pub workers: Vec<WorkerProcess>,
    /// The workers that were killed or have ended.
    pub dead: Vec<WorkerProcess>,
    /// Processes that may have lost claims while they lived.
    pub disturbed: BTreeSet<u32>,
    /// Processes whose sessions may have been cut while they lived.
    pub unlocked: BTreeSet<u32>,
    /// The lines that were read from the ledger.
    pub ledger: LedgerReader,
    /// The load.
    pub load: Load,
    /// The report, which the kind fills.
    pub report: Report,
    options: RoundOptions,
    spawned: usize,
}

impl Round {
    /// Begins a round: creates a fresh database, and starts the workers and the load.
    pub async fn begin(part: Part, kind: &'static str, options: RoundOptions) -> Self {
        Self::begin_with(part, kind, options, |_| {}).await
    }

    /// Begins a round with changed settings of the workers. See [`Round::begin`].
    pub async fn begin_with(
        part: Part,
        kind: &'static str,
        options: RoundOptions,
        change: impl FnOnce(&mut WorkerSettings),
    ) -> Self {
        let mut testbed_options = TestbedOptions::new(part.plan.database);
        testbed_options.server.clone_from(&part.server);
        testbed_options.directory.clone_from(&part.plan.directory);
        testbed_options.program.clone_from(&part.plan.program);
        testbed_options.files.clone_from(&options.files);
        testbed_options.clock.clone_from(&options.clock);
        let testbed = Testbed::with(testbed_options).await;
        testbed.make_effects().await;
        let mut settings = testbed.settings();
        settings.concurrency = 12;
        settings.linger = 20;
        settings.pause = 3;
        // Random kills may hit the same run every time.
        settings.max_crashes = Some(MAX_CRASHES);
        change(&mut settings);
        if let Some(rule) = options.limit {
            testbed.client.limit(LIMIT).set(rule).await.expect("set the rule of the limit");
        }
        let mut random = Rng::with_seed(part.seed);
        let RoundOptions { shape, at_once, most, gates, .. } = options;
        let load = LoadOptions { seed: random.u64(..), shape, at_once, most, gates };
        let load = Load::start(&testbed.client, &testbed.ledger, load);
        let report = Report::new(kind, &part.plan);
        let mut round = Self {
            random,
            settings,
            workers: Vec::new(),
            dead: Vec::new(),
            disturbed: BTreeSet::new(),
            unlocked: BTreeSet::new(),
            ledger: testbed.ledger.reader(),
            load,
            report,
            spawned: 0,
            testbed,
            part,
            options,
        };
        for _ in 0..round.options.workers {
            round.spawn();
        }
        round
    }

    /// Starts one more worker.
    pub fn spawn(&mut self) {
        self.spawned += 1;
        self.workers.push(self.testbed.spawn(&format!("worker-{}", self.spawned), &self.settings));
    }

    /// Returns the number of runs whose claims this worker holds according to the database. The log
    /// says which worker the process is.
    pub async fn held_by(&self, worker: &WorkerProcess) -> i64 {
        let log = worker.log();
        let Some(id) = log.split("worker started worker=").nth(1).and_then(|rest| rest.split_whitespace().next())
        else {
            return 0;
        };
        let held = format!("SELECT count(*) FROM workflow_runs WHERE worker_id = '{id}' AND status = 'running'");
        self.testbed.raw().await.number(held).await
    }

    /// Kills a worker. Returns `true` if that interrupted a body, or the worker held a claim.
    pub async fn kill(&mut self, number: usize) -> bool {
        let mut victim = self.workers.swap_remove(number);
        victim.kill();
        self.ledger.read();
        let was_at_work = self.ledger.is_cut(victim.pid()) || self.held_by(&victim).await > 0;
        self.dead.push(victim);
        was_at_work
    }

    /// Returns the index of the living worker that wrote to the ledger last, or a random one.
    pub fn busiest(&mut self) -> usize {
        self.ledger.read();
        let pid = self.ledger.lines.iter().rev().map(|line| line.pid);
        let busy = pid.take(50).find_map(|pid| self.workers.iter().position(|worker| worker.pid() == pid));
        busy.unwrap_or_else(|| self.random.usize(0..self.workers.len()))
    }

    /// Reports a violation that the kind itself found.
    pub fn violation(&mut self, invariant: &'static str, what: String) {
        let violation = Violation { invariant, run: String::new(), what };
        let (seed, count) = (self.part.seed, self.part.count);
        self.report.violations.push(RoundViolation { violation, seed, count });
    }

    /// Adds to a count that the report shows.
    pub fn note(&mut self, what: &str, count: usize) {
        *self.report.notes.entry(what.to_owned()).or_default() += count;
    }

    /// Notes the largest number of such things that the round has seen.
    pub fn most(&mut self, what: &str, count: usize) {
        let most = self.report.most.entry(what.to_owned()).or_default();
        *most = count.max(*most);
    }

    /// Waits a few seconds until a worker runs a body.
    pub async fn wait_for_a_body(&mut self) {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(3) {
            self.ledger.read();
            if self.workers.iter().any(|worker| self.ledger.is_cut(worker.pid())) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until every living worker has written to the ledger again. Returns `false` if one has
    /// not within this time.
    pub async fn all_continue(&mut self, within: Duration) -> bool {
        self.ledger.read();
        let lines = self.ledger.lines.len();
        let pids: Vec<u32> = self.workers.iter().map(WorkerProcess::pid).collect();
        let ledger = &mut self.ledger;
        until(within, || {
            ledger.read();
            pids.iter().all(|pid| ledger.lines[lines..].iter().any(|line| line.pid == *pid))
        })
        .await
    }

    /// Kills the workers and ends the round at once. The report has the violations that the kind
    /// itself found, and the testbed is kept. After a violation because of which runs may never
    /// end, a wait for their ends would only delay the report.
    #[must_use]
    pub fn give_up(self) -> Report {
        let Self { mut testbed, load, report, workers, .. } = self;
        load.abandon();
        drop(workers);
        testbed.keep();
        report
    }

    /// Waits until all runs have ended, ends the workers, and checks the evidence.
    pub async fn finish(self) -> Report {
        self.finish_with(|_| Vec::new()).await
    }

    /// Ends the round and also runs a check of the kind. See [`Round::finish`].
    pub async fn finish_with(mut self, look: impl FnOnce(&Evidence) -> Vec<Violation>) -> Report {
        let (part, mut report) =
            (self.part.clone(), std::mem::replace(&mut self.report, Report::new("", &self.part.plan)));
        let (mut testbed, evidence) = self.end().await;
        let mut found = checker::violations(&evidence);
        found.extend(look(&evidence));
        report.take(&evidence, found, &part);
        match report.violations.is_empty() {
            true => testbed.sweep().await,
            false => testbed.keep(),
        }
        report
    }

    /// Waits until all runs have ended, ends the workers, and reads the evidence.
    pub async fn end(self) -> (Testbed, Evidence) {
        let Self { testbed, mut workers, dead, disturbed, unlocked, load, options, settings, .. } = self;
        let LoadResult { expected_answers, mut complaints, gave_up } = load.end().await;
        if !gave_up {
            wait_for_ends(&testbed).await;
        }
        for worker in &mut workers {
            complaints.extend(end_worker(worker).await);
        }
        let secrets = log_secrets::stored_secrets(&settings.url, &mut testbed.raw().await).await;
        for worker in dead.iter().chain(&workers) {
            let log = worker.log();
            // A worker must log that the database did not answer.
            let may_fail = unlocked.contains(&worker.pid());
            let forbidden = || options.forbidden.iter().filter(move |word| !may_fail || **word != "ERROR");
            let bad = log.lines().filter(|line| forbidden().any(|word| line.contains(word)));
            complaints.extend(bad.take(3).map(|line| format!("process {}: {line}", worker.pid())));
            let shown = log_secrets::lines_with_secrets(&secrets, &log);
            complaints
                .extend(shown.iter().take(3).map(|line| format!("process {} shows a value: {line}", worker.pid())));
        }
        let misfits = replay_ended(&testbed).await;
        let mut evidence = Evidence::of(&testbed).await;
        evidence.misfits = misfits;
        evidence.expected_answers = expected_answers;
        evidence.workers =
            dead.iter().chain(&workers).filter_map(|worker| Some((worker.id()?, worker.pid()))).collect();
        evidence.dead = dead.iter().map(WorkerProcess::pid).collect();
        evidence.disturbed = disturbed;
        evidence.unlocked = unlocked;
        evidence.complaints = complaints;
        evidence.has_wrong_clocks = options.clock.is_some();
        evidence.max_crashes = settings.max_crashes.map_or(i64::MAX, i64::from);
        (testbed, evidence)
    }
}

/// The maximum number of crashes per run, because random kills may hit one run again and again.
const MAX_CRASHES: u32 = 1000;

/// How many of the newest runs of a round are replayed at its end.
const REPLAYED: i64 = 200;

/// Replays programs that have succeeded. Returns those that end differently, with the reason. The
/// values that the replays receive are written to the ledger for the checker.
///
/// # Panics
/// If a run cannot be read.
pub async fn replay_ended(testbed: &Testbed) -> Vec<(String, String)> {
    let ended = format!(
        "SELECT CAST(id AS text) AS line FROM workflow_runs
        WHERE workflow_name = 'program' AND status = 'succeeded' ORDER BY id DESC LIMIT {REPLAYED}"
    );
    let mut misfits = Vec::new();
    for run in testbed.raw().await.lines(ended, "line").await {
        let history = testbed.client.export(run.parse().expect("an id")).await.expect("export a run");
        let site = Site::new(testbed.directory().to_owned(), Duration::ZERO, 1);
        match replay(program, site, &history.to_json()) {
            Ok(Replayed::Ended(Ok(_))) => {}
            other => misfits.push((run, format!("{other:?}"))),
        }
    }
    misfits
}

/// Waits until all runs have ended, including children. Gives up once none ends any more.
async fn wait_for_ends(testbed: &Testbed) {
    let mut raw = testbed.raw().await;
    let (mut left, mut since) = (i64::MAX, Instant::now());
    while left > 0 && since.elapsed() < Duration::from_secs(90) {
        let open = "SELECT count(*) FROM workflow_runs WHERE status IN ('pending', 'running', 'parked')";
        let now = raw.number(open).await;
        if now < left {
            (left, since) = (now, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Ends a worker as an operator does, with SIGTERM. Returns what went wrong.
async fn end_worker(worker: &mut WorkerProcess) -> Option<String> {
    if let Some(status) = worker.ended() {
        return Some(format!("process {} had ended by itself, {status}: {}", worker.pid(), last_lines(worker)));
    }
    worker.signal(Signal::TERM);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        if let Some(status) = worker.ended() {
            let failed = format!("process {} ended with {status}: {}", worker.pid(), last_lines(worker));
            return (!status.success()).then_some(failed);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Some(format!("process {} did not end when it was asked to", worker.pid()))
}

fn last_lines(worker: &WorkerProcess) -> String {
    let log = worker.log();
    let lines: Vec<&str> = log.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}
