use std::fmt;

use serde::de::DeserializeOwned;

use super::hidden::Hidden;
use super::wait_note::is_approval_signal;
use super::{Decision, RunId, Timestamp};

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

    /// Returns the outcome of a signal with this key if `first` has the key already.
    #[must_use]
    pub fn repeat_outcome(&self, first: &AcceptedSignal) -> SignalOutcome {
        match self {
            Self::Given(_) => SignalOutcome::Repeated(first.clone()),
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
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SignalOutcome {
    /// The signal is in the run's inbox and stays there until the run asks for it.
    Accepted,
    /// A signal with this key was accepted before: this one. Nothing was changed. The run may have
    /// ended since.
    Repeated(AcceptedSignal),
    /// The run has ended and will never receive the signal. Nothing was changed.
    Finished,
    /// The run does not exist.
    Unknown,
    /// As many signals as the sender's limit allows wait in the run's inbox. Nothing was changed.
    Full,
}

/// The signal that was the first one with its key. It tells the sender of a second one which signal
/// counts.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct AcceptedSignal {
    /// The run that has or had the signal in its inbox.
    pub run_id: RunId,
    /// The signal's name.
    pub name: String,
    /// The payload as JSON text.
    pub payload: String,
    /// When the signal was accepted.
    pub accepted_at: Timestamp,
}

impl AcceptedSignal {
    /// Creates the description of an accepted signal. Internal: stores create it.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(run_id: RunId, name: String, payload: String, accepted_at: Timestamp) -> Self {
        Self { run_id, name, payload, accepted_at }
    }

    /// Returns the payload.
    ///
    /// # Errors
    /// The error of serde if the payload does not decode as `T`, or could not be decrypted.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.payload)
    }

    /// Returns the decision that the signal carries; `None` if it does not decide an approval.
    #[must_use]
    pub fn decision(&self) -> Option<Decision> {
        if is_approval_signal(&self.name) { self.decode().ok() } else { None }
    }
}

impl fmt::Debug for AcceptedSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run_id, name, payload, accepted_at } = self;
        let mut shown = f.debug_struct("AcceptedSignal");
        shown.field("run_id", run_id).field("name", name).field("payload", &Hidden::new(payload));
        shown.field("accepted_at", accepted_at).finish()
    }
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
