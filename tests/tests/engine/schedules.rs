use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use workflow_engine::model::Clock;
use workflow_engine::store::Write;
use workflow_sdk::prelude::*;
use workflow_sdk::{
    CatchUp, DEFAULT_PAYLOAD_LIMIT, Occurrence, Overlap, PauseCause, Priority, Run, RunFilter, SCHEDULE_TAG, Schedule,
    ScheduleHandle, Timestamp,
};
use workflow_tests::{FaultyStore, Live, LocalWorker, until};
use workflow_worker::Worker;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const ALL: CatchUp = CatchUp::All { window: Duration::from_secs(24 * 3600), max: 1000 };

/// Noon of 1 January 2027.
pub const NOON: Timestamp = Timestamp::from_micros(1_798_804_800_000_000);

#[workflow]
async fn nothing(_ctx: &Ctx) -> Result<()> {
    Ok(())
}

/// Returns its occurrence, before and after a park.
#[workflow]
async fn tell(ctx: &Ctx, prefix: String) -> Result<String> {
    let tell = |occurrence: Option<&Occurrence>| match occurrence {
        Some(Occurrence { schedule, at, missed, local, .. }) => format!("{prefix}{schedule} {at} {missed} {local}"),
        None => format!("{prefix}none"),
    };
    let before = tell(ctx.occurrence());
    // A step whose name depends on it, so that another occurrence would be a divergence.
    let step = ctx.occurrence().map_or("never", Occurrence::date);
    ctx.step(step, async || ok(())).await?;
    ctx.signal::<()>("go on").await?;
    assert_eq!(tell(ctx.occurrence()), before);
    Ok(before)
}

#[workflow]
async fn fails(_ctx: &Ctx) -> Result<()> {
    Err(Error::fatal("as it should"))
}

/// A clock at noon, and clients that have it.
pub struct Moved {
    pub clock: Clock,
    pub client: Client,
    db: Live,
}

impl Moved {
    pub async fn new(db: &Live) -> Self {
        let clock = Clock::manual(NOON);
        let client = db.connect().clock(clock.clone()).await.unwrap();
        Self { clock, client, db: db.clone() }
    }

    pub async fn second_client(&self) -> Client {
        self.db.connect().clock(self.clock.clone()).await.unwrap()
    }

    /// A worker that knows no scheduled workflow and looks often.
    pub fn worker(&self) -> Worker<()> {
        quick(&self.client)
    }
}

pub fn quick(client: &Client) -> Worker<()> {
    Worker::new(client.clone(), ()).register(nothing).poll_interval(Duration::from_millis(1))
}

/// The hours after noon of the occurrences of a schedule that have a run, the first one first.
pub async fn hours(client: &Client, schedule: &str) -> Vec<f64> {
    let mut hours: Vec<f64> = runs(client, schedule).await.iter().map(|(_, at)| hour(at.at)).collect();
    hours.sort_by(f64::total_cmp);
    hours
}

fn hour(at: Timestamp) -> f64 {
    at.since(NOON).as_secs_f64() / 3600.0
}

pub async fn runs(client: &Client, schedule: &str) -> Vec<(Run, Occurrence)> {
    let filter = RunFilter::new().tag(SCHEDULE_TAG, schedule).page_size(1000);
    let mut runs = Vec::new();
    for listed in client.list(&filter).await.unwrap() {
        runs.push((client.run(listed.id).await.unwrap(), Occurrence::of_tags(&listed.tags).unwrap()));
    }
    runs
}

/// Waits until the schedule has been looked at up to this hour.
pub async fn looked(schedule: &ScheduleHandle, hours: f64) {
    until(&format!("{} is looked at", schedule.name()), async || {
        schedule.describe().await.unwrap().state.next_at.is_none_or(|next| hour(next) > hours).then_some(())
    })
    .await;
}

