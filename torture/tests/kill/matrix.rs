//! Every failpoint of the engine with each of its actions, at the first, second and third time that
//! it is reached. `WORKFLOW_MATRIX` limits the matrix to the points whose name contains its value.

use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::join_all;
use futures::stream;
use rustix::process::Signal;
use workflow_engine::faults::{Action, POINTS, Point};
use workflow_engine::model::{Retention, WorkerId};
use workflow_sdk::RunId;
use workflow_tests::Database;
use workflow_torture::ledger::Fact;
use workflow_torture::worker_process::{WorkerProcess, WorkerSettings};

use crate::workload::Workload;
use workflow_torture::testbed::{Location, Started, Testbed};

/// Cells that run at once. A cell mostly waits for leases, back-offs and dead workers.
const AT_ONCE: usize = 4;

const HITS: u32 = 3;

/// How many migrations each database has.
const MIGRATIONS: u32 = 1;

/// How long a process may take until it reaches its point.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long a process stays stopped at most. The other processes may need longer, because the
/// stopped process may hold a lock that they need.
const STANDSTILL: Duration = Duration::from_secs(5);

pub async fn every_point_survives_a_kill(database: Database) {
    at_every_point(database, Action::Kill).await;
}

pub async fn every_point_survives_a_stop(database: Database) {
    at_every_point(database, Action::Stop).await;
}

pub async fn every_point_survives_a_delay(database: Database) {
    at_every_point(database, Action::Delay).await;
}

pub async fn every_point_survives_an_error_before_it(database: Database) {
    at_every_point(database, Action::Error).await;
}

pub async fn every_point_survives_a_lost_reply(database: Database) {
    at_every_point(database, Action::Lost).await;
}

async fn at_every_point(database: Database, action: Action) {
    let begun = Instant::now();
    let wanted = std::env::var("WORKFLOW_MATRIX").unwrap_or_default();
    let here = |point: &&Point| database == Database::Sqlite || !point.only_sqlite;
    let points = POINTS.iter().filter(here).filter(|point| point.actions.contains(&action));
    let cells = points.filter(|point| point.name.contains(&wanted)).map(async |point| {
        let cell = Cell { database, point, action };
        let begun = Instant::now();
        cell.run().await;
        println!("{database:?} {}: {} in {:?}", point.name, action.word(), begun.elapsed());
    });
    let cells = stream::iter(cells.collect::<Vec<_>>()).buffer_unordered(AT_ONCE).count().await;
    println!("{database:?} {}: {cells} points in {:?}", action.word(), begun.elapsed());
}

