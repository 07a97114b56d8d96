//! A drive: one worker's polling of one claimed run, until the run ends, parks or is lost.

mod alone;
mod crashes;
mod early;
mod events;
mod exit;
mod external_events;
mod finish;
mod foreign_await;
mod history;
mod poll;
mod port;
mod retry;
mod transaction;
mod wait;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use workflow_engine::replay::{Divergence, Interrupted, Interruption, Next};
use workflow_engine::runtime::RunCell;
use workflow_engine::store::ClaimedRun;
use workflow_sdk::Timestamp;

use self::alone::drive_alone;
use self::crashes::CrashRecord;
use self::exit::{
    DriveEnd, Exit, LeftBehind, after_drive, directed_exit, diverged, ended, polled_exit, unless_told_to_end,
};
use self::external_events::{CHILD_LOOK_INTERVAL, ExternalEvents};
use self::finish::{LastWrite, finish, report};
use self::history::{load_history, load_occurrence, settings_of, warn_of_size};
use self::poll::DrivenWorkflow;
use self::port::DrivePort;
use self::wait::{Fact, Plan, Standstill, next_fact};
use self::writes::{Answer, UnansweredWrites};
use crate::claim_state::Directive;
use crate::claims::ClaimGuard;
use crate::quarantine::{Admission, QuarantineSlot};
use crate::saturation::SaturationWatch;
use crate::shared::{Shared, Slot};

pub(crate) use self::events::send_claimed;
pub(crate) use self::exit::{Beginning, unreadable};

/// Drives one claimed run until it ends, parks or is lost, and commits which of these it is.
///
/// A worker has one such future per run. Its large parts are boxed, so that the future fits in a
/// block that an allocator keeps ready (a kilobyte in glibc).
pub(crate) async fn drive(
    shared: Arc<Shared>,
    run: Box<ClaimedRun>,
    beginning: Beginning,
    claim: ClaimGuard,
    slot: Slot,
) {
    let admission = match beginning {
        Beginning::End(end) => return finish(&shared, &run, LastWrite::alone(end), slot).await,
        Beginning::Drive(admission) => admission,
    };
    let (end, presence) = match admission {
        Some(Admission::Admitted(place)) => (drive_to_exit(&shared, &run, claim, &place).await, Some(place)),
        Some(Admission::Alone(turn)) => Box::pin(drive_alone(&shared, &run, claim, turn)).await,
        Some(Admission::Later(place, delay)) => (DriveEnd::at(Exit::HeldBack(delay)), Some(place)),
        None => (DriveEnd::at(Exit::Blocked), None),
    };
    let DriveEnd { exit, left, interruption, records } = end;
    report(&shared, &run, &exit);
    if let Some(delay) = exit.comes_back_after() {
        shared.given_back.note(delay);
    }
    let is_release = matches!(exit, Exit::Released | Exit::HeldBack(_) | Exit::Blocked);
    if let Some(write) = after_drive(&run, exit, left, shared.clock.now()).map(Box::new) {
        let last = LastWrite { records, write, has_children: left.has_children, interruption, is_release };
        finish(&shared, &run, last, slot).await;
    }
    // Dropped only now: until now, the death of this worker would count a crash for this run too.
    drop(presence);
    if left.has_seats {
        shared.seats.note_left();
    }
}

/// Drives a run to the end of its drive. The last write of the drive is not sent yet.
async fn drive_to_exit(shared: &Shared, run: &ClaimedRun, claim: ClaimGuard, slot: &QuarantineSlot) -> DriveEnd {
    let mut drive = match Drive::begin(shared, run, claim, slot).await {
        Ok(drive) => Box::new(drive),
        Err(exit) => return DriveEnd::at(exit),
    };
    let exit = drive.run_to_exit().await;
    // Read before the workflow is dropped: waits that it drops now are not written, but deleted by
    // the end of the run.
    let has_seats = drive.workflow.cell().has_seats();
    let interruption = drive.workflow.cell().interrupted().filter(|it| it.delivered).map(|it| it.by);
    let (mut records, leaves_waits) = drive.take_held(&exit);
    let has_event_waits = has_seats || leaves_waits || drive.workflow.cell().has_event_waits();
    let exit = exit.unwrap_or_else(|exit| exit);
    drive.drop_workflow();
    // The writes must be in the queue before the last write of the drive.
    let exit = drive.writes.sent().await.map_or(Exit::Lost, |()| exit);
    let exit = drive.or_retry(exit, &mut records).await.unwrap_or_else(|exit| exit);
    let (outcome, error) = exit.outcome();
    drive.workflow.cell().settings().span.ended(outcome, error);
    let left = LeftBehind { has_seats, has_children: drive.workflow.cell().has_children(), has_event_waits };
    DriveEnd { exit, left, interruption, records }
}

