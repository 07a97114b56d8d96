use serde::{Deserialize, Serialize};

use super::{InvalidRate, Rate, Timestamp, unquoted};

/// The limits of a queue. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueueLimits {
    /// The largest number of runs that workers drive at once, over all workers of the database.
    /// `None`: any number; 0: none. A run that waits for a sleep, a signal, an approval, an event
    /// or a child does not count once it is parked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many runs may begin in a period. `None`: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The limits of each gate of the queue.
    #[serde(default, skip_serializing_if = "GateLimits::is_none")]
    pub per_gate: GateLimits,
}

impl QueueLimits {
    /// No limits.
    #[must_use]
    pub const fn none() -> Self {
        Self { concurrency: None, rate: None, per_gate: GateLimits::none() }
    }

    /// Sets the [`concurrency`](QueueLimits::concurrency).
    #[must_use]
    pub const fn concurrency(self, runs: u32) -> Self {
        Self { concurrency: Some(runs), ..self }
    }

    /// Sets the [`rate`](QueueLimits::rate).
    #[must_use]
    pub const fn rate(self, rate: Rate) -> Self {
        Self { rate: Some(rate), ..self }
    }

    /// Checks the rates.
    ///
    /// # Errors
    /// [`InvalidRate`], which says what is out of range.
    pub fn check(self) -> Result<(), InvalidRate> {
        [self.rate, self.per_gate.rate].into_iter().flatten().try_for_each(Rate::check)
    }

    /// Sets the limits of each gate.
    #[must_use]
    pub const fn per_gate(self, limits: GateLimits) -> Self {
        Self { per_gate: limits, ..self }
    }
}

/// The limits of each gate of a queue. The default has none.
///
/// A gate is a part of a queue for the runs of one account, tenant or the like. A start names it. A
/// gate is known from its first start on, and needs no declaration. The gates of a queue take
/// turns, so the backlog of one does not delay the runs behind another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GateLimits {
    /// The largest number of runs of one gate that workers drive at once, over all workers of the
    /// database. `None`: any number; 0: none. A run counts as for
    /// [`QueueLimits::concurrency`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many runs of one gate may begin in a period. `None`: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

impl GateLimits {
    /// No limits.
    #[must_use]
    pub const fn none() -> Self {
        Self { concurrency: None, rate: None }
    }

    /// Sets the [`concurrency`](GateLimits::concurrency).
    #[must_use]
    pub const fn concurrency(self, runs: u32) -> Self {
        Self { concurrency: Some(runs), ..self }
    }

    /// Sets the [`rate`](GateLimits::rate).
    #[must_use]
    pub const fn rate(self, rate: Rate) -> Self {
        Self { rate: Some(rate), ..self }
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_none(&self) -> bool {
        *self == Self::none()
    }
}

/// The pause of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct QueuePause {
    /// When the queue was paused.
    pub since: Timestamp,
    /// Why it was paused.
    pub reason: String,
}

impl QueuePause {
    /// Returns a pause. For the stores.
    #[doc(hidden)]
    #[must_use]
    pub fn new(since: Timestamp, reason: String) -> Self {
        Self { since, reason }
    }
}

/// A queue that was declared, limited or paused. A queue that never was has no record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct QueueRecord {
    /// The name of the queue.
    pub name: String,
    /// The limits that the worker declared which started last. `None`: no worker declared any.
    pub declared: Option<QueueLimits>,
    /// The limits that an operator has set. They hold in place of the declared ones until they are
    /// cleared.
    pub overridden: Option<QueueLimits>,
    /// Set while the queue is paused.
    pub pause: Option<QueuePause>,
    /// Whether a run was ever started behind a gate of this queue.
    pub has_gates: bool,
    /// Until when the rate of the queue is used up.
    #[doc(hidden)]
    #[serde(skip)]
    pub used_until: Timestamp,
}

impl QueueRecord {
    /// Returns a queue without limits. For the stores.
    #[doc(hidden)]
    #[must_use]
    pub fn new(name: String) -> Self {
        Self {
            name,
            declared: None,
            overridden: None,
            pause: None,
            has_gates: false,
            used_until: Timestamp::from_micros(0),
        }
    }

