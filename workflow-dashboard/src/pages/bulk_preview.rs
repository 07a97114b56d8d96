//! The preview of a change of many runs: their number, a sample, and the forms that order it.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use futures::future::join_all;
use maud::{Markup, html};
use workflow_sdk::Priority;
use workflow_sdk::operate::{BulkPreview, Query, Role, RunSummary};

use crate::action::chosen;
use crate::address::Parameters;
use crate::facets;
use crate::flow;
use crate::forms::{self, Offer};
use crate::frame::{Page, Section, argument, empty, option};
use crate::icons::Icon;
use crate::problem::Problem;
use crate::status::{self, Look};
use crate::visit::Visit;
use crate::{Shared, clock};

use super::runs::now_line;

/// The actions that a page offers for many runs: the name of each, its word, the sentence, and the
/// role.
pub(super) const ACTIONS: [(&str, &str, &str, Role); 9] = [
    ("retry_run", "Retry", "goes on where it failed, and tries the failed step again", Role::Operator),
    ("cancel_run", "Cancel", "is told to end, and undoes what it has compensations for", Role::Operator),
    ("pause_run", "Pause", "waits, once its running steps have ended, until it is resumed", Role::Operator),
    ("resume_run", "Resume", "goes on as soon as it is due", Role::Operator),
    (
        "set_priority",
        "Set priority",
        "waits with this priority for its first claim, unless it has begun",
        Role::Operator,
    ),
    (
        "move_to",
        "Move to a queue",
        "waits in this queue from then on; it refuses while a worker holds it",
        Role::Operator,
    ),
    ("fork_run", "Run again", "stays as it is, and a new run begins with its input", Role::Operator),
    ("terminate_run", "Terminate", "ends as canceled at once; compensations do not run", Role::Operator),
    ("delete_run", "Delete", "is removed with its history, if it has ended", Role::Admin),
];

/// `GET /bulk/new`: the runs of the parameters `run`, or all that the query `q` finds, and what can
/// be done with them.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Parameters(pairs): Parameters<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let value = |name: &str| pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    let action = ACTIONS.iter().find(|(name, ..)| Some(*name) == value("action")).map(|(name, ..)| *name);
    let is_all = value("all").is_some();
    let ids = pairs.iter().filter(|(name, _)| !is_all && name == "run").map(|(_, id)| id.as_str());
    let runs = chosen(ids)?;
    let query = visit.query(value("q").unwrap_or_default())?;
    let which = if is_all {
        let preview = shared.operate.bulk_preview(&query).await?;
        Which::All { query, preview }
    } else {
        let reads = join_all(runs.iter().map(|run| shared.operate.run(*run))).await;
        let runs = reads.into_iter().map(|run| run.map(|run| run.summary)).collect::<Result<_, _>>()?;
        Which::Chosen { query, runs }
    };
    let mut page = Page::new(Section::Runs, draw(&visit, &which, action), command(&which, action));
    page.title = "Change many runs".to_owned();
    page.top = Some(html! {
        nav.crumb aria-label="Place" { a href=(visit.link("/runs")) { "Runs" } (Icon::CHEVRON.draw()) }
        h1 { (page.title) }
    });
    page.live = false;
    Ok(shared.page(&visit, page).await)
}

/// Returns the command that does the action. Without one, the command of the first action.
pub(super) fn command(which: &Which, action: Option<&str>) -> String {
    let action = action.unwrap_or(ACTIONS[0].0);
    let verb = match action {
        "set_priority" => "set-priority PRIORITY",
        "move_to" => "move-to QUEUE",
        _ => action.trim_end_matches("_run"),
    };
    match which {
        Which::All { query, .. } => {
            // The command line refuses an empty search, which a script may have got by mistake.
            let words = if query.is_empty() { "workflow:*".to_owned() } else { query.to_string() };
            match action {
                // A fork is the copy of one run, so its command takes one run.
                "fork_run" => {
                    format!("workflow runs list --all -o ids {} | xargs -n 1 workflow runs fork", argument(words))
                }
                _ => format!("workflow runs {verb} {}", option("where", words)),
            }
        }
        Which::Chosen { runs, .. } => {
            let ids: Vec<String> = runs.iter().map(|run| run.id.to_string()).collect();
            let separator = if action == "fork_run" { "\nworkflow runs fork " } else { " " };
            format!("workflow runs {verb} {}", ids.join(separator))
        }
    }
}

