//! Many cells under one virtual clock: each is a database with workers and an application of its
//! own, and a key of a run leads to its cell by [`choose_cell`].
//!
//! Claims, leases, take-overs and schedules are those of the real worker. Some workers are killed,
//! and the database of the last cell is out for some seconds. Every run must end once with its
//! answer, each occurrence of a schedule must start one run, and the waits must keep their bounds
//! in every cell whose database was not out.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use workflow_sdk::{Run, choose_cell};

use super::case::{Case, Planted, RunPlan, SchedulePlan, run_plan};
use super::process::{LEASE, Process};
use super::world::World;
use super::{LATEST, end, schedules};

/// The longest turn, in microseconds. It bounds how far the clocks of two processes differ.
const LONGEST_TURN: i64 = 20_000;

/// The time between two looks whether every run has ended, in microseconds.
const LOOK_INTERVAL: i64 = 1_000_000;

/// The time of the first death, in microseconds: the workers have then started.
const FIRST_DEATH: i64 = 2_000_000;

/// How long the death of a worker waits until it holds a run, in microseconds.
const PATIENCE: i64 = 3_000_000;

/// How long a killed worker stays dead if it comes back, in microseconds.
const RESTART: i64 = 300_000;

/// How long the database of the last cell is out, in milliseconds.
const OUTAGE_MILLIS: u64 = 3_000;

/// The interval of each schedule, in seconds.
const EVERY_SECONDS: [u64; 3] = [1, 2, 5];

/// By which part the calls of the same cells may differ between two numbers of cells. Ids of
/// workers are random, and decide which worker of a cell fires the schedules.
const TOLERANCE: f64 = 0.2;

/// A simulation of cells.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed of all random choices.
    pub seed: u64,
    /// The number of cells.
    pub cells: usize,
    /// The number of workers, over all cells.
    pub workers: usize,
    /// The number of runs that applications start, over all cells. Each has a key.
    pub runs: usize,
    /// The number of workers that are killed, over all cells. The first one of a cell stays dead,
    /// the second one comes back, and so on.
    pub kills: usize,
    /// The time in which runs and schedules are started, in seconds. Range: 8 or more.
    pub load_seconds: u64,
    /// The bounds of the waits.
    pub bounds: Bounds,
    /// A planted bug, which the simulation must find.
    pub planted: Option<Planted>,
}

/// The longest waits that are allowed in a cell whose database is not out.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// From the start of a run to its first claim.
    pub first_claim: Duration,
    /// From the death of a worker to the next claim of each run that it held.
    pub take_over: Duration,
    /// From an occurrence of a schedule to the start of its run.
    pub schedule: Duration,
}

impl Plan {
    /// Returns the plan for this number of cells and workers: five runs per worker, an eighth of
    /// the workers killed, and a load of 20 seconds.
    #[must_use]
    pub fn of_size(cells: usize, workers: usize) -> Self {
        // The poll interval, a turn of each process and the delays on the wire.
        let poll = Duration::from_millis(1250);
        let bounds = Bounds { first_claim: poll, take_over: LEASE + poll, schedule: Duration::from_secs(1) };
        let (runs, kills) = (workers * 5, workers / 8);
        Self { seed: 1, cells, workers, runs, kills, load_seconds: 20, bounds, planted: None }
    }

    fn load_millis(&self) -> u64 {
        self.load_seconds * 1000
    }

    fn load_micros(&self) -> i64 {
        i64::try_from(self.load_millis() * 1000).unwrap_or(i64::MAX)
    }

    /// Returns the case of each cell. Each key is in one of them.
    fn cases(&self) -> Vec<Case> {
        let names: Vec<String> = (0..self.cells).map(|cell| format!("cell-{cell}")).collect();
        let mut rng = Rng::with_seed(self.seed);
        let mut cases: Vec<Case> = (0..self.cells).map(|cell| self.case(cell)).collect();
        for number in 0..self.runs {
            let key = format!("order-{number}");
            let start_millis = rng.u64(..self.load_millis());
            let plan = RunPlan { key: Some(key.clone()), start_millis, ..run_plan(&mut rng) };
            let chosen = choose_cell(&key, names.iter().map(String::as_str));
            if let Some(cell) = names.iter().position(|name| Some(name.as_str()) == chosen) {
                cases[cell].runs.push(plan);
            }
        }
        cases
    }

    /// Returns the case of a cell without runs.
    fn case(&self, cell: usize) -> Case {
        let workers = self.workers / self.cells + usize::from(cell < self.workers % self.cells);
        let is_last = self.cells > 1 && cell == self.cells - 1;
        let out_from = self.load_millis() / 2;
        let schedules = SchedulePlan { every_seconds: EVERY_SECONDS.to_vec(), until_millis: self.load_millis() };
        Case {
            workers,
            concurrency: 8,
            linger_millis: 50,
            runs: Vec::new(),
            faults: [].into(),
            planted: self.planted,
            schedules: Some(schedules),
            outage_millis: if is_last { out_from..out_from + OUTAGE_MILLIS } else { 0..0 },
            is_traced: false,
            ..Case::random(self.seed.wrapping_add(cell as u64))
        }
    }
}

