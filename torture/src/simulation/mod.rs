//! A cluster in one thread: the real worker, executor and replay on the store in memory, under virtual time, with everything
//! that can go wrong drawn from a seed.
//!
//! Each process has a runtime of its own, so it can die at any await and stand still as a whole; they get their turns in an order
//! that the seed decides, and their clocks differ by a turn at most. The same seed gives the same trace, and a seed that finds
//! something wrong is made smaller until nothing can be left out.

mod application;
mod audit;
mod case;
mod end;
mod process;
mod program;
mod wire;
mod world;

use std::fmt;
use std::sync::Arc;

use fastrand::Rng;

pub use case::{Case, Fault, Planted, RunPlan};
pub use program::{Op, Program};

use process::Process;
use world::World;

/// The latest end of a simulation, in microseconds: far more than any program takes once nothing fails any more.
const LATEST: i64 = 600_000_000;

/// Cases that are tried, at most, to make a failure smaller.
const TRIES: usize = 400;

/// What happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Seeds.
    pub seeds: u64,
    /// Runs, children included.
    pub runs: u64,
    /// Bodies that began.
    pub bodies: u64,
    /// Calls to the database.
    pub calls: u64,
    /// Faults that came to pass.
    pub faults: u64,
    /// Virtual time, in microseconds.
    pub micros: i64,
}

impl Figures {
    /// Adds those of another simulation.
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

/// What was found wrong, made as small as possible.
#[derive(Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What is wrong with the smallest case.
    pub what: String,
    /// The smallest case.
    pub case: Case,
    /// What happened in it.
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
/// What is wrong, in the smallest form that was found.
pub fn run(seed: u64) -> Result<Figures, Box<Failure>> {
    run_case(Case::random(seed))
}

/// Simulates a case.
///
/// # Errors
/// As [`run`].
pub fn run_case(case: Case) -> Result<Figures, Box<Failure>> {
    match simulate(&case) {
        (Ok(figures), _) => Ok(figures),
        (Err(what), trace) => Err(Box::new(minimal(case, what, trace))),
    }
}

/// What is wrong with a case, as it is.
#[must_use]
pub fn violation(case: &Case) -> Option<String> {
    simulate(case).0.err()
}

/// What happens in this case, whether it is right or wrong.
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
    // Jitter is drawn from the generator of the thread.
    fastrand::seed(case.seed);
    let world = World::new(case.clone());
    let (now, mut processes) = play(&world);
    // They end before what they share is looked at for the last time.
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

/// Gives the processes their turns until every run has ended, or something is wrong.
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
        // Where nothing happens the turns may be longer.
        let called = world.counted().0;
        longest = if called == std::mem::replace(&mut calls, called) { (longest * 2).min(256_000) } else { 4_000 };
        if end::is_reached(world) {
            break;
        }
    }
    (now, processes)
}
