//! The kind `schedules`: workers die, stand still for longer than their leases or lose connections
//! while they fire schedules, which a person changes at the same time.

use std::collections::BTreeSet;
use std::future::IntoFuture;
use std::time::{Duration, Instant, SystemTime};

use futures::future::{join, join_all, try_join_all};
use rustix::process::Signal;
use workflow_sdk::{CatchUp, Occurrence, Overlap, RunFilter, RunSummary, SCHEDULE_TAG, Schedule, Timestamp};

use super::cuts::Cuts;
use super::{Part, Report, Round, RoundOptions};
use crate::program::{End, Failing, Op, Program, program};
use crate::worker_process::WorkerProcess;

/// The number of schedules, each with an occurrence per second.
const SCHEDULES: usize = 25;

/// The time between two faults.
const GAP: Duration = Duration::from_millis(300);

/// The lease of every worker, in milliseconds.
const LEASE: u64 = 1000;

/// One of so many faults is a stop past the lease, and on PostgreSQL another one a cut connection.
const STOPS: usize = 8;

/// How many schedules a person triggers in each second, and how many a person changes. That is done
/// at the moment at which the workers fire them.
const TRIGGERS: usize = 8;
const CHANGES: usize = 2;

/// How long the schedules may take beyond their occurrences.
const PATIENCE: Duration = Duration::from_secs(180);

