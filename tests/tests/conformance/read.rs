use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use workflow_engine::model::{Claim, NewRun, StartTime};
use workflow_engine::store::{RunEnd, Write};
use workflow_sdk::{OnParentEnd, RunFilter, RunId, RunStatus};
use workflow_tests::Fixture;
use workflow_tests::builders::{
    begin_child, child_of, claim_request, end, error, keyed, lane_of, new_run, park, start, succeed,
};
use workflow_tests::outcome::{applied, created};

async fn list(fixture: &Fixture, filter: &RunFilter) -> Vec<RunId> {
    fixture.store.list(filter).await.expect("list").iter().map(|run| run.id).collect()
}

fn with(filter: &RunFilter, change: impl FnOnce(&mut RunFilter)) -> RunFilter {
    let mut filter = filter.clone();
    change(&mut filter);
    filter
}

fn tagged(tags: &[(&str, &str)]) -> NewRun {
    let tags: BTreeMap<String, String> =
        tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    NewRun { tags, ..new_run() }
}

async fn start_all(fixture: &Fixture, runs: &[NewRun]) {
    fixture.commit(&runs.iter().map(start).collect::<Vec<_>>()).await.iter().for_each(created);
}

pub async fn unknown_ids_are_not_found(fixture: Fixture) {
    let unknown = RunId::generate();
    assert_eq!(fixture.store.run(unknown).await.unwrap(), None);
    assert_eq!(fixture.history(unknown).await, []);
    assert_eq!(fixture.store.ended(&[unknown]).await.unwrap(), []);
    assert_eq!(fixture.store.ended(&[]).await.unwrap(), []);
    assert_eq!(fixture.store.missing(&[]).await.unwrap(), []);
    assert_eq!(fixture.store.list(&RunFilter::new()).await.unwrap(), []);
    let run = fixture.started().await;
    assert_eq!(
        list(&fixture, &RunFilter::new().after(unknown)).await,
        [] as [RunId; 0],
        "the unknown id is older than the run"
    );
    assert_eq!(list(&fixture, &RunFilter::new().after(RunId::generate())).await, [run]);
    assert_eq!(fixture.store.missing(&[unknown, run]).await.unwrap(), [unknown]);
}

pub async fn each_filter_selects(fixture: Fixture) {
    let plain = new_run();
    let other_workflow = NewRun { lane: lane_of("default", "refund", "1"), ..new_run() };
    let other_queue = NewRun { lane: lane_of("slow", "checkout", "1"), ..new_run() };
    let with_key = keyed("order-1");
    let with_tag = tagged(&[("region", "eu"), ("tier", "gold")]);
    let runs = [plain, other_workflow, other_queue, with_key, with_tag];
    for run in &runs {
        fixture.start(run).await;
        fixture.advance(Duration::from_secs(1));
    }
    let ids: Vec<RunId> = runs.iter().map(|run| run.id).collect();
    let created_at = |index: usize| workflow_tests::builders::CLOCK_START + Duration::from_secs(index as u64);
    let [plain, refund, slow, with_key, with_tag] = ids[..] else { unreachable!() };

    let all = RunFilter::new();
    for (filter, expected) in [
        (all.clone(), vec![with_tag, with_key, slow, refund, plain]),
        (all.clone().workflow("refund"), vec![refund]),
        (all.clone().workflow("Refund"), vec![]),
        (all.clone().workflow("refun_"), vec![]),
        (all.clone().queue("slow"), vec![slow]),
        (all.clone().key_prefix("order"), vec![with_key]),
        (all.clone().tag("region", "eu"), vec![with_tag]),
        (all.clone().tag("region", "us"), vec![]),
        (all.clone().tag("eu", "region"), vec![]),
        (all.clone().status(RunStatus::Pending), vec![with_tag, with_key, slow, refund, plain]),
        (all.clone().status(RunStatus::Running), vec![]),
        (all.clone().created_from(created_at(3)), vec![with_tag, with_key]),
        (all.clone().created_before(created_at(1)), vec![plain]),
        (all.clone().page_size(2), vec![with_tag, with_key]),
        (all.clone().after(slow), vec![refund, plain]),
        (all.clone().after(plain), vec![]),
    ] {
        assert_eq!(list(&fixture, &filter).await, expected, "{filter:?}");
    }
}

