use std::collections::BTreeSet;
use std::time::Duration;

use workflow_engine::model::{
    Blocker, DurationSpan, MessageCondition, NameCondition, NamePattern, NewRun, Priority, Run, RunConditions,
    RunSummary, StartTime, TagCondition, TimeSpan,
};
use workflow_engine::store::{Direction, ListedRuns, RunEnd, RunList, SCAN_BUDGET, ScanSource, Write, list_runs};
use workflow_sdk::{RunId, RunStatus, Timestamp};
use workflow_tests::Fixture;
use workflow_tests::builders::{
    begin_child, child_of, claim_request, end, error, keyed, lane_of, new_run, park, park_write, start, succeed,
};
use workflow_tests::outcome::{applied, created};

const SECOND: Duration = Duration::from_secs(1);

fn list_of(conditions: RunConditions) -> RunList {
    RunList {
        conditions,
        from: None,
        direction: Direction::Older,
        limit: 1000,
        budget: SCAN_BUDGET,
        now: Timestamp::from_micros(0),
    }
}

async fn list(fixture: &Fixture, list: &RunList) -> ListedRuns {
    list_runs(fixture.store.as_ref(), list).await.expect("list")
}

fn ids(runs: &[RunSummary]) -> Vec<RunId> {
    runs.iter().map(|run| run.id).collect()
}

fn tagged(tags: &[(&str, &str)]) -> NewRun {
    NewRun { tags: tags.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(), ..new_run() }
}

fn is(text: &str) -> NamePattern {
    NamePattern { text: text.into(), is_prefix: false }
}

fn begins(text: &str) -> NamePattern {
    NamePattern { text: text.into(), is_prefix: true }
}

fn any(patterns: &[NamePattern]) -> NameCondition {
    NameCondition { any_of: patterns.to_vec(), none_of: Vec::new() }
}

fn none(patterns: &[NamePattern]) -> NameCondition {
    NameCondition { any_of: Vec::new(), none_of: patterns.to_vec() }
}

fn tag(name: &str, values: &[&str], negated: bool) -> TagCondition {
    TagCondition { name: name.into(), values: values.iter().map(|value| (*value).into()).collect(), negated }
}

/// Starts runs of every kind and brings them to every status.
pub(crate) async fn runs_of_every_kind(fixture: &Fixture) -> Vec<Run> {
    let odd = NewRun { key: Some("a%_[b]*\\é".into()), ..tagged(&[("region", "eu"), ("note", "a \"b\"")]) };
    let later = NewRun { start: StartTime::After(60 * SECOND), priority: Some(Priority::High), ..keyed("order-2") };
    let gated = NewRun { gate: Some("acct-42".into()), lane: lane_of("mail", "send_[1]", "2"), ..keyed("order-3") };
    let mut runs = vec![odd, later, gated, keyed("order-1"), tagged(&[("region", "us")]), tagged(&[("region", "")])];
    runs.push(NewRun { lane: lane_of("slow", "refund", "1"), ..tagged(&[("region", "eu"), ("tier", "gold")]) });
    runs.extend((0..8).map(|_| new_run()));
    for run in &runs {
        created(&fixture.write(start(run)).await);
        fixture.advance(SECOND);
    }
    let claims: Vec<_> = fixture.claim(&claim_request()).await.runs.iter().map(|run| run.claim).collect();
    assert!(claims.len() >= 10, "{}", claims.len());
    let child = child_of(claims[5].run_id, "child", workflow_sdk::OnParentEnd::Cancel);
    let stuck = Write::Park(workflow_engine::store::ParkWrite {
        error: Some(error("no such step")),
        ..park_write(claims[4], 0, Timestamp::FAR_FUTURE)
    });
    let writes = [
        succeed(claims[0], "1"),
        end(claims[1], RunEnd::Failed(error("no luck"))),
        end(claims[2], RunEnd::Canceled),
        park(claims[3], Timestamp::FAR_FUTURE),
        stuck,
        begin_child(claims[5], &child),
    ];
    for write in writes {
        applied(&fixture.write(write).await);
        fixture.advance(SECOND);
    }
    fixture.write(Write::Pause(claims[3].run_id)).await;
    fixture.write(Write::Cancel(claims[6].run_id)).await;
    fixture.runs().await
}

