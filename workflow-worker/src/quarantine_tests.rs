use futures::FutureExt;
use workflow_engine::model::{Lane, Timestamp};

use super::*;
use crate::WorkerOptions;

/// Returns a run that was claimed once and whose workers died so often.
pub(crate) fn claimed_run(crashes: i64) -> ClaimedRun {
    ClaimedRun {
        gate: None,
        claim: Claim { run_id: workflow_sdk::RunId::generate(), epoch: 1 },
        lane: Lane { queue: "default".into(), workflow: "fragile".into(), version: "1".into() },
        input: "null".into(),
        wakes: 0,
        crashes,
        lone_crashes: 0,
        taken_over: false,
        attempt: 1,
        generation: 0,
        depth: 0,
        trace: None,
        parent_run_id: None,
        deadline_at: None,
        cancel_requested: false,
        created_at: Timestamp::from_micros(0),
        started_at: Timestamp::from_micros(0),
        lease_until: Timestamp::from_micros(0),
        error: None,
        unreadable: None,
    }
}

fn quarantine() -> Arc<Quarantine> {
    Arc::new(Quarantine::new())
}

fn admitted(quarantine: &Arc<Quarantine>, crashes: i64) -> Option<QuarantineSlot> {
    match quarantine.admit(&claimed_run(crashes)) {
        Admission::Admitted(slot) => Some(slot),
        Admission::Alone(_) | Admission::Later(..) => None,
    }
}

#[tokio::test(start_paused = true)]
async fn fewer_runs_begin_together_after_each_death() {
    let quarantine = quarantine();
    let admitted = |crashes| (0..100).filter_map(|_| admitted(&quarantine, crashes)).count();
    assert_eq!([0, 1, 2, 3, 4].map(admitted), [100, 100, 32, 8, 2]);
    assert_eq!([2, 3, 4].map(admitted), [0, 0, 0], "the wave has begun");
    tokio::time::advance(QUARANTINE_RETRY_DELAY).await;
    assert_eq!([2, 3, 4].map(admitted), [64, 16, 4], "the next one has room for twice as many");
    tokio::time::advance(10 * QUARANTINE_RETRY_DELAY).await;
    assert_eq!([2, 3, 4].map(admitted), [32, 8, 2], "all that were put off could have come back");
}

#[test]
fn each_run_that_is_held_back_comes_back_with_its_wave() {
    let (mut state, now) = (State::default(), Instant::now());
    let mut waves = [0; 5];
    for _ in 0..40 {
        match state.decide(claimed_run(4).claim, 4, now) {
            Decision::Begin => waves[0] += 1,
            Decision::Later(delay) => waves[usize::try_from(delay.as_secs()).unwrap()] += 1,
            Decision::Alone => panic!("four crashes"),
        }
    }
    assert_eq!(waves, [2, 4, 8, 16, 10]);
    assert_eq!(state.present, 40, "each is present until it has left");
}