/// One drive. Its parts decide, keep a state or wait; the drive moves values between them.
struct Drive<'a> {
    shared: &'a Shared,
    run: &'a ClaimedRun,
    claim: ClaimGuard,
    port: Arc<DrivePort>,
    workflow: DrivenWorkflow,
    writes: UnansweredWrites,
    events: ExternalEvents,
    saturation: SaturationWatch,
    crashes: CrashRecord<'a>,
    /// Whether the log has a warning of the size of the history.
    has_warned_of_size: bool,
    /// Whether the run was reported because it waits for something foreign and nothing else.
    has_reported_stall: bool,
}

impl<'a> Drive<'a> {
    async fn begin(
        shared: &'a Shared,
        run: &'a ClaimedRun,
        claim: ClaimGuard,
        slot: &'a QuarantineSlot,
    ) -> Result<Self, Exit> {
        let history = load_history(shared, run).await?;
        let port = DrivePort::new(shared, run, claim.state());
        let occurrence = load_occurrence(shared, run.claim.run_id).await?;
        let settings = settings_of(run, occurrence, &shared.client);
        let cell = RunCell::new(settings, history, Arc::<DrivePort>::clone(&port));
        let entry = shared.registry.entry(&run.lane).ok_or(Exit::Released)?;
        Ok(Self {
            workflow: DrivenWorkflow::begin(entry, cell, run.input.clone(), Arc::<DrivePort>::clone(&port)),
            port,
            writes: UnansweredWrites::new(shared.executor().clone()),
            events: ExternalEvents::new(run.wakes),
            saturation: shared.saturation.watch(),
            crashes: CrashRecord::new(run, slot),
            has_warned_of_size: false,
            has_reported_stall: false,
            shared,
            run,
            claim,
        })
    }

    /// Polls, delivers, writes and waits until nothing is left to do. `Err` is an exit that was
    /// found on the way.
    async fn run_to_exit(&mut self) -> Result<Exit, Exit> {
        // Checked before the workflow is called, because the replay of a too large history costs
        // too much.
        self.check_size()?;
        let mut is_checked = false;
        loop {
            // The claim is checked before each poll and after each wait.
            if !is_checked {
                self.check_claim()?;
                is_checked = true;
                // Before the poll, so that a run that cannot go on with this code is told to end
                // too, and its grace begins.
                self.send_records()?;
            }
            if self.workflow.take_needs_poll() {
                is_checked = false;
                self.workflow.restore_budget().await;
                let polled = {
                    let _poll = self.claim.state().begin_poll();
                    self.workflow.poll()
                };
                if let Some(exit) = polled_exit(polled, || self.workflow.cell().interrupted()) {
                    if let Some(divergence) = self.workflow.cell().ended() {
                        return Ok(diverged(&exit, divergence, self.grace_ends_at()));
                    }
                    self.confirm_early().await?;
                    // Values that the workflow published and items that it emitted last are
                    // committed before its end, or with it.
                    self.send_records()?;
                    return Ok(unless_told_to_end(exit, self.workflow.cell().interrupted()));
                }
            }
            let mut next = self.workflow.next();
            // Values that were published by code that does not fit are not written.
            if !matches!(next, Next::Diverged(_) | Next::Passed(_)) {
                self.check_size()?;
                next = self.early_or(next);
                self.send_records()?;
            }
            match next {
                Next::Deliver(_) | Next::Start(_) | Next::Interrupt(_) | Next::Admit(_) => self.workflow.require_poll(),
                Next::Send => {}
                Next::Diverged(divergence) => return Ok(self.diverged(divergence)),
                Next::Passed(divergence) => {
                    is_checked = false;
                    // A wake that the runtime has deferred, such as that of its yield, comes first.
                    tokio::task::yield_now().await;
                    self.take_notification()?;
                    if !self.workflow.needs_poll() {
                        return Ok(self.diverged(divergence));
                    }
                }
                // The poll had no budget left, so the workflow may have more to do now.
                Next::Wait { .. } if self.workflow.needs_poll() => {
                    is_checked = false;
                    self.wait(Some(self.shared.clock.now()), None).await?;
                }
                Next::Wait { timer, park_until } => {
                    is_checked = false;
                    if !self.look_for_events().await? {
                        self.wait(timer, park_until).await?;
                    }
                }
            }
        }
    }

