//! What the rounds of a benchmark gave for one figure.

/// A value a round; the median counts.
#[derive(Debug, Default)]
pub(crate) struct Rounds(Vec<f64>);

impl Rounds {
    pub(crate) fn push(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Of an even number of values the lower one in the middle; NaN without a value.
    pub(crate) fn median(&self) -> f64 {
        let mut values = self.0.clone();
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
    }
}
