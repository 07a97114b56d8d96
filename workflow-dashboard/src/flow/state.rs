//! Finds how far a run has come in its flow, step by step.

use std::collections::{BTreeMap, BTreeSet};

use workflow_flows::graph::{Block, Flow, Kind, Step};
use workflow_flows::{RecordPart, RecordedSteps};
use workflow_sdk::operate::{BarState, HistoryItem, TimelineRow};

use crate::icons::Icon;
use crate::status::Look;
use crate::timeline;

/// The state of one step, as the records of the run show it.
#[derive(Debug, Default)]
pub(crate) struct StepState<'r> {
    /// The row that says most about it, and its look. `None`: no record of the step.
    pub(crate) shown: Option<(&'r TimelineRow, Look)>,
    /// The rows of the step itself, without those of its decisions.
    pub(crate) rows: Vec<&'r TimelineRow>,
    /// The labels of the edges that its decisions have taken.
    taken: BTreeSet<String>,
    has_failed: bool,
}

const DONE: Look = Look { word: "Done", icon: Icon::SUCCEEDED, color: "ok" };
const RUNNING: Look = Look { word: "Running", icon: Icon::RUNNING, color: "run" };
const SKIPPED: Look = Look { word: "Skipped", icon: Icon::STUCK, color: "idle" };

impl StepState<'_> {
    /// Returns whether the run came to the step.
    pub(crate) fn is_reached(&self) -> bool {
        self.shown.is_some()
    }

    /// Returns whether the run went on by an edge of the step, if it has come to both ends.
    pub(crate) fn has_taken(&self, label: &str, is_decided: bool, decided: &[&str]) -> bool {
        match label {
            "error" if !is_decided => self.has_failed,
            _ if self.taken.is_empty() => true,
            _ if is_decided => self.taken.contains(label),
            // Beside edges with labels of decisions, an edge without a label stands for all other
            // answers.
            "" if !decided.is_empty() => self.taken.iter().any(|taken| !decided.contains(&taken.as_str())),
            _ => true,
        }
    }
}

/// Returns the states of the steps to which a run has come.
pub(crate) fn states<'f, 'r>(
    flow: &'f Flow,
    rows: &'r [TimelineRow],
    history: &[HistoryItem],
) -> BTreeMap<&'f str, StepState<'r>> {
    let recorded = RecordedSteps::of(flow);
    let mut states: BTreeMap<&'f str, StepState<'r>> = BTreeMap::new();
    for row in rows {
        let Some((step, part)) = recorded.find(&row.step) else { continue };
        let state = states.entry(step).or_default();
        match part {
            RecordPart::Step => state.rows.push(row),
            RecordPart::Undo => continue,
            _ => {}
        }
        state.has_failed |= row.bars.iter().any(|bar| bar.state == BarState::Failed);
        state.show(row);
    }
    for item in history {
        if let Some((step, RecordPart::Decision)) = recorded.find(&item.step)
            && let Some(state) = states.get_mut(step)
        {
            state.taken.extend(item.output.as_ref().and_then(|output| label(output.json.as_ref()?.as_str())));
        }
    }
    flow.for_each_step(|step| complete(step, &mut states));
    states
}

impl<'r> StepState<'r> {
    /// Shows a row instead of the one before, unless that one is still open.
    fn show(&mut self, row: &'r TimelineRow) {
        let keeps = self.shown.is_some_and(|(shown, _)| is_open(shown)) && !is_open(row);
        if !keeps {
            self.shown = Some((row, timeline::look(row)));
        }
    }
}

fn is_open(row: &TimelineRow) -> bool {
    matches!(row.bars.last().map(|bar| bar.state), Some(BarState::Running | BarState::Waiting | BarState::BackOff))
}

/// Returns the label of the edge that a decision takes.
fn label(json: &str) -> Option<String> {
    match serde_json::from_str(json).ok()? {
        serde_json::Value::Bool(true) => Some("then".to_owned()),
        serde_json::Value::Bool(false) => Some("else".to_owned()),
        serde_json::Value::Null => Some("default".to_owned()),
        serde_json::Value::String(case) => Some(case),
        serde_json::Value::Object(fields) => Some(fields.get("because")?.as_str()?.to_owned()),
        _ => None,
    }
}

/// Adds two facts that no record of the step holds: that it was skipped, and that its blocks still
/// run.
fn complete<'f, 'r>(step: &'f Step, states: &mut BTreeMap<&'f str, StepState<'r>>) {
    if let Some(state) = states.get_mut(step.id.as_str())
        && state.rows.is_empty()
        && step.when.is_some()
        && !state.taken.is_empty()
        && state.taken.iter().all(|label| label == "else")
        && let Some((row, _)) = state.shown
    {
        state.shown = Some((row, SKIPPED));
    }
    if !matches!(step.kind, Kind::Loop(_) | Kind::Parallel(_)) {
        return;
    }
    let mut inner = Vec::new();
    step.blocks().into_iter().for_each(|block| ids(block, &mut inner));
    let mut shown = inner.iter().filter_map(|id| states.get(id).and_then(|state| state.shown));
    let open = shown.clone().find(|(row, _)| is_open(row)).map(|(row, _)| (row, RUNNING));
    let last = shown.next_back().map(|(row, _)| (row, DONE));
    let own = states.get(step.id.as_str()).and_then(|state| state.shown);
    if let Some(shown) = open.or(own).or(last) {
        states.entry(step.id.as_str()).or_default().shown = Some(shown);
    }
}

/// Adds the ids of a block, at any depth.
fn ids<'f>(block: &'f Block, found: &mut Vec<&'f str>) {
    let (Block::Do(steps) | Block::Dag { steps, .. } | Block::Graph { steps, .. }) = block;
    for step in steps {
        found.push(step.id.as_str());
        step.blocks().into_iter().for_each(|block| ids(block, found));
    }
}
