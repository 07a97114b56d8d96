//! The values of one figure over the rounds of a benchmark.

/// One value per round. The median is reported.
#[derive(Debug, Default)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the median: the lower middle value if their number is even, NaN if there are none.
    pub(crate) fn median(&self) -> f64 {
        let mut values = self.0.clone();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
    }
}
