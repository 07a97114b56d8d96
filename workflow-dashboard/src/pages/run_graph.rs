//! The graph of a flow, with what the run has done of it and the panel of a step.

use maud::{Markup, html};
use workflow_sdk::operate::{ListHistory, Operate, OperateError, PayloadOf, RunDetail};

use crate::facets::escaped;
use crate::flow::{NotDrawn, RunFlow, View};
use crate::panel::{self, Step};
use crate::visit::Visit;

use super::run::Header;

/// The most steps of a timeline whose states are read for a graph.
pub(super) const WINDOW: u32 = 5_000;
/// The most attempts among which the decisions are.
const HISTORY: u32 = 1_000;

/// The content of the tab.
pub(super) struct Graph<'g> {
    pub(super) flow: Result<RunFlow, NotDrawn>,
    /// The step whose panel is open.
    pub(super) step: Option<Step<'g>>,
}

/// Reads the flow of a run, and the decisions that the run has recorded.
pub(super) async fn read(
    operate: &dyn Operate,
    visit: &Visit,
    detail: &RunDetail,
) -> Result<Result<RunFlow, NotDrawn>, OperateError> {
    if !visit.actor.payloads {
        return Ok(Err(NotDrawn::Hidden));
    }
    let run = detail.summary.id;
    let history = operate.history(ListHistory::new(run).limit(HISTORY)).await?.items;
    let shown = detail.input.as_ref().and_then(|input| input.json.clone());
    let input = match shown {
        Some(input) => Some(input),
        None => operate.payload(run, PayloadOf::Input).await?.json,
    };
    Ok(input.ok_or(NotDrawn::Unreadable).and_then(|input| RunFlow::read(input.as_str(), history)))
}

pub(super) fn draw(visit: &Visit, header: &Header<'_>, Graph { flow, step }: &Graph<'_>) -> Markup {
    let run = header.detail.summary.id;
    let place = |parts: &str| visit.link(&format!("/runs/{run}?tab=graph{parts}"));
    let link = |key: &str| place(&format!("&step={}", escaped(key)));
    let selected = step.as_ref().map(|step| step.row.step.as_str());
    html! {
        div.detail {
            section.gantt aria-label="Graph" {
                @match flow {
                    Err(why) => p.faint.pad { (why.sentence()) },
                    Ok(flow) => {
                        @let view = View::new(flow, header.timeline);
                        div.g-tools data-key="graph-tools" {
                            span { (view.summary()) }
                            @if !header.timeline.complete || header.timeline.cut { span { "· some steps are not shown" } }
                            span.right { (repeats(&view, selected, &link)) }
                        }
                        div.flow-area { (view.draw(&link, selected)) }
                    },
                }
            }
            @match step {
                Some(step) => (step.draw(visit, &place(""))),
                None => (panel::of_run(visit, header.detail, header.timeline)),
            }
        }
    }
}

/// Draws the links to the times before and after, if the open step ran more than once.
fn repeats(view: &View<'_>, selected: Option<&str>, link: &dyn Fn(&str) -> String) -> Markup {
    let Some((place, keys)) = selected.and_then(|key| view.repeats(key)).filter(|(_, keys)| keys.len() > 1) else {
        return html! {};
    };
    let before = place.checked_sub(1).and_then(|before| keys.get(before));
    html! {
        span.seg.zoom {
            @if let Some(key) = before { a href=(link(key)) aria-label="The time before" { "‹" } }
            span.on { (place + 1) " of " (keys.len()) }
            @if let Some(key) = keys.get(place + 1) { a href=(link(key)) aria-label="The time after" { "›" } }
        }
    }
}