/// Counts and waits of one simulation.
#[derive(Clone, Debug, Default)]
pub struct CellFigures {
    /// The number of workers.
    pub workers: usize,
    /// The number of runs, including children and those of schedules.
    pub runs: u64,
    /// The number of runs that schedules started.
    pub scheduled: u64,
    /// The number of workers that were killed.
    pub kills: u64,
    /// The number of runs that killed workers held, and that others took over.
    pub taken_over: usize,
    /// The longest waits, in cells whose databases were not out.
    pub first_claim: Duration,
    /// See [`Bounds::take_over`].
    pub take_over: Duration,
    /// See [`Bounds::schedule`].
    pub schedule: Duration,
    /// The number of keys of each cell.
    pub keys: Vec<usize>,
    /// The calls to the database of each cell while the load lasted.
    pub calls: Vec<u64>,
    /// The time that the load lasted, in seconds.
    pub load_seconds: u64,
}

impl CellFigures {
    /// Returns the calls to the database per second of the first cells, on average.
    #[must_use]
    pub fn calls_per_second(&self, cells: usize) -> f64 {
        let first = &self.calls[..cells.min(self.calls.len())];
        first.iter().sum::<u64>() as f64 / (first.len() as u64 * self.load_seconds).max(1) as f64
    }
}

impl fmt::Display for CellFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workers, runs, scheduled, kills, taken_over, .. } = self;
        let (cells, seconds) = (self.calls.len(), Duration::as_secs_f64);
        let (fewest, most) = (self.keys.iter().min().unwrap_or(&0), self.keys.iter().max().unwrap_or(&0));
        write!(f, "{cells} cells, {workers} workers: {runs} runs ended, {scheduled} of them of schedules; ")?;
        write!(f, "{kills} workers killed, {taken_over} runs taken over; longest waits: ")?;
        write!(f, "first claim {:.3} s, take-over {:.3} s, ", seconds(&self.first_claim), seconds(&self.take_over))?;
        write!(f, "occurrence {:.3} s; {fewest} to {most} keys per cell; ", seconds(&self.schedule))?;
        write!(f, "{:.1} calls to the database per second and cell, ", self.calls_per_second(cells))?;
        write!(f, "{:.1} in the first cell", self.calls_per_second(1))
    }
}

/// Simulates the first `simulated` cells of a plan, or all if there are fewer.
///
/// # Errors
/// Returns the first violation, with the number of its cell.
pub fn run(plan: &Plan, simulated: usize) -> Result<CellFigures, String> {
    let cases = plan.cases().into_iter().take(simulated).enumerate();
    let mut cells: Vec<Cell> = cases.map(|(number, case)| Cell::new(plan, number, case)).collect();
    play(plan, &mut cells)?;
    let mut figures = CellFigures { load_seconds: plan.load_seconds, ..CellFigures::default() };
    for cell in &mut cells {
        let number = cell.number;
        cell.check(plan, &mut figures).map_err(|what| format!("cell {number}: {what}"))?;
    }
    Ok(figures)
}

/// Simulates the first cells of a plan, once for each of these numbers of cells in rising order,
/// and checks that the cells of a smaller number make as many calls beside the others of a larger
/// one.
///
/// # Errors
/// See [`run`], and a difference that is too large.
pub fn compare(plan: &Plan, sizes: &[usize]) -> Result<Vec<CellFigures>, String> {
    let all = sizes.iter().map(|simulated| run(plan, *simulated)).collect::<Result<Vec<_>, _>>()?;
    for pair in all.windows(2) {
        let common = pair[0].calls.len();
        let (few, many) = (pair[0].calls_per_second(common), pair[1].calls_per_second(common));
        if (few - many).abs() > TOLERANCE * few {
            let among = pair[1].calls.len();
            return Err(format!("{common} cells make {few:.1} calls per second each, and {many:.1} among {among}"));
        }
    }
    Ok(all)
}

/// Gives the processes of all cells their turns until every run has ended, or a violation was
/// found.
fn play(plan: &Plan, cells: &mut [Cell]) -> Result<(), String> {
    let mut rng = Rng::with_seed(!plan.seed);
    // The last occurrences need time to start their runs.
    let (mut now, mut next_look) = (0, plan.load_micros() + 2 * LOOK_INTERVAL);
    while now < LATEST {
        now += rng.i64(1..=LONGEST_TURN);
        for cell in &mut *cells {
            cell.take_turns(now, plan.load_micros())?;
        }
        if now >= next_look {
            next_look = now + LOOK_INTERVAL;
            if cells.iter().all(|cell| end::is_reached(&cell.world)) {
                break;
            }
        }
    }
    Ok(())
}

