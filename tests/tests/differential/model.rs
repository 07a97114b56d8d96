//! Resolves the operations of a plan: writes over the runs and claims that earlier batches have
//! made.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;
use workflow_engine::model::{Claim, Clock, Effect, Lane, NewRun, NewSignal, SignalKey, StartTime, WorkerId};
use workflow_engine::store::{
    AttemptWrite, ClaimRequest, ContinueWrite, CrashesWrite, DeleteWrite, EndWrite, ForkWrite, Outcome, ParkWrite,
    PlaceChange, PlaceWrite, RetryWrite, ReviveWrite, RunEnd, Write,
};
use workflow_sdk::{AttemptStatus, OnParentEnd, Parent, RunId, StepAttempt, StepKind, Timestamp};
use workflow_tests::builders;

use crate::plan::{LANES, Limit, Operation, PROCESSES, Pick, Progress, Validity, WORKERS_PER_PROCESS, When, With};

/// Runs and claims as far as the outcomes have told.
pub struct Model {
    clock: Clock,
    workers: Vec<WorkerId>,
    runs: Vec<NewRun>,
    /// Claims that may hold, the latest last.
    recent: Vec<(WorkerId, Claim)>,
    /// Every claim that was answered.
    all: Vec<Claim>,
    ids: u128,
    positions: i64,
}

impl Model {
    pub fn new(clock: &Clock) -> Self {
        let mut ids = 1 << 100;
        let mut workers = Vec::new();
        for _ in 0..PROCESSES * WORKERS_PER_PROCESS {
            ids += 1;
            workers.push(WorkerId::from(Uuid::from_u128(ids)));
        }
        Self { clock: clock.clone(), workers, runs: Vec::new(), recent: Vec::new(), all: Vec::new(), ids, positions: 0 }
    }

    /// The workers of all processes.
    pub fn workers(&self) -> &[WorkerId] {
        &self.workers
    }

    /// A claim of everything that is due.
    pub fn claim_all(&self, process: usize) -> Write {
        self.claim(process, 0, 1000, &[0, 1, 2])
    }

    /// The writes of a batch of this process.
    pub fn writes(&mut self, process: usize, batch: &[Operation]) -> Vec<Write> {
        let starts = batch.iter().any(|operation| matches!(operation, Operation::Start { .. }));
        let mut writes = Vec::with_capacity(batch.len());
        for operation in batch {
            writes.extend(self.write(process, operation, starts));
        }
        writes
    }

    /// Learns what became of these writes.
    pub fn learn(&mut self, writes: &[Write], outcomes: &[Outcome]) {
        for (write, outcome) in writes.iter().zip(outcomes) {
            match (write, outcome) {
                (Write::Claim(request), Outcome::Claimed(claimed)) => {
                    for run in &claimed.runs {
                        self.recent.push((request.worker, run.claim));
                        self.all.push(run.claim);
                    }
                }
                (Write::End(EndWrite { claim, .. }) | Write::Park(ParkWrite { claim, .. }), _)
                | (Write::Continue(ContinueWrite { claim, .. }) | Write::Retry(RetryWrite { claim, .. }), _) => {
                    self.recent.retain(|(_, recent)| recent != claim);
                }
                (Write::Fork(fork), Outcome::Started(_)) => self.runs.push(fork.new.clone()),
                _ => {}
            }
        }
    }