/// Everything that a condition can say, at least once.
fn every_condition(fixture: &Fixture, runs: &[Run]) -> Vec<RunConditions> {
    let all = RunConditions::none;
    let now = fixture.now();
    let middle = runs[runs.len() / 2].created_at;
    let ended = runs.iter().filter_map(|run| run.completed_at).max().expect("an ended run");
    let parent = runs.iter().find_map(|run| run.parent.as_ref()).expect("a child").run_id;
    let worker = runs.iter().find_map(|run| run.worker_id).expect("a claimed run");
    let mut every = vec![all()];
    // Every set of statuses, and so every way to read them.
    for set in 0..1_u32 << RunStatus::ALL.len() {
        let statuses = RunStatus::ALL.into_iter().zip(0..).filter(|(_, bit)| set >> bit & 1 == 1);
        every.push(RunConditions { statuses: statuses.map(|(status, _)| status).collect(), ..all() });
    }
    let names = [
        any(&[is("checkout")]),
        any(&[begins("check"), is("refund")]),
        any(&[begins("")]),
        none(&[begins("re")]),
        any(&[is("send_[1]")]),
        any(&[begins("send_[")]),
        any(&[is("send__1_")]),
        any(&[begins("send%")]),
    ];
    every.extend(names.map(|workflow| RunConditions { workflow, ..all() }));
    for queue in [any(&[is("mail")]), none(&[is("default"), begins("s")])] {
        every.push(RunConditions { queue, ..all() });
    }
    every.push(RunConditions { version: any(&[is("2")]), ..all() });
    every.push(RunConditions { version: none(&[begins("2")]), ..all() });
    for gate in [any(&[begins("acct")]), any(&[begins("")]), none(&[begins("")]), none(&[is("other")])] {
        every.push(RunConditions { gate, ..all() });
    }
    let keys = [
        any(&[is("order-1")]),
        any(&[begins("order-")]),
        any(&[begins("")]),
        none(&[begins("order-")]),
        any(&[is("a%_[b]*\\é")]),
        any(&[begins("a%_[b]*")]),
        any(&[is("a*")]),
        any(&[is("order-1"), is("order-2")]),
    ];
    every.extend(keys.map(|key| RunConditions { key, ..all() }));
    for tags in [
        vec![tag("region", &["eu"], false)],
        vec![tag("region", &["eu", "us"], false)],
        vec![tag("region", &[""], false)],
        vec![tag("region", &["eu"], true)],
        vec![tag("region", &["eu"], false), tag("tier", &["gold"], false)],
        vec![tag("region", &["eu"], false), tag("tier", &["gold"], true)],
        vec![tag("note", &["a \"b\""], false)],
        vec![tag("eu", &["region"], false)],
    ] {
        every.push(RunConditions { tags: tags.clone(), ..all() });
        every.push(RunConditions { tags, statuses: [RunStatus::Pending, RunStatus::Running].into(), ..all() });
    }
    every.push(RunConditions { parents: [parent].into(), ..all() });
    every.push(RunConditions { other_parents: [parent].into(), ..all() });
    every.push(RunConditions { workers: [worker].into(), ..all() });
    every.push(RunConditions { other_workers: [worker].into(), ..all() });
    let bounds = |from, before| TimeSpan { from, before };
    for created in [bounds(Some(middle), None), bounds(None, Some(middle)), bounds(Some(middle), Some(middle))] {
        every.push(RunConditions { created, ..all() });
    }
    for ended in [bounds(Some(ended), None), bounds(None, Some(ended))] {
        every.push(RunConditions { ended, ..all() });
    }
    let span = |from, below| DurationSpan { from, below };
    let durations = [span(Some(SECOND), None), span(None, Some(SECOND)), span(Some(SECOND), Some(2 * SECOND))];
    for duration in durations {
        every.push(RunConditions { duration, ..all() });
    }
    for unserved_lanes in [Vec::new(), vec![runs[0].lane.clone()], runs.iter().map(|run| run.lane.clone()).collect()] {
        for unserved in [Some(true), Some(false)] {
            every.push(RunConditions { unserved, unserved_at: now, unserved_lanes: unserved_lanes.clone(), ..all() });
        }
    }
    let place = |queue: &str, gate: Option<&str>, only_new| Blocker {
        queue: queue.to_owned(),
        gate: gate.map(str::to_owned),
        only_new,
    };
    let (default, mail) = (place("default", None, false), place("mail", Some("acct-42"), false));
    let every_run: BTreeSet<RunId> = runs.iter().map(|run| run.id).collect();
    for (blockers, blocked_runs) in [
        (Vec::new(), BTreeSet::new()),
        (vec![default.clone()], BTreeSet::new()),
        (vec![mail.clone(), place("slow", None, true)], BTreeSet::new()),
        (vec![place("default", None, true), place("mail", Some("other"), false)], BTreeSet::new()),
        (vec![place("mail", None, true)], BTreeSet::from([parent])),
        (Vec::new(), every_run.clone()),
        (vec![default, mail], every_run),
    ] {
        for blocked in [Some(true), Some(false)] {
            let (blockers, blocked_runs) = (blockers.clone(), blocked_runs.clone());
            every.push(RunConditions { blocked, blocked_at: now, blockers, blocked_runs, ..all() });
        }
    }
    every.push(RunConditions { due_at: Some(now), ..all() });
    every.push(RunConditions { not_due_at: Some(now), ..all() });
    every.push(RunConditions { delayed_at: Some(now), ..all() });
    every.push(RunConditions { not_delayed_at: Some(now), ..all() });
    for holds in [true, false] {
        let facts: [fn(&mut RunConditions) -> &mut Option<bool>; 6] = [
            |all| &mut all.paused,
            |all| &mut all.canceling,
            |all| &mut all.crashed,
            |all| &mut all.retried,
            |all| &mut all.child,
            |all| &mut all.stuck,
        ];
        for fact in facts {
            let mut conditions = all();
            conditions.require(fact, holds);
            every.push(conditions);
        }
    }
    every
}