pub(super) async fn round(part: Part) -> Report {
    let count = part.count;
    let limit = count.div_ceil(SCHEDULES) as u64;
    let mut cuts = Cuts::of(&part);
    let options = RoundOptions::default();
    let mut round = Round::begin_with(part, "schedules", options, |settings| settings.lease = Some(LEASE)).await;
    cuts.spawn(&mut round);
    // A lease that ends during a stop is a lost claim.
    round.disturbed = round.workers.iter().map(WorkerProcess::pid).collect();
    round.wait_for_work().await;
    for number in 0..SCHEDULES {
        round.testbed.client.create_schedule(every_second(number, limit, 0)).await.expect("create a schedule");
    }
    let begun = Instant::now();
    let (mut disturbed, mut second, mut stopped) = (Instant::now(), 0, None);
    let mut triggers = [0; SCHEDULES];
    while !are_over(&round).await && begun.elapsed() < Duration::from_secs(limit) + PATIENCE {
        let now = SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_secs();
        if now != second {
            second = now;
            interfere(&mut round, limit, &mut triggers).await;
        }
        if disturbed.elapsed() >= GAP {
            disturbed = Instant::now();
            disturb(&mut round, &mut cuts, &mut stopped).await;
        }
        if stopped.is_some_and(|(_, until)| Instant::now() >= until) {
            go_on(&round, &mut stopped);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    go_on(&round, &mut stopped);
    let mut started = 0;
    for (number, triggers) in triggers.into_iter().enumerate() {
        started += judge(&mut round, &name(number), limit, triggers).await;
    }
    round.note("occurrences", started);
    round.note("triggers", triggers.iter().sum::<u64>().try_into().unwrap_or(usize::MAX));
    round.report.done += started.min(count);
    round.finish().await
}

/// A process that stands still, and until when.
type Stopped = Option<(u32, Instant)>;

/// Disturbs one worker: most die. While one stands still, the others fire the schedules.
async fn disturb(round: &mut Round, cuts: &mut Cuts, stopped: &mut Stopped) {
    round.report.faults += 1;
    let victim = match round.random.u32(0..4) {
        0 => round.random.usize(0..round.workers.len()),
        _ => round.busiest(),
    };
    let pid = round.workers[victim].pid();
    let was_at_work = if round.report.faults.is_multiple_of(STOPS) && stopped.is_none() {
        round.testbed.stop(&round.workers[victim]).await;
        // It goes on before the next cut, which needs a worker that works.
        let stands = Duration::from_millis(round.random.u64(LEASE..2 * LEASE));
        *stopped = Some((pid, Instant::now() + stands));
        round.note("stops", 1);
        round.held_by(&round.workers[victim]).await > 0
    } else if round.report.faults % STOPS == STOPS - 1 && cuts.cut(round).await {
        true
    } else {
        let was_at_work = round.kill(victim).await;
        round.note("kills", 1);
        cuts.replace(round, pid);
        round.disturbed.extend(round.workers.iter().map(WorkerProcess::pid));
        was_at_work
    };
    round.report.delivered += usize::from(was_at_work);
}

/// Lets the worker that stands still go on, unless it was killed meanwhile.
fn go_on(round: &Round, stopped: &mut Stopped) {
    let Some((pid, _)) = stopped.take() else { return };
    if let Some(worker) = round.workers.iter().find(|worker| worker.pid() == pid) {
        worker.signal(Signal::CONT);
    }
}

/// Triggers and changes schedules, all at once, and counts the triggers.
async fn interfere(round: &mut Round, limit: u64, triggers: &mut [u64; SCHEDULES]) {
    let mut random = || round.random.usize(0..SCHEDULES);
    let triggered: Vec<usize> = (0..TRIGGERS).map(|_| random()).collect();
    let changed: Vec<usize> = (0..CHANGES).map(|_| random()).collect();
    let client = &round.testbed.client;
    let trigger = |number: &usize| client.schedule(name(*number)).trigger().into_future();
    let change = async |number: &usize| {
        let schedule = every_second(*number, limit, triggers[*number]);
        client.schedule(name(*number)).update(schedule).await.expect("change a schedule");
    };
    let (runs, _) = join(try_join_all(triggered.iter().map(trigger)), join_all(changed.iter().map(change))).await;
    runs.expect("trigger schedules");
    triggered.iter().for_each(|number| triggers[*number] += 1);
}

fn name(number: usize) -> String {
    format!("every-second-{number}")
}

/// Returns the schedule, which differs in a tag from change to change.
fn every_second(number: usize, limit: u64, change: u64) -> Schedule {
    let short = Program { ops: vec![Op::Step(1, 7, Failing::Never)], end: End::Value, start: 7 };
    Schedule::every(name(number), Duration::from_secs(1))
        .start(program, short)
        .overlap(Overlap::Allow)
        .catch_up(CatchUp::All { window: Duration::from_secs(3600), max: 1000 })
        .limit(limit)
        .tag("change", change.to_string())
}

async fn are_over(round: &Round) -> bool {
    let schedules = round.testbed.client.schedules().await.expect("list the schedules");
    schedules.iter().all(|schedule| schedule.state.next_at.is_none())
}

/// Checks that each occurrence and each trigger has one run and was counted once. Returns the
/// number of runs of occurrences.
async fn judge(round: &mut Round, schedule: &str, limit: u64, triggers: u64) -> usize {
    let client = &round.testbed.client;
    let state = client.schedule(schedule).describe().await.expect("read a schedule").state;
    let filter = RunFilter::new().tag(SCHEDULE_TAG, schedule).page_size(1000);
    let runs = client.list(&filter).await.expect("list the runs of a schedule");
    let occurrence =
        |run: &RunSummary| Occurrence::of_tags(&run.tags).filter(|at| run.key.as_deref() == Some(&at.key()));
    let times: Vec<Timestamp> = runs.iter().filter_map(occurrence).map(|occurrence| occurrence.at).collect();
    let by_hand = runs.iter().filter(|run| run.key.as_deref().is_some_and(|key| key.contains("@trigger:"))).count();
    let distinct: BTreeSet<Timestamp> = times.iter().copied().collect();

    let counts = (state.started, state.triggered, state.skipped, state.missed);
    if (state.next_at, counts) != (None, (limit + triggers, triggers, 0, 0)) {
        let what = format!("{schedule} counts {counts:?} of {limit} and {triggers}; its next is {:?}", state.next_at);
        round.violation("I-Once", what);
    }
    let found = (times.len() as u64, distinct.len() as u64, by_hand as u64, runs.len() as u64);
    if found != (limit, limit, triggers, limit + triggers) {
        round.violation("I-Once", format!("{schedule} has {found:?} runs of {limit} and {triggers}"));
    }
    let second = Duration::from_secs(1);
    if let Some((one, next)) =
        distinct.iter().zip(distinct.iter().skip(1)).find(|(one, next)| next.since(**one) != second)
    {
        round.violation("I-Once", format!("{schedule} has no occurrence between {one} and {next}"));
    }
    times.len()
}