    fn write(&mut self, process: usize, operation: &Operation, starts: bool) -> Option<Write> {
        Some(match operation {
            Operation::Start { repeats: true, .. } if !self.runs.is_empty() => Write::Start(self.runs.last()?.clone()),
            Operation::Start { key, lane, when, deadline, .. } => {
                let run = NewRun {
                    lane: lane_of(*lane),
                    key: key.map(|key| format!("key-{key}")),
                    start: self.start_time(*when),
                    deadline: deadline.map(|seconds| StartTime::After(Duration::from_secs(seconds))),
                    ..self.new_run()
                };
                self.runs.push(run.clone());
                Write::Start(run)
            }
            Operation::Attempt { claim, step, attempt, progress, with } => {
                let claim = self.pick(claim)?;
                let row = self.row(claim, *step, *attempt, *progress, *with);
                let effect = match with {
                    With::Nothing => Effect::None,
                    With::Signal { seq } => Effect::Consume { seq: *seq },
                    With::Child { key } => {
                        let (run_id, step_key) = (claim.run_id, row.step_key.clone());
                        let child = NewRun {
                            parent: Some(Parent { run_id, step_key, on_end: OnParentEnd::Cancel }),
                            key: key.map(|key| format!("key-{key}")),
                            depth: 1,
                            ..self.new_run()
                        };
                        self.runs.push(child.clone());
                        Effect::Start(Box::new(child))
                    }
                };
                Write::Attempt(AttemptWrite { claim, row, effect })
            }
            Operation::End { claim, succeeds, family } => {
                let claim = self.pick(claim)?;
                let parent = self.run(claim.run_id).and_then(|run| run.parent.as_ref()).map(|parent| parent.run_id);
                let end = match succeeds {
                    true => RunEnd::Succeeded("\"done\"".into()),
                    false => RunEnd::Failed(builders::error("no luck")),
                };
                let parent_run_id = if *family { parent } else { None };
                Write::End(EndWrite { claim, parent_run_id, has_children: *family, has_event_waits: false, end })
            }
            Operation::Park { claim, wakes, until, until_deadline, error, reset_crashes } => {
                let error = error.then(|| builders::error("diverged"));
                Write::Park(ParkWrite {
                    claim: self.pick(claim)?,
                    wakes: *wakes,
                    until: self.instant(*until),
                    until_deadline: *until_deadline,
                    error,
                    reset_crashes: *reset_crashes,
                })
            }
            Operation::Claim { worker, limit, lanes } => {
                let limit = match limit {
                    Limit::One => 1,
                    Limit::Few if starts => 1,
                    Limit::Few => 3,
                    Limit::All => 1000,
                };
                self.claim(process, *worker, limit, lanes)
            }
            Operation::Crashes { claim, crashes, is_alone } => {
                let (crashes, lone_crashes, is_alone) = (*crashes, *crashes / 2, *is_alone);
                Write::Crashes(CrashesWrite { claim: self.pick(claim)?, crashes, lone_crashes, is_alone })
            }
            Operation::Retry { claim, until } => Write::Retry(RetryWrite {
                claim: self.pick(claim)?,
                until: self.instant(*until),
                again: vec!["step-0".into(), "step-1".into()],
                error: builders::error("no luck"),
            }),
            Operation::Continue { claim } => {
                Write::Continue(ContinueWrite { claim: self.pick(claim)?, input: "\"next\"".into() })
            }
            Operation::Fork { run, before } => {
                let source = self.any_run(*run)?.id;
                Write::Fork(Box::new(ForkWrite { source, new: self.new_run(), before: *before, kept: None }))
            }
            Operation::Revive { run, attempt } => Write::Revive(ReviveWrite {
                run_id: self.any_run(*run)?.id,
                attempt: *attempt,
                again: vec!["step-0".into()],
                deadline: None,
            }),
            Operation::Pause { run } => Write::Pause(self.any_run(*run)?.id),
            Operation::Resume { run } => Write::Resume(self.any_run(*run)?.id),
            Operation::SetPriority { run, priority } => {
                Write::Place(PlaceWrite { run_id: self.any_run(*run)?.id, change: PlaceChange::Priority(*priority) })
            }
            Operation::MoveTo { run, queue } => {
                let run = self.any_run(*run)?;
                let lane = Lane { queue: (*queue).into(), ..run.lane.clone() };
                Write::Place(PlaceWrite { run_id: run.id, change: PlaceChange::Queue { lane, gate: None } })
            }
            Operation::Signal { run, key } => Write::Signal(NewSignal {
                run_id: self.any_run(*run)?.id,
                name: "paid".into(),
                payload: "7".into(),
                key: key.map_or_else(SignalKey::generate, |key| SignalKey::Given(format!("signal-{key}"))),
                limit: None,
            }),
            Operation::Cancel { run } => Write::Cancel(self.any_run(*run)?.id),
            Operation::Terminate { run } => Write::Terminate(self.any_run(*run)?.id),
            Operation::Delete { run } => {
                Write::Delete(DeleteWrite { run_id: self.any_run(*run)?.id, ended_before: None })
            }
            Operation::Expire => Write::Expire { limit: 1000, patience: Duration::from_secs(5) },
            Operation::Disown { worker } => {
                let worker = self.workers[process * WORKERS_PER_PROCESS + worker];
                let held = self.recent.iter().filter(|(holder, _)| *holder == worker);
                Write::ReleaseUnknown { worker, known: held.map(|(_, claim)| *claim).step_by(2).collect() }
            }
        })
    }

