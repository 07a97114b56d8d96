//! The graph of a flow, with what a run has done of it.

mod layout;
mod state;
mod view;

use std::collections::BTreeMap;

use maud::{Markup, html};
use workflow_flows::graph::Flow;
use workflow_flows::{FlowName, FlowStart};
use workflow_sdk::operate::{HistoryItem, RunSummary};

pub(crate) use view::View;

/// The most steps that are drawn. A reader cannot follow the edges of a larger flow.
const MOST_STEPS: usize = 400;

/// A flow as the input of a run has it, and the decisions of the run.
#[derive(Debug)]
pub(crate) struct RunFlow {
    flow: Flow,
    history: Vec<HistoryItem>,
}

/// Says why a flow is not drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotDrawn {
    /// The visitor may not see payloads, and the flow stands in one.
    Hidden,
    /// The input is not one of this release, or parts of it are redacted.
    Unreadable,
    /// It has more than `MOST_STEPS` steps.
    TooLarge,
}

impl RunFlow {
    /// Reads the flow in the input of a run.
    pub(crate) fn read(input: &str, history: Vec<HistoryItem>) -> Result<Self, NotDrawn> {
        let start: FlowStart = serde_json::from_str(input).map_err(|_| NotDrawn::Unreadable)?;
        let flow = start.definition;
        if is_small(&flow) { Ok(Self { flow, history }) } else { Err(NotDrawn::TooLarge) }
    }
}

/// Returns whether a flow has at most [`MOST_STEPS`] steps.
pub(crate) fn is_small(flow: &Flow) -> bool {
    let mut steps = 0;
    flow.for_each_step(|_| steps += 1);
    steps <= MOST_STEPS
}

impl NotDrawn {
    /// Returns the sentence that stands in place of the drawing.
    pub(crate) const fn sentence(self) -> &'static str {
        match self {
            Self::Hidden => {
                "The flow stands in the input of the run, and inputs are hidden from you. The timeline shows the steps \
                 that ran."
            }
            Self::Unreadable => {
                "The input of the run has no flow that this program can read. The timeline shows the steps that ran."
            }
            Self::TooLarge => "The flow has too many steps for a drawing. The timeline shows those that ran.",
        }
    }
}

/// Returns whether a run is one of a flow.
pub(crate) fn is_flow(run: &RunSummary) -> bool {
    workflow_flows::is_flow(&run.lane.workflow)
}

/// Returns the name of what a run runs: that of its flow, else that of its workflow.
pub(crate) fn title(run: &RunSummary) -> &str {
    title_of(&run.lane.workflow, &run.tags)
}

/// Returns the name of what runs of this workflow with these tags run.
pub(crate) fn title_of<'n>(workflow: &'n str, tags: &'n BTreeMap<String, String>) -> &'n str {
    FlowName::of(workflow, tags).map_or(workflow, |flow| flow.name)
}

/// Draws the name of what runs of this workflow with these tags run, with the mark of a flow.
pub(crate) fn label_of(workflow: &str, tags: &BTreeMap<String, String>) -> Markup {
    let version = FlowName::of(workflow, tags).and_then(|flow| flow.version);
    html! {
        (title_of(workflow, tags)) @if workflow_flows::is_flow(workflow) { " " (flow_mark(version)) }
    }
}

/// Draws the mark of a run of a flow, with the version if the flow was deployed.
pub(crate) fn mark(run: &RunSummary) -> Markup {
    html! { @if is_flow(run) { (flow_mark(version(run))) } }
}

fn flow_mark(version: Option<&str>) -> Markup {
    html! { span.tag { "flow" @if let Some(version) = version { " " (version) } } }
}

/// Returns the version of what a run runs. `None`: its start brought the flow.
pub(crate) fn version(run: &RunSummary) -> Option<&str> {
    if is_flow(run) { FlowName::of(&run.lane.workflow, &run.tags)?.version } else { Some(&run.lane.version) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_a_flow_has_the_name_and_the_version_of_the_flow() {
        let tags = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        for (workflow, pairs, label) in [
            ("flow", &[("flow", "triage"), ("flow_version", "v3")][..], r#"triage <span class="tag">flow v3</span>"#),
            ("flow", &[("flow", "triage")], r#"triage <span class="tag">flow</span>"#),
            ("flow", &[], r#"flow <span class="tag">flow</span>"#),
            ("checkout", &[("flow", "triage")], "checkout"),
        ] {
            assert_eq!(label_of(workflow, &tags(pairs)).into_string(), label, "{workflow} {pairs:?}");
        }
    }
}