pub async fn two_workers_start_one_run_per_occurrence(db: Live) {
    let moved = Moved::new(&db).await;
    let other = moved.second_client().await;
    let every = Schedule::every("often", Duration::from_secs(1)).start(nothing, ());
    let often = moved.client.create_schedule(every.overlap(Overlap::Allow).catch_up(ALL)).await.unwrap();
    let workers = [&moved.client, &other, &moved.client].map(|client| LocalWorker::start(quick(client)));
    for _ in 0..20 {
        moved.clock.advance(Duration::from_secs(3));
        looked(&often, hour(NOON + Duration::from_secs(1))).await;
    }
    looked(&often, hour(NOON + MINUTE)).await;
    for worker in workers {
        worker.stop().await;
    }
    let runs = runs(&moved.client, "often").await;
    let times: BTreeSet<Timestamp> = runs.iter().map(|(_, at)| at.at).collect();
    let expected: BTreeSet<Timestamp> = (1..=60).map(|second| NOON + Duration::from_secs(second)).collect();
    assert_eq!((times, runs.len()), (expected, 60));
    assert!(runs.iter().all(|(run, at)| run.key.as_deref() == Some(at.key().as_str())));
    let state = often.describe().await.unwrap().state;
    assert_eq!((state.started, state.missed, state.skipped), (60, 0, 0));
}

/// Every worker would fire every occurrence otherwise, and one of them would win by chance.
pub async fn workers_leave_due_schedules_to_the_first_one(db: Live) {
    let moved = Moved::new(&db).await;
    let fired = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
    let mut workers = Vec::new();
    for fired in &fired {
        let (inner, fired) = (Arc::clone(moved.second_client().await.store()), Arc::clone(fired));
        let store = FaultyStore::new(inner).refuse(move |write| {
            fired.fetch_add(usize::from(matches!(write, Write::Schedule(_))), Ordering::SeqCst);
            false
        });
        workers.push(Some(LocalWorker::start(quick(&Client::over(Arc::new(store), DEFAULT_PAYLOAD_LIMIT)))));
    }
    let every = Schedule::every("often", Duration::from_secs(1)).start(nothing, ());
    let often = moved.client.create_schedule(every.overlap(Overlap::Allow).catch_up(ALL)).await.unwrap();
    let counts = || [0, 1].map(|place: usize| fired[place].load(Ordering::SeqCst));
    let next = async |before: [usize; 2]| {
        moved.clock.advance(Duration::from_secs(1));
        looked(&often, hour(moved.clock.host_now())).await;
        match counts() {
            [one, other] if one > before[0] && other == before[1] => Some(0),
            [one, other] if one == before[0] && other > before[1] => Some(1),
            _ => None,
        }
    };
    let (mut alone, mut first) = (0, None);
    // Workers that leave nothing to the first one both fire nine of ten occurrences, so by chance
    // one worker would hardly be alone so often. On a busy machine more would take too long.
    while alone < 7 {
        let place = next(counts()).await;
        alone = if place.is_some() && place == first { alone + 1 } else { 0 };
        first = place;
    }
    let first = first.unwrap();
    workers[first].take().unwrap().stop().await;
    assert_eq!(next(counts()).await, Some(1 - first), "the other worker fires what is left");
    workers[1 - first].take().unwrap().stop().await;
}

pub async fn a_restart_after_three_days_catches_up_as_the_policy_says(db: Live) {
    let moved = Moved::new(&db).await;
    let day = Duration::from_secs(24 * 3600);
    let policies = [
        ("latest", CatchUp::Latest { window: day }, vec![72.0], 71),
        ("all", CatchUp::All { window: day, max: 3 }, vec![70.0, 71.0, 72.0], 69),
        ("window", CatchUp::All { window: 2 * HOUR, max: 1000 }, vec![71.0, 72.0], 70),
        ("skip", CatchUp::Skip { within: MINUTE }, vec![], 72),
    ];
    for (name, policy, _, _) in &policies {
        let hourly = Schedule::every(*name, HOUR).start(nothing, ()).overlap(Overlap::Allow).catch_up(*policy);
        moved.client.create_schedule(hourly).await.unwrap();
    }
    moved.clock.advance(72 * HOUR + 30 * MINUTE);
    let worker = LocalWorker::start(moved.worker());
    for (name, _, expected, missed) in policies {
        let schedule = moved.client.schedule(name);
        looked(&schedule, 72.5).await;
        assert_eq!(hours(&moved.client, name).await, expected, "{name}");
        assert_eq!(schedule.describe().await.unwrap().state.missed, missed, "{name}");
        let stands_for: u64 = runs(&moved.client, name).await.iter().map(|(_, at)| at.missed).sum();
        assert_eq!(stands_for, if name == "skip" { 0 } else { missed }, "{name}");
    }
    worker.stop().await;
}