pub async fn each_condition_selects_what_it_says(fixture: Fixture) {
    let runs = runs_of_every_kind(&fixture).await;
    let statuses: BTreeSet<RunStatus> = runs.iter().map(|run| run.status).collect();
    assert_eq!(statuses, RunStatus::ALL.into(), "the case has every status");
    for conditions in every_condition(&fixture, &runs) {
        let expected: Vec<RunId> = runs.iter().filter(|run| conditions.hold_for(run)).map(|run| run.id).collect();
        let older = list(&fixture, &list_of(conditions.clone())).await;
        assert_eq!(ids(&older.runs), expected, "{conditions:?}");
        let newer = RunList { direction: Direction::Newer, ..list_of(conditions.clone()) };
        let mut newer = ids(&list(&fixture, &newer).await.runs);
        newer.reverse();
        assert_eq!(newer, expected, "{conditions:?}");
    }
}

pub async fn a_moved_run_has_the_tags_of_the_move(fixture: Fixture) {
    let first = super::single::debounced("user-1");
    let first = NewRun { tags: tagged(&[("region", "eu"), ("kept", "1")]).tags, ..first };
    created(&fixture.write(start(&first)).await);
    let second = super::single::moving("user-1", first.id, "2", None);
    let second = NewRun { tags: tagged(&[("region", "us"), ("kept", "1")]).tags, ..second };
    fixture.write(start(&second)).await;
    for (name, value, expected) in [("region", "eu", 0), ("region", "us", 1), ("kept", "1", 1)] {
        let conditions = RunConditions { tags: vec![tag(name, &[value], false)], ..RunConditions::none() };
        assert_eq!(list(&fixture, &list_of(conditions)).await.runs.len(), expected, "{name}:{value}");
    }
}

