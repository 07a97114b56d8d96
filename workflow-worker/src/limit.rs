use workflow_sdk::LimitRule;

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
    /// A limit that lets any number of bodies run. Range of the name: 1 to 255 bytes, no control
    /// characters; the worker checks it when it runs.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), rule: LimitRule::none() }
    }

    /// Lets at most this number of bodies run at once per key, over all workers of the database.
    /// Default: any number. 0 lets none begin. See [`LimitRule::concurrency`].
    pub fn concurrency(mut self, bodies: u32) -> Self {
        self.rule = self.rule.concurrency(bodies);
        self
    }
}
