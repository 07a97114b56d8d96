//! The frame around the content of every page.

use std::fmt;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use workflow_sdk::operate::{Cursor, ListApprovals, MoveView, Operate, OperateError, StandbyView};

use crate::assets::{self, MARK, SCRIPT, STYLE};
use crate::completion::VIEWS;
use crate::icons::Icon;
use crate::problem::{Problem, sentence};
use crate::visit::Visit;
use crate::{Shared, clock, facets};

/// The pages of the rail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Overview,
    Runs,
    Approvals,
    Failures,
    Workflows,
    Flows,
    Queues,
    Schedules,
    Workers,
    Bulk,
    Audit,
    System,
}

impl Section {
    const ALL: [Self; 12] = [
        Self::Overview,
        Self::Runs,
        Self::Approvals,
        Self::Failures,
        Self::Workflows,
        Self::Flows,
        Self::Queues,
        Self::Schedules,
        Self::Workers,
        Self::Bulk,
        Self::Audit,
        Self::System,
    ];

    /// Returns its path, its name, its icon, and the key that opens it behind `g`.
    const fn entry(self) -> (&'static str, &'static str, Icon, &'static str) {
        match self {
            Self::Overview => ("/", "Overview", Icon::OVERVIEW, "o"),
            Self::Runs => ("/runs", "Runs", Icon::RUNS, "r"),
            Self::Approvals => ("/approvals", "Approvals", Icon::APPROVALS, "a"),
            Self::Failures => ("/failures", "Failures", Icon::FAILURES, "f"),
            Self::Workflows => ("/workflows", "Workflows", Icon::WORKFLOWS, "w"),
            Self::Flows => ("/flows", "Flows", Icon::FLOWS, "l"),
            Self::Queues => ("/queues", "Queues", Icon::QUEUES, "q"),
            Self::Schedules => ("/schedules", "Schedules", Icon::SCHEDULES, "s"),
            Self::Workers => ("/workers", "Workers", Icon::WORKERS, "k"),
            Self::Bulk => ("/bulk", "Bulk", Icon::BULK, "b"),
            Self::Audit => ("/audit", "Audit", Icon::AUDIT, "u"),
            Self::System => ("/system", "System", Icon::SYSTEM, "y"),
        }
    }
}

/// The parts of one page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) section: Section,
    /// The title of the tab.
    pub(crate) title: String,
    /// The left of the bar at the top; by default the title.
    pub(crate) top: Option<Markup>,
    /// The right of the bar.
    pub(crate) right: Markup,
    /// The command that shows the same thing in a terminal.
    pub(crate) command: String,
    pub(crate) body: Markup,
    /// `true` if the script keeps the content fresh.
    pub(crate) live: bool,
}

impl Page {
    pub(crate) fn new(section: Section, body: Markup, command: impl Into<String>) -> Self {
        let title = section.entry().1.to_owned();
        Self { section, title, top: None, right: html! {}, command: command.into(), body, live: true }
    }
}

/// How many approvals and decisions wait, how many workers live, and why the database takes no
/// changes, if it takes none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) approvals: usize,
    pub(crate) workers: usize,
    /// `None`: the database is not a standby.
    pub(crate) standby: Option<StandbyView>,
    /// `None`: the database takes part in no move.
    pub(crate) moved: Option<MoveView>,
}

impl Known {
    const KEPT: Duration = Duration::from_secs(5);

    async fn read(operate: &dyn Operate) -> Result<Self, OperateError> {
        let (approvals, workers, system) =
            futures::future::join3(ListApprovals::new().first_page(operate), operate.workers(), operate.system()).await;
        let workers = workers?.into_iter().filter(|worker| worker.live).count();
        // The rest is known without it.
        let database = system.ok().map(|system| system.database).unwrap_or_default();
        let standby = database.postgres.and_then(|postgres| postgres.standby);
        Ok(Self { approvals: approvals?.items.len(), workers, standby, moved: database.moved })
    }
}

impl Shared {
    /// Returns a page in its frame; without it if the script refreshes a page that it has.
    pub(crate) async fn page(&self, visit: &Visit, page: Page) -> Response {
        if visit.is_part {
            return part(visit, page.body);
        }
        let known = self.known.get(Known::KEPT, Known::read(&*self.operate)).await.ok();
        frame(visit, &page, known.as_ref()).into_response()
    }
}

fn part(visit: &Visit, body: Markup) -> Response {
    let tag = format!("{:016x}", assets::hash(body.0.as_bytes()));
    if visit.has_tag.as_deref() == Some(&tag) {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    let mut response = body.into_response();
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(HeaderName::from_static("x-workflow-tag"), tag);
    }
    response
}

