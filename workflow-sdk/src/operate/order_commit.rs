//! Performs orders with the calls of the client, which make all checks.

use std::time::Duration;

use tracing::Instrument;
use workflow_engine::model::{AuditId, BulkId, Decision, NewAudit, QueueRecord, RunId, SignalOutcome, TraceContext};
use workflow_engine::observe::OpenSpan;
use workflow_engine::store::{CancelOutcome, PauseOutcome, PlaceOutcome, ResumeOutcome};

use crate::{Client, ClientError};

use super::{
    Action, BackfillSchedule, CreateSchedule, Done, ForkRun, OperateError, OperateErrorCode, Order, OrderOutcome,
    StartRun, UpdateSchedule, bulk, limits, queues,
};

/// Performs an order. Each call that it makes commits one write that may change something, so the
/// order leaves one audit row. A backfill commits many, and the first change has the row.
pub(super) async fn perform(client: &Client, mut order: Order) -> Result<Done, OperateError> {
    order.check()?;
    if let Action::StartBulk(start) = &mut order.action {
        start.id.get_or_insert_with(BulkId::generate);
    }
    let audit = order.audit();
    let about = (audit.verb.as_str(), audit.target.as_str());
    let span = OpenSpan::of_order(about, number_of(audit.id), order.trace_parent, client.observers());
    carry_out(client, order, audit, span.context()).instrument(span.span().clone()).await
}

/// Returns the number of the span of the order with this audit row.
fn number_of(audit: AuditId) -> u64 {
    audit.as_uuid().as_u64_pair().1
}

/// Returns a warning. If the read fails, the order is still performed: in an outage the order
/// matters more than the warning.
fn hint(warning: Result<Option<String>, OperateError>) -> Option<String> {
    warning.unwrap_or_else(|error| {
        tracing::debug!(%error, "whether the name is known was not read");
        None
    })
}

async fn carry_out(
    client: &Client,
    order: Order,
    audit: NewAudit,
    trace: Option<TraceContext>,
) -> Result<Done, OperateError> {
    let (verb, target) = (order.action.verb(), order.action.target());
    // The change itself makes the name known.
    let warning = match &order.action {
        Action::PauseQueue { queue } | Action::SetQueueLimits { queue, .. } | Action::WeighGate { queue, .. } => {
            hint(queues::warning(client, queue).await)
        }
        Action::SetLimit { limit, .. } => hint(limits::warning(client, limit).await),
        _ => None,
    };
    let audited = client.audited(audit);
    let Order { action, actor, reason, .. } = order;
    let outcome = match action {
        Action::StartRun(run) => start(&audited, *run, trace).await?,
        Action::ForkRun(run) => fork(&audited, *run, trace).await?,
        Action::CancelRun { run, only_ask: true } => ask_to_end(&audited, run).await?,
        Action::CancelRun { run, only_ask: false } => canceled(audited.cancel(run).await?, run)?,
        Action::TerminateRun { run } => canceled(audited.terminate(run).await?, run)?,
        Action::PauseRun { run } => match audited.pause(run).await? {
            PauseOutcome::Paused => OrderOutcome::Paused,
            PauseOutcome::Requested => OrderOutcome::PauseRequested,
            PauseOutcome::Ended(status) => OrderOutcome::AlreadyEnded { status },
            _ => return Err(ClientError::UnknownRun { run_id: run }.into()),
        },
        Action::ResumeRun { run } => match audited.resume(run).await? {
            ResumeOutcome::Resumed => OrderOutcome::Resumed,
            ResumeOutcome::NotPaused => OrderOutcome::NotPaused,
            ResumeOutcome::Ended(status) => OrderOutcome::AlreadyEnded { status },
            _ => return Err(ClientError::UnknownRun { run_id: run }.into()),
        },
        Action::SetPriority { run, priority } => placed(audited.set_priority(run, priority).await?, run)?,
        Action::MoveTo { run, queue } => placed(audited.move_to(run, queue).await?, run)?,
        Action::RetryRun { run, deadline_ms } => {
            let retry = audited.retry(run);
            match deadline_ms {
                Some(millis) => retry.deadline(Duration::from_millis(millis)).await?,
                None => retry.await?,
            };
            OrderOutcome::Retried
        }
        Action::SignalRun { run, name, payload, key } => {
            let signal = audited.signal(run, name, &payload);
            let sent = match key {
                Some(key) => signal.key(key).await?,
                None => signal.await?,
            };
            match sent {
                SignalOutcome::Accepted => OrderOutcome::Signaled,
                SignalOutcome::Repeated(first) => OrderOutcome::AlreadySignaled { at: first.accepted_at },
                _ => ended(client, run).await?,
            }
        }
        Action::DecideApproval { run, step, approve, note } => {
            let by = actor.ok_or_else(|| missing("actor", "a decision names the person who decides"))?;
            decide(&audited, run, (&step, approve, by), note).await?
        }
        Action::DeleteRun { run } => {
            let rows = audited.delete(run).await?;
            OrderOutcome::Deleted { attempts: rows.attempts, signals: rows.signals }
        }
        Action::PauseQueue { queue } => {
            let reason = reason.ok_or_else(|| missing("reason", "the pause of a queue is shown with its reason"))?;
            changed(audited.queue(queue).pause(reason).await)?
        }
        Action::ResumeQueue { queue } => match queues::record(client, &queue).await?.pause {
            Some(_) => changed(audited.queue(queue).resume().await)?,
            None => OrderOutcome::NotPaused,
        },
        Action::SetQueueLimits { queue, limits } => changed(audited.queue(queue).set_limits(limits).await)?,
        Action::ClearQueueLimits { queue } => match queues::record(client, &queue).await? {
            // Limits that this program does not understand are shown as a pause.
            QueueRecord { overridden: None, pause: None, .. } => OrderOutcome::Unchanged,
            _ => changed(audited.queue(queue).clear_limits().await)?,
        },
        Action::WeighGate { queue, gate, weight } => changed(audited.queue(queue).weigh(gate, weight).await)?,
        Action::SetLimit { limit, rule } => changed(audited.limit(limit).set(rule).await)?,
        Action::ClearLimit { limit } => match limits::is_set(client, &limit).await? {
            true => changed(audited.limit(limit).clear().await)?,
            false => OrderOutcome::Unchanged,
        },
        Action::CreateSchedule(schedule) => create(&audited, &schedule).await?,
        Action::UpdateSchedule(schedule) => update(&audited, &schedule).await?,
        Action::BackfillSchedule(schedule) => backfill(&audited, *schedule).await?,
        Action::PauseSchedule { schedule } => {
            changed(audited.schedule(schedule).pause(reason.unwrap_or_default()).await)?
        }
        Action::ResumeSchedule { schedule } => match audited.schedule(schedule).resume().await? {
            true => OrderOutcome::Changed,
            false => OrderOutcome::NotPaused,
        },
        Action::TriggerSchedule { schedule, input } => {
            let trigger = audited.schedule(schedule).trigger();
            let run = match input {
                Some(input) => trigger.input(&input).await?,
                None => trigger.await?,
            };
            OrderOutcome::Started { run: run.id() }
        }
        Action::DeleteSchedule { schedule } => changed_if(audited.schedule(schedule).remove().await)?,
        Action::RevertSchedule { schedule } => changed_if(audited.schedule(schedule).revert().await)?,
        Action::EmitEvent { name, key, payload } => {
            OrderOutcome::Emitted { runs: audited.emit(name, key, &payload).await? }
        }
        Action::StartBulk(start) => bulk::start(&audited, *start, actor, reason).await?,
        Action::StopBulk { bulk } => bulk::stop(&audited, bulk).await?,
    };
    Ok(outcome.about(verb, &target).warning(warning))
}

