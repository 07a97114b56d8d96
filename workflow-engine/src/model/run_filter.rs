use super::{RunId, RunStatus, Timestamp};

/// Selects which runs to list, newest first. A run is listed if every condition that is set holds.
///
/// ```
/// use workflow_sdk::{RunFilter, RunStatus};
///
/// let failed_orders = RunFilter::new()
///     .status(RunStatus::Failed)
///     .workflow("checkout")
///     .tag("region", "eu")
///     .page_size(50);
/// assert_eq!(failed_orders.page_size, 50);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunFilter {
    /// Lists runs that have any of these statuses. Default: empty, which means every status.
    pub statuses: Vec<RunStatus>,
    /// The name of the workflow. Default: any.
    pub workflow: Option<String>,
    /// The name of the queue. Default: any.
    pub queue: Option<String>,
    /// The name and the value of a tag. Default: any.
    pub tag: Option<(String, String)>,
    /// A prefix of the idempotency key, compared byte by byte. Default: any run, with or without a
    /// key.
    pub key_prefix: Option<String>,
    /// The run whose children to list. Default: any run, with or without a parent.
    pub parent: Option<RunId>,
    /// The earliest creation time, inclusive. Default: any.
    pub created_from: Option<Timestamp>,
    /// The latest creation time, exclusive. Default: any.
    pub created_before: Option<Timestamp>,
    /// Whether the run is paused. Default: any.
    pub paused: Option<bool>,
    /// The largest number of runs per page. Default: [`RunFilter::DEFAULT_PAGE_SIZE`]. Range: 1 to
    /// [`RunFilter::MAX_PAGE_SIZE`]; a value outside this range is moved to its nearer end.
    pub page_size: u32,
    /// Lists only runs that follow this run in the list. Default: starts with the newest run.
    pub after: Option<RunId>,
}

impl RunFilter {
    /// The page size that applies by default.
    pub const DEFAULT_PAGE_SIZE: u32 = 100;
    /// The largest page size. It is bounded because a whole page is held in memory.
    pub const MAX_PAGE_SIZE: u32 = 1000;

    /// Selects every run.
    #[must_use]
    pub fn new() -> Self {
        Self {
            statuses: Vec::new(),
            workflow: None,
            queue: None,
            tag: None,
            key_prefix: None,
            parent: None,
            created_from: None,
            created_before: None,
            paused: None,
            page_size: Self::DEFAULT_PAGE_SIZE,
            after: None,
        }
    }

    /// Also selects runs of this status. Call it once per status.
    #[must_use]
    pub fn status(mut self, status: RunStatus) -> Self {
        self.statuses.push(status);
        self
    }

    /// Selects only runs of this workflow.
    #[must_use]
    pub fn workflow(mut self, name: impl Into<String>) -> Self {
        self.workflow = Some(name.into());
        self
    }

    /// Selects only runs in this queue.
    #[must_use]
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queue = Some(name.into());
        self
    }

    /// Selects only runs with this tag and value.
    #[must_use]
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.tag = Some((name.into(), value.into()));
        self
    }

    /// Selects only runs whose idempotency key begins with `prefix`.
    #[must_use]
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = Some(prefix.into());
        self
    }

    /// Selects only the children of this run.
    #[must_use]
    pub fn parent(mut self, parent: RunId) -> Self {
        self.parent = Some(parent);
        self
    }

    /// Selects only runs that were created at `from` or later.
    #[must_use]
    pub fn created_from(mut self, from: impl Into<Timestamp>) -> Self {
        self.created_from = Some(from.into());
        self
    }

    /// Selects only runs that were created before `before`.
    #[must_use]
    pub fn created_before(mut self, before: impl Into<Timestamp>) -> Self {
        self.created_before = Some(before.into());
        self
    }

    /// Selects only paused runs (`true`) or only runs that are not paused (`false`).
    #[must_use]
    pub fn paused(mut self, paused: bool) -> Self {
        self.paused = Some(paused);
        self
    }

    /// Sets the largest number of runs per page. Default: [`RunFilter::DEFAULT_PAGE_SIZE`]. Range:
    /// 1 to [`RunFilter::MAX_PAGE_SIZE`]; a value outside this range is moved to its nearer end.
    #[must_use]
    pub fn page_size(mut self, runs: u32) -> Self {
        self.page_size = runs.clamp(1, Self::MAX_PAGE_SIZE);
        self
    }

    /// Selects the page that follows the page whose last run was `last`.
    #[must_use]
    pub fn after(mut self, last: RunId) -> Self {
        self.after = Some(last);
        self
    }
}

impl Default for RunFilter {
    fn default() -> Self {
        Self::new()
    }
}
