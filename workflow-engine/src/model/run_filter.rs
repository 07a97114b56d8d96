use super::{RunId, RunStatus, Timestamp};

/// Which runs to list. Every part that is set must hold. Newest first.
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
    /// Any of these statuses. Default: empty, which means every status.
    pub statuses: Vec<RunStatus>,
    /// Name of the workflow. Default: any.
    pub workflow: Option<String>,
    /// Name of the queue. Default: any.
    pub queue: Option<String>,
    /// A tag's name and value. Default: any.
    pub tag: Option<(String, String)>,
    /// What the idempotency key begins with, byte by byte. Default: any run, with or without a key.
    pub key_prefix: Option<String>,
    /// Created at this instant or later. Default: any.
    pub created_from: Option<Timestamp>,
    /// Created before this instant. Default: any.
    pub created_before: Option<Timestamp>,
    /// Whether the run is paused. Default: any.
    pub paused: Option<bool>,
    /// At most so many runs a page. Default: [`RunFilter::DEFAULT_PAGE_SIZE`]. Range: 1 to [`RunFilter::MAX_PAGE_SIZE`];
    /// what lies outside is moved to the nearer end.
    pub page_size: u32,
    /// Only runs that come after this one in the list. Default: from the newest.
    pub after: Option<RunId>,
}

impl RunFilter {
    /// Runs a page unless the filter says otherwise.
    pub const DEFAULT_PAGE_SIZE: u32 = 100;
    /// The largest page: a page is held in memory whole.
    pub const MAX_PAGE_SIZE: u32 = 1000;

    /// Every run.
    #[must_use]
    pub fn new() -> Self {
        Self {
            statuses: Vec::new(),
            workflow: None,
            queue: None,
            tag: None,
            key_prefix: None,
            created_from: None,
            created_before: None,
            paused: None,
            page_size: Self::DEFAULT_PAGE_SIZE,
            after: None,
        }
    }

    /// Also runs of this status: may be called more than once.
    #[must_use]
    pub fn status(mut self, status: RunStatus) -> Self {
        self.statuses.push(status);
        self
    }

    /// Only runs of this workflow.
    #[must_use]
    pub fn workflow(mut self, name: impl Into<String>) -> Self {
        self.workflow = Some(name.into());
        self
    }

    /// Only runs in this queue.
    #[must_use]
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queue = Some(name.into());
        self
    }

    /// Only runs with this tag.
    #[must_use]
    pub fn tag(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.tag = Some((name.into(), value.into()));
        self
    }

    /// Only runs whose idempotency key begins so.
    #[must_use]
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = Some(prefix.into());
        self
    }

    /// Only runs that were created at `from` or later.
    #[must_use]
    pub fn created_from(mut self, from: impl Into<Timestamp>) -> Self {
        self.created_from = Some(from.into());
        self
    }

    /// Only runs that were created before `before`.
    #[must_use]
    pub fn created_before(mut self, before: impl Into<Timestamp>) -> Self {
        self.created_before = Some(before.into());
        self
    }

    /// Only paused runs, or only those that are not.
    #[must_use]
    pub fn paused(mut self, paused: bool) -> Self {
        self.paused = Some(paused);
        self
    }

    /// At most so many runs a page.
    #[must_use]
    pub fn page_size(mut self, runs: u32) -> Self {
        self.page_size = runs.clamp(1, Self::MAX_PAGE_SIZE);
        self
    }

    /// The page that follows the one which ended with this run.
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