async fn start(client: &Client, run: StartRun, trace: Option<TraceContext>) -> Result<OrderOutcome, OperateError> {
    let StartRun { workflow, input, queue, gate, version, key, priority, at, delay_ms, deadline_ms, .. } = run;
    let StartRun { single, tags, limits, .. } = run;
    let mut start = client.start_named(workflow, &input).limits(limits);
    match (at, delay_ms) {
        (Some(_), Some(_)) => {
            let message = "a start has both at and delay_ms";
            return Err(OperateError::new(OperateErrorCode::BadInput, message, "leave one of them out"));
        }
        (Some(at), None) => start = start.at(at),
        (None, Some(millis)) => start = start.delay(Duration::from_millis(millis)),
        (None, None) => {}
    }
    if let Some(queue) = queue {
        start = start.queue(queue);
    }
    if let Some(gate) = gate {
        start = start.gate(gate);
    }
    if let Some(version) = version {
        start = start.version(version);
    }
    if let Some(key) = key {
        start = start.key(key);
    }
    if let Some(priority) = priority {
        start = start.priority(priority);
    }
    if let Some(single) = single {
        start = start.single(single);
    }
    if let Some(trace) = trace {
        start = start.trace_parent(trace);
    }
    if let Some(millis) = deadline_ms {
        start = start.deadline(Duration::from_millis(millis));
    }
    let run = tags.into_iter().fold(start, |start, (name, value)| start.tag(name, value)).await?;
    Ok(started(run.id(), run.existed()))
}

async fn fork(client: &Client, run: ForkRun, trace: Option<TraceContext>) -> Result<OrderOutcome, OperateError> {
    let ForkRun { run, from, input, version, queue, key } = run;
    let mut fork = client.fork(run);
    if let Some(from) = from {
        fork = fork.from(from);
    }
    if let Some(input) = input {
        fork = fork.input(&input);
    }
    if let Some(version) = version {
        fork = fork.version(version);
    }
    if let Some(queue) = queue {
        fork = fork.queue(queue);
    }
    if let Some(key) = key {
        fork = fork.key(key);
    }
    if let Some(trace) = trace {
        fork = fork.trace_parent(trace);
    }
    let run = fork.await?;
    Ok(started(run.id(), run.existed()))
}

