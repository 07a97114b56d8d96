//! A process that is asked to end.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use workflow_tests::Database;

use workflow_torture::testbed::Testbed;

pub async fn a_worker_that_stops_gives_every_run_back(database: Database) {
    let testbed = Testbed::new(database).await;
    let mut settings = testbed.settings();
    settings.concurrency = 20;
    settings.pause = 200;
    let runs = testbed.start_mix(10, 10, 10).await;
    let mut ended = testbed.spawn("ended", &settings);
    testbed.begun(40).await;
    ended.signal(Signal::TERM);
    let status = ended.end().await;
    assert!(status.success(), "{status}: {}", ended.log());
    let mut raw = testbed.raw().await;
    assert_eq!(raw.number("SELECT count(*) FROM workflow_runs WHERE status = 'running'").await, 0);
    assert_eq!(raw.number("SELECT count(*) FROM workflow_workers").await, 0);
    let left = raw.number("SELECT count(*) FROM workflow_runs WHERE completed_at IS NULL").await;
    assert!(left > 0, "the worker must be asked to end in the middle of the load");

    let next = testbed.spawn("next", &settings);
    next.ready().await;
    let ready = Instant::now();
    testbed.begins_in(&next).await;
    println!("{database:?}: {left} runs given back, the next worker resumed them after {:?}", ready.elapsed());
    testbed.all_end(&runs).await;
    // No process died: no body was interrupted, and no crash was counted.
    testbed.check(&runs, &[]).await;
    assert_eq!(testbed.crashes_counted().await, 0);
    ended.assert_no_warnings();
    next.assert_no_warnings();
    testbed.sweep().await;
}

pub async fn a_second_signal_drops_a_step_that_hangs(database: Database) {
    let testbed = Testbed::new(database).await;
    let settings = testbed.settings();
    let run = testbed.start_gated(1).await;
    let mut hanging = testbed.spawn("hanging", &settings);
    testbed.begins_in(&hanging).await;
    hanging.signal(Signal::TERM);
    hanging.says("worker stops").await;
    assert!(hanging.ended().is_none(), "the worker gives the step time to end");
    hanging.signal(Signal::TERM);
    let asked = Instant::now();
    let status = hanging.end().await;
    assert!(status.success(), "{status}: {}", hanging.log());
    println!("{database:?}: ended {:?} after the second signal", asked.elapsed());
    // Far below the grace period of 30 s, and far above the time that it takes to give a run
    // back.
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    let given_back = "SELECT count(*) FROM workflow_runs WHERE status <> 'running' AND completed_at IS NULL";
    assert_eq!(testbed.raw().await.number(given_back).await, 1);

    let next = testbed.spawn("next", &settings);
    testbed.begins_in(&next).await;
    testbed.open_gate("one");
    testbed.open_gate("two");
    testbed.all_end(&[run]).await;
    testbed.check(&[run], &[hanging.pid()]).await;
    assert_eq!(testbed.crashes_counted().await, 0);
    next.assert_no_warnings();
    testbed.sweep().await;
}
