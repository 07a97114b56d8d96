use std::collections::BTreeSet;

use workflow_sdk::prelude::*;
use workflow_sdk::{
    CatchUp, ClientError, Occurrence, Origin, Overlap, PauseCause, Schedule, ScheduleHandle, ScheduleInfo, Timestamp,
};
use workflow_tests::{Live, LocalWorker, until};
use workflow_worker::{Worker, WorkerError};

use crate::schedules::{Moved, NOON, hours, looked, quick, runs};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const ALL: CatchUp = CatchUp::All { window: Duration::from_secs(24 * 3600), max: 1000 };

#[workflow]
async fn report(_ctx: &Ctx, of: String) -> Result<String> {
    Ok(of)
}

/// No worker knows the workflow, so its runs do not end by themselves.
fn hourly(name: &str) -> Schedule {
    Schedule::every(name, HOUR).start_by_name("unserved", &().into()).catch_up(ALL).overlap(Overlap::Allow)
}

async fn info(schedule: &ScheduleHandle) -> ScheduleInfo {
    schedule.describe().await.unwrap()
}

/// Runs a worker until it has started, and stops it.
async fn starts(worker: Worker<()>) -> Result<(), WorkerError> {
    worker.run_until(async {}).await
}

pub async fn a_paused_schedule_starts_nothing_and_catches_nothing_up(db: Live) {
    let moved = Moved::new(&db).await;
    let schedule = moved.client.create_schedule(hourly("paused")).await.unwrap();
    let worker = LocalWorker::start(moved.worker());
    moved.clock.advance(HOUR);
    looked(&schedule, 1.0).await;
    schedule.pause("first").await.unwrap();
    schedule.pause("audit").await.unwrap();
    moved.clock.advance(3 * HOUR);
    let marker = moved.client.create_schedule(hourly("marker")).await.unwrap();
    moved.clock.advance(HOUR);
    looked(&marker, 5.0).await;
    let pause = info(&schedule).await.state.paused.unwrap();
    assert_eq!((pause.cause, pause.reason.as_str(), pause.since), (PauseCause::Operator, "audit", NOON + HOUR));
    assert!(schedule.resume().await.unwrap());
    assert!(!schedule.resume().await.unwrap());
    moved.clock.advance(HOUR);
    looked(&schedule, 6.0).await;
    worker.stop().await;
    assert_eq!(hours(&moved.client, "paused").await, [1.0, 6.0]);
}

pub async fn a_triggered_run_starts_at_once_and_counts_for_the_overlap(db: Live) {
    let moved = Moved::new(&db).await;
    let schedule = moved.client.create_schedule(hourly("manual").overlap(Overlap::Skip)).await.unwrap();
    moved.clock.advance(30 * MINUTE);
    schedule.pause("only by hand").await.unwrap();
    let first = schedule.trigger().await.unwrap();
    let second = schedule.trigger().input(&"other".to_owned()).await.unwrap();
    let triggered = runs(&moved.client, "manual").await;
    assert_eq!(triggered.len(), 2);
    assert!(triggered.iter().all(|(_, at)| at.at == NOON + 30 * MINUTE && at.missed == 0));
    assert_eq!(second.run().await.unwrap().input, "\"other\"");
    schedule.resume().await.unwrap();
    let worker = LocalWorker::start(moved.worker());
    moved.clock.advance(HOUR);
    looked(&schedule, 1.0).await;
    assert_eq!(info(&schedule).await.state.skipped, 1, "two triggered runs have not ended");
    for run in [first.id(), second.id()] {
        moved.client.terminate(run).await.unwrap();
    }
    moved.clock.advance(HOUR);
    looked(&schedule, 2.0).await;
    worker.stop().await;
    let state = info(&schedule).await.state;
    assert_eq!((state.started, state.triggered, state.skipped), (3, 2, 1));
}

pub async fn a_backfill_that_is_interrupted_and_resumed_starts_each_run_once(db: Live) {
    let moved = Moved::new(&db).await;
    let minutely = Schedule::every("minutely", MINUTE).start_by_name("unserved", &7.into()).overlap(Overlap::Allow);
    let schedule = moved.client.create_schedule(minutely).await.unwrap();
    let worker = LocalWorker::start(moved.worker());
    moved.clock.advance(MINUTE);
    looked(&schedule, 1.0 / 60.0).await;
    worker.stop().await;
    let after = NOON - 12 * HOUR;
    let preview = schedule.backfill(after, NOON + HOUR).preview().await.unwrap();
    assert_eq!((preview.count, preview.first.len(), preview.last[4].at), (721, 5, NOON + MINUTE));
    let refused = schedule.backfill(after, NOON + HOUR).max(700).await.unwrap_err();
    assert!(matches!(refused, ClientError::LargeBackfill { max: 700, .. }), "{refused}");
    // The call is dropped while its runs are on their way.
    let backfill = tokio::spawn(schedule.backfill(after, NOON + HOUR).into_future());
    until("it has begun", async || (runs(&moved.client, "minutely").await.len() > 1).then_some(())).await;
    backfill.abort();
    let _ = backfill.await;
    let resumed = schedule.backfill(after, NOON + HOUR).await.unwrap();
    assert_eq!(resumed.started + resumed.existing, 721);
    let again = schedule.backfill(after, NOON + HOUR).await.unwrap();
    assert_eq!((again.started, again.existing), (0, 721), "each occurrence has its run");
    let all = runs(&moved.client, "minutely").await;
    let times: BTreeSet<Timestamp> = all.iter().map(|(_, at)| at.at).collect();
    assert_eq!((all.len(), times.len()), (721, 721));
    assert_eq!(times.first(), Some(&(after + MINUTE)), "the beginning of the time is not part of it");
    assert_eq!(info(&schedule).await.state.started, 1, "backfilled runs do not count");
}