    fn diverged(&self, divergence: Divergence) -> Exit {
        Exit::Diverged { divergence, grace_ends_at: self.grace_ends_at() }
    }

    /// Takes note of the claim's state. Returns the exit that the state asks for as an error.
    fn check_claim(&mut self) -> Result<(), Exit> {
        let claim = self.claim.state().snapshot();
        if let Some(exit) = directed_exit(claim.directive) {
            return Err(exit);
        }
        let now = Instant::now();
        self.interrupt(claim.cancel_requested, self.shared.clock.at(now))?;
        if self.events.update(claim.wake_seq) {
            self.workflow.cell().look_again();
        }
        // No body begins on a claim whose lease may have run out.
        self.workflow.hold_bodies(claim.directive == Directive::Drain || !claim.is_valid_at(now));
        Ok(())
    }

    /// Tells the run to end if it was canceled or its deadline has passed. Ends it if its grace is
    /// over. Does nothing to a run that has failed by itself and is being undone.
    fn interrupt(&self, cancel_requested: bool, now: Timestamp) -> Result<(), Exit> {
        if self.undoes_its_failure() {
            self.port.set_end(Timestamp::FAR_FUTURE);
            return Ok(());
        }
        if self.run.cancel_requested || cancel_requested {
            self.workflow.cell().interrupt(Interruption::Canceled);
        } else if self.run.deadline_at.is_some_and(|deadline| deadline <= now) {
            self.workflow.cell().interrupt(Interruption::Deadline);
        }
        let Some(Interrupted { by, at, .. }) = self.workflow.cell().interrupted() else { return Ok(()) };
        let grace_ends_at = at + self.shared.options.cancel_grace;
        self.port.set_end(grace_ends_at);
        if now < grace_ends_at { Ok(()) } else { Err(Exit::GraceOver(by)) }
    }

    /// Returns whether the run has failed by itself and is being undone. Then only the retries of
    /// its compensations bound it.
    fn undoes_its_failure(&self) -> bool {
        let cell = self.workflow.cell();
        cell.has_begun_undo() && cell.interrupted().is_none()
    }

    /// Returns the end of the run's grace, if the run was told to end.
    fn grace_ends_at(&self) -> Option<Timestamp> {
        self.workflow.cell().interrupted().map(|it| it.at + self.shared.options.cancel_grace)
    }

    /// Ends the run if its history is too large. Logs a warning, once, if it has become large.
    ///
    /// A run that was told to end has its grace, and may have something to undo: only the grace
    /// bounds it.
    fn check_size(&mut self) -> Result<(), Exit> {
        let size = self.workflow.cell().history_size();
        let options = &self.shared.options;
        if let Some(error) = options.exceeded_by(size).filter(|_| self.workflow.cell().interrupted().is_none()) {
            return Err(Exit::Ended(Err(error), None));
        }
        if !self.has_warned_of_size && options.warns_of(size) {
            self.has_warned_of_size = true;
            warn_of_size(self.run, size);
        }
        Ok(())
    }

    /// Sends the records, and begins to commit the transactions that the run has ready. Keeps what
    /// may be committed together with the last write.
    fn send_records(&mut self) -> Result<(), Exit> {
        if self.workflow.cell().is_ahead() { Ok(()) } else { self.send_held() }
    }

    /// Sends the records, and begins to commit the transactions that the run has ready.
    fn send_held(&mut self) -> Result<(), Exit> {
        if !self.workflow.cell().has_records() {
            return self.send_crashes();
        }
        for record in self.workflow.cell().take_outbox() {
            if record.row.position.is_some() {
                self.crashes.note_outcome();
            }
            self.writes.send_record(self.run.claim, record).map_err(|_| Exit::Lost)?;
        }
        for commit in self.workflow.cell().take_commits() {
            self.writes.begin_commit(self.shared.client.clone(), self.run.claim, commit);
        }
        self.send_crashes()
    }

    /// Clears the crashes of the run after its first outcome under this claim. Does not wait for
    /// the commit: a transaction that a body holds could keep it waiting.
    fn send_crashes(&mut self) -> Result<(), Exit> {
        if let Some(write) = self.crashes.take_write() {
            self.writes.send_crashes(write).map_err(|_| Exit::Lost)?;
        }
        Ok(())
    }

