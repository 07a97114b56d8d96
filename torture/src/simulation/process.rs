//! A simulated process: it has its own runtime, so that it can die at any await and stop as a
//! whole.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use workflow_sdk::{Client, DEFAULT_PAYLOAD_LIMIT};
use workflow_worker::Worker;

use super::application;
use super::program::simulated;
use super::schedules;
use super::wire::Wire;
use super::world::{Body, Halt, World};

/// The lease of the workers.
pub(super) const LEASE: Duration = Duration::from_millis(900);

/// A process, alive or between two lives.
pub(super) struct Process {
    number: usize,
    lives: u64,
    life: Life,
}

enum Life {
    /// The process is dead until this time, in microseconds.
    Dead(i64),
    Alive(Box<Alive>),
}

struct Alive {
    runtime: Runtime,
    /// The start of this life, by the process's own clock.
    origin: Instant,
    born: i64,
    /// The time up to which the process has run.
    at: i64,
    /// The process is stopped until this time.
    stopped_until: i64,
}

impl Process {
    /// Creates a process, which begins to live at its first turn.
    pub(super) fn new(number: usize) -> Self {
        Self { number, lives: 0, life: Life::Dead(0) }
    }

    /// Returns `true` if the process is alive.
    pub(super) fn is_alive(&self) -> bool {
        matches!(self.life, Life::Alive(_))
    }

    /// Runs the process until this time. `rest` is how long it stays dead if it dies.
    pub(super) fn go_on(&mut self, world: &Arc<World>, until: i64, rest: i64) {
        if let Life::Dead(from) = &self.life {
            if *from > until {
                return;
            }
            let born = (*from).max(world.now());
            self.life = Life::Alive(Box::new(Alive::begin(world, self.number, self.lives, born)));
            self.lives += 1;
        }
        let Life::Alive(alive) = &mut self.life else { return };
        if alive.stopped_until > until {
            return;
        }
        alive.go_on(world, self.number, until);
        match world.take_halt(self.number) {
            None => {}
            Some(Halt::Stopped(millis)) => {
                alive.stopped_until = alive.at + i64::try_from(millis).unwrap_or(i64::MAX) * 1000;
            }
            Some(Halt::Died) => {
                world.note(self.number, "is dead");
                let rises = alive.at + rest;
                // The runtime still drops futures; these must find the process dead.
                world.halt(self.number, Halt::Died);
                self.life = Life::Dead(rises);
                world.take_halt(self.number);
            }
        }
    }
}

impl Alive {
    fn begin(world: &Arc<World>, number: usize, life: u64, born: i64) -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        let world = Arc::clone(world);
        let origin = runtime.block_on(async {
            let origin = Instant::now();
            world.turn(origin, born);
            world.note(number, "begins");
            let client = Client::over(Arc::new(Wire::new(&world, number, life)), DEFAULT_PAYLOAD_LIMIT);
            if number == world.case.workers {
                tokio::spawn(application::run(Arc::clone(&world), client));
            } else {
                tokio::spawn(work(world, number, client));
            }
            origin
        });
        Self { runtime, origin, born, at: born, stopped_until: 0 }
    }

    fn go_on(&mut self, world: &World, number: usize, until: i64) {
        let micros = |micros: i64| Duration::from_micros(u64::try_from(micros).unwrap_or(0));
        world.turn(self.origin, self.born);
        let halted = world.halted(number);
        let Self { origin, born, at, stopped_until, .. } = *self;
        self.at = self.runtime.block_on(async {
            if stopped_until > at {
                // As after SIGCONT: only the clock has advanced meanwhile.
                tokio::time::advance(micros(stopped_until - at)).await;
            }
            tokio::select! {
                biased;
                () = halted.notified() => {}
                () = tokio::time::sleep_until(origin + micros(until - born)) => {}
            }
            born + i64::try_from(origin.elapsed().as_micros()).unwrap_or(i64::MAX)
        });
        self.stopped_until = 0;
        world.turn_ends(self.at);
    }
}

/// Runs a worker. If the worker ends by itself, the process dies.
async fn work(world: Arc<World>, number: usize, client: Client) {
    let mut worker = Worker::new(client, Body { process: number, world: Arc::clone(&world) })
        .register(simulated)
        .lease(LEASE)
        .linger(Duration::from_millis(world.case.linger_millis))
        .concurrency(world.case.concurrency)
        .cancel_grace(Duration::from_secs(20))
        .max_crashes(1000);
    for schedule in schedules::declared(&world.case) {
        worker = worker.schedule(schedule);
    }
    if let Err(error) = worker.run_until(std::future::pending()).await {
        world.note(number, format_args!("ends: {error}"));
    }
    world.halt(number, Halt::Died);
}