/// Returns the page of an error. A visitor that is not let in sees no rail.
pub(crate) fn error(visit: &Visit, problem: &Problem, has_rail: bool) -> Markup {
    if visit.is_part {
        return problem.body(visit);
    }
    let top = html! { header.top { h1 { (problem.title) } } };
    let content = html! { (top) main #main tabindex="-1" { (problem.body(visit)) } };
    document(
        visit,
        &problem.title,
        html! {
            @if has_rail { div.app { (rail(visit, None, None)) div { (content) } } } @else { div { (content) } }
        },
    )
}

fn document(visit: &Visit, title: &str, content: Markup) -> Markup {
    let asset = |name: &str| visit.link(&format!("/assets/{name}"));
    html! {
        (DOCTYPE)
        html lang="en" data-theme=[visit.theme] data-root=(visit.root()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · workflows" }
                link rel="icon" href=(asset(&MARK.name)) type="image/svg+xml";
                link rel="stylesheet" href=(asset(&STYLE.name));
                script type="module" src=(asset(&SCRIPT.name)) {}
            }
            body {
                (HATCH)
                a.skip href="#main" { "Skip to content" }
                (content)
            }
        }
    }
}

/// The hatching of waits, which every drawing refers to.
const HATCH: PreEscaped<&str> = PreEscaped(
    r#"<svg class="defs" width="0" height="0" aria-hidden="true"><defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="hatch-a" width="6" height="6"/><rect class="hatch-b" width="2" height="6"/></pattern></defs></svg>"#,
);

fn frame(visit: &Visit, page: &Page, known: Option<&Known>) -> Markup {
    document(
        visit,
        &page.title,
        html! {
            div.app {
                (rail(visit, Some(page.section), known))
                div.sheet {
                    header.top {
                        @match &page.top { Some(top) => (top), None => h1 { (page.title) } }
                        div.right {
                            @if page.live {
                                button.live.needs-script type="button" data-live-switch
                                    title="Updates as they happen. Press r to hold." {
                                    i {} span { "Live" }
                                }
                            }
                            (copy_command(&page.command))
                            button.btn.ghost.needs-script type="button" data-theme-switch aria-label="Theme" {
                                (Icon::THEME.draw())
                            }
                            (page.right)
                        }
                    }
                    @if let Some(standby) = known.and_then(|known| known.standby.as_ref()) {
                        p.note role="status" {
                            (sentence(&standby.sentence(clock::span)))
                            " It shows the past, and nothing can be changed here."
                        }
                    }
                    @if let Some(moved) = known.and_then(|known| known.moved.as_ref()) {
                        p.note role="status" {
                            (sentence(&moved.sentence(|time| format!("{} ago", clock::span(visit.now.since(time))))))
                            " Nothing can be changed here."
                        }
                    }
                    @if let Some(note) = &visit.note {
                        p.note role="status" { (sentence(note)) }
                    }
                    main #main tabindex="-1" data-live=[page.live.then_some("")] { (page.body) }
                }
            }
            (help())
            (palette(visit))
        },
    )
}

/// Returns a text as one word of a shell, which expands nothing in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns the last argument of a command, which may begin with a hyphen.
pub(crate) fn argument(text: impl fmt::Display) -> String {
    let text = text.to_string();
    let ends_options = if text.starts_with('-') { "-- " } else { "" };
    format!("{ends_options}{}", quoted(&text))
}

/// Returns an option of a command with its value, which may begin with a hyphen.
pub(crate) fn option(name: &str, value: impl fmt::Display) -> String {
    let value = value.to_string();
    let sign = if value.starts_with('-') { '=' } else { ' ' };
    format!("--{name}{sign}{}", quoted(&value))
}

/// Returns a button that copies the command; without a script, the command itself.
fn copy_command(command: &str) -> Markup {
    html! {
        details.act.cli {
            summary.btn.ghost title="The same in a terminal" { (Icon::COPY.draw()) span.hide-s { "Copy as CLI" } }
            div.pop {
                p { "The same in a terminal:" }
                pre.wrap data-copied { (command) }
                button.btn.needs-script type="button" data-copy { "Copy" }
            }
        }
    }
}