pub async fn a_list_turns_its_pages_in_both_directions(fixture: Fixture) {
    let runs: Vec<NewRun> =
        (0..25).map(|number| if number % 2 == 0 { tagged(&[("even", "yes")]) } else { new_run() }).collect();
    fixture.commit(&runs.iter().map(start).collect::<Vec<_>>()).await.iter().for_each(created);
    let even = RunConditions { tags: vec![tag("even", &["yes"], false)], ..RunConditions::none() };
    let open = RunConditions { statuses: [RunStatus::Pending, RunStatus::Running].into(), ..RunConditions::none() };
    for (conditions, count) in [(RunConditions::none(), 25), (even, 13), (open, 25)] {
        for limit in [1, 7, 13, 25] {
            for direction in [Direction::Older, Direction::Newer] {
                let mut page = RunList { limit, direction, ..list_of(conditions.clone()) };
                let mut seen = Vec::new();
                loop {
                    let listed = list(&fixture, &page).await;
                    assert!(listed.runs.len() <= limit as usize && !listed.is_cut);
                    seen.extend(ids(&listed.runs));
                    page.from = listed.next;
                    if page.from.is_none() {
                        break;
                    }
                }
                if direction == Direction::Newer {
                    seen.reverse();
                }
                assert_eq!(seen.len(), count);
                assert!(seen.is_sorted_by(|one, next| one > next), "newest first, each once");
            }
        }
    }
}

pub async fn the_budget_ends_a_page_and_the_list_goes_on(fixture: Fixture) {
    let oldest = keyed("first");
    created(&fixture.write(start(&oldest)).await);
    let others = fixture.started_many(700).await;
    let newest = keyed("first-2");
    created(&fixture.write(start(&newest)).await);
    let conditions = RunConditions { key: any(&[begins("first")]), ..RunConditions::none() };
    let open = RunConditions { statuses: [RunStatus::Pending].into(), ..conditions.clone() };
    for conditions in [conditions, open] {
        let mut page = RunList { budget: 300, ..list_of(conditions) };
        let first = list(&fixture, &page).await;
        assert_eq!((ids(&first.runs), first.is_cut), (vec![newest.id], true));
        // 300 rows: the newest run and 299 others.
        assert_eq!(first.next, Some(others[700 - 299]));
        page.from = first.next;
        let second = list(&fixture, &page).await;
        assert_eq!((second.runs.len(), second.is_cut, second.next), (0, true, Some(others[700 - 599])));
        page.from = second.next;
        let third = list(&fixture, &page).await;
        assert_eq!((ids(&third.runs), third.is_cut, third.next), (vec![oldest.id], false, None));
        let newer = RunList { direction: Direction::Newer, from: Some(oldest.id), ..page.clone() };
        let newer = list(&fixture, &newer).await;
        assert_eq!((newer.runs.len(), newer.is_cut, newer.next), (0, true, Some(others[299])));
    }
}

pub async fn a_cut_source_hides_no_run_of_another_one(fixture: Fixture) {
    // The running runs are the oldest ones, and more runs wait than the budget reads.
    let runs = fixture.started_many(400).await;
    let request = workflow_engine::store::ClaimRequest { limit: 3, ..claim_request() };
    let claimed = fixture.claim(&request).await.runs.len();
    let key = none(&[begins("x")]);
    let conditions =
        RunConditions { statuses: [RunStatus::Pending, RunStatus::Running].into(), key, ..RunConditions::none() };
    assert_eq!(ScanSource::of(&conditions), [ScanSource::Pending, ScanSource::Running]);
    let mut page = RunList { budget: 100, ..list_of(conditions) };
    let mut seen = Vec::new();
    loop {
        let listed = list(&fixture, &page).await;
        seen.extend(ids(&listed.runs));
        page.from = listed.next;
        if page.from.is_none() {
            break;
        }
    }
    assert_eq!((claimed, seen.len()), (3, 400));
    seen.reverse();
    assert_eq!(seen, runs, "each once, in the order of the ids");
}

