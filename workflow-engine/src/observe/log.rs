use crate::model::RunStatus;

use super::{Event, Observer};

/// Writes events as `tracing` events with the target `workflow` and the name in the field `event`.
/// `docs/guide/logging.md` lists names, levels and fields.
#[derive(Clone, Copy, Debug)]
pub struct LogObserver;

/// Logs an event of a run with the fields that name the run.
macro_rules! run {
    ($level:ident, $event:expr, $run:expr, $($rest:tt)+) => {
        tracing::$level!(
            target: "workflow",
            run_id = %$run.id,
            workflow = $run.workflow,
            version = $run.version,
            queue = $run.queue,
            event = $event.name(),
            $($rest)+
        )
    };
}

/// Logs an event of a step with the fields that name the attempt.
macro_rules! step {
    ($event:expr, $step:expr, $($rest:tt)+) => {
        tracing::debug!(
            target: "workflow",
            event = $event.name(),
            run_id = %$step.run_id,
            step = $step.key,
            kind = $step.kind.as_str(),
            attempt = $step.attempt,
            $($rest)+
        )
    };
}

impl Observer for LogObserver {
    fn event(&self, event: &Event<'_>) {
        match *event {
            Event::RunStarted { run } => run!(debug, event, run, "run started"),
            Event::RunClaimed { run, worker, epoch, attempt } => {
                run!(debug, event, run, %worker, epoch, attempt, "run claimed");
            }
            Event::RunWoken { run, worker } => run!(debug, event, run, %worker, "run woken"),
            Event::RunTakenOver { run, worker, crashes } => {
                run!(info, event, run, %worker, crashes, "run taken over: its last worker died, or let its lease end");
            }
            Event::RunParked { run, until } => {
                run!(debug, event, run, until = until.map(tracing::field::display), "run parked")
            }
            Event::RunDiverged { run, report, is_new: true } => run!(error, event, run, "run parked: {report}"),
            Event::RunDiverged { run, is_new: false, .. } => {
                run!(debug, event, run, "run parked again: its history still does not fit the code");
            }
            Event::RunRetried { run, attempt, kind, until } => {
                run!(warn, event, run, attempt, error = %kind, %until, "run failed, trying again");
            }
            Event::RunContinued { run, generation } => run!(debug, event, run, generation, "run continues as new"),
            Event::RunReleased { run } => run!(debug, event, run, "run given back"),
            Event::RunEnded { run, status, kind, step, attempt, duration } => {
                let status_name = status.as_str();
                match status {
                    RunStatus::Succeeded => {
                        run!(debug, event, run, status = status_name, attempt, ?duration, "run succeeded");
                    }
                    RunStatus::Canceled => {
                        run!(info, event, run, status = status_name, attempt, ?duration, "run canceled");
                    }
                    _ => {
                        let error = kind.map(tracing::field::display);
                        run!(warn, event, run, status = status_name, error, step, attempt, ?duration, "run failed");
                    }
                }
            }
            Event::LeaseLost { run, worker } => {
                run!(warn, event, run, %worker, "claim lost: the run was terminated, or another worker has it");
            }
            Event::StepBegun { step } => step!(event, step, "step begun"),
            Event::StepRetried { step, error, duration } => {
                step!(event, step, error = error.map(tracing::field::display), ?duration, "step failed, trying again");
            }
            Event::StepEnded { step, error, duration } => {
                step!(event, step, error = error.map(tracing::field::display), ?duration, "step ended");
            }
            Event::Committed { writes, duration } => {
                tracing::trace!(target: "workflow", event = event.name(), writes, ?duration, "batch committed");
            }
            Event::CommitFailed { writes, failures, retry_after: Some(delay), error } => {
                let error = error as &dyn std::error::Error;
                tracing::warn!(
                    target: "workflow", event = event.name(), writes, failures, ?delay, error, "commit failed, trying again"
                );
            }
            Event::CommitFailed { writes, failures, retry_after: None, error } => {
                let error = error as &dyn std::error::Error;
                tracing::error!(target: "workflow", event = event.name(), writes, failures, error, "commit failed");
            }
            Event::ScheduleFired { schedule, started, skipped, missed, lateness } => {
                let event = event.name();
                tracing::debug!(target: "workflow", event, schedule, started, skipped, missed, ?lateness, "schedule fired");
            }
            Event::ClaimAnswered { worker, wanted, claimed, duration } => {
                let event = event.name();
                tracing::trace!(target: "workflow", event, %worker, wanted, claimed, ?duration, "claim answered");
            }
            Event::WorkerStarted { worker, lanes, concurrency } => {
                let event = event.name();
                tracing::info!(target: "workflow", %worker, lanes, concurrency, event, "worker started");
            }
            Event::WorkerStopping { worker, claims } => {
                let event = event.name();
                tracing::info!(target: "workflow", %worker, claims, event, "worker stops: running steps may end");
            }
            Event::OldRunsDeleted { worker, deleted, kept, duration } => {
                let event = event.name();
                tracing::info!(target: "workflow", %worker, deleted, kept, ?duration, event, "old runs were deleted");
            }
            Event::WorkerStopped { worker } => {
                tracing::info!(target: "workflow", %worker, event = event.name(), "worker stopped");
            }
            Event::WorkerDied { worker, claims } => {
                tracing::info!(target: "workflow", %worker, claims, event = event.name(), "worker is dead; its runs are due");
            }
        }
    }
}
