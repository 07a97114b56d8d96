use super::RunId;

/// A signal that is to be put into the inbox of a run.
#[derive(Clone, Debug)]
pub struct NewSignal {
    /// The run.
    pub run_id: RunId,
    /// The signal's name.
    pub name: String,
    /// What it carries, as JSON text.
    pub payload: String,
    /// Tells it from other signals to the run: one with a key that was there before changes nothing.
    pub key: SignalKey,
}

/// What makes a signal that is sent twice one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignalKey {
    /// The sender's own. The second signal with it is [`SignalOutcome::Repeated`].
    Given(String),
    /// One that nobody else has, so that a commit whose reply was lost can be repeated.
    Generated(String),
}

impl SignalKey {
    /// A new one.
    #[must_use]
    pub fn generate() -> Self {
        Self::Generated(format!("{GENERATED}{}", RunId::generate()))
    }

    /// One of a step that sends: the same in each of its attempts, so that what was accepted is not accepted again.
    #[must_use]
    pub fn of_step(idempotency_key: &str) -> Self {
        Self::Generated(format!("{OF_STEP}{idempotency_key}"))
    }

    /// The text that is stored.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Given(key) | Self::Generated(key) => key,
        }
    }

    /// What became of a signal with this key that was there before.
    #[must_use]
    pub const fn met(&self) -> SignalOutcome {
        match self {
            Self::Given(_) => SignalOutcome::Repeated,
            Self::Generated(_) => SignalOutcome::Accepted,
        }
    }
}

/// What a generated key begins with. A control character, which no name may hold, keeps it apart from those of senders.
/// Signals with such a key go when their run continues as new.
const GENERATED: &str = "\u{1}";

/// What the key of a step begins with. It stays, for the step may be attempted again.
const OF_STEP: &str = "\u{2}";

/// What became of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SignalOutcome {
    /// It lies in the run's inbox until the run asks for it.
    Accepted,
    /// A signal with its key was accepted before; nothing was changed.
    Repeated,
    /// The run has finished, so nobody would ever take it; nothing was changed.
    Finished,
    /// There is no such run.
    Unknown,
}

/// A signal in the inbox of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxSignal {
    /// Its number: signals of a run are taken in this order.
    pub seq: i64,
    /// Its name.
    pub name: String,
    /// What it carries, as JSON text.
    pub payload: String,
}