#[tokio::test(start_paused = true)]
async fn a_run_with_five_crashes_waits_until_it_is_alone_and_keeps_others_out() {
    let quarantine = quarantine();
    let other = admitted(&quarantine, 0).unwrap();
    let suspect = claimed_run(5);
    let Admission::Alone(turn) = quarantine.admit(&suspect) else { panic!("alone") };
    assert_eq!(quarantine.closed().now_or_never(), Some(suspect.claim));
    assert!(admitted(&quarantine, 0).is_none() && admitted(&quarantine, 5).is_none());
    let Admission::Later(given_back, _) = quarantine.admit(&claimed_run(0)) else { panic!("later") };
    let mut turn = Box::pin(turn.wait());
    assert!(futures::poll!(&mut turn).is_pending());
    drop(other);
    assert!(futures::poll!(&mut turn).is_pending(), "a death would count for the run that is being given back");
    drop(given_back);
    let slot = turn.await.unwrap();
    assert!(admitted(&quarantine, 0).is_none());
    assert!(slot.take_end() && !slot.take_end(), "one caller writes the end");
    assert!(quarantine.open().now_or_never().is_none());
    slot.end_isolation();
    assert!(admitted(&quarantine, 0).is_some(), "its time alone is over");
    drop(slot);
    assert_eq!(quarantine.state().present, 0);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_never_alone_lets_others_begin_again() {
    let quarantine = quarantine();
    let _other = admitted(&quarantine, 0).unwrap();
    let Admission::Alone(turn) = quarantine.admit(&claimed_run(5)) else { panic!("alone") };
    assert!(turn.wait().await.is_none());
    assert!(admitted(&quarantine, 0).is_some());
}

#[tokio::test(start_paused = true)]
async fn runs_that_are_held_back_are_warned_of_once_per_minute() {
    let warnings = HoldWarnings::default();
    assert!(warnings.take_due() && !warnings.take_due());
    tokio::time::advance(WARNING_INTERVAL).await;
    assert!(warnings.take_due() && !warnings.take_due());
}

#[test]
fn the_time_alone_grows_with_the_crashes() {
    let seconds = [5, 6, 7, 8, 9, 10].map(|crashes| lone_time(crashes).as_secs());
    assert_eq!(seconds, [10, 20, 40, 80, 160, 160]);
}

/// How long a death of the worker is unknown.
const FOUND_AFTER: Duration = Duration::from_secs(1);

/// How long the database takes to give a run back. A death until then counts for the run.
const GIVEN_BACK_AFTER: Duration = Duration::from_millis(5);

/// No simulation lasts longer: a run of the largest one waits for each other one.
const END_OF_TIME: Duration = Duration::from_secs(1_000_000);

#[derive(Clone, Copy, Debug)]
enum Phase {
    Due(Duration),
    /// The body ends then, or kills the worker.
    Driven(Duration),
    WaitsToBeAlone,
    /// The run is given back at the first time, and due at the second one.
    HeldBack(Duration, Duration),
    Succeeded,
    Failed,
}

impl Phase {
    const fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// A run with one step.
#[derive(Debug)]
struct SimulatedRun {
    claim: Claim,
    /// How long the body of the step lasts.
    body: Duration,
    /// Whether the worker dies at the end of the body.
    is_poison: bool,
    phase: Phase,
    crashes: i64,
    lone_crashes: i64,
    /// When the body began last.
    begun: Duration,
}

/// The run that must be driven alone.
#[derive(Clone, Copy, Debug)]
struct Lone {
    run: usize,
    since: Duration,
    /// When its time alone is over, once it is driven.
    until: Option<Duration>,
}

/// One worker, which is started again after each death, on the decisions of [`State`]. Times are
/// counted from the beginning of the simulation.
#[derive(Debug)]
struct Simulation {
    base: Instant,
    now: Duration,
    runs: Vec<SimulatedRun>,
    state: State,
    /// When the worker begins to claim.
    claims_from: Duration,
    lone: Option<Lone>,
}

impl Simulation {
    /// Returns a simulation of so many runs. The bodies of the innocent ones last as long as
    /// `steps` says, in turns; each of `poisons` is how long the body of a poison lasts.
    fn new(count: usize, steps: &[Duration], poisons: &[Duration]) -> Self {
        let mut bodies: Vec<_> =
            steps.iter().copied().cycle().take(count - poisons.len()).map(|body| (body, false)).collect();
        for (number, &body) in poisons.iter().enumerate() {
            bodies.insert((number + 1) * bodies.len() / (poisons.len() + 1), (body, true));
        }
        let of_body = |(body, is_poison)| SimulatedRun {
            claim: claimed_run(0).claim,
            body,
            is_poison,
            phase: Phase::Due(Duration::ZERO),
            crashes: 0,
            lone_crashes: 0,
            begun: Duration::ZERO,
        };
        Self {
            base: Instant::now(),
            now: Duration::ZERO,
            runs: bodies.into_iter().map(of_body).collect(),
            state: State::default(),
            claims_from: Duration::ZERO,
            lone: None,
        }
    }

    /// Simulates until every run is over. Kills the worker so many times, each time once all runs
    /// are in flight. Returns the time of the last kill.
    fn run_to_end(&mut self, mut kills: usize) -> Duration {
        let mut last_kill = Duration::ZERO;
        loop {
            self.end_bodies();
            self.end_isolation();
            self.claim();
            self.begin_alone();
            if self.runs.iter().all(|run| run.phase.is_over()) {
                return last_kill;
            }
            let is_in_flight = |run: &SimulatedRun| matches!(run.phase, Phase::Driven(_) | Phase::Succeeded);
            if kills > 0 && self.runs.iter().all(is_in_flight) {
                kills -= 1;
                last_kill = self.now;
                self.die();
            }
            self.now = self.next_event();
            assert!(self.now < END_OF_TIME, "{self:?}");
        }
    }

    fn next_event(&self) -> Duration {
        let of_run = |run: &SimulatedRun| match run.phase {
            Phase::Due(at) => self.lone.is_none().then_some(at.max(self.claims_from)),
            Phase::Driven(at) | Phase::HeldBack(at, _) => Some(at),
            Phase::WaitsToBeAlone | Phase::Succeeded | Phase::Failed => None,
        };
        let of_lone = self.lone.map(|lone| lone.until.unwrap_or(lone.since + LONE_PATIENCE));
        let next = self.runs.iter().filter_map(of_run).chain(of_lone).min();
        next.expect("a run that is not over waits for something").max(self.now)
    }

    /// Ends what lasts until now: bodies, and the presence of runs that were held back.
    fn end_bodies(&mut self) {
        let mut is_deadly = false;
        for (number, run) in self.runs.iter_mut().enumerate() {
            match run.phase {
                Phase::HeldBack(at, due) if at <= self.now => run.phase = Phase::Due(due),
                Phase::Driven(at) if at <= self.now && run.is_poison => {
                    is_deadly = true;
                    continue;
                }
                Phase::Driven(at) if at <= self.now => {
                    run.phase = Phase::Succeeded;
                    if self.lone.is_some_and(|lone| lone.run == number) {
                        (self.lone, self.state.alone) = (None, None);
                    }
                }
                _ => continue,
            }
            self.state.leave();
        }
        if is_deadly {
            // Before the worker dies: the write that ends the isolation was sent.
            self.end_isolation();
            self.die();
        }
    }

    fn end_isolation(&mut self) {
        if self.lone.and_then(|lone| lone.until).is_some_and(|until| until <= self.now) {
            (self.lone, self.state.alone) = (None, None);
        }
    }

    /// Counts a crash for each run that the worker holds.
    fn die(&mut self) {
        let lone = self.lone.take().filter(|lone| lone.until.is_some());
        for (number, run) in self.runs.iter_mut().enumerate() {
            if matches!(run.phase, Phase::Driven(_) | Phase::WaitsToBeAlone | Phase::HeldBack(..)) {
                let is_lone = lone.is_some_and(|lone| lone.run == number);
                assert!(lone.is_none() || is_lone, "a run is driven alone, and another one is present");
                run.crashes += 1;
                run.lone_crashes += i64::from(is_lone);
                run.phase = Phase::Due(self.now + FOUND_AFTER);
            }
        }
        self.state = State::default();
        self.claims_from = self.now + FOUND_AFTER;
    }

    /// Claims all due runs at once, unless one must be driven alone.
    fn claim(&mut self) {
        if self.claims_from > self.now || self.lone.is_some() {
            return;
        }
        let due = self.runs.iter().enumerate().filter_map(|(number, run)| match run.phase {
            Phase::Due(at) if at <= self.now => Some((at, number)),
            _ => None,
        });
        let mut due: Vec<(Duration, usize)> = due.collect();
        due.sort_unstable();
        for (_, number) in due {
            let run = &mut self.runs[number];
            if run.lone_crashes > i64::from(WorkerOptions::DEFAULT_MAX_CRASHES) {
                run.phase = Phase::Failed;
                continue;
            }
            match self.state.decide(run.claim, run.crashes, self.base + self.now) {
                Decision::Begin => run.begin(self.now),
                Decision::Later(delay) => {
                    run.phase = Phase::HeldBack(self.now + GIVEN_BACK_AFTER, self.now + delay);
                }
                Decision::Alone => {
                    run.phase = Phase::WaitsToBeAlone;
                    self.lone = Some(Lone { run: number, since: self.now, until: None });
                }
            }
        }
    }

    /// Drives the run that must be driven alone once it is, or gives it back after its patience.
    fn begin_alone(&mut self) {
        let Some(lone) = self.lone.filter(|lone| lone.until.is_none()) else { return };
        let run = &mut self.runs[lone.run];
        if self.state.begin_alone() {
            run.begin(self.now);
            self.lone = Some(Lone { until: Some(self.now + lone_time(run.crashes)), ..lone });
        } else if lone.since + LONE_PATIENCE <= self.now {
            run.phase = Phase::Due(self.now + LONE_RETRY_DELAY);
            (self.lone, self.state.alone) = (None, None);
        }
    }
}

impl SimulatedRun {
    fn begin(&mut self, now: Duration) {
        (self.phase, self.begun) = (Phase::Driven(now + self.body), now);
    }
}

fn seconds<const N: usize>(seconds: [f64; N]) -> Vec<Duration> {
    seconds.into_iter().map(Duration::from_secs_f64).collect()
}

#[test]
fn no_innocent_run_fails_and_each_poison_fails_within_ten_deaths() {
    let steps = [seconds([0.1]), seconds([3.0]), seconds([2.0, 15.0, 60.0]), seconds([60.0])];
    let poisons = [
        seconds([]),
        seconds([0.0]),
        seconds([1.0]),
        seconds([9.9]),
        seconds([10.5]),
        seconds([12.0]),
        seconds([0.0, 0.0]),
        seconds([0.0, 12.0]),
        seconds([11.0, 12.0]),
        seconds([0.0, 0.0, 0.0]),
        seconds([0.0, 12.0, 0.0]),
        seconds([2.0, 4.0, 9.0]),
        seconds([10.0, 10.0, 10.0]),
        seconds([12.0, 12.0, 12.0]),
    ];
    for count in [1, 2, 3, 4, 8, 13, 40, 120, 400] {
        for poisons in poisons.iter().filter(|poisons| poisons.len() <= count) {
            for steps in &steps {
                let mut simulation = Simulation::new(count, steps, poisons);
                simulation.run_to_end(0);
                for run in &simulation.runs {
                    let is_right = match run.phase {
                        Phase::Failed => run.is_poison && run.crashes <= 10,
                        _ => !run.is_poison,
                    };
                    assert!(is_right, "{count} runs of {steps:?}, poisons {poisons:?}: {run:?}");
                }
            }
        }
    }
}

#[test]
fn all_runs_begin_within_ten_seconds_of_each_of_four_kills() {
    for count in [1, 2, 8, 40, 100, 200, 400] {
        for step in [3, 60].map(Duration::from_secs) {
            for kills in 1..=4 {
                let mut simulation = Simulation::new(count, &[step], &[]);
                let last_kill = simulation.run_to_end(kills);
                let begun = simulation.runs.iter().map(|run| run.begun.saturating_sub(last_kill)).max().unwrap();
                assert!(
                    begun <= Duration::from_secs(10),
                    "{count} runs of {step:?}, {kills} kills: the last run begins {begun:?} after the last kill"
                );
                assert!(simulation.runs.iter().all(|run| matches!(run.phase, Phase::Succeeded)));
            }
        }
    }
}
