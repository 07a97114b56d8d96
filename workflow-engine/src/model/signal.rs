use super::RunId;

/// A signal that is to be put into the inbox of a run.
#[derive(Clone, Debug)]
pub struct NewSignal {
    /// The run that receives the signal.
    pub run_id: RunId,
    /// The signal's name.
    pub name: String,
    /// The payload as JSON text.
    pub payload: String,
    /// Identifies the signal among those of the run. A second signal with the same key changes
    /// nothing.
    pub key: SignalKey,
    /// The number of signals that may wait in the inbox, this one included. `None`: no limit.
    pub limit: Option<u32>,
}

/// The default of [`NewSignal::limit`] for signals of clients and of workflows.
pub const DEFAULT_SIGNAL_LIMIT: u32 = 10_000;

/// The key by which a signal that is sent twice is recognized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignalKey {
    /// A key that the sender chose. A second signal with it is [`SignalOutcome::Repeated`].
    Given(String),
    /// A generated key that no other signal has. It allows a commit whose reply was lost to be
    /// repeated.
    Generated(String),
}

impl SignalKey {
    /// Generates a new key.
    #[must_use]
    pub fn generate() -> Self {
        Self::Generated(format!("{GENERATED}{}", RunId::generate()))
    }

    /// Returns the key of a signal that a step sends. Each attempt of the step uses the same key,
    /// so a repeated attempt does not send the signal again.
    #[must_use]
    pub fn of_step(idempotency_key: &str) -> Self {
        Self::Generated(format!("{OF_STEP}{idempotency_key}"))
    }

    /// Returns the text that is stored.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Given(key) | Self::Generated(key) => key,
        }
    }

    /// Returns the outcome of a signal whose key is already taken.
    #[must_use]
    pub const fn repeat_outcome(&self) -> SignalOutcome {
        match self {
            Self::Given(_) => SignalOutcome::Repeated,
            Self::Generated(_) => SignalOutcome::Accepted,
        }
    }
}

/// The prefix of generated keys. It is a control character, which no name may contain, so a
/// sender's key can never equal a generated one. Signals with such a key are deleted when their run
/// continues as new.
const GENERATED: &str = "\u{1}";

/// The prefix of the key of a signal that a step sends. Such a key stays, because the step may be
/// attempted again.
const OF_STEP: &str = "\u{2}";

/// The result of sending a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SignalOutcome {
    /// The signal is in the run's inbox and stays there until the run asks for it.
    Accepted,
    /// A signal with this key was accepted before. Nothing was changed.
    Repeated,
    /// The run has ended and will never receive the signal. Nothing was changed.
    Finished,
    /// The run does not exist.
    Unknown,
    /// As many signals as the sender's limit allows wait in the run's inbox. Nothing was changed.
    Full,
}

/// A signal in the inbox of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InboxSignal {
    /// The signal's number. A run receives signals in the order of their numbers.
    pub seq: i64,
    /// The signal's name.
    pub name: String,
    /// The payload as JSON text.
    pub payload: String,
}
