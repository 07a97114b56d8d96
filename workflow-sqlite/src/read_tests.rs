#![allow(clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use workflow_engine::model::{Lane, NewRun, RunFilter, RunId, RunStatus, Timestamp, WorkerId};
use workflow_engine::store::{Store, Write};

use super::fixture_tests::*;

async fn ids(f: &Fixture, filter: RunFilter) -> Vec<RunId> {
    f.store.list(&filter).await.unwrap().into_iter().map(|run| run.id).collect()
}

#[tokio::test]
async fn every_filter_holds() {
    for f in [Fixture::file().await, Fixture::memory().await] {
        let tag = |name: &str, value: &str| [(name.to_owned(), value.to_owned())].into();
        let first = NewRun { key: Some("order-1%é".into()), tags: tag("a.\"b", "x'"), ..new_run() };
        let other = Lane { queue: "slow".into(), workflow: "refund".into(), ..lane() };
        let second = NewRun { key: Some("ORDER-1".into()), lane: other, tags: tag("a", "x'"), ..new_run() };
        f.commit_one(Write::Start(first.clone())).await;
        f.claim(WorkerId::generate(), 1).await;
        f.clock.advance(Duration::from_secs(1));
        f.commit_one(Write::Start(second.clone())).await;
        let (one, two, later) = ([first.id], [second.id], START + Duration::from_secs(1));
        let all = RunFilter::new;
        assert_eq!(ids(&f, all()).await, [second.id, first.id]);
        assert_eq!(ids(&f, all().status(RunStatus::Running)).await, one);
        assert_eq!(ids(&f, all().status(RunStatus::Running).status(RunStatus::Pending)).await.len(), 2);
        assert_eq!(ids(&f, all().workflow("refund")).await, two);
        assert_eq!(ids(&f, all().queue("default")).await, one);
        assert_eq!(ids(&f, all().tag("a.\"b", "x'")).await, one);
        assert_eq!(ids(&f, all().tag("a", "x'")).await, two);
        assert!(ids(&f, all().tag("a", "x")).await.is_empty());
        assert_eq!(ids(&f, all().key_prefix("order-1%")).await, one);
        assert!(ids(&f, all().key_prefix("order_")).await.is_empty());
        assert_eq!(ids(&f, all().created_from(later)).await, two);
        assert_eq!(ids(&f, all().created_before(later)).await, one);
        assert_eq!(ids(&f, all().page_size(1)).await, two);
        assert_eq!(ids(&f, all().page_size(1).after(second.id)).await, one);
        assert!(ids(&f, all().after(first.id)).await.is_empty());
        let mut everything = all();
        everything.page_size = 0;
        assert_eq!(ids(&f, everything).await.len(), 1, "what lies outside the range is moved to its nearer end");
    }
}

#[tokio::test]
async fn the_next_due_time_is_that_of_the_lanes() {
    let f = Fixture::file().await;
    assert_eq!(f.store.next_due(&[]).await.unwrap().at, None);
    assert_eq!(f.store.next_due(&[lane()]).await.unwrap().at, None);
    let claim = f.started_and_claimed().await;
    assert_eq!(f.store.next_due(&[lane()]).await.unwrap().at, Some(START + LEASE));
    let foreign = Lane { version: "2".into(), ..lane() };
    assert_eq!(f.store.next_due(std::slice::from_ref(&foreign)).await.unwrap().at, None);
    f.commit_one(park_write(claim, 0, Timestamp::FAR_FUTURE)).await;
    assert_eq!(f.store.next_due(&[lane(), foreign]).await.unwrap().at, None);
}