    /// Waits for one fact, unless the run is given back or parked.
    async fn wait(&mut self, timer: Option<Timestamp>, park_until: Option<Timestamp>) -> Result<(), Exit> {
        match self.standstill(timer, park_until)?.plan(|| self.shared.clock.now()) {
            Plan::Release => Err(Exit::Released),
            Plan::Park { until, until_deadline } => {
                let until = self.looks_again_at(until);
                let until_deadline = until_deadline && !self.undoes_its_failure();
                Err(Exit::Park { until, until_deadline, wakes: self.events.wakes() })
            }
            Plan::Wait(at_most) => {
                self.send_held()?;
                let saturation = park_until.is_some().then_some(&self.saturation);
                let fact = next_fact(&mut self.writes, self.claim.state(), at_most, saturation).await;
                self.take_fact(fact)
            }
        }
    }

    /// Returns until when the run is parked at most, if it could be parked until this time. A store
    /// in this process has no row that could be removed by hand.
    fn looks_again_at(&self, until: Timestamp) -> Timestamp {
        if self.workflow.cell().awaits_children() && !self.shared.client.store().in_process() {
            until.min(self.shared.clock.now() + CHILD_LOOK_INTERVAL)
        } else {
            until
        }
    }

    fn standstill(&mut self, timer: Option<Timestamp>, park_until: Option<Timestamp>) -> Result<Standstill, Exit> {
        let is_draining = self.claim.state().snapshot().directive == Directive::Drain;
        let linger = self.shared.options.linger;
        Ok(Standstill {
            is_drained: is_draining && !self.workflow.cell().is_running() && self.writes.is_empty(),
            timer,
            park_until,
            grace_ends_at: self.grace_ends_at(),
            // Also that of an undo that began as it passed, until it is lifted.
            deadline_at: self.run.deadline_at.filter(|_| self.port.has_end()),
            is_saturated: self.saturation.see(),
            linger,
            linger_left: self.linger_left(linger),
            until_stall_report: self.until_stall_report()?,
        })
    }

    /// Returns how much longer the run stays in memory because an external event may come at any
    /// moment. `None` if it waits for none, or has waited long enough.
    fn linger_left(&self, linger: Duration) -> Option<Duration> {
        let awaits_events = self.workflow.cell().awaits_external_events();
        let left = awaits_events.then(|| linger.saturating_sub(self.workflow.since_poll()));
        left.filter(|left| !left.is_zero())
    }

    fn take_fact(&mut self, fact: Fact) -> Result<(), Exit> {
        match fact {
            Fact::Answered(answer) => self.take_answer(answer),
            Fact::Notified => self.take_notification(),
            Fact::TimeIsOver => {
                self.workflow.fire_timers();
                Ok(())
            }
            Fact::SaturationChanged => Ok(()),
        }
    }

    fn take_answer(&mut self, answer: Answer) -> Result<(), Exit> {
        let cell = self.workflow.cell();
        match answer {
            Answer::Committed { retried } => {
                if retried {
                    self.shared.executor().statistics().retried(&self.run.lane);
                }
                cell.committed();
            }
            Answer::KeyTaken(by) => cell.key_taken(by),
            Answer::EventBusy => cell.event_busy(),
            Answer::EventDelivered => cell.event_delivered(),
            Answer::SeatWaits { asks_at } => {
                self.shared.seats.note_used();
                cell.seat_waits(asks_at);
            }
            Answer::LimitUndeclared => cell.limit_undeclared(),
            Answer::CrashesWritten => self.crashes.written(),
            Answer::TransactionEnded { call, position, result } => {
                if result.is_ok() {
                    self.crashes.note_outcome();
                }
                cell.transaction_ended(call, position, result);
            }
            Answer::Refused(error) => return Err(ended(Err(error), cell.interrupted())),
            Answer::NotWritten(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "a record was not written; the run is given up until its lease ends"
                );
                return Err(Exit::Lost);
            }
            Answer::Lost => return Err(Exit::Lost),
        }
        Ok(())
    }

    /// Takes note that bodies, the workflow or the claim's state have something new.
    fn take_notification(&mut self) -> Result<(), Exit> {
        if !self.workflow.wake_bodies() {
            return Ok(());
        }
        self.report_foreign_wake()
    }

    fn drop_workflow(&mut self) {
        if self.workflow.drop_future() {
            tracing::warn!(run_id = %self.run.claim.run_id, "a destructor in the workflow panicked");
        }
    }
}