pub async fn an_update_while_a_schedule_fires_leaves_no_occurrence_of_both(db: Live) {
    let moved = Moved::new(&db).await;
    let every = |seconds| {
        let every = Schedule::every("moving", Duration::from_secs(seconds));
        every.start_by_name("unserved", &().into()).catch_up(ALL).overlap(Overlap::Allow)
    };
    let schedule = moved.client.create_schedule(every(2)).await.unwrap();
    let other = moved.second_client().await;
    let workers = [&moved.client, &other].map(|client| LocalWorker::start(quick(client)));
    for round in 0..40_u64 {
        moved.clock.advance(Duration::from_secs(2));
        other.schedule("moving").update(every(2 + round % 2)).await.unwrap();
    }
    moved.clock.advance(Duration::from_secs(6));
    looked(&schedule, (86.0 - 3.0) / 3600.0).await;
    for worker in workers {
        worker.stop().await;
    }
    let all = runs(&moved.client, "moving").await;
    let times: BTreeSet<Timestamp> = all.iter().map(|(_, at)| at.at).collect();
    assert_eq!(times.len(), all.len());
    let fits = |at: &Timestamp| [2_u64, 3].iter().any(|every| at.since(NOON).as_secs().is_multiple_of(*every));
    assert!(times.iter().all(fits), "{times:?}");
    assert_eq!(info(&schedule).await.state.started, all.len() as u64, "no change overwrote another one");
}

pub async fn code_declares_schedules_and_an_operators_changes_stay(db: Live) {
    let moved = Moved::new(&db).await;
    let declared = || hourly("declared").tag("team", "sales");
    let schedule = moved.client.schedule("declared");
    starts(moved.worker().schedule(declared())).await.unwrap();
    let first = info(&schedule).await;
    assert_eq!(first.origin, Origin::Code { group: None });
    starts(moved.worker().schedule(declared())).await.unwrap();
    assert_eq!(info(&schedule).await, first, "the same declaration changes nothing");

    schedule.pause("audit").await.unwrap();
    let refused = schedule.update(hourly("declared")).await.unwrap_err();
    assert!(matches!(refused, ClientError::ScheduleOfCode { .. }), "{refused}");
    schedule.update(Schedule::every("declared", 2 * HOUR).overlap(Overlap::BufferOne)).await.unwrap();
    starts(moved.worker().schedule(declared().limit(9))).await.unwrap();
    let changed = info(&schedule).await;
    assert_eq!(changed.declaration().timing.every, Some(2 * HOUR));
    assert_eq!((changed.declared.limit, changed.state.paused.unwrap().reason.as_str()), (Some(9), "audit"));
    assert!(schedule.revert().await.unwrap());
    assert!(!schedule.revert().await.unwrap());
    assert_eq!(info(&schedule).await.declaration().limit, Some(9));
    assert_eq!(info(&schedule).await.state.next_at, Some(NOON + HOUR));
}

pub async fn a_group_retires_what_it_does_not_declare_any_more(db: Live) {
    let moved = Moved::new(&db).await;
    let of_shop = |names: &[&str]| {
        names.iter().fold(moved.worker().schedule_group("shop"), |worker, name| worker.schedule(hourly(name)))
    };
    starts(of_shop(&["kept", "dropped"])).await.unwrap();
    starts(moved.worker().schedule(hourly("of no group"))).await.unwrap();
    starts(moved.worker().schedule_group("other").schedule(hourly("of others"))).await.unwrap();
    moved.client.create_schedule(hourly("of a client")).await.unwrap();
    starts(of_shop(&["kept"])).await.unwrap();
    let paused: Vec<(String, String)> = moved
        .client
        .schedules()
        .await
        .unwrap()
        .into_iter()
        .filter_map(|info| Some((info.name, info.state.paused?.reason)))
        .collect();
    let reason = format!("no longer declared by the workers of group shop, since {NOON}");
    assert_eq!(paused, [("dropped".to_owned(), reason)]);
    starts(of_shop(&["kept", "dropped"])).await.unwrap();
    assert_eq!(info(&moved.client.schedule("dropped")).await.state.paused, None);
}