pub async fn runs_are_found_by_the_message_of_their_error(fixture: Fixture) {
    let runs = fixture.started_many(600).await;
    let request = workflow_engine::store::ClaimRequest { limit: 600, ..claim_request() };
    let mut writes = Vec::new();
    for claimed in fixture.claim(&request).await.runs {
        let number = runs.iter().position(|run| *run == claimed.claim.run_id).expect("a run of this case");
        let message = match number {
            // More failed runs than one part of a scan lie between these two.
            1 | 590 => format!("card {number} declined: \"no % funds\""),
            _ => format!("no answer within {number} s"),
        };
        let failed = RunEnd::Failed(error(&message));
        writes.push(end(claimed.claim, if number == 0 { RunEnd::Canceled } else { failed }));
    }
    fixture.store.commit(&writes).await.expect("commit");
    let of = |any_of: &[&str], none_of: &[&str]| {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let error = MessageCondition { any_of: texts(any_of), none_of: texts(none_of) };
        RunConditions { statuses: [RunStatus::Failed, RunStatus::Canceled].into(), error, ..RunConditions::none() }
    };
    for (text, found) in [
        ("declined", vec![runs[590], runs[1]]),
        ("no % funds", vec![runs[590], runs[1]]),
        ("card 590", vec![runs[590]]),
        // The message of the group of failures.
        ("card # declined", vec![runs[590], runs[1]]),
        ("Declined", Vec::new()),
        ("d_clined", Vec::new()),
    ] {
        let listed = list(&fixture, &list_of(of(&[text], &[]))).await;
        assert_eq!((ids(&listed.runs), listed.next), (found, None), "{text}");
    }
    let other = list(&fixture, &list_of(of(&[], &["no answer"]))).await;
    assert_eq!(ids(&other.runs), [runs[590], runs[1], runs[0]], "a run without an error has no message");
    let first = list(&fixture, &RunList { limit: 1, ..list_of(of(&["declined"], &[])) }).await;
    assert_eq!((ids(&first.runs), first.next, first.is_cut), (vec![runs[590]], Some(runs[590]), false));
    let mut page = RunList { budget: 400, ..list_of(of(&["declined"], &[])) };
    let cut = list(&fixture, &page).await;
    assert_eq!((ids(&cut.runs), cut.next, cut.is_cut), (vec![runs[590]], Some(runs[200]), true));
    page.from = cut.next;
    assert_eq!(ids(&list(&fixture, &page).await.runs), [runs[1]]);
}

pub async fn changes_while_pages_are_turned_neither_hide_nor_repeat_a_run(fixture: Fixture) {
    let runs = fixture.started_many(9).await;
    let pending = RunConditions { statuses: [RunStatus::Pending].into(), ..RunConditions::none() };
    let mut page = RunList { limit: 3, ..list_of(pending) };
    let first = list(&fixture, &page).await;
    assert_eq!(ids(&first.runs), [runs[8], runs[7], runs[6]]);
    // A run is started, one that was listed is canceled, and one that was not is canceled too.
    let new = fixture.started().await;
    for run in [runs[7], runs[5]] {
        fixture.write(Write::Cancel(run)).await;
    }
    page.from = first.next;
    let second = list(&fixture, &page).await;
    assert_eq!(ids(&second.runs), [runs[4], runs[3], runs[2]]);
    let back = RunList { direction: Direction::Newer, from: second.runs.first().map(|run| run.id), ..page.clone() };
    let back = list(&fixture, &back).await;
    assert_eq!(ids(&back.runs), [runs[6], runs[8], new]);
    let canceled = RunConditions { statuses: [RunStatus::Canceled].into(), ..RunConditions::none() };
    assert_eq!(ids(&list(&fixture, &list_of(canceled)).await.runs), [runs[7], runs[5]]);
}

pub async fn a_list_has_no_payload_and_cuts_a_long_error(fixture: Fixture) {
    let input = format!("\"{}\"", "x".repeat(1000));
    fixture.start(&NewRun { input: input.clone(), ..new_run() }).await;
    let claim = fixture.claim_only().await.claim;
    let long = error(&"y".repeat(10_000));
    applied(&fixture.write(end(claim, RunEnd::Failed(long))).await);
    let listed = list(&fixture, &list_of(RunConditions::none())).await;
    let run = listed.runs.first().expect("a run");
    let shown = serde_json::to_string(run).expect("a summary as JSON");
    assert!(shown.len() < 1000 && !shown.contains("xxx") && !shown.contains("yyy"), "{shown}");
    assert!(run.error.as_ref().is_some_and(|error| error.message.contains("too long")), "{run:?}");
    assert_eq!(serde_json::from_str::<RunSummary>(&shown).expect("a summary"), *run);
}