    /// Returns a queue from its row. If its limits are not understood, because a later release
    /// wrote them or the row is damaged, the queue counts as paused: that stops no other queue, and
    /// no limit is exceeded. For the stores.
    #[doc(hidden)]
    #[must_use]
    pub fn stored(
        name: String,
        declared: Option<&str>,
        overridden: Option<&str>,
        paused: Option<(Timestamp, String)>,
    ) -> Self {
        let limits = |text: &str| serde_json::from_str::<QueueLimits>(text).map_err(unquoted);
        let pause = paused.map(|(since, reason)| QueuePause::new(since, reason));
        match (declared.map(limits).transpose(), overridden.map(limits).transpose()) {
            (Ok(declared), Ok(overridden)) => Self { declared, overridden, pause, ..Self::new(name) },
            (Err(why), _) | (_, Err(why)) => {
                let since = pause.map_or(Timestamp::from_micros(0), |pause| pause.since);
                let reason = format!("its limits are not understood ({why}); set them again");
                Self { pause: Some(QueuePause::new(since, reason)), ..Self::new(name) }
            }
        }
    }

    /// Returns the limits that hold.
    #[must_use]
    pub fn limits(&self) -> QueueLimits {
        self.overridden.or(self.declared).unwrap_or_default()
    }

    /// Returns the limits of each gate. If those of the queue are not understood, no run begins.
    #[doc(hidden)]
    #[must_use]
    pub fn gate_limits(&self) -> GateLimits {
        if self.pause.is_some() { GateLimits::none().concurrency(0) } else { self.limits().per_gate }
    }

    /// Returns whether a claim has to look at this record.
    #[doc(hidden)]
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.pause.is_some() || self.limits().concurrency.is_some() || self.limits().rate.is_some()
    }

    /// Returns whether a claim has to look at the gates of this queue.
    #[doc(hidden)]
    #[must_use]
    pub fn is_gated(&self) -> bool {
        self.has_gates || !self.limits().per_gate.is_none()
    }

    /// Applies a change.
    #[doc(hidden)]
    pub fn apply(&mut self, change: &QueueChange, now: Timestamp) {
        match change {
            QueueChange::Declare(limits) => self.declared = Some(*limits),
            QueueChange::Override(limits) => self.overridden = *limits,
            QueueChange::Pause { reason } => self.pause = Some(QueuePause::new(now, reason.clone())),
            QueueChange::Resume => self.pause = None,
            QueueChange::Weigh { .. } => self.has_gates = true,
        }
    }
}

/// A change of a queue's record.
#[doc(hidden)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueChange {
    /// A worker that starts declares limits.
    Declare(QueueLimits),
    /// An operator sets limits, or clears them.
    Override(Option<QueueLimits>),
    /// An operator pauses the queue. A queue that is paused gets the new reason and time.
    Pause {
        /// Why.
        reason: String,
    },
    /// An operator resumes the queue.
    Resume,
    /// An operator says how many runs a gate gives in one turn.
    Weigh {
        /// The gate.
        gate: String,
        /// The number of runs.
        weight: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_operator_sets_holds_until_it_is_cleared() {
        let now = Timestamp::from_micros(7);
        let mut queue = QueueRecord::new("mail".into());
        assert!(!queue.is_limited());
        queue.apply(&QueueChange::Declare(QueueLimits::none().concurrency(5)), now);
        assert_eq!(queue.limits().concurrency, Some(5));
        queue.apply(&QueueChange::Override(Some(QueueLimits::none())), now);
        assert_eq!((queue.limits().concurrency, queue.is_limited()), (None, false));
        queue.apply(&QueueChange::Declare(QueueLimits::none().concurrency(6)), now);
        assert_eq!(queue.limits().concurrency, None);
        queue.apply(&QueueChange::Override(None), now);
        assert_eq!(queue.limits().concurrency, Some(6));
    }

    #[test]
    fn limits_are_stored_as_they_are_written() {
        let text = |limits: QueueLimits| serde_json::to_string(&limits).unwrap();
        assert_eq!(text(QueueLimits::none()), "{}");
        assert_eq!(text(QueueLimits::none().concurrency(0)), r#"{"concurrency":0}"#);
        let gates = QueueLimits::none().per_gate(GateLimits::none().concurrency(2));
        assert_eq!(text(gates), r#"{"per_gate":{"concurrency":2}}"#);
        for limits in [QueueLimits::none(), QueueLimits::none().concurrency(0), gates] {
            assert_eq!(serde_json::from_str::<QueueLimits>(&text(limits)).unwrap(), limits);
        }
    }
}