/// The runs that a page is about.
pub(super) enum Which {
    /// `query` leads back to the list on which they were chosen.
    Chosen {
        query: Query,
        runs: Vec<RunSummary>,
    },
    All {
        query: Query,
        preview: BulkPreview,
    },
}

impl Which {
    fn sample(&self) -> &[RunSummary] {
        match self {
            Self::Chosen { runs, .. } => runs,
            Self::All { preview, .. } => &preview.examples,
        }
    }

    /// Returns the runs with their number, as the beginning of a sentence.
    fn told(&self) -> String {
        match self {
            Self::Chosen { runs, .. } => clock::counted(runs.len() as u64, "run"),
            Self::All { preview, .. } => status::runs(preview.runs),
        }
    }
}

pub(super) fn draw(visit: &Visit, which: &Which, action: Option<&str>) -> Markup {
    if which.sample().is_empty() {
        let title = if matches!(which, Which::All { .. }) { "No run matches" } else { "No run is chosen" };
        let text = "Choose runs on their page, or change the words of the search.";
        return html! { div.page {
            (empty(title, text, None))
            p.center { a.btn href=(visit.link("/runs")) { "Runs" } }
        } };
    }
    html! {
        div.page.narrow {
            h2.verdict { (which.told()) }
            @if let Which::All { query, preview } = which {
                p.sub {
                    @if query.is_empty() { "Every run of this database." } @else {
                        "All that match "
                        a.quiet.mono href=(facets::link(visit, &query.to_string())) { (query) }
                        "."
                    }
                    " Runs that are started later are not touched."
                    @if let Some(until) = preview.searched_to {
                        " Counted back to " (clock::at(until, visit.now)) "; older ones are changed too."
                    }
                }
            } @else { p.sub { "Changed at once, one after the other." } }
            section.card {
                header { h2 { @if matches!(which, Which::All { .. }) { "The newest of them" } @else { "The runs" } } }
                table { tbody { @for run in which.sample() { tr {
                    td.cut-off { a.icon-line href=(visit.link(&format!("/runs/{}", run.id))) {
                        (Look::of(run).icon())
                        strong dir="auto" { (flow::title(run)) }
                        (flow::mark(run))
                        span.mono.faint.cut-off { (run.key.clone().unwrap_or_else(|| status::short_id(run.id))) }
                    } }
                    td.cut-off.dim { (now_line(run, visit)) }
                } } } }
            }
            h2.table-title { "What to do with them" }
            div.choices { @for (name, label, sentence, role) in ACTIONS.iter().filter(|(.., role)| visit.may(*role)) {
                details.fold open[action == Some(*name)] {
                    summary { (*label) span.faint { " each " (sentence) } }
                    (offer(which, (name, label, sentence), *role).form(visit))
                }
            } }
            @if !visit.may(Role::Operator) { p.faint { "You read, and change nothing." } }
        }
    }
}

fn offer(which: &Which, (name, label, sentence): (&'static str, &'static str, &str), role: Role) -> Offer {
    let is_dangerous = matches!(name, "cancel_run" | "terminate_run" | "delete_run");
    let told = which.told();
    let sentence = match which {
        Which::All { .. } => {
            format!("{told}: each {sentence}. A worker does it in the background, and it can be stopped.")
        }
        Which::Chosen { .. } => format!("{told}: each {sentence}."),
    };
    let offer = match which {
        Which::All { query, .. } => {
            Offer::new("start_bulk", label, role, sentence).with("q", query).with("apply", name)
        }
        Which::Chosen { query, runs } => {
            let ids: Vec<String> = runs.iter().map(|run| run.id.to_string()).collect();
            Offer::new("each_run", label, role, sentence)
                .with("q", query)
                .with("runs", ids.join(" "))
                .with("apply", name)
        }
    };
    let offer = offer.with_reason();
    let offer = match name {
        "retry_run" => offer.fields(forms::deadline(false)),
        "fork_run" => {
            offer.fields(forms::line("Version, if it should be another one", "version", "", "as each has it"))
        }
        "set_priority" => offer.fields(forms::priorities(Priority::default())),
        "move_to" => offer.verb("Move the runs").fields(forms::required("Queue", "queue", "", "imports")),
        _ => offer,
    };
    if is_dangerous { offer.dangerous() } else { offer }
}
