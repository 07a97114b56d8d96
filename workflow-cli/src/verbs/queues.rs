use comfy_table::{Cell, Color};
use workflow_sdk::operate::{Action, ListGates, Operate, QueueView};
use workflow_sdk::{GateLimits, QueueLimits};

use crate::arguments::{QueuesVerb, SetLimits};
use crate::clock::Clock;
use crate::output::{Output, Rows, maybe, number};
use crate::{Exit, Failure};

use super::counts::shown;
use super::order::perform;
use super::rate;
use super::run_list::{cursor_of, text_of};

pub(super) async fn run(operate: &dyn Operate, output: &Output, verb: QueuesVerb) -> Result<Exit, Failure> {
    let (action, author) = match verb {
        QueuesVerb::List => return list(operate, output).await,
        QueuesVerb::Gates { queue, limit, cursor } => {
            let mut list = ListGates::new(queue).limit(limit);
            list.cursor = cursor.as_deref().map(cursor_of).transpose()?;
            return gates(operate, output, list).await;
        }
        QueuesVerb::Pause { queue, author } => (Action::PauseQueue { queue }, author),
        QueuesVerb::Resume { queue, author } => (Action::ResumeQueue { queue }, author),
        QueuesVerb::Unlimit { queue, author } => (Action::ClearQueueLimits { queue }, author),
        QueuesVerb::Weigh { queue, gate, weight, author } => (Action::WeighGate { queue, gate, weight }, author),
        QueuesVerb::Limit(set) => {
            let limits = limits_of(&set)?;
            (Action::SetQueueLimits { queue: set.queue, limits }, set.author)
        }
    };
    perform(operate, output, action, &author).await
}

fn limits_of(set: &SetLimits) -> Result<QueueLimits, Failure> {
    let mut limits = QueueLimits::none();
    let mut gate = GateLimits::none();
    if let Some(runs) = set.concurrency {
        limits = limits.concurrency(runs);
    }
    if let Some(rate) = &set.rate {
        limits = limits.rate(rate::parse(rate)?);
    }
    if let Some(runs) = set.max_waiting {
        limits = limits.max_waiting(runs);
    }
    if let Some(runs) = set.gate_concurrency {
        gate = gate.concurrency(runs);
    }
    if let Some(rate) = &set.gate_rate {
        gate = gate.rate(rate::parse(rate)?);
    }
    if let Some(runs) = set.gate_max_waiting {
        gate = gate.max_waiting(runs);
    }
    Ok(if gate == GateLimits::none() { limits } else { limits.per_gate(gate) })
}

async fn list(operate: &dyn Operate, output: &Output) -> Result<Exit, Failure> {
    let queues = operate.queues().await?;
    output.list(&queues, &queues, |queue| queue.name.clone(), |clock| table(clock, &queues))?;
    if output.is_for_people() && queues.is_empty() {
        output.note("there is no queue yet: the first start or worker makes one");
    }
    Ok(Exit::Ok)
}

fn table(clock: &Clock, queues: &[QueueView]) -> Rows {
    let mut rows = Rows::new(&["QUEUE", "RUNNING", "WAITING", "OLDEST DUE", "WORKERS", "LIMITS", "STATE"]);
    for queue in queues {
        let state = match (&queue.pause, queue.workers) {
            (Some(pause), _) => {
                Cell::new(format!("paused since {}: {}", clock.at(pause.since), pause.reason)).fg(Color::Yellow)
            }
            (None, 0) => Cell::new("no worker").fg(Color::Yellow),
            (None, _) => Cell::new("open"),
        };
        rows.push(vec![
            Cell::new(&queue.name),
            number(shown(queue.running)),
            number(shown(queue.waiting)),
            maybe(queue.oldest_due.map(|due| clock.relative(due))),
            number(queue.workers),
            Cell::new(limits(queue)),
            state,
        ]);
    }
    rows
}

/// Returns the limits that hold, and whether they were set by an operator.
fn limits(queue: &QueueView) -> String {
    let QueueLimits { concurrency, rate, max_waiting, per_gate, .. } = queue.limits;
    let mut parts = Vec::new();
    parts.extend(concurrency.map(|runs| format!("{runs} at once")));
    parts.extend(rate.map(|rate| rate.to_string()));
    parts.extend(max_waiting.map(|runs| format!("{runs} may wait")));
    let GateLimits { concurrency, rate, max_waiting, .. } = per_gate;
    parts.extend(concurrency.map(|runs| format!("{runs} per gate")));
    parts.extend(rate.map(|rate| format!("{rate} per gate")));
    parts.extend(max_waiting.map(|runs| format!("{runs} may wait per gate")));
    match (parts.is_empty(), queue.overridden.is_some()) {
        (true, _) => "-".to_owned(),
        (false, true) => format!("{} (set)", parts.join(", ")),
        (false, false) => parts.join(", "),
    }
}

async fn gates(operate: &dyn Operate, output: &Output, list: ListGates) -> Result<Exit, Failure> {
    let page = operate.gates(list).await?;
    output.list(
        &page,
        &page.items,
        |gate| gate.name.clone(),
        |_| {
            let mut rows = Rows::new(&["GATE", "RUNNING", "WAITING", "WEIGHT"]);
            for gate in &page.items {
                let counts = [shown(gate.running), shown(gate.waiting), gate.weight.to_string()];
                rows.push(std::iter::once(Cell::new(&gate.name)).chain(counts.map(number)).collect());
            }
            rows
        },
    )?;
    let more = page.next.as_ref().map(|next| format!("later gates: --cursor {}", text_of(next)));
    output.page_end(page.items.is_empty().then_some("the queue has no gate"), more);
    Ok(Exit::Ok)
}
