use workflow_sdk::{LimitRule, Rate};

/// A limit for steps that a worker declares: see [`Worker::limit`](crate::Worker::limit).
///
/// ```
/// use workflow_worker::Limit;
///
/// let llm = Limit::new("llm").concurrency(10);
/// # let _ = llm;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a limit does nothing until a worker declares it"]
pub struct Limit {
    pub(crate) name: String,
    pub(crate) rule: LimitRule,
}

impl Limit {
    /// Creates a limit that lets any number of bodies run. Range of the name: 1 to 255 bytes, no
    /// control characters; the worker checks it when it runs.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), rule: LimitRule::none() }
    }

    /// Lets at most this number of bodies run at once per key, over all workers of the database.
    /// Default: any number. 0 lets none begin. See [`LimitRule::concurrency`].
    pub fn concurrency(mut self, bodies: u32) -> Self {
        self.rule = self.rule.concurrency(bodies);
        self
    }

    /// Lets at most this many bodies begin in a period per key, over all workers of the database.
    /// Can be combined with a [`concurrency`](Limit::concurrency). Default: any number. Each
    /// attempt of a step counts. A step that may not begin yet waits like one that waits for a
    /// seat. See [`Rate`] for the range, which the worker checks when it runs.
    ///
    /// ```
    /// use workflow_worker::{Limit, Rate};
    ///
    /// // 600 calls per minute and account, at most 20 at once after a rest, and 50 under way.
    /// let llm = Limit::new("llm").rate(Rate::per_minute(600).burst(20)).concurrency(50);
    /// # let _ = llm;
    /// ```
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rule = self.rule.rate(rate);
        self
    }
}