fn rail(visit: &Visit, section: Option<Section>, known: Option<&Known>) -> Markup {
    html! {
        nav.rail aria-label="Main" {
            div.brand { (MARK_DRAWING) "workflows" small { (visit.actor.name) } }
            @for entry in Section::ALL {
                @let (path, name, icon, key) = entry.entry();
                @match entry {
                    Section::Workflows => h6 { "Definitions" },
                    Section::Bulk => h6 { "Administration" },
                    _ => {},
                }
                a href=(visit.link(path)) aria-current=[(section == Some(entry)).then_some("page")] data-key=(key) {
                    (icon.draw()) (name)
                    @match (entry, known) {
                        (Section::Approvals, Some(known)) if known.approvals > 0 => b {
                            (clock::grouped(known.approvals as u64))
                        },
                        (Section::Workers, Some(known)) => b.hot[known.workers == 0] { (known.workers) },
                        _ => {},
                    }
                }
            }
            div.foot {
                strong { (format!("{:?}", visit.actor.role)) } " · times "
                button.plain.needs-script type="button" data-zone-switch { "local" }
                span.without-script { "in UTC" }
                br;
                "v" (env!("CARGO_PKG_VERSION"))
                span.needs-script { " · " button.plain type="button" data-help-switch { "keys " kbd { "?" } } }
            }
        }
    }
}

const MARK_DRAWING: PreEscaped<&str> = PreEscaped(
    r#"<svg class="mark" viewBox="0 0 18 18" aria-hidden="true"><rect class="mark-a" width="18" height="18" rx="5"/><path class="mark-b" d="M4.5 6h5M6.5 9.2h6M9 12.4h4.5" stroke-width="1.7" stroke-linecap="round"/></svg>"#,
);

/// The palette, which the script opens: pages, views and commands by their names.
fn palette(visit: &Visit) -> Markup {
    html! {
        dialog #palette aria-label="Go to" data-runs=(visit.link("/runs")) {
            input type="text" aria-label="Go to" placeholder="Go to a page, a view, a run or a search"
                autocomplete="off" spellcheck="false";
            ul.words {
                @for section in Section::ALL {
                    @let (path, name, ..) = section.entry();
                    li { a href=(visit.link(path)) { b { (name) } span { "page" } } }
                }
                @for (name, query) in VIEWS {
                    li { a href=(facets::link(visit, query)) { b { (name) } span { (query) } } }
                }
                @for (key, name) in COMMANDS {
                    li { a href="#main" data-does=(key) { b { (name) } span { kbd { (key) } } } }
                }
            }
        }
    }
}

/// Commands that the palette offers: the key of each, and its name.
const COMMANDS: [(&str, &str); 5] = [
    ("t", "Switch the theme"),
    ("z", "Switch the zone of times"),
    ("r", "Hold or continue updates"),
    ("c", "Copy this page as a command"),
    ("?", "Show all keys"),
];

/// The keyboard map, which the script opens.
fn help() -> Markup {
    const KEYS: [(&str, &str); 14] = [
        ("Ctrl K", "Go to a page, a view or a run"),
        ("/", "Search"),
        ("j  k", "Next, previous row"),
        ("Enter", "Open the row"),
        ("x", "Choose the row; reject the approval"),
        ("a", "Approve, decide"),
        ("+  −", "Closer, wider timeline"),
        ("c", "Copy as CLI"),
        ("n  p", "Older, newer page"),
        (".", "Actions"),
        ("r", "Hold updates, or go on"),
        ("t", "Theme"),
        ("z", "Zone: local or UTC"),
        ("Esc", "Close"),
    ];
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keys" }
            dl.keys {
                @for (key, meaning) in KEYS { dt { kbd { (key) } } dd { (meaning) } }
                @for section in Section::ALL {
                    @let (_, name, _, key) = section.entry();
                    dt { kbd { "g " (key) } } dd { (name) }
                }
            }
            form method="dialog" { button.btn { "Close" } }
        }
    }
}

/// Draws the link to the page of a list that begins at a place.
pub(crate) fn next_page(visit: &Visit, next: Option<&Cursor>, path: &str, word: &str) -> Markup {
    let sign = if path.contains('?') { '&' } else { '?' };
    html! {
        @if let Some(next) = next { div.listfoot { span.right {
            a.btn rel="next" href=(visit.link(&format!("{path}{sign}cursor={}", next.as_str()))) { (word) }
        } } }
    }
}

/// Returns what a page shows that has nothing to show yet.
pub(crate) fn empty(title: &str, text: &str, command: Option<&str>) -> Markup {
    html! {
        section.empty {
            h2 { (title) }
            p.dim { (text) }
            @if let Some(command) = command { pre.wrap { (command) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_expands_nothing_in_a_command() {
        assert_eq!(quoted("status:failed key:$(x)"), "'status:failed key:$(x)'");
        assert_eq!(quoted("a'; rm b"), r"'a'\''; rm b'");
    }

    #[test]
    fn a_value_that_begins_with_a_hyphen_is_no_option() {
        assert_eq!((argument("a b"), argument("-a")), ("'a b'".to_owned(), "-- '-a'".to_owned()));
        assert_eq!((option("to", "a b"), option("to", "-a")), ("--to 'a b'".to_owned(), "--to='-a'".to_owned()));
    }
}
