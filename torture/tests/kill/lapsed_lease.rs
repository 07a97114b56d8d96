//! A worker that lives and cannot renew its leases: a partition from PostgreSQL, or a process that
//! holds the write lock of the SQLite file.

use std::time::{Duration, SystemTime};

use workflow_sdk::Timestamp;
use workflow_tests::postgres::postgres_url;
use workflow_tests::{Database, RawConnection, until};
use workflow_torture::workflows::{self, DROPPED, ENDED};

use workflow_torture::ledger::{Fact, Line};
use workflow_torture::proxy::{Fault, Moment, Proxy};
use workflow_torture::testbed::{Started, Testbed};
use workflow_torture::worker_process::{WorkerProcess, WorkerSettings};

/// The lease of the worker that is cut off.
const LEASE: Duration = Duration::from_millis(1500);

/// The promise is a lease and a sixth of it; the rest is for a busy machine.
const BOUND: Duration = Duration::from_secs(15);

/// The delay of each frame on a path on which a renewal takes longer than two leases.
const SLOW: Fault = Fault::Slow(Duration::from_secs(2));

/// The worker drops the body when its lease may have ended, long before its calls fail. No worker
/// has died, so no crash is counted.
pub async fn a_body_is_dropped_when_its_lease_may_have_ended(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut barrier = Barrier::before(&testbed);
    let mut cut_off = testbed.spawn("cut-off", &barrier.settings(&testbed));
    let run = start(&testbed).await;
    testbed.begins_in(&cut_off).await;
    barrier.cut(&testbed, Fault::Hole).await;
    let cut_at = SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970");
    let end = body_ends_in(&testbed, &cut_off).await;
    assert_eq!(end.value, DROPPED);
    let took = end.at.saturating_sub(cut_at.as_micros());
    assert!(took < BOUND.as_micros(), "dropped {took} us after the worker was cut off");
    cut_off.says("leases were not renewed in time; their runs are given up").await;

    barrier.mend().await;
    let successor = testbed.spawn("successor", &testbed.settings());
    testbed.open_gate("last");
    testbed.all_end(&[run]).await;
    assert!(testbed.epoch(run.id).await > 1);
    assert_eq!(testbed.crashes_counted().await, 0, "the worker was cut off, and did not die");
    testbed.check_beside(&[run], &[], &[cut_off.pid()]).await;
    successor.assert_no_errors();
    // A connection that is cut off may hold locks.
    cut_off.kill();
    testbed.sweep().await;
}

/// With `LapsedLease::LetBodiesEnd`, the body ends after its lease. Its outcome is stored, because
/// no other worker has claimed the run.
pub async fn a_body_ends_after_its_lease_if_its_worker_lets_it(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut barrier = Barrier::before(&testbed);
    let settings = WorkerSettings { lets_bodies_end: true, ..barrier.settings(&testbed) };
    let cut_off = testbed.spawn("cut-off", &settings);
    let run = start(&testbed).await;
    testbed.begins_in(&cut_off).await;
    barrier.cut(&testbed, SLOW).await;
    until("the lease has ended a lease ago", async || {
        let row = testbed.client.run(run.id).await.expect("read the run");
        (Timestamp::from(SystemTime::now()) > row.available_at + LEASE).then_some(())
    })
    .await;
    testbed.open_gate("last");
    assert_eq!(body_ends_in(&testbed, &cut_off).await.value, ENDED);
    barrier.mend().await;
    testbed.all_end(&[run]).await;
    assert_eq!(testbed.epoch(run.id).await, 1);
    assert_eq!(testbed.ledger.begins().len(), 1);
    assert_eq!(testbed.crashes_counted().await, 0);
    testbed.check(&[run], &[]).await;
    testbed.sweep().await;
}

/// Stands between one worker and the database.
struct Barrier {
    /// The worker's way to the server; `None` on SQLite.
    proxy: Option<Proxy>,
    /// Holds the write lock of the file while the worker is cut off.
    lock: Option<RawConnection>,
}

impl Barrier {
    fn before(testbed: &Testbed) -> Self {
        let proxy = match testbed.database {
            Database::Postgres => Some(Proxy::to(&postgres_url()).expect("a proxy")),
            Database::Sqlite | Database::Memory => None,
        };
        Self { proxy, lock: None }
    }

    /// Returns the settings of the worker. It has one permit, so it cannot claim its run again
    /// while the body of the run goes on.
    fn settings(&self, testbed: &Testbed) -> WorkerSettings {
        let mut settings = testbed.settings();
        settings.lease = Some(u64::try_from(LEASE.as_millis()).expect("a short time"));
        settings.concurrency = 1;
        if let Some(proxy) = &self.proxy {
            settings.url = proxy.url();
        }
        settings
    }

    /// Keeps the worker from renewing its leases: by this fault of the path, or by the write lock.
    async fn cut(&mut self, testbed: &Testbed, fault: Fault) {
        if let Some(proxy) = &self.proxy {
            proxy.arm(fault, Moment::Frame(0));
            until("the fault happens", async || (!proxy.delivered().is_empty()).then_some(())).await;
        } else {
            let mut lock = testbed.raw().await;
            lock.execute("BEGIN IMMEDIATE").await;
            self.lock = Some(lock);
        }
    }

    async fn mend(&mut self) {
        if let Some(proxy) = &self.proxy {
            proxy.heal();
        }
        if let Some(mut lock) = self.lock.take() {
            lock.execute("ROLLBACK").await;
        }
    }
}

async fn start(testbed: &Testbed) -> Started {
    let run = testbed.client.start(workflows::lasting, 7).await.expect("start");
    Started { id: run.id(), output: 7 }
}

/// Waits until the first body in this process has ended or was dropped.
async fn body_ends_in(testbed: &Testbed, worker: &WorkerProcess) -> Line {
    until("a body ends or is dropped", async || {
        testbed.ledger.lines().into_iter().find(|line| line.pid == worker.pid() && line.fact == Fact::End)
    })
    .await
}
