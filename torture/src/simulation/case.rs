//! What one seed makes: programs, and what goes wrong around them.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::program::Program;

/// Everything that a simulation does follows from this.
#[derive(Clone, Debug)]
pub struct Case {
    /// Of the delays on the wire and of the order in which processes get their turns.
    pub seed: u64,
    /// Worker processes. One more is the application's.
    pub workers: usize,
    /// Runs that each worker drives at once.
    pub concurrency: u32,
    /// How long waits are kept in memory, in milliseconds.
    pub linger_millis: u64,
    /// What the application starts.
    pub runs: Vec<RunPlan>,
    /// By process and by the number of its call to the database, over all its lives.
    pub faults: BTreeMap<(usize, u32), Fault>,
    /// A bug that is planted, to see that it is found.
    pub planted: Option<Planted>,
}

/// A run that the application starts.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// Its input.
    pub program: Program,
    /// When it is started.
    pub start_millis: u64,
    /// Before each of its signals.
    pub gap_millis: u64,
    /// When it is canceled, if it is.
    pub cancel_millis: Option<u64>,
}

/// What goes wrong with a call to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails and had no effect.
    FailBefore,
    /// It had its effect and fails: the reply is lost.
    FailAfter,
    /// It takes so long before it has its effect.
    Slow(u64),
    /// Its reply takes so long.
    LateReply(u64),
    /// This and the next calls fail, so many in all.
    Partition(u32),
    /// The process dies before the call has its effect.
    DieBefore,
    /// The process dies after the call had its effect.
    DieAfter,
    /// The process stands still for so long, before the call has its effect.
    StopBefore(u64),
    /// The process stands still for so long, after the call had its effect.
    StopAfter(u64),
    /// Another worker takes this one for dead and makes its claims due.
    TakenForDead,
}

/// Bugs that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Every write is taken for one of the run's present owner.
    NoFence,
    /// One in eight outcomes of steps is acknowledged and not written.
    LostRow,
    /// Every signal is kept twice.
    SignalTwice,
}

impl Case {
    /// The case of a seed.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let workers = rng.usize(1..=3);
        let runs = (0..rng.usize(1..=3)).map(|_| run_plan(&mut rng)).collect();
        let mut faults = BTreeMap::new();
        for _ in 0..rng.usize(..=8) {
            // The application's process has fewer calls.
            let process = rng.usize(..=workers);
            let call = if process == workers { rng.u32(..8) } else { rng.u32(..60) };
            faults.insert((process, call), fault(&mut rng, process == workers));
        }
        Self {
            seed,
            workers,
            concurrency: rng.u32(1..=4),
            linger_millis: [0, 50, 1000][rng.usize(..3)],
            runs,
            faults,
            planted: None,
        }
    }

    /// Cases that are a little smaller.
    #[must_use]
    pub fn smaller(&self) -> Vec<Self> {
        let mut found = Vec::new();
        for index in (0..self.runs.len()).filter(|_| self.runs.len() > 1) {
            let mut case = self.clone();
            case.runs.remove(index);
            found.push(case);
        }
        for at in self.faults.keys() {
            let mut case = self.clone();
            case.faults.remove(at);
            found.push(case);
        }
        for (index, run) in self.runs.iter().enumerate() {
            let with = |run: RunPlan| {
                let mut case = self.clone();
                case.runs[index] = run;
                case
            };
            found.extend(run.program.smaller().into_iter().map(|program| with(RunPlan { program, ..run.clone() })));
            if run.cancel_millis.is_some() {
                found.push(with(RunPlan { cancel_millis: None, ..run.clone() }));
            }
        }
        found
    }
}

fn run_plan(rng: &mut Rng) -> RunPlan {
    RunPlan {
        program: Program::random(rng),
        start_millis: rng.u64(..50),
        gap_millis: [0, 30, 1500][rng.usize(..3)],
        cancel_millis: (rng.u8(..6) == 0).then(|| rng.u64(..2000)),
    }
}

fn fault(rng: &mut Rng, of_application: bool) -> Fault {
    let millis = [3, 50, 400, 1500, 4000][rng.usize(..5)];
    // About as long as a lease: the next owner is at work when this one comes back.
    let stop = rng.u64(500..2000);
    match rng.u8(..if of_application { 5 } else { 16 }) {
        0 => Fault::FailBefore,
        1 => Fault::FailAfter,
        2 => Fault::Slow(millis),
        3 => Fault::LateReply(millis),
        4 => Fault::Partition(rng.u32(1..10)),
        5 | 6 => Fault::DieBefore,
        7 | 8 => Fault::DieAfter,
        9 | 10 => Fault::StopBefore(stop),
        11 | 12 => Fault::StopAfter(stop),
        _ => Fault::TakenForDead,
    }
}
