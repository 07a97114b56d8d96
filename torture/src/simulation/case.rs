//! The case of one seed: programs, and the faults around them.

use std::collections::BTreeMap;
use std::ops::Range;

use fastrand::Rng;

use super::program::Program;

/// A case. Everything that a simulation does follows from it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The seed of the delays on the wire, and of the order of turns.
    pub seed: u64,
    /// The number of worker processes. One more process is the application's.
    pub workers: usize,
    /// The maximum number of concurrent runs per worker.
    pub concurrency: u32,
    /// How long a waiting run stays in memory before it parks, in milliseconds.
    pub linger_millis: u64,
    /// The runs that the application starts.
    pub runs: Vec<RunPlan>,
    /// The faults, by process and number of its call to the database. Calls are counted over all
    /// lives of the process.
    pub faults: BTreeMap<(usize, u32), Fault>,
    /// A planted bug, which the simulation must find.
    pub planted: Option<Planted>,
    /// The schedules that each worker declares, if there are any.
    pub schedules: Option<SchedulePlan>,
    /// The times at which every call to the database fails, in milliseconds. Empty: none.
    pub outage_millis: Range<u64>,
    /// Whether a trace is kept. It holds a line per commit.
    pub is_traced: bool,
}

/// The schedules of a case.
#[derive(Clone, Debug)]
pub struct SchedulePlan {
    /// The interval of each schedule, in seconds.
    pub every_seconds: Vec<u64>,
    /// The time of the last occurrence.
    pub until_millis: u64,
}

/// A run that the application starts.
#[derive(Clone, Debug)]
pub struct RunPlan {
    /// The input of the run.
    pub program: Program,
    /// The key of the run. `None`: its id.
    pub key: Option<String>,
    /// The time of the start.
    pub start_millis: u64,
    /// The time before each signal.
    pub gap_millis: u64,
    /// The time of the cancel, if there is one.
    pub cancel_millis: Option<u64>,
}

/// A fault in a call to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails without effect.
    FailBefore,
    /// The call has its effect and fails: the reply is lost.
    FailAfter,
    /// The call takes this long before its effect.
    Slow(u64),
    /// The reply takes this long.
    LateReply(u64),
    /// This many calls fail, this one first.
    Partition(u32),
    /// The process dies before the effect of the call.
    DieBefore,
    /// The process dies after the effect of the call.
    DieAfter,
    /// The process stops for this long before the effect of the call.
    StopBefore(u64),
    /// The process stops for this long after the effect of the call.
    StopAfter(u64),
    /// Another worker takes this one for dead and releases its claims.
    TakenForDead,
}

/// A bug that can be planted into the simulated store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Every write is treated as a write of the run's current owner.
    NoFence,
    /// One of eight step outcomes is acknowledged and not written.
    LostRow,
    /// Every signal is stored twice.
    SignalTwice,
}

impl Case {
    /// Returns the random case of a seed.
    #[must_use]
    pub fn random(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let workers = rng.usize(1..=3);
        let runs = (0..rng.usize(1..=3)).map(|_| run_plan(&mut rng)).collect();
        let mut faults = BTreeMap::new();
        for _ in 0..rng.usize(..=8) {
            // The application makes fewer calls.
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
            schedules: None,
            outage_millis: 0..0,
            is_traced: true,
        }
    }

    /// Returns cases that are a little smaller.
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

/// Returns a random run.
pub(super) fn run_plan(rng: &mut Rng) -> RunPlan {
    RunPlan {
        program: Program::random(rng),
        key: None,
        start_millis: rng.u64(..50),
        gap_millis: [0, 30, 1500][rng.usize(..3)],
        cancel_millis: (rng.u8(..6) == 0).then(|| rng.u64(..2000)),
    }
}

fn fault(rng: &mut Rng, of_application: bool) -> Fault {
    let millis = [3, 50, 400, 1500, 4000][rng.usize(..5)];
    // About as long as a lease, so that the next owner is active when this one continues.
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