/// No worker knows the workflow, so its runs do not end by themselves.
fn unserved(name: &str) -> Schedule {
    Schedule::every(name, HOUR).start_by_name("unserved", &().into()).catch_up(ALL)
}

pub async fn the_runs_of_a_schedule_have_its_priority(db: Live) {
    let moved = Moved::new(&db).await;
    let hourly = moved.client.create_schedule(unserved("hourly").priority(Priority::Low).overlap(Overlap::Allow));
    let hourly = hourly.await.unwrap();
    let worker = LocalWorker::start(moved.worker());
    moved.clock.advance(HOUR);
    looked(&hourly, 1.0).await;
    hourly.trigger().await.unwrap();
    hourly.backfill(NOON - HOUR, NOON).await.unwrap();
    let priorities: Vec<_> = runs(&moved.client, "hourly").await.iter().map(|(run, _)| run.priority).collect();
    assert_eq!(priorities, [Some(Priority::Low); 3]);
    worker.stop().await;
}

pub async fn each_overlap_policy_treats_a_run_that_has_not_ended(db: Live) {
    let moved = Moved::new(&db).await;
    for (name, overlap) in [
        ("skip", Overlap::Skip),
        ("one", Overlap::BufferOne),
        ("all", Overlap::BufferAll { max: 2 }),
        ("cancel", Overlap::CancelOther),
        ("allow", Overlap::Allow),
    ] {
        moved.client.create_schedule(unserved(name).overlap(overlap)).await.unwrap();
    }
    let worker = LocalWorker::start(moved.worker());
    let names = ["skip", "one", "all", "cancel", "allow"];
    // A run that was never claimed ends at its cancel, so this policy does not have to wait.
    for time in [1.0, 2.0, 3.0, 4.0] {
        moved.clock.advance(HOUR);
        for name in names {
            looked(&moved.client.schedule(name), time).await;
        }
        until("the run is canceled", async || {
            let waiting = moved.client.schedule("cancel").describe().await.unwrap().state.waiting.len();
            moved.clock.advance(Duration::from_millis(100));
            (waiting == 0).then_some(())
        })
        .await;
    }
    let started = async |name| hours(&moved.client, name).await;
    assert_eq!(started("skip").await, [1.0]);
    assert_eq!(started("one").await, [1.0]);
    assert_eq!(started("all").await, [1.0]);
    assert_eq!(started("cancel").await, [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(started("allow").await, [1.0, 2.0, 3.0, 4.0]);
    let counts = async |name: &str| {
        let state = moved.client.schedule(name).describe().await.unwrap().state;
        (state.waiting.len(), state.skipped)
    };
    assert_eq!([counts("skip").await, counts("one").await, counts("all").await], [(0, 3), (1, 2), (2, 1)]);
    let canceled =
        runs(&moved.client, "cancel").await.iter().filter(|(run, _)| run.status == RunStatus::Canceled).count();
    assert_eq!(canceled, 3);

    // The runs end; what waits starts.
    for name in ["one", "all"] {
        let (run, _) = runs(&moved.client, name).await.remove(0);
        moved.client.terminate(run.id).await.unwrap();
        until("the waiting occurrence starts", async || {
            moved.clock.advance(Duration::from_secs(1));
            (hours(&moved.client, name).await == [1.0, 2.0]).then_some(())
        })
        .await;
    }
    worker.stop().await;
    assert_eq!([counts("one").await, counts("all").await], [(0, 2), (1, 1)]);
}

pub async fn a_canceled_run_that_does_not_end_is_terminated_after_the_grace(db: Live) {
    let moved = Moved::new(&db).await;
    let schedule = Schedule::every("stuck", HOUR).start(tell, String::new()).overlap(Overlap::CancelOther);
    let schedule = moved.client.create_schedule(schedule).await.unwrap();
    // The first worker knows the workflow, so the run has been claimed, and a cancel only asks.
    let worker = LocalWorker::start(moved.worker().register(tell));
    moved.clock.advance(HOUR);
    until("the run waits", async || {
        runs(&moved.client, "stuck").await.first().is_some_and(|(run, _)| run.status == RunStatus::Parked).then_some(())
    })
    .await;
    worker.stop().await;
    let worker = LocalWorker::start(moved.worker());
    moved.clock.advance(HOUR);
    looked(&schedule, 2.0).await;
    let (run, _) = runs(&moved.client, "stuck").await.remove(0);
    until("the run is asked to end", async || {
        moved.client.run(run.id).await.unwrap().cancel_requested_at.is_some().then_some(())
    })
    .await;
    assert_eq!(hours(&moved.client, "stuck").await, [1.0]);
    until("it is terminated and the next one starts", async || {
        moved.clock.advance(Duration::from_secs(1));
        (hours(&moved.client, "stuck").await == [1.0, 2.0]).then_some(())
    })
    .await;
    worker.stop().await;
    assert_eq!(moved.client.run(run.id).await.unwrap().status, RunStatus::Canceled);
}

pub async fn the_occurrence_is_the_same_on_every_replay_and_in_a_fork(db: Live) {
    let moved = Moved::new(&db).await;
    let schedule = Schedule::cron("told", "0 14 * * *").zone("Europe/Berlin").start(tell, "of ".into());
    let schedule = moved.client.create_schedule(schedule).await.unwrap();
    moved.clock.advance(HOUR + MINUTE);
    let worker = LocalWorker::start(moved.worker().register(tell));
    looked(&schedule, 1.0).await;
    let (run, _) = runs(&moved.client, "told").await.remove(0);
    let expected = "of told 2027-01-01T13:00:00.000Z 0 2027-01-01T14:00:00+01:00[Europe/Berlin]";
    until("the run waits", async || {
        (moved.client.run(run.id).await.unwrap().status == RunStatus::Parked).then_some(())
    })
    .await;
    let handle = moved.client.handle::<String>(run.id).await.unwrap();
    handle.signal("go on", &()).await.unwrap();
    assert_eq!(handle.result().await.unwrap(), expected);
    let fork = moved.client.fork(run.id).from("go on").await.unwrap();
    fork.signal("go on", &()).await.unwrap();
    assert_eq!(fork.result().await.unwrap(), expected);
    let plain = moved.client.start(tell, String::new()).await.unwrap();
    plain.signal("go on", &()).await.unwrap();
    assert_eq!(plain.result().await.unwrap(), "none");
    worker.stop().await;
    let report = moved.worker().register(tell).preflight().await.unwrap();
    assert!(report.diverged.is_empty(), "{report}");
}

pub async fn a_failed_run_pauses_a_schedule_that_asks_for_it(db: Live) {
    let moved = Moved::new(&db).await;
    let schedule = Schedule::every("failing", HOUR).start(fails, ()).overlap(Overlap::Allow).pause_on_failure();
    let schedule = moved.client.create_schedule(schedule).await.unwrap();
    let worker = LocalWorker::start(moved.worker().register(fails));
    moved.clock.advance(HOUR);
    looked(&schedule, 1.0).await;
    let (run, _) = runs(&moved.client, "failing").await.remove(0);
    until("it fails", async || (moved.client.run(run.id).await.unwrap().status == RunStatus::Failed).then_some(()))
        .await;
    moved.clock.advance(HOUR);
    let pause = until("it is paused", async || schedule.describe().await.unwrap().state.paused).await;
    worker.stop().await;
    assert_eq!((pause.cause, pause.reason), (PauseCause::Failure, format!("run {} failed", run.id)));
    assert_eq!(hours(&moved.client, "failing").await, [1.0]);
}

/// The state of the schedule names the run that is gone, and counts it as one that has not ended
/// until a worker has looked.
pub async fn a_schedule_fires_again_after_its_last_run_was_deleted(db: Live) {
    let moved = Moved::new(&db).await;
    for (name, overlap) in [("skip", Overlap::Skip), ("one", Overlap::BufferOne), ("cancel", Overlap::CancelOther)] {
        let schedule = moved.client.create_schedule(unserved(name).overlap(overlap).pause_on_failure()).await.unwrap();
        let worker = LocalWorker::start(moved.worker());
        let created = schedule.describe().await.unwrap().state.next_at.unwrap();
        moved.clock.advance(HOUR);
        looked(&schedule, hour(created)).await;
        worker.stop().await;
        let state = schedule.describe().await.unwrap().state;
        let last = state.last_run.unwrap();
        assert_eq!(state.open, [last], "{name}");
        moved.client.terminate(last).await.unwrap();
        moved.client.delete(last).await.unwrap();

        let worker = LocalWorker::start(moved.worker());
        moved.clock.advance(HOUR);
        looked(&schedule, hour(created + HOUR)).await;
        let started = async || (schedule.describe().await.unwrap().state.started == 2).then_some(());
        until(&format!("{name} starts a second run"), started).await;
        worker.stop().await;
        let state = schedule.describe().await.unwrap().state;
        assert_eq!((state.skipped, state.missed, state.paused, state.waiting.len()), (0, 0, None, 0), "{name}");
        assert_eq!(hours(&moved.client, name).await, [hour(created + HOUR)], "{name}: the first run is gone");
        assert!(state.last_run.is_some_and(|run| run != last), "{name}");
        schedule.delete().await.unwrap();
    }
}

pub async fn a_clock_that_is_set_back_starts_no_run_twice(db: Live) {
    let moved = Moved::new(&db).await;
    let schedule = moved.client.create_schedule(unserved("steady").overlap(Overlap::Allow)).await.unwrap();
    let worker = LocalWorker::start(moved.worker());
    moved.clock.advance(3 * HOUR);
    looked(&schedule, 3.0).await;
    moved.clock.set_back(2 * HOUR);
    let before = schedule.describe().await.unwrap();
    for _ in 0..2 {
        moved.clock.advance(HOUR);
        // A schedule that is due later is fired after everything that was due before it.
        let marker = Schedule::every(format!("marker {}", hour(moved.clock.host_now())), Duration::from_secs(1));
        let marker = moved.client.create_schedule(marker.start(nothing, ())).await.unwrap();
        moved.clock.advance(Duration::from_secs(1));
        until("the marker fires", async || (marker.describe().await.unwrap().state.started > 0).then_some(())).await;
        assert_eq!(schedule.describe().await.unwrap(), before);
    }
    moved.clock.advance(HOUR);
    looked(&schedule, 4.0).await;
    worker.stop().await;
    assert_eq!(hours(&moved.client, "steady").await, [1.0, 2.0, 3.0, 4.0]);
}

/// Under the real clock: the worker's poll interval is longer than the test may take.
pub async fn the_next_due_time_wakes_the_worker(db: Live) {
    let client = &db.client;
    let worker = Worker::new(client.clone(), ()).register(nothing).poll_interval(Duration::from_secs(600));
    let worker = LocalWorker::start(worker);
    let schedule = Schedule::every("often", Duration::from_secs(1)).start(nothing, ());
    let schedule = client.create_schedule(schedule).await.unwrap();
    until("three runs", async || (schedule.describe().await.unwrap().state.started >= 3).then_some(())).await;
    worker.stop().await;
}
