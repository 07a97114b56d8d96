use serde::{Deserialize, Serialize};

use super::{InvalidRate, Rate, Timestamp, unquoted};

/// The limits of a queue. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
    /// The largest number of runs of the queue that wait and have not begun. A start beyond it is
    /// refused with [`FullQueue`]. `None`: any number; 0: no start is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_waiting: Option<u32>,
}

impl QueueLimits {
    /// No limits.
    #[must_use]
    pub const fn none() -> Self {
        Self { concurrency: None, rate: None, per_gate: GateLimits::none(), max_waiting: None }
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

    /// Sets the [`max_waiting`](QueueLimits::max_waiting).
    #[must_use]
    pub const fn max_waiting(self, runs: u32) -> Self {
        Self { max_waiting: Some(runs), ..self }
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
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
    /// The largest number of runs behind one gate that wait and have not begun. A start beyond it
    /// is refused with [`FullQueue`]. `None`: any number; 0: no start is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_waiting: Option<u32>,
}

impl GateLimits {
    /// No limits.
    #[must_use]
    pub const fn none() -> Self {
        Self { concurrency: None, rate: None, max_waiting: None }
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

    /// Sets the [`max_waiting`](GateLimits::max_waiting).
    #[must_use]
    pub const fn max_waiting(self, runs: u32) -> Self {
        Self { max_waiting: Some(runs), ..self }
    }

    /// Whether the limits hold runs back that wait, so that claims have to look at them.
    #[doc(hidden)]
    #[must_use]
    pub const fn holds_back(self) -> bool {
        self.concurrency.is_some() || self.rate.is_some()
    }

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_none(&self) -> bool {
        *self == Self::none()
    }
}

/// A queue, or a gate of it, that takes no further run: as many runs wait in it as its
/// [`max_waiting`](QueueLimits::max_waiting) allows. Nothing was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
#[error("{} takes no further run: {}; {}", self.place(), self.reason(), self.way_out())]
pub struct FullQueue {
    /// The name of the queue.
    pub queue: String,
    /// The gate that is full. `None`: the queue itself is.
    pub gate: Option<String>,
    /// The largest number of waiting runs.
    pub max_waiting: u32,
}

impl FullQueue {
    /// Returns the refusal of a start. For the stores.
    #[doc(hidden)]
    #[must_use]
    pub fn new(queue: &str, gate: Option<&str>, max_waiting: u32) -> Self {
        Self { queue: queue.to_owned(), gate: gate.map(str::to_owned), max_waiting }
    }

    fn place(&self) -> String {
        match &self.gate {
            Some(gate) => format!("gate {gate:?} of queue {:?}", self.queue),
            None => format!("queue {:?}", self.queue),
        }
    }

    fn reason(&self) -> String {
        match self.max_waiting {
            0 => "its max_waiting is 0".into(),
            1 => "its max_waiting is 1, and 1 run waits to begin".into(),
            runs => format!("its max_waiting is {runs}, and {runs} runs wait to begin"),
        }
    }

    fn way_out(&self) -> String {
        let raise = format!("raise the bound with Client::queue({:?}).set_limits(..)", self.queue);
        match self.max_waiting {
            0 => raise,
            _ => format!("start it again when workers have begun some, or {raise}"),
        }
    }
}

/// The pause of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
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
        self.has_gates || self.limits().per_gate.holds_back()
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
    fn claims_do_not_look_at_a_bound_of_waiting_runs() {
        let mut queue = QueueRecord::new("mail".into());
        queue.declared = Some(QueueLimits::none().max_waiting(1).per_gate(GateLimits::none().max_waiting(1)));
        assert!(!queue.is_limited() && !queue.is_gated());
    }

    #[test]
    fn a_full_queue_names_the_bound_and_the_way_out() {
        let full = |gate, max_waiting| FullQueue::new("mail", gate, max_waiting).to_string();
        assert_eq!(
            full(None, 100),
            "queue \"mail\" takes no further run: its max_waiting is 100, and 100 runs wait to begin; start it again \
             when workers have begun some, or raise the bound with Client::queue(\"mail\").set_limits(..)"
        );
        assert_eq!(
            full(Some("acct-42"), 0),
            "gate \"acct-42\" of queue \"mail\" takes no further run: its max_waiting is 0; raise the bound with \
             Client::queue(\"mail\").set_limits(..)"
        );
        assert!(full(None, 1).contains("and 1 run waits to begin"));
    }

    #[test]
    fn limits_are_stored_as_they_are_written() {
        let text = |limits: QueueLimits| serde_json::to_string(&limits).unwrap();
        assert_eq!(text(QueueLimits::none()), "{}");
        assert_eq!(text(QueueLimits::none().concurrency(0)), r#"{"concurrency":0}"#);
        let gates = QueueLimits::none().per_gate(GateLimits::none().concurrency(2));
        assert_eq!(text(gates), r#"{"per_gate":{"concurrency":2}}"#);
        let bounded = QueueLimits::none().per_gate(GateLimits::none().max_waiting(2)).max_waiting(0);
        assert_eq!(text(bounded), r#"{"per_gate":{"max_waiting":2},"max_waiting":0}"#);
        for limits in [QueueLimits::none(), QueueLimits::none().concurrency(0), gates, bounded] {
            assert_eq!(serde_json::from_str::<QueueLimits>(&text(limits)).unwrap(), limits);
        }
    }
}