pub async fn children_are_listed_by_their_parent(fixture: Fixture) {
    let (parent, other) = (fixture.held().await, fixture.held().await);
    let of = |claim: Claim, key: &str| (claim, child_of(claim.run_id, key, OnParentEnd::Cancel));
    let children = [of(parent, "a"), of(parent, "b"), of(other, "a")];
    for (claim, child) in &children {
        applied(&fixture.write(begin_child(*claim, child)).await);
    }
    let [(_, a), (_, b), _] = &children;
    let mut expected = [b.id, a.id];
    expected.sort_by(|a, b| b.cmp(a));
    assert_eq!(list(&fixture, &RunFilter::new().parent(parent.run_id)).await, expected);
    assert_eq!(list(&fixture, &RunFilter::new().parent(a.id)).await, []);
    assert_eq!(list(&fixture, &RunFilter::new().parent(parent.run_id).workflow("unknown")).await, []);
}

pub async fn a_run_is_found_by_its_workflow_and_key(fixture: Fixture) {
    let run = keyed("order-1");
    let other = NewRun { lane: lane_of("default", "refund", "1"), ..keyed("order-1") };
    start_all(&fixture, &[run.clone(), other.clone(), keyed("order-11"), new_run()]).await;
    for (workflow, key, expected) in [
        (run.lane.workflow.as_str(), "order-1", Some(run.id)),
        ("refund", "order-1", Some(other.id)),
        ("refund", "order-11", None),
        ("refund", "order", None),
        ("unknown", "order-1", None),
    ] {
        assert_eq!(fixture.store.find(workflow, key).await.unwrap(), expected, "{workflow} {key}");
    }
}

pub async fn filters_are_combined(fixture: Fixture) {
    let mut runs = Vec::new();
    for (index, workflow) in ["a", "b"].into_iter().enumerate() {
        for queue in ["x", "y"] {
            for region in ["eu", "us"] {
                for key in ["p-1", "q-1"] {
                    runs.push(NewRun {
                        lane: lane_of(queue, workflow, "1"),
                        key: Some(format!("{key}-{index}-{queue}-{region}")),
                        ..tagged(&[("region", region)])
                    });
                }
            }
        }
    }
    for run in &runs {
        fixture.start(run).await;
        fixture.advance(Duration::from_secs(1));
    }
    let request = workflow_engine::store::ClaimRequest { lanes: vec![lane_of("x", "a", "1")], ..claim_request() };
    let claims = fixture.claim(&request).await.runs;
    for run in &claims {
        applied(&fixture.write(succeed(run.claim, "1")).await);
    }
    assert_eq!(claims.len(), 4);

    let full = RunFilter::new()
        .status(RunStatus::Succeeded)
        .workflow("a")
        .queue("x")
        .tag("region", "us")
        .key_prefix("p-1")
        .created_from(workflow_tests::builders::CLOCK_START)
        .created_before(fixture.now());
    let wanted = runs.iter().find(|run| run.key.as_deref() == Some("p-1-0-x-us")).unwrap().id;
    assert_eq!(list(&fixture, &full).await, [wanted]);
    for narrower in [
        with(&full, |filter| filter.statuses = vec![RunStatus::Pending]),
        full.clone().workflow("b"),
        full.clone().queue("y"),
        full.clone().tag("region", "de"),
        full.clone().key_prefix("p-2"),
        full.clone().created_from(fixture.now()),
        full.clone().created_before(workflow_tests::builders::CLOCK_START),
        full.clone().after(wanted),
    ] {
        assert_eq!(list(&fixture, &narrower).await, [], "{narrower:?}");
    }
    let any_region = with(&full, |filter| filter.tag = None);
    assert_eq!(list(&fixture, &any_region).await.len(), 2);
    let any_key = with(&any_region, |filter| filter.key_prefix = None);
    assert_eq!(list(&fixture, &any_key).await.len(), 4);
}

