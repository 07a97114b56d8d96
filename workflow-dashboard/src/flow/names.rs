//! The flows of runs that a page has by their ids alone.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::join_all;
use maud::Markup;
use workflow_flows::{FlowName, is_flow};
use workflow_sdk::RunId;
use workflow_sdk::operate::{Operate, OperateErrorCode, RunSummary};

/// The most runs that one page reads to name their flows.
const MOST_READ: usize = 50;
/// How many of them are read at once.
const AT_ONCE: usize = 8;
/// The most runs whose flows are kept.
const MOST_KEPT: usize = 10_000;

/// A flow that a run names.
#[derive(Debug, PartialEq, Eq)]
struct KnownFlow {
    name: String,
    /// The version. `None`: the start of the run brought the flow.
    version: Option<String>,
}

impl KnownFlow {
    fn of(run: &RunSummary) -> Option<Self> {
        let flow = FlowName::of(&run.lane.workflow, &run.tags)?;
        Some(Self { name: flow.name.to_owned(), version: flow.version.map(str::to_owned) })
    }
}

/// The flows of some runs. A run that is not one of a flow, or that could not be read, has none.
#[derive(Debug, Default)]
pub(crate) struct FlowNames(HashMap<RunId, Arc<KnownFlow>>);

impl FlowNames {
    /// Draws the name of what a run of this workflow runs: that of its flow if it is known, else
    /// that of the workflow. A flow has its mark.
    pub(crate) fn label(&self, run: RunId, workflow: &str) -> Markup {
        let flow = self.0.get(&run);
        let title = flow.map_or(workflow, |flow| flow.name.as_str());
        super::label(workflow, title, flow.and_then(|flow| flow.version.as_deref()))
    }
}

/// Keeps the flows of runs. The tags of a run never change, so each run is read once.
#[derive(Debug, Default)]
pub(crate) struct FlowCache(Mutex<HashMap<RunId, Option<Arc<KnownFlow>>>>);

impl FlowCache {
    /// Returns the flows of those runs whose workflow, which stands beside each, is that of flows.
    /// A run that cannot be read has none: its page says why.
    pub(crate) async fn names(&self, operate: &dyn Operate, runs: &[(RunId, &str)]) -> FlowNames {
        let of_flows = runs.iter().filter(|(_, workflow)| is_flow(workflow));
        let wanted: HashSet<RunId> = of_flows.map(|(run, _)| *run).collect();
        for part in self.unknown(&wanted).chunks(AT_ONCE) {
            let reads = join_all(part.iter().map(|run| operate.run(*run))).await;
            let mut known = self.known();
            for (run, read) in part.iter().zip(reads) {
                let flow = match read {
                    Ok(detail) => KnownFlow::of(&detail.summary).map(Arc::new),
                    Err(error) if error.code == OperateErrorCode::NotFound => None,
                    Err(_) => continue,
                };
                known.insert(*run, flow);
            }
        }
        let known = self.known();
        FlowNames(wanted.into_iter().filter_map(|run| Some((run, known.get(&run)?.clone()?))).collect())
    }

    /// Returns the runs that are to be read.
    fn unknown(&self, wanted: &HashSet<RunId>) -> Vec<RunId> {
        let mut known = self.known();
        if known.len() > MOST_KEPT {
            known.clear();
        }
        wanted.iter().filter(|run| !known.contains_key(*run)).take(MOST_READ).copied().collect()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<RunId, Option<Arc<KnownFlow>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const RUN: &str = "01a2179e-6563-77f9-814a-e7a8f1ed3d63";

    fn run(workflow: &str, tags: &str) -> RunSummary {
        let text = format!(
            r#"{{"id":"{RUN}","queue":"default","workflow":"{workflow}","version":"1","status":"running",
            "now":{{"state":"running","lease_until":1895692600000000}},"attempt":1,"generation":0,"crashes":0,
            "depth":0,"available_at":1,"created_at":1,"tags":{tags}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn names(run: &RunSummary) -> FlowNames {
        FlowNames(KnownFlow::of(run).map(|flow| (run.id, Arc::new(flow))).into_iter().collect())
    }

    #[test]
    fn a_run_of_a_flow_has_the_name_and_the_version_of_the_flow() {
        for (workflow, tags, label) in [
            ("flow", r#"{"flow":"triage","flow_version":"v3"}"#, r#"triage <span class="tag">flow v3</span>"#),
            ("flow", r#"{"flow":"triage"}"#, r#"triage <span class="tag">flow</span>"#),
            ("flow", "{}", r#"flow <span class="tag">flow</span>"#),
            ("checkout", r#"{"flow":"triage"}"#, "checkout"),
        ] {
            let run = run(workflow, tags);
            assert_eq!(names(&run).label(run.id, workflow).into_string(), label, "{workflow} {tags}");
            assert_eq!(super::super::label_of(&run.lane, &run.tags).into_string(), label, "{workflow} {tags}");
        }
        let unknown = FlowNames::default().label(RUN.parse().unwrap(), "flow").into_string();
        assert_eq!(unknown, r#"flow <span class="tag">flow</span>"#, "a run that could not be read");
    }
}
