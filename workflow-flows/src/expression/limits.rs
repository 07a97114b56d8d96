use std::time::Duration;

/// The limits of the expressions that a worker evaluates. [`FlowRuntimeBuilder::expression_limits`]
/// and [`EvaluatorBuilder::limits`] take them, and refuse a value outside of its range.
///
/// An expression over a limit fails its step with the code F241. The limits belong to the worker
/// and not to a flow or a run: workers may have different ones, and a change of them never
/// evaluates again what a step has recorded.
///
/// ```
/// use std::time::Duration;
/// use workflow_flows::FlowRuntime;
/// use workflow_flows::expression::{ExpressionLimits, InvalidExpressionLimit};
///
/// # fn main() -> Result<(), InvalidExpressionLimit> {
/// let limits = ExpressionLimits::new().cel_fuel(100_000).jq_time(Duration::from_millis(200));
/// let runtime = FlowRuntime::builder().expression_limits(limits)?.build();
/// # drop(runtime);
/// let refused = FlowRuntime::builder().expression_limits(limits.cel_fuel(0)).unwrap_err();
/// assert!(refused.to_string().ends_with("is 0 steps; use 1 to 1000000000"));
/// # Ok(())
/// # }
/// ```
///
/// [`EvaluatorBuilder::limits`]: super::EvaluatorBuilder::limits
/// [`FlowRuntimeBuilder::expression_limits`]: crate::FlowRuntimeBuilder::expression_limits
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpressionLimits {
    pub(super) cel_fuel: u64,
    pub(super) cel_memory: usize,
    pub(super) rendered_bytes: usize,
    pub(super) jq_time: Duration,
    pub(super) jq_memory: usize,
    pub(super) jq_outputs: usize,
    pub(super) jq_output_bytes: usize,
}

impl ExpressionLimits {
    /// Creates the default limits.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            cel_fuel: 1_000_000,
            cel_memory: 32 << 20,
            rendered_bytes: 4 << 20,
            jq_time: Duration::from_millis(900),
            jq_memory: 64 << 20,
            jq_outputs: 1_000,
            jq_output_bytes: 1 << 20,
        }
    }

    /// Sets the steps that all CEL of one rendering may take together. A node of a program takes
    /// one, and a large value more. No clock is read, so what fits does so on each machine.
    /// Default: 1,000,000. Range: 1 to 1,000,000,000.
    #[must_use]
    pub const fn cel_fuel(mut self, steps: u64) -> Self {
        self.cel_fuel = steps;
        self
    }

    /// Sets the bytes that all CEL of one rendering may allocate together. Default: 32 MiB. Range:
    /// 1 byte to 1 GiB.
    #[must_use]
    pub const fn cel_memory(mut self, bytes: usize) -> Self {
        self.cel_memory = bytes;
        self
    }

    /// Sets the bytes of one rendered value, about as JSON. The input of a jq program may have as
    /// many bytes, and at least 4 MiB; a large one may need more [`jq_memory`](Self::jq_memory).
    /// Default: 4 MiB. Range: 1 byte to 64 MiB.
    #[must_use]
    pub const fn rendered_bytes(mut self, bytes: usize) -> Self {
        self.rendered_bytes = bytes;
        self
    }

    /// Sets the processor time of one run of a jq program, in whole milliseconds. The kernel counts
    /// it in units of at least 10 ms. Default: 900 ms. Range: at least 10 ms, at most 4 s.
    #[must_use]
    pub const fn jq_time(mut self, time: Duration) -> Self {
        self.jq_time = time;
        self
    }

    /// Sets the bytes that a helper process of jq may take, its own state included: an eighth of
    /// them for its stack, the others for its data. Default: 64 MiB. Range: 16 MiB to 1 GiB.
    #[must_use]
    pub const fn jq_memory(mut self, bytes: usize) -> Self {
        self.jq_memory = bytes;
        self
    }

    /// Sets the number of outputs of one run of a jq program. Default: 1,000. Range: 1 to
    /// 1,000,000.
    #[must_use]
    pub const fn jq_outputs(mut self, outputs: usize) -> Self {
        self.jq_outputs = outputs;
        self
    }

    /// Sets the bytes of all outputs of one run of a jq program together, as JSON. Default: 1 MiB.
    /// Range: 1 byte to 64 MiB.
    #[must_use]
    pub const fn jq_output_bytes(mut self, bytes: usize) -> Self {
        self.jq_output_bytes = bytes;
        self
    }

    /// Refuses the first limit outside of its range.
    pub(super) fn check(&self) -> Result<(), InvalidExpressionLimit> {
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let millis = u64::try_from(self.jq_time.as_millis()).unwrap_or(u64::MAX);
        let ranges = [
            ("cel_fuel", self.cel_fuel, 1, 1_000_000_000, "steps"),
            ("cel_memory", number(self.cel_memory), 1, 1 << 30, "bytes"),
            ("rendered_bytes", number(self.rendered_bytes), 1, 64 << 20, "bytes"),
            ("jq_time", millis, 10, 4_000, "ms"),
            ("jq_memory", number(self.jq_memory), 16 << 20, 1 << 30, "bytes"),
            ("jq_outputs", number(self.jq_outputs), 1, 1_000_000, "outputs"),
            ("jq_output_bytes", number(self.jq_output_bytes), 1, 64 << 20, "bytes"),
        ];
        for (limit, given, least, most, unit) in ranges {
            if !(least..=most).contains(&given) {
                return Err(InvalidExpressionLimit { limit, given, least, most, unit });
            }
        }
        Ok(())
    }
}

impl Default for ExpressionLimits {
    fn default() -> Self {
        Self::new()
    }
}

/// A limit of [`ExpressionLimits`], or the limit of decisions, that is zero or outside of its range
/// in another way.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the limit {limit} of expressions is {given} {unit}; use {least} to {most}")]
#[non_exhaustive]
pub struct InvalidExpressionLimit {
    /// The method that sets the limit.
    pub limit: &'static str,
    /// The refused number, in the unit.
    pub given: u64,
    /// The least number that is accepted.
    pub least: u64,
    /// The largest number that is accepted.
    pub most: u64,
    /// The unit: `steps`, `bytes`, `ms`, `outputs` or `decisions`.
    pub unit: &'static str,
}
