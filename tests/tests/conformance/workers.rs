use std::collections::BTreeMap;
use std::time::Duration;

use workflow_engine::model::{Lane, NewRun, Retain, Retention, StartTime, WorkerId};
use workflow_engine::store::{ClaimRequest, Write};
use workflow_tests::builders::{LEASE, claim_by, lane, lane_of, new_run};
use workflow_tests::{Fixture, until};

pub async fn a_worker_is_recorded_with_what_it_serves(fixture: Fixture) {
    let second = fixture.second().await;
    assert_eq!(fixture.store.workers().await.unwrap(), []);
    let (first, other) = (WorkerId::generate(), WorkerId::generate());
    let lanes = [lane_of("default", "checkout", "1"), lane_of("é\"q", "a,b", "2026-01")];
    let keeps = Retention(BTreeMap::from([("é\"q".to_owned(), Retain::forever().failed(LEASE))]));
    let session = fixture.store.open_lease(first, &lanes, &keeps).await.unwrap();
    let dying = fixture.store.open_lease(other, &[], &Retention::default()).await.unwrap();
    let workers = second.workers().await.unwrap();
    assert_eq!(workers.len(), 2);
    let record = |id| workers.iter().find(|worker| worker.id == id).unwrap();
    assert_eq!((&record(first).lanes[..], record(first).live), (&lanes[..], true));
    assert_eq!(record(first).retention.as_ref(), Some(&keeps));
    assert_eq!(record(other).retention, Some(Retention::default()));
    assert_eq!((record(first).started_at, record(other).lanes.len()), (fixture.now(), 0));

    drop(dying);
    until("the worker is seen as dead", async || {
        let workers = second.workers().await.unwrap();
        let live: Vec<WorkerId> = workers.iter().filter(|worker| worker.live).map(|worker| worker.id).collect();
        (live == [first]).then_some(())
    })
    .await;
    assert_eq!(second.workers().await.unwrap().len(), 2, "a dead worker stays recorded until another one releases it");
    session.close().await.unwrap();
}

pub async fn due_versions_are_found(fixture: Fixture) {
    let start = async |lane: &Lane, start| {
        let run = NewRun { lane: lane.clone(), start, ..new_run() };
        fixture.start(&run).await;
        run.id
    };
    let version = |version| lane_of("default", "checkout", version);
    for due in
        [version("1"), version("3"), version("3"), lane_of("mail", "checkout", "7"), lane_of("default", "x", "1")]
    {
        start(&due, StartTime::Now).await;
    }
    start(&version("2"), StartTime::After(Duration::from_secs(60))).await;
    fixture.write(Write::Pause(start(&version("4"), StartTime::Now).await)).await;
    fixture.write(Write::Cancel(start(&version("5"), StartTime::Now).await)).await;

    let find = async |lanes: &[Lane]| {
        let mut found = fixture.store.due_lanes(lanes).await.unwrap();
        found.sort_unstable();
        found
    };
    assert_eq!(find(&[lane(), version("9")]).await, [version("1"), version("3")]);
    fixture.advance(Duration::from_secs(60));
    assert_eq!(find(&[lane()]).await, [version("1"), version("2"), version("3")]);
    let taken = fixture.claim(&ClaimRequest { lanes: vec![version("1")], ..claim_by(WorkerId::generate(), 1) }).await;
    assert_eq!(taken.runs.len(), 1);
    assert_eq!(find(&[lane()]).await, [version("2"), version("3")], "a claimed run is not due");
    fixture.advance(LEASE);
    assert_eq!(find(&[lane()]).await, [version("1"), version("2"), version("3")], "it is due once its lease has ended");
    fixture.write(Write::Pause(taken.runs[0].claim.run_id)).await;
    assert_eq!(find(&[lane()]).await, [version("2"), version("3")], "a paused run is not due");
    assert_eq!(find(&[lane_of("mail", "checkout", "1")]).await, [lane_of("mail", "checkout", "7")]);
    assert_eq!(find(&[]).await, []);
}
