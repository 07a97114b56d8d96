//! The changes that one run allows, each with a sentence of what will happen.

use maud::{Markup, html};
use workflow_sdk::RunStatus;
use workflow_sdk::operate::{Role, RunNow, RunSummary};

use crate::forms::{self, Offer};
use crate::icons::Icon;
use crate::visit::Visit;

/// Draws the actions that fit the state of a run.
pub(super) fn draw(visit: &Visit, run: &RunSummary) -> Markup {
    let offer = |action, label, sentence: &str| Offer::new(action, label, Role::Operator, sentence).with("run", run.id);
    let (main, more) = if run.status.is_terminal() { ended(visit, run, &offer) } else { open(run, &offer) };
    html! {
        @for offer in &main { (offer.draw(visit)) }
        @if visit.may(Role::Operator) {
            details.act.more {
                summary.btn aria-label="More actions" { "•••" }
                div.pop {
                    @for offer in more.iter().filter(|offer| offer.is_open_to(visit)) {
                        details.fold { summary { (offer.label()) } (offer.form(visit)) }
                    }
                }
            }
        }
    }
}

type Offers = (Vec<Offer>, Vec<Offer>);

fn ended(visit: &Visit, run: &RunSummary, offer: &dyn Fn(&'static str, &'static str, &str) -> Offer) -> Offers {
    let has_passed = run.deadline_at.is_some_and(|deadline| deadline <= visit.now);
    let needs = if has_passed { " Its deadline has passed, so it needs a new one." } else { "" };
    let retry = "The run goes on where it failed: it keeps every outcome, and tries the failed step again.";
    let retry = offer("retry_run", "Retry", &format!("{retry}{needs}")).fields(forms::deadline(has_passed));
    let again = "A new run begins with the input of this one, or with another. This run stays as it is.";
    let fork = offer("fork_run", "Run again", again).icon(Icon::RETRY).fields(html! {
        (forms::json("Input, if it should be another one", "input", ""))
        (forms::line("Version, if it should be another one", "version", "", &run.lane.version))
    });
    let delete = Offer::new(
        "delete_run",
        "Delete",
        Role::Admin,
        "The run is removed, with its history, its signals and its payloads. Nothing brings it back.",
    )
    .with("run", run.id)
    .dangerous();
    match run.status {
        RunStatus::Failed => (vec![retry.icon(Icon::RETRY)], vec![fork, delete]),
        _ => (vec![fork], vec![delete]),
    }
}

fn open(run: &RunSummary, offer: &dyn Fn(&'static str, &'static str, &str) -> Offer) -> Offers {
    let is_paused = matches!(run.now, RunNow::Paused { .. });
    let signal = signal(run);
    let pause = match is_paused {
        true => offer("resume_run", "Resume", "The run goes on as soon as it is due.").icon(Icon::RETRY),
        false => {
            offer("pause_run", "Pause", "Running steps end, then the run waits until it is resumed. Its timers go on.")
                .icon(Icon::PAUSE)
        }
    };
    let cancel = match (run.cancel_requested_at, run.started_at) {
        (Some(_), _) => "A cancel was requested before. This one ends the run at once, and nothing is undone.",
        (None, None) => "The run has not begun: it ends as canceled at once.",
        (None, Some(_)) => {
            "The workflow is told to end, and undoes what it has compensations for. It ends as canceled."
        }
    };
    let mut cancel = offer("cancel_run", "Cancel", cancel).verb("Cancel the run").dangerous();
    if run.cancel_requested_at.is_none() {
        // The form promises no more, even if the run is asked to end before the form is sent.
        cancel = cancel.with("only_ask", true);
    }
    let terminate = offer(
        "terminate_run",
        "Terminate",
        "The run ends as canceled at once. Nothing is undone: compensations do not run.",
    )
    .dangerous();
    let fork = offer("fork_run", "Start a copy", "A new run begins with the input of this one. This run goes on, too.")
        .fields(forms::json("Input, if it should be another one", "input", ""));
    let mut more = vec![fork];
    more.extend(run.priority.map(|priority| {
        offer("set_priority", "Set priority", "The run is claimed sooner or later among those that have not begun.")
            .fields(forms::priorities(priority))
    }));
    if run.status != RunStatus::Running {
        let sentence = "The run waits in the other queue from now on, and keeps what it has done.";
        let queue = forms::required("Queue", "queue", "", &run.lane.queue);
        more.push(offer("move_to", "Move to a queue", sentence).verb("Move the run").fields(queue));
    }
    more.push(terminate);
    (vec![signal, pause, cancel], more)
}

/// Offers to send a signal to a run.
pub(super) fn signal(run: &RunSummary) -> Offer {
    let sentence = "The signal waits in the inbox of the run until the workflow asks for one of this name.";
    Offer::new("signal_run", "Send signal", Role::Operator, sentence).with("run", run.id).icon(Icon::SIGNAL).fields(
        html! {
            (forms::required("Name", "name", "", "picked_up"))
            (forms::json("Value, as JSON", "payload", "null"))
            (forms::line("Key: of several signals with one key, the first counts", "key", "", "none"))
        },
    )
}
