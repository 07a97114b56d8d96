//! The state of a run as a word, an icon and a color: never as a color alone.

use maud::{Markup, html};
use workflow_sdk::RunStatus;
use workflow_sdk::operate::{Count, RunNow, RunSummary};

use crate::clock;
use crate::icons::Icon;

/// How a state looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) word: &'static str,
    pub(crate) icon: Icon,
    /// The class of its color.
    pub(crate) color: &'static str,
}

const fn look(word: &'static str, icon: Icon, color: &'static str) -> Look {
    Look { word, icon, color }
}

impl Look {
    pub(crate) const PAUSED: Self = look("Paused", Icon::PAUSED, "warn");
    pub(crate) const STUCK: Self = look("Stuck", Icon::STUCK, "bad");
    pub(crate) const RETRYING: Self = look("Retrying", Icon::RETRY, "warn");

    pub(crate) const fn of_status(status: RunStatus) -> Self {
        match status {
            RunStatus::Pending => look("Pending", Icon::PENDING, "idle"),
            RunStatus::Running => look("Running", Icon::RUNNING, "run"),
            RunStatus::Parked => look("Waiting", Icon::WAITING, "wait"),
            RunStatus::Succeeded => look("Succeeded", Icon::SUCCEEDED, "ok"),
            RunStatus::Failed => look("Failed", Icon::FAILED, "bad"),
            RunStatus::Canceled => look("Canceled", Icon::CANCELED, "idle"),
            _ => look("Other", Icon::PENDING, "idle"),
        }
    }

    /// Returns the look of a run: its status, or what matters more.
    pub(crate) fn of(run: &RunSummary) -> Self {
        match (&run.now, run.status) {
            (RunNow::Paused { .. }, _) => Self::PAUSED,
            (RunNow::Stuck, _) => Self::STUCK,
            (RunNow::WaitsUntil { .. }, RunStatus::Pending) if run.attempt > 1 => Self::RETRYING,
            (_, status) => Self::of_status(status),
        }
    }

    /// Returns the icon with the word as its title.
    pub(crate) fn icon(self) -> Markup {
        html! { span class=(self.color) title=(self.word) { (self.icon.draw()) span.hidden { (self.word) } } }
    }

    /// Returns icon and word on a colored ground.
    pub(crate) fn pill(self) -> Markup {
        html! { span class=(format!("pill {}", self.color)) { (self.icon.draw()) (self.word) } }
    }
}

/// Returns a number of rows, with a plus if there may be more.
pub(crate) fn count(count: Count) -> String {
    let number = clock::grouped(count.runs.into());
    if count.at_least { format!("{number}+") } else { number }
}

/// Returns a number of runs, with a plus if there may be more.
pub(crate) fn runs(runs: Count) -> String {
    if runs.at_least { format!("{} runs", count(runs)) } else { clock::counted(runs.runs.into(), "run") }
}

/// Draws a number of failures, in their color if there are any.
pub(crate) fn failed(number: u64) -> Markup {
    html! { span.bad[number > 0].faint[number == 0] { (clock::grouped(number)) } }
}

/// Returns the end of an id, by which people tell ids apart: those that began together begin alike.
pub(crate) fn short_id(id: impl std::fmt::Display) -> String {
    let id = id.to_string();
    match (id.get(..8), id.get(32..)) {
        (Some(beginning), Some(end)) => format!("{beginning}…{end}"),
        _ => id,
    }
}

/// Returns the short name of a worker.
pub(crate) fn worker(id: impl std::fmt::Display) -> String {
    let id = id.to_string();
    format!("w-{}", id.get(id.len().saturating_sub(4)..).unwrap_or(&id))
}