/// Waits until the runs have ended while one process is stopped, at most for [`STANDSTILL`].
async fn stands_still(testbed: &Testbed, workload: &Workload) {
    let begun = Instant::now();
    while begun.elapsed() < STANDSTILL && !workload.have_ended(testbed).await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Records `count` workers whose processes are dead.
async fn leave_dead_workers(testbed: &Testbed, count: u32) {
    for _ in 0..count {
        let session = testbed.client.store().open_lease(WorkerId::generate(), &[], &Retention::default()).await;
        drop(session.expect("open a lease session"));
    }
}

/// One failpoint and one of its actions.
struct Cell {
    database: Database,
    point: &'static Point,
    action: Action,
}

impl Cell {
    async fn run(&self) {
        match self.point.name.split_once('.') {
            Some(("migrate", _)) => self.migrating().await,
            Some(("start", _)) => self.starting().await,
            _ => self.working().await,
        }
    }

    fn kills_or_stops(&self) -> bool {
        matches!(self.action, Action::Kill | Action::Stop)
    }

    fn at(&self, hit: u32) -> String {
        format!("{}@{hit}:{}", self.point.name, self.action.word())
    }

    fn name(&self, role: &str, hit: u32) -> String {
        format!("{}-{}-{role}-{hit}", self.point.name, self.action.word())
    }

    /// Waits until the action has happened. A point that is never reached proves nothing.
    async fn happens_in(&self, process: &mut WorkerProcess, times: u32) {
        let said = format!("failpoint {}: {}\n", self.point.name, self.action.word());
        let begun = Instant::now();
        while process.log().matches(&said).count() < times as usize {
            let log = || process.log();
            assert!(begun.elapsed() < PATIENCE, "not {times} times in {PATIENCE:?}: {said}{}", log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        match self.action {
            Action::Kill => process.end_by_kill().await,
            Action::Stop => process.stands_still().await,
            _ => {}
        }
    }

    fn settings(&self, testbed: &Testbed) -> WorkerSettings {
        let mut settings = testbed.settings();
        // Fewer permits than runs, so that there are several claims. Every wait is a park.
        settings.concurrency = 6;
        settings.linger = 0;
        settings.max_crashes = Some(100);
        settings
    }

    /// Lets the action happen in a worker, in the middle of runs of every kind. Then another worker
    /// finishes them.
    async fn working(&self) {
        let testbed = Testbed::new(self.database).await;
        testbed.make_effects().await;
        let settings = self.settings(&testbed);
        let mut brief = settings.clone();
        if !self.kills_or_stops() {
            // The runs of three turns at once.
            brief.concurrency *= 3;
        }
        // A stopped worker, or one that does not write the result of its drive, leaves its runs
        // until their leases end.
        brief.lease = Some(1000);
        // A worker opens its lease session once.
        let hits = if self.point.name == "lease.after_open" { 1 } else { HITS };
        let (mut workload, mut hit_ones, mut others, mut records) =
            (Workload::default(), Vec::new(), Vec::new(), Vec::new());
        // A process that survives the action sees it three times. Otherwise three processes see it
        // once each.
        let (turns, at_once) = if self.kills_or_stops() { (hits, 1) } else { (1, hits) };
        for turn in 1..=turns {
            testbed.close_gates();
            for turn in turn..turn + at_once {
                workload.start(&testbed, turn, self.point.name).await;
            }
            if self.point.name.ends_with("_release") {
                leave_dead_workers(&testbed, hits).await;
            }
            let armed: Vec<String> = (turn..turn + at_once).map(|hit| self.at(hit)).collect();
            let mut process = testbed.spawn_to_die(&self.name("hit", turn), &brief, &armed.join(","));
            self.happens_in(&mut process, at_once).await;
            records.push(workload.recorded(&testbed).await);
            if self.action == Action::Kill || self.action == Action::Stop && !self.point.in_transaction {
                records.iter().for_each(|recorded| testbed.check_order(recorded));
                testbed.check_effects_so_far().await;
                testbed.check_children_so_far().await;
            }
            if self.action == Action::Stop && (self.point.in_transaction || !testbed.can_be_written().await) {
                // The stopped process holds a lock that every other process needs.
                process.signal(Signal::CONT);
            }
            workload.let_end(&testbed).await;
            match self.action {
                Action::Kill => {}
                Action::Stop => {
                    let mut other = testbed.spawn(&self.name("other", turn), &settings);
                    stands_still(&testbed, &workload).await;
                    process.signal(Signal::CONT);
                    workload.all_end(&testbed).await;
                    process.end_by_request().await;
                    other.end_by_request().await;
                    others.push(other);
                }
                // The process continues by itself.
                _ => {
                    workload.all_end(&testbed).await;
                    process.end_by_request().await;
                }
            }
            hit_ones.push(process);
        }
        if self.action == Action::Kill {
            let mut last = testbed.spawn(&self.name("last", 0), &settings);
            workload.all_end(&testbed).await;
            last.end_by_request().await;
            others.push(last);
        }
        let pids: Vec<u32> = hit_ones.iter().map(WorkerProcess::pid).collect();
        let stopped = if self.action == Action::Stop { pids.as_slice() } else { &[] };
        workload.check(&testbed, &pids, stopped).await;
        records.iter().for_each(|recorded| testbed.check_never_again(recorded));
        // A process may log an error about a write that was refused on purpose, or that was not
        // answered while it was stopped.
        let quiet = matches!(self.action, Action::Kill | Action::Delay);
        others.iter().chain(hit_ones.iter().filter(|_| quiet)).for_each(WorkerProcess::assert_no_errors);
        for log in hit_ones.iter().map(WorkerProcess::log) {
            assert!(!log.contains("panicked") && !log.contains("deadlock"), "{log}");
        }
        testbed.sweep().await;
    }

    /// Lets the action happen in an application that starts runs. The application repeats a start
    /// whose result it does not know.
    async fn starting(&self) {
        let hits = (1..=HITS).map(async |hit| {
            let testbed = Testbed::new(self.database).await;
            let mut settings = testbed.settings();
            settings.starts_runs = true;
            let mut starter = testbed.spawn_to_die(&self.name("starter", hit), &settings, &self.at(hit));
            self.happens_in(&mut starter, 1).await;
            let acknowledged = || testbed.ledger.lines().into_iter().filter(|line| line.fact == Fact::Started);
            if self.action != Action::Kill {
                starter.signal(Signal::CONT);
                testbed.lines(acknowledged().count() + 8).await;
                starter.kill();
            }
            let mut runs = Vec::new();
            let rows = "SELECT CAST(id AS text) || ' ' || input AS run FROM workflow_runs ORDER BY key";
            for row in testbed.raw().await.lines(rows, "run").await {
                let (id, n) = row.split_once(' ').expect("id and input");
                let output = 5 * n.parse::<u64>().expect("a number") + 10;
                runs.push(Started { id: id.parse().expect("a run id"), output });
            }
            let mut outputs: Vec<u64> = runs.iter().map(|run| run.output).collect();
            outputs.dedup();
            assert_eq!(outputs.len(), runs.len(), "one run per start");
            for line in acknowledged() {
                let id: RunId = line.subject.parse().expect("a run id");
                assert!(runs.iter().any(|run| run.id == id), "the acknowledged start of {id} is lost");
            }
            settings.starts_runs = false;
            let mut worker = testbed.spawn(&self.name("worker", hit), &settings);
            testbed.all_end(&runs).await;
            worker.end_by_request().await;
            testbed.check(&runs, &[]).await;
            worker.assert_no_warnings();
            testbed.sweep().await;
        });
        join_all(hits).await;
    }

    /// Lets the action happen in the first process of a database, while it creates the tables. The
    /// next process completes the migration.
    async fn migrating(&self) {
        // A point inside a migration is reached once for each, a point of the commit once.
        let hits = if self.point.name.ends_with("_commit") { 1 } else { MIGRATIONS };
        let hits = (1..=hits).map(async |hit| {
            let location = Location::new(self.database);
            let settings = location.settings();
            let mut first = location.spawn(&self.name("first", hit), &settings, Some(&self.at(hit)));
            self.happens_in(&mut first, 1).await;
            let mut next = location.spawn(&self.name("next", hit), &settings, None);
            match self.action {
                Action::Stop => first.signal(Signal::CONT),
                // The application gets an error, and the next process completes the database.
                Action::Error | Action::Lost => assert!(!first.end().await.success(), "{}", first.log()),
                Action::Kill | Action::Delay => {}
            }
            if first.ended().is_none() {
                first.ready().await;
            }
            next.ready().await;
            next.assert_no_warnings();
            let testbed = Testbed::at(location).await;
            let gap = "SELECT count(*) - max(version) FROM workflow_schema";
            assert_eq!(testbed.raw().await.number(gap).await, 0, "one row per migration");
            let runs = testbed.start_mix(1, 1, 1).await;
            testbed.all_end(&runs).await;
            testbed.check(&runs, &[]).await;
            next.end_by_request().await;
            testbed.sweep().await;
        });
        join_all(hits).await;
    }
}
