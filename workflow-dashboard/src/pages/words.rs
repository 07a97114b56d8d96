//! The words of a search: how the last one may go on, and what each of them means.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use futures::future::join3;
use maud::{Markup, html};
use serde::Deserialize;
use workflow_sdk::operate::{ListRuns, ListSchedules, Operate, Query};

use crate::Shared;
use crate::address::Parameters;
use crate::completion::{Completion, NAMES, Names, VIEWS, complete};
use crate::facets::{self, escaped};
use crate::frame::{Page, Section};
use crate::icons::Icon;
use crate::problem::Problem;
use crate::visit::Visit;

/// The parameters of the page.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Which {
    #[serde(default)]
    q: String,
}

/// `GET /words`. The script asks for the same page, and shows its first list below the search.
pub(crate) async fn show(
    State(shared): State<Shared>,
    Extension(visit): Extension<Visit>,
    Parameters(which): Parameters<Which>,
) -> Result<Response, Problem> {
    let text: String = which.q.chars().take(Query::MAX_BYTES).collect();
    let names = names(&*shared.operate).await;
    let body = draw(&visit, &text, &complete(&text, &names));
    let mut page = Page::new(Section::Runs, body, "workflow runs list --help");
    page.title = "Words of the search".to_owned();
    page.top = Some(html! {
        nav.crumb aria-label="Place" { a href=(visit.link("/runs")) { "Runs" } (Icon::CHEVRON.draw()) }
        h1 { (page.title) }
    });
    page.live = false;
    Ok(shared.page(&visit, page).await)
}

/// Reads the names that exist. What cannot be read is left out: the words of the grammar remain.
async fn names(operate: &dyn Operate) -> Names {
    let (workflows, schedules, runs) = join3(
        operate.workflows(),
        operate.schedules(ListSchedules::new().limit(100)),
        operate.runs(ListRuns::default()),
    )
    .await;
    let workflows = workflows.unwrap_or_default();
    let versions = || workflows.iter().flat_map(|workflow| &workflow.versions);
    let sorted = |mut names: Vec<String>| {
        names.sort_unstable();
        names.dedup();
        names
    };
    let tags = runs.map(|page| page.items).unwrap_or_default().into_iter().flat_map(|run| run.tags);
    let mut tags: Vec<(String, String)> = tags.collect();
    tags.sort_unstable();
    tags.dedup();
    Names {
        queues: sorted(versions().map(|version| version.queue.clone()).collect()),
        versions: sorted(versions().map(|version| version.version.clone()).collect()),
        schedules: schedules.map(|page| page.items.into_iter().map(|it| it.name).collect()).unwrap_or_default(),
        tags,
        workflows: workflows.into_iter().map(|workflow| workflow.name).collect(),
    }
}

pub(super) fn draw(visit: &Visit, text: &str, completions: &[Completion]) -> Markup {
    html! {
        div.page.narrow {
            @if !completions.is_empty() { h2.table-title { "Go on with" } }
            ul.words { @for completion in completions { li {
                a href=(visit.link(&format!("/words?q={}", escaped(&completion.text)))) data-text=(completion.text) {
                    b { (completion.word) }
                    @if !completion.meaning.is_empty() { span { (completion.meaning) } }
                }
            } } }
            @if !text.is_empty() { p { a.btn href=(facets::link(visit, text)) { "Search for " (text) } } }
            h2.table-title { "Views" }
            ul.words { @for (name, query) in VIEWS { li {
                a href=(facets::link(visit, query)) { b { (query) } span { (name) } }
            } } }
            h2.table-title { "All words" }
            dl.kv.broad { @for (name, meaning, example) in NAMES {
                dt.mono { (name) } dd { (meaning) ", as " code { (example) } }
            } }
            p.dim {
                "Words of one name are alternatives, others must all hold. A word with - before it must not hold. \
                 A * at the end stands for any text. A value with spaces stands in quotes."
            }
        }
    }
}