/// The death of a worker.
struct Kill {
    process: usize,
    at: i64,
}

/// A database with its processes.
struct Cell {
    number: usize,
    world: Arc<World>,
    processes: Vec<Process>,
    /// The order of turns.
    order: Vec<usize>,
    rng: Rng,
    /// The deaths to come.
    kills: Vec<Kill>,
    killed: u64,
    /// The workers that stay dead.
    gone: BTreeSet<usize>,
    /// The calls to the database while the load lasts.
    calls: u64,
}

impl Cell {
    fn new(plan: &Plan, number: usize, case: Case) -> Self {
        let (workers, mut rng) = (case.workers, Rng::with_seed(case.seed));
        // Early enough that a worker which comes back can still declare its schedules.
        let last_death = (plan.load_micros() / 2).max(FIRST_DEATH + 1);
        let of_cell = (number..plan.kills).step_by(plan.cells).enumerate().take(workers);
        let kills = of_cell.map(|(process, _)| Kill { process, at: rng.i64(FIRST_DEATH..last_death) }).collect();
        Self {
            number,
            world: World::new(case),
            processes: (0..=workers).map(Process::new).collect(),
            order: (0..=workers).collect(),
            rng,
            kills,
            killed: 0,
            gone: BTreeSet::new(),
            calls: 0,
        }
    }

    /// Gives each process of the cell its turn.
    fn take_turns(&mut self, now: i64, load: i64) -> Result<(), String> {
        // The engine draws jitter from the thread's random numbers. A cell must draw the same ones
        // alone and among others.
        fastrand::seed(self.rng.u64(..));
        self.kill(now);
        self.rng.shuffle(&mut self.order);
        for number in &self.order {
            let rest = if self.gone.contains(number) { LATEST } else { RESTART };
            self.processes[*number].go_on(&self.world, now, rest);
        }
        self.world.turn_ends(now);
        if now <= load {
            self.calls = self.world.counted().0;
        }
        self.world.violation().map_or(Ok(()), |what| Err(format!("cell {}: {what}", self.number)))
    }

    /// Kills the workers whose time has come, each once it holds a run.
    fn kill(&mut self, now: i64) {
        let Self { world, processes, kills, killed, gone, .. } = self;
        kills.retain(|Kill { process, at }| {
            let is_due = now > at + PATIENCE || (now >= *at && world.holds_runs(*process));
            if !is_due || !processes[*process].is_alive() {
                return true;
            }
            world.kill(*process);
            if process % 2 == 0 {
                gone.insert(*process);
            }
            *killed += 1;
            false
        });
    }

    /// Checks the final rows of the cell, and adds its figures.
    fn check(&mut self, plan: &Plan, figures: &mut CellFigures) -> Result<(), String> {
        // The processes end before the shared state is checked for the last time.
        self.processes.clear();
        let (world, case) = (&self.world, &self.world.case);
        if let Some(violation) = world.violation() {
            return Err(violation);
        }
        figures.runs += end::check(world)?;
        let runs = end::all(world);
        let scheduled = schedules::check(case, &runs)?;
        if let Some(run) = world.left().first() {
            return Err(format!("run {run} of a killed worker was never claimed again"));
        }
        let takeovers = world.takeovers();
        figures.workers += case.workers;
        figures.scheduled += scheduled.runs;
        figures.kills += self.killed;
        figures.taken_over += takeovers.len();
        figures.keys.push(case.runs.len());
        figures.calls.push(self.calls);
        if !case.outage_millis.is_empty() {
            return Ok(());
        }
        let take_over = takeovers.iter().max().map_or(0, |micros| u64::try_from(*micros).unwrap_or(0));
        let (first_claim, take_over) = (first_claim(&runs), Duration::from_micros(take_over));
        for (what, longest, bound) in [
            ("the first claim of a run", first_claim, plan.bounds.first_claim),
            ("a take-over", take_over, plan.bounds.take_over),
            ("the start of a scheduled run", scheduled.latest, plan.bounds.schedule),
        ] {
            if longest > bound {
                return Err(format!("{what} took {longest:?}, and at most {bound:?} is allowed"));
            }
        }
        figures.first_claim = figures.first_claim.max(first_claim);
        figures.take_over = figures.take_over.max(take_over);
        figures.schedule = figures.schedule.max(scheduled.latest);
        Ok(())
    }
}

/// Returns the longest wait for a first claim. A run that has continued as new does not keep the
/// time of its first claim.
fn first_claim(runs: &[Run]) -> Duration {
    let first = runs.iter().filter(|run| run.generation == 0);
    first.filter_map(|run| Some(run.started_at?.since(run.created_at))).max().unwrap_or_default()
}
