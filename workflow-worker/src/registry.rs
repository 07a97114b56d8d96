use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use workflow_engine::model::{Lane, check_name};
use workflow_sdk::internal::Entry;
use workflow_sdk::{NameSubject, RunsWith};

use crate::WorkerError;
use crate::source_lines::SourceLines;

/// The workflows that a worker knows, by name and version.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: HashMap<WorkflowId, Registered>,
    /// The queues in the attributes of the workflows.
    queues: BTreeSet<&'static str>,
    /// Workflows that were registered twice.
    duplicates: Vec<WorkflowId>,
}

/// A workflow that a worker knows.
#[derive(Debug)]
struct Registered {
    entry: Entry,
    /// The lines at which its steps are called. `None` if the calls are not in the author's code.
    source_lines: Option<Arc<SourceLines>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct WorkflowId {
    name: &'static str,
    version: &'static str,
}

impl Registry {
    pub(crate) fn register<S, W: RunsWith<S>>(&mut self, state: &Arc<S>) {
        let id = WorkflowId { name: W::NAME, version: W::VERSION };
        self.queues.extend(W::QUEUE);
        let source_lines = W::IN_CODE.then(|| Arc::new(SourceLines::new(W::NAME, W::VERSION)));
        let registered = Registered { entry: Entry::new::<S, W>(state), source_lines };
        if self.entries.insert(id.clone(), registered).is_some() {
            self.duplicates.push(id);
        }
    }

    /// # Errors
    /// [`WorkerError::DuplicateWorkflow`], [`WorkerError::Name`] or [`WorkerError::NoWorkflows`].
    pub(crate) fn check(&self) -> Result<(), WorkerError> {
        if let Some(id) = self.duplicates.first() {
            return Err(WorkerError::DuplicateWorkflow { name: id.name.into(), version: id.version.into() });
        }
        for id in self.entries.keys() {
            check_name(NameSubject::Workflow, id.name)?;
            check_name(NameSubject::Version, id.version)?;
        }
        if self.entries.is_empty() { Err(WorkerError::NoWorkflows) } else { Ok(()) }
    }

    /// Returns the names of the workflows, each once per version.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.entries.keys().map(|id| id.name)
    }

    /// Returns the queues that the attributes of the workflows name.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &'static str> {
        self.queues.iter().copied()
    }

    /// Returns the lanes of every workflow in each of these queues.
    pub(crate) fn lanes(&self, queues: &[String]) -> Vec<Lane> {
        let lane = |queue: &String, id: &WorkflowId| Lane {
            queue: queue.clone(),
            workflow: id.name.into(),
            version: id.version.into(),
        };
        queues.iter().flat_map(|queue| self.entries.keys().map(move |id| lane(queue, id))).collect()
    }

    pub(crate) fn entry(&self, lane: &Lane) -> Option<&Entry> {
        self.find(lane).map(|registered| &registered.entry)
    }

    /// Returns where the steps of this workflow are called, unless it has no code of its own.
    pub(crate) fn source_lines(&self, lane: &Lane) -> Option<&Arc<SourceLines>> {
        self.find(lane)?.source_lines.as_ref()
    }

    fn find(&self, lane: &Lane) -> Option<&Registered> {
        let same = |id: &&WorkflowId| id.name == lane.workflow && id.version == lane.version;
        self.entries.iter().find(|(id, _)| same(id)).map(|(_, registered)| registered)
    }
}

impl fmt::Debug for WorkflowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}