pub async fn statuses_are_alternatives(fixture: Fixture) {
    fixture.started_many(5).await;
    let claims: Vec<_> = fixture.claim(&claim_request()).await.runs.iter().map(|run| run.claim).collect();
    let pending = fixture.started().await;
    fixture
        .commit(&[
            succeed(claims[0], "1"),
            end(claims[1], RunEnd::Failed(error("no luck"))),
            end(claims[2], RunEnd::Canceled),
            park(claims[3], fixture.now() + Duration::from_secs(60)),
        ])
        .await
        .iter()
        .for_each(applied);
    let expected: HashMap<RunStatus, RunId> = [
        (RunStatus::Succeeded, claims[0].run_id),
        (RunStatus::Failed, claims[1].run_id),
        (RunStatus::Canceled, claims[2].run_id),
        (RunStatus::Parked, claims[3].run_id),
        (RunStatus::Running, claims[4].run_id),
        (RunStatus::Pending, pending),
    ]
    .into();
    for first in RunStatus::ALL {
        assert_eq!(list(&fixture, &RunFilter::new().status(first)).await, [expected[&first]]);
        for second in RunStatus::ALL {
            let mut either = vec![expected[&first], expected[&second]];
            either.sort();
            either.dedup();
            either.reverse();
            assert_eq!(list(&fixture, &RunFilter::new().status(first).status(second)).await, either);
        }
    }
}

pub async fn a_key_prefix_is_compared_byte_by_byte(fixture: Fixture) {
    let keys = [
        "order-1",
        "order-10",
        "Order-1",
        "order%1",
        "order_1",
        "order\\1",
        "orde",
        "ördér",
        "o\u{308}rder",
        "*[a]",
        "order-\u{10ffff}",
    ];
    let runs: Vec<NewRun> = keys.iter().map(|key| keyed(key)).collect();
    start_all(&fixture, &runs).await;
    start_all(&fixture, &[new_run()]).await;
    for prefix in [
        "order",
        "order-",
        "order-1",
        "order-10",
        "order%",
        "order_",
        "order\\",
        "Order",
        "o",
        "ö",
        "*",
        "*[",
        "%",
        "_",
        "x",
        "order-\u{10ffff}",
    ] {
        let mut expected: Vec<RunId> =
            runs.iter().zip(keys).filter(|(_, key)| key.starts_with(prefix)).map(|(run, _)| run.id).collect();
        expected.reverse();
        assert_eq!(list(&fixture, &RunFilter::new().key_prefix(prefix)).await, expected, "{prefix:?}");
    }
}

pub async fn odd_tags_are_found(fixture: Fixture) {
    let odd = [
        "a", "a.b", "a'b", "a\"b", "$", "$.a", "a[0]", "a\\b", "漢字", "😀", "%", "_", " ", "{}", "null", "é",
        "e\u{301}", "#", "A",
    ];
    let runs: Vec<NewRun> = odd.iter().map(|name| tagged(&[(name, &format!("{name}!"))])).collect();
    start_all(&fixture, &runs).await;
    let empty = tagged(&[("a", ""), ("b", "a!")]);
    start_all(&fixture, std::slice::from_ref(&empty)).await;
    for (name, run) in odd.iter().zip(&runs) {
        let filter = RunFilter::new().tag(*name, format!("{name}!"));
        assert_eq!(list(&fixture, &filter).await, [run.id], "{name:?}");
        assert_eq!(fixture.run(run.id).await.tags, run.tags);
        assert_eq!(list(&fixture, &RunFilter::new().tag(*name, "other")).await, []);
    }
    assert_eq!(list(&fixture, &RunFilter::new().tag("a", "")).await, [empty.id]);
    assert_eq!(list(&fixture, &RunFilter::new().tag("missing", "")).await, []);
    // The value of one tag, searched for under the name of another.
    assert_eq!(list(&fixture, &RunFilter::new().tag("b", "a!")).await, [empty.id]);
}