/// Creates a schedule. The order may have been carried out before.
async fn create(client: &Client, order: &CreateSchedule) -> Result<OrderOutcome, OperateError> {
    order.settings.check()?;
    match client.create_schedule(order.schedule()).await {
        Ok(_) => Ok(OrderOutcome::Changed),
        Err(ClientError::ScheduleExists { name }) => {
            match client.schedule(&name).is_as_created(order.schedule()).await? {
                true => Ok(OrderOutcome::Unchanged),
                false => Err(ClientError::ScheduleExists { name }.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

async fn update(client: &Client, order: &UpdateSchedule) -> Result<OrderOutcome, OperateError> {
    if order.is_empty() {
        let message = format!("the order says nothing about schedule {:?}", order.schedule);
        return Err(OperateError::new(OperateErrorCode::BadInput, message, "give it a setting or an input"));
    }
    order.settings.check()?;
    let (schedule, settings) = (client.schedule(&order.schedule), &order.settings);
    Ok(changed(schedule.edit(order.input.as_ref(), |declaration| settings.apply(declaration)).await)?)
}

async fn backfill(client: &Client, order: BackfillSchedule) -> Result<OrderOutcome, OperateError> {
    let report = order.prepare(client)?.await?;
    Ok(OrderOutcome::Backfilled { started: report.started, existing: report.existing })
}

fn started(run: RunId, existed: bool) -> OrderOutcome {
    if existed { OrderOutcome::Existed { run } } else { OrderOutcome::Started { run } }
}

/// Asks a run to end that was not asked before.
async fn ask_to_end(client: &Client, run: RunId) -> Result<OrderOutcome, ClientError> {
    let found = client.run(run).await?;
    match found.cancel_requested_at {
        Some(at) if !found.status.is_terminal() => Ok(OrderOutcome::AlreadyRequested { at }),
        _ => canceled(client.request_cancel(run).await?, run),
    }
}

fn canceled(outcome: CancelOutcome, run_id: RunId) -> Result<OrderOutcome, ClientError> {
    match outcome {
        CancelOutcome::Canceled => Ok(OrderOutcome::Canceled),
        CancelOutcome::Requested => Ok(OrderOutcome::CancelRequested),
        CancelOutcome::Ended(status) => Ok(OrderOutcome::AlreadyEnded { status }),
        _ => Err(ClientError::UnknownRun { run_id }),
    }
}

fn placed(outcome: PlaceOutcome, run_id: RunId) -> Result<OrderOutcome, OperateError> {
    match outcome {
        PlaceOutcome::Changed => Ok(OrderOutcome::Changed),
        PlaceOutcome::Unchanged => Ok(OrderOutcome::Unchanged),
        PlaceOutcome::Begun => Ok(OrderOutcome::HasBegun),
        PlaceOutcome::Ended(status) => Ok(OrderOutcome::AlreadyEnded { status }),
        PlaceOutcome::Held => {
            let help = "pause it, move it once it is parked, and resume it";
            Err(OperateError::new(OperateErrorCode::Conflict, format!("a worker holds run {run_id}"), help))
        }
        _ => Err(ClientError::UnknownRun { run_id }.into()),
    }
}

async fn decide(
    client: &Client,
    run: RunId,
    (step, approve, by): (&str, bool, String),
    note: Option<String>,
) -> Result<OrderOutcome, OperateError> {
    let decide = if approve { client.approve(run, step, by) } else { client.reject(run, step, by) };
    let sent = match note {
        Some(note) => decide.note(note).await?,
        None => decide.await?,
    };
    match sent {
        SignalOutcome::Accepted => Ok(OrderOutcome::Decided),
        SignalOutcome::Repeated(first) => {
            let decision = serde_json::from_str::<Decision>(&first.payload).ok();
            let (approved, by) = decision.map(|decision| (decision.approved, decision.by)).unzip();
            Ok(OrderOutcome::AlreadyDecided { at: first.accepted_at, approved, by })
        }
        _ => ended(client, run).await,
    }
}

/// Reads how a run that takes no signal any more has ended.
async fn ended(client: &Client, run: RunId) -> Result<OrderOutcome, OperateError> {
    Ok(OrderOutcome::AlreadyEnded { status: client.run(run).await?.status })
}

fn changed(done: Result<(), ClientError>) -> Result<OrderOutcome, ClientError> {
    done.map(|()| OrderOutcome::Changed)
}

fn changed_if(done: Result<bool, ClientError>) -> Result<OrderOutcome, ClientError> {
    Ok(if done? { OrderOutcome::Changed } else { OrderOutcome::Unchanged })
}

fn missing(field: &str, why: &str) -> OperateError {
    let message = format!("the order has no {field}, and {why}");
    let help = format!("name the {field}: --{field} on the command line, {field:?} in an order");
    OperateError::new(OperateErrorCode::BadInput, message, help)
}
