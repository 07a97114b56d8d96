//! A simulated cluster in one thread: the real worker, executor and replay on the in-memory store,
//! under virtual time. All faults are drawn from a seed.
//!
//! Each process has its own runtime, so it can die at any await and stop as a whole. The seed
//! decides the order of the processes' turns, and their clocks differ by at most one turn. Equal
//! seeds give equal traces. If a seed finds a violation, its case is reduced until nothing can be
//! left out. [`cells`] simulates many databases, each with workers of its own.

mod application;
mod audit;
mod case;
pub mod cells;
mod end;
mod process;
mod program;
mod schedules;
mod wire;
mod world;

use std::fmt;
use std::sync::Arc;

use fastrand::Rng;

pub use case::{Case, Fault, Planted, RunPlan, SchedulePlan};
pub use program::{Op, Program};

use process::Process;
use world::World;

/// The latest end of a simulation, in microseconds. It is far more than any program takes once no
/// more faults happen.
const LATEST: i64 = 600_000_000;

/// The maximum number of cases that are tried to reduce a failure.
const TRIES: usize = 400;

/// Counts of what happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// The number of seeds.
    pub seeds: u64,
    /// The number of runs, including children.
    pub runs: u64,
    /// The number of bodies that began.
    pub bodies: u64,
    /// The number of calls to the database.
    pub calls: u64,
    /// The number of faults that happened.
    pub faults: u64,
    /// Virtual time, in microseconds.
    pub micros: i64,
}

impl Figures {
    /// Adds the counts of another simulation.
    pub fn add(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.runs += other.runs;
        self.bodies += other.bodies;
        self.calls += other.calls;
        self.faults += other.faults;
        self.micros += other.micros;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seeds, runs, bodies, calls, faults, micros } = self;
        let days = *micros as f64 / 86_400e6;
        write!(
            f,
            "{seeds} seeds: {runs} runs, {bodies} bodies, {calls} calls to the database, {faults} faults delivered, {days:.1} days"
        )
    }
}

/// A violation, with the smallest case that was found.
#[derive(Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The violation in the smallest case.
    pub what: String,
    /// The smallest case.
    pub case: Case,
    /// The trace of the smallest case.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, what, case, trace } = self;
        write!(f, "seed {seed}: {what}\n\n{case:#?}\n\n{}", trace.join("\n"))
    }
}

/// Simulates the case of this seed.
///
/// # Errors
/// Returns the violation with the smallest case that was found.
pub fn run(seed: u64) -> Result<Figures, Box<Failure>> {
    run_case(Case::random(seed))
}

/// Simulates a case.
///
/// # Errors
/// See [`run`].
pub fn run_case(case: Case) -> Result<Figures, Box<Failure>> {
    match simulate(&case) {
        (Ok(figures), _) => Ok(figures),
        (Err(what), trace) => Err(Box::new(minimal(case, what, trace))),
    }
}

/// Returns the violation of a case, without reducing the case.
#[must_use]
pub fn violation(case: &Case) -> Option<String> {
    simulate(case).0.err()
}

/// Returns the trace of a case, with or without a violation.
#[must_use]
pub fn trace(case: &Case) -> Vec<String> {
    simulate(case).1
}

fn minimal(mut case: Case, mut what: String, mut trace: Vec<String>) -> Failure {
    let seed = case.seed;
    let mut tries = 0;
    'smaller: loop {
        for smaller in case.smaller() {
            tries += 1;
            if tries > TRIES {
                break 'smaller;
            }
            if let (Err(found), its_trace) = simulate(&smaller) {
                (case, what, trace) = (smaller, found, its_trace);
                continue 'smaller;
            }
        }
        break;
    }
    Failure { seed, what, case, trace }
}

fn simulate(case: &Case) -> (Result<Figures, String>, Vec<String>) {
    // The engine draws jitter from the thread's random numbers.
    fastrand::seed(case.seed);
    let world = World::new(case.clone());
    let (now, mut processes) = play(&world);
    // The processes end before the shared state is checked for the last time.
    processes.clear();
    let result = match world.violation() {
        Some(violation) => Err(violation),
        None => end::check(&world),
    };
    let figures = result.map(|runs| {
        let (calls, faults) = world.counted();
        Figures { seeds: 1, runs, bodies: world.bodies(), calls, faults: faults.into(), micros: now }
    });
    (figures, world.trace())
}

/// Gives the processes their turns until every run has ended, or a violation was found.
fn play(world: &Arc<World>) -> (i64, Vec<Process>) {
    let mut rng = Rng::with_seed(!world.case.seed);
    let mut processes: Vec<Process> = (0..=world.case.workers).map(Process::new).collect();
    let mut order: Vec<usize> = (0..processes.len()).collect();
    let (mut now, mut longest, mut calls) = (0, 4_000, 0);
    while now < LATEST && world.violation().is_none() {
        now += rng.i64(1..=longest / 1000) * 1000;
        rng.shuffle(&mut order);
        for number in &order {
            let rest = rng.i64(1..2000) * 1000;
            processes[*number].go_on(world, now, rest);
        }
        world.turn_ends(now);
        // While no process calls the database, the turns become longer.
        let called = world.counted().0;
        longest = if called == std::mem::replace(&mut calls, called) { (longest * 2).min(256_000) } else { 4_000 };
        if end::is_reached(world) {
            break;
        }
    }
    (now, processes)
}