pub async fn pages_contain_each_run_once(fixture: Fixture) {
    // One commit under a stopped clock: all timestamps are equal.
    let runs: Vec<NewRun> =
        (0..25).map(|number| if number % 2 == 0 { tagged(&[("even", "yes")]) } else { new_run() }).collect();
    start_all(&fixture, &runs).await;
    for (filter, expected) in [(RunFilter::new(), 25), (RunFilter::new().tag("even", "yes"), 13)] {
        for page_size in [1, 7, 13, 25, 1000] {
            let mut seen = Vec::new();
            let mut filter = filter.clone().page_size(page_size);
            loop {
                let page = list(&fixture, &filter).await;
                assert!(page.len() <= page_size as usize);
                let Some(last) = page.last() else { break };
                filter = filter.after(*last);
                seen.extend(page);
            }
            assert_eq!(seen.len(), expected);
            assert!(seen.is_sorted_by(|one, next| one > next), "newest first, each once");
        }
    }
}

pub async fn a_page_size_out_of_range_is_clamped(fixture: Fixture) {
    fixture.started_many(1001).await;
    let mut filter = RunFilter::new();
    assert_eq!(list(&fixture, &filter).await.len(), 100);
    // The field is public, so a value that the builder would clamp can reach the store.
    filter.page_size = 0;
    assert_eq!(list(&fixture, &filter).await.len(), 1);
    filter.page_size = u32::MAX;
    assert_eq!(list(&fixture, &filter).await.len(), 1000);
}

pub async fn the_newest_run_comes_first(fixture: Fixture) {
    let runs: Vec<NewRun> = (0..5)
        .map(|number| NewRun { start: StartTime::After(Duration::from_secs(10 - number)), ..new_run() })
        .collect();
    // The runs are committed in the reverse order of their ids, and the list is ordered by id.
    for run in runs.iter().rev() {
        fixture.start(run).await;
        fixture.advance(Duration::from_secs(1));
    }
    let expected: Vec<RunId> = runs.iter().rev().map(|run| run.id).collect();
    assert_eq!(list(&fixture, &RunFilter::new()).await, expected);
}

pub async fn ended_returns_only_ended_runs(fixture: Fixture) {
    fixture.started_many(5).await;
    let claims: Vec<_> = fixture.claim(&claim_request()).await.runs.iter().map(|run| run.claim).collect();
    let failure = error("no luck");
    fixture
        .commit(&[
            succeed(claims[0], "[1,2]"),
            end(claims[1], RunEnd::Failed(failure.clone())),
            end(claims[2], RunEnd::Canceled),
            park(claims[3], fixture.now()),
        ])
        .await
        .iter()
        .for_each(applied);
    let mut ids: Vec<RunId> = claims.iter().map(|claim| claim.run_id).collect();
    ids.push(RunId::generate());
    ids.push(ids[0]);
    let ended = fixture.store.ended(&ids).await.unwrap();
    assert_eq!(ended.len(), 3, "{ended:?}");
    let of = |index: usize| ended.iter().find(|run| run.id == claims[index].run_id).expect("ended");
    assert_eq!((of(0).status, of(0).output.as_deref(), &of(0).error), (RunStatus::Succeeded, Some("[1,2]"), &None));
    assert_eq!((of(1).status, &of(1).output, &of(1).error), (RunStatus::Failed, &None, &Some(failure)));
    assert_eq!((of(2).status, &of(2).output, &of(2).error), (RunStatus::Canceled, &None, &None));
    // A park with a reason is not an end.
    assert_eq!(fixture.store.ended(&ids[3..5]).await.unwrap(), []);
    // A process may wait for many runs at once.
    let many: Vec<RunId> = (0..20_000).map(|_| RunId::generate()).chain([ids[0]]).collect();
    assert_eq!(fixture.store.ended(&many).await.unwrap().len(), 1);
}

pub async fn reads_see_their_own_commits(fixture: Fixture) {
    for _ in 0..100 {
        let id = fixture.started().await;
        assert_eq!(fixture.status(id).await, RunStatus::Pending);
        fixture.write(Write::Cancel(id)).await;
        assert_eq!(fixture.status(id).await, RunStatus::Canceled);
    }
}