pub async fn a_worker_refuses_schedules_that_can_not_work(db: Live) {
    let moved = Moved::new(&db).await;
    moved.client.create_schedule(hourly("taken")).await.unwrap();
    for (worker, expected) in [
        (moved.worker().schedule(hourly("taken")), "a client has created a schedule \"taken\""),
        (moved.worker().schedule(hourly("s")).schedule(hourly("s")), "schedule \"s\" is declared twice"),
        (moved.worker().schedule(hourly("s").zone("Mars")), "there is no time zone \"Mars\""),
        (moved.worker().schedule(Schedule::every("s", HOUR)), "schedule \"s\" starts nothing"),
    ] {
        let refused = starts(worker).await.unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}");
    }
    let computed = Schedule::every("c", HOUR).start_with(report, |at| at.date().to_owned());
    let refused = moved.client.create_schedule(computed).await.unwrap_err();
    assert!(matches!(refused, ClientError::ComputedInput { .. }), "{refused}");
    let unknown = moved.client.schedule("unknown");
    for refused in [
        unknown.describe().await.unwrap_err(),
        unknown.trigger().await.unwrap_err(),
        unknown.pause("reason").await.unwrap_err(),
        unknown.backfill(NOON - HOUR, NOON).await.unwrap_err(),
    ] {
        assert!(matches!(refused, ClientError::UnknownSchedule { .. }), "{refused}");
    }
    unknown.delete().await.unwrap();
    let large = "x".repeat(workflow_sdk::DEFAULT_PAYLOAD_LIMIT);
    let refused = moved.client.create_schedule(Schedule::every("l", HOUR).start(report, large)).await.unwrap_err();
    assert!(matches!(refused, ClientError::Payload(_)), "{refused}");
}

pub async fn a_computed_input_is_computed_by_a_worker_that_declares_it(db: Live) {
    let moved = Moved::new(&db).await;
    let computed = || {
        let of = |at: &Occurrence| {
            assert!(at.at < NOON + 3 * HOUR, "the third one fails");
            format!("{} of {}", at.schedule, at.date())
        };
        Schedule::every("computed", HOUR).start_with(report, of).overlap(Overlap::Allow)
    };
    starts(moved.worker().schedule(computed())).await.unwrap();
    let schedule = moved.client.schedule("computed");
    // A worker without the function leaves it alone.
    let other = LocalWorker::start(moved.worker());
    let marker = moved.client.create_schedule(hourly("marker")).await.unwrap();
    moved.clock.advance(HOUR);
    looked(&marker, 1.0).await;
    assert_eq!(info(&schedule).await.state.started, 0);
    let worker = LocalWorker::start(moved.worker().register(report).schedule(computed()));
    looked(&schedule, 1.0).await;
    let (run, _) = runs(&moved.client, "computed").await.remove(0);
    let handle = moved.client.handle::<String>(run.id).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), "computed of 2027-01-01");

    let refused = schedule.trigger().await.unwrap_err();
    assert!(matches!(refused, ClientError::ComputedInput { .. }), "{refused}");
    let filled = schedule.backfill(NOON - 3 * HOUR, NOON).input_with(|at| at.key()).await.unwrap();
    assert_eq!(filled.started, 3);

    moved.clock.advance(2 * HOUR);
    let pause = until("it is paused", async || info(&schedule).await.state.paused).await;
    worker.stop().await;
    other.stop().await;
    assert_eq!(pause.cause, PauseCause::Input);
    assert!(pause.reason.contains("panicked"), "{}", pause.reason);
}

pub async fn a_deleted_schedule_starts_nothing_more(db: Live) {
    let moved = Moved::new(&db).await;
    let schedule = moved.client.create_schedule(hourly("deleted")).await.unwrap();
    let worker = LocalWorker::start(moved.worker());
    moved.clock.advance(HOUR);
    looked(&schedule, 1.0).await;
    schedule.delete().await.unwrap();
    let marker = moved.client.create_schedule(hourly("marker")).await.unwrap();
    moved.clock.advance(HOUR);
    looked(&marker, 2.0).await;
    assert_eq!(hours(&moved.client, "deleted").await, [1.0]);
    // Created again, it begins anew and starts nothing for the past.
    let schedule = moved.client.create_schedule(hourly("deleted")).await.unwrap();
    moved.clock.advance(HOUR);
    looked(&schedule, 3.0).await;
    worker.stop().await;
    assert_eq!(hours(&moved.client, "deleted").await, [1.0, 3.0]);
    let next: Vec<String> = schedule.next(2).await.unwrap().iter().map(Occurrence::key).collect();
    assert_eq!(next, ["schedule:deleted@2027-01-01T16:00:00Z", "schedule:deleted@2027-01-01T17:00:00Z"]);
}