    fn claim(&self, process: usize, worker: usize, limit: u32, lanes: &[usize]) -> Write {
        let worker = self.workers[process * WORKERS_PER_PROCESS + worker];
        let lanes = lanes.iter().map(|lane| lane_of(*lane)).collect();
        Write::Claim(ClaimRequest { lanes, ..builders::claim_by(worker, limit) })
    }

    /// The attempts of a step have one kind and begin at one time, as those of a workflow do.
    fn row(&mut self, claim: Claim, step: u8, attempt: i64, progress: Progress, with: With) -> StepAttempt {
        let kind = match with {
            With::Child { .. } => StepKind::Child,
            With::Signal { .. } => StepKind::Signal,
            With::Nothing if step == 3 => StepKind::Sleep,
            With::Nothing => StepKind::Step,
        };
        let begun = StepAttempt {
            attempt,
            kind,
            epoch: claim.epoch,
            started_at: self.clock.host_now(),
            ..builders::begun(&format!("step-{step}"))
        };
        let after = |duration| Some(begun.started_at + duration);
        match progress {
            Progress::Running => begun,
            Progress::Succeeded { quick } => StepAttempt {
                status: AttemptStatus::Succeeded,
                position: Some(self.next_position()),
                output: Some("{\"b\":1.0, \"a\":null}".into()),
                completed_at: after(Duration::from_millis(if quick { 1 } else { 500 })),
                ..begun
            },
            Progress::Failed { final_ } => StepAttempt {
                status: AttemptStatus::Failed,
                position: final_.then(|| self.next_position()),
                error: Some(builders::error("no luck")),
                completed_at: after(Duration::from_millis(1)),
                ..begun
            },
        }
    }

    fn next_position(&mut self) -> i64 {
        self.positions += 1;
        self.positions
    }

    fn pick(&self, pick: &Pick) -> Option<Claim> {
        let back = |len: usize| (len > 0).then(|| len - 1 - pick.back % len);
        let recent = || Some(self.recent[back(self.recent.len())?].1);
        match pick.validity {
            Validity::Recent => recent(),
            Validity::Any => Some(self.all[back(self.all.len())?]),
            Validity::WrongEpoch => recent().map(|claim| Claim { epoch: claim.epoch + 1, ..claim }),
        }
    }

    fn any_run(&self, number: usize) -> Option<&NewRun> {
        self.runs.get(number % self.runs.len().max(1))
    }

    fn run(&self, id: RunId) -> Option<&NewRun> {
        self.runs.iter().find(|run| run.id == id)
    }

    /// Ids rise, so both databases sort them in one order.
    fn new_run(&mut self) -> NewRun {
        self.ids += 1;
        let tags = BTreeMap::from([("origin".to_owned(), "test".to_owned())]);
        NewRun { id: Uuid::from_u128(self.ids).into(), tags, ..builders::new_run() }
    }

    fn instant(&self, when: When) -> Timestamp {
        let now = self.clock.host_now();
        match when {
            When::Now => now,
            When::AfterSeconds(seconds) => now + Duration::from_secs(seconds),
            When::SecondsAgo(seconds) => now - Duration::from_secs(seconds),
        }
    }

    fn start_time(&self, when: When) -> StartTime {
        match when {
            When::Now => StartTime::Now,
            When::AfterSeconds(seconds) => StartTime::After(Duration::from_secs(seconds)),
            When::SecondsAgo(_) => StartTime::At(self.instant(when)),
        }
    }
}

fn lane_of(number: usize) -> Lane {
    match number % LANES {
        0 => builders::lane(),
        1 => builders::lane_of("default", "mail", "1"),
        _ => builders::lane_of("slow", "checkout", "2"),
    }
}
