use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::{Builder, Uuid, Version};

use super::Timestamp;

/// The id of a run: a UUIDv7, so ids sort by the time at which their runs were started. The ids of
/// runs that a schedule starts sort by the time of their occurrence, and are UUIDv8, so that they
/// can be told apart.
///
/// ```
/// use workflow_sdk::RunId;
///
/// let id = RunId::generate();
/// assert_eq!(id.to_string().parse::<RunId>().unwrap(), id);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct RunId(Uuid);

impl RunId {
    /// Generates a new id, which sorts after every id generated before it in this process.
    #[must_use]
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// Returns the id of a run that a schedule starts at this time. `tail` distinguishes it from
    /// other ids of that time.
    #[doc(hidden)]
    #[must_use]
    pub fn scheduled(at: Timestamp, tail: Uuid) -> Self {
        let millis = u64::try_from(at.as_micros() / 1000).unwrap_or_default();
        let mut random = [0; 10];
        random.copy_from_slice(&tail.as_bytes()[..10]);
        let id = Builder::from_unix_timestamp_millis(millis, &random).into_uuid();
        Self(Builder::from_bytes(id.into_bytes()).with_version(Version::Custom).into_uuid())
    }

    /// Generates a new id for a fork of this run: one of a scheduled run, if this run is one.
    #[doc(hidden)]
    #[must_use]
    pub fn generate_for_fork(self) -> Self {
        let id = Self::generate();
        match self.is_scheduled() {
            true => Self(Builder::from_bytes(id.0.into_bytes()).with_version(Version::Custom).into_uuid()),
            false => id,
        }
    }

    /// `true` if a schedule starts the run with this id. Its tags then name the occurrence.
    #[doc(hidden)]
    #[must_use]
    pub fn is_scheduled(self) -> bool {
        self.0.get_version() == Some(Version::Custom)
    }

    /// The id before all others, which no run has.
    #[doc(hidden)]
    pub const FIRST: Self = Self(Uuid::nil());
    /// The id after all others, which no run has.
    #[doc(hidden)]
    pub const LAST: Self = Self(Uuid::max());

    /// Returns the first id of this time.
    #[doc(hidden)]
    #[must_use]
    pub fn first_at(at: Timestamp) -> Self {
        let millis = u128::try_from(at.as_micros() / 1000).unwrap_or_default();
        Self(Uuid::from_u128(millis << 80))
    }

    /// Returns the id right before this one.
    #[doc(hidden)]
    #[must_use]
    pub fn before(self) -> Self {
        Self(Uuid::from_u128(self.0.as_u128().saturating_sub(1)))
    }

    /// Returns the id right after this one.
    #[doc(hidden)]
    #[must_use]
    pub fn after(self) -> Self {
        Self(Uuid::from_u128(self.0.as_u128().saturating_add(1)))
    }

    /// Returns the time in the id: that of its generation, or of the occurrence of a scheduled run.
    #[must_use]
    pub fn time(self) -> Timestamp {
        let millis = i64::try_from(self.0.as_u128() >> 80).unwrap_or(i64::MAX);
        Timestamp::from_micros(millis.saturating_mul(1000)).min(Timestamp::FAR_FUTURE)
    }

    /// Returns the id as a UUID.
    #[must_use]
    pub fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for RunId {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl FromStr for RunId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunId({})", self.0)
    }
}

/// The id of one worker during its life. A restarted worker has a new id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct WorkerId(Uuid);

impl WorkerId {
    /// Generates a new random id.
    #[must_use]
    pub fn generate() -> Self {
        Self(Uuid::new_v4())
    }

    /// Returns the id as a UUID.
    #[must_use]
    pub fn as_uuid(self) -> Uuid {
        self.0
    }

    /// Returns the key of this worker's liveness lock in a database that names locks by 64-bit
    /// numbers (PostgreSQL).
    #[must_use]
    pub fn lock_key(self) -> i64 {
        let (high, low) = self.0.as_u64_pair();
        (high ^ low).cast_signed()
    }
}

impl From<Uuid> for WorkerId {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkerId({})", self.0)
    }
}

/// A worker's hold on a run. Each claim of a run has its own epoch. A write that carries its claim
/// can therefore be told from a write of an earlier claim, even if both claims belong to one
/// worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim {
    /// The run that the worker holds.
    pub run_id: RunId,
    /// The number of the claim: 1 for the run's first claim, and one more with each further claim.
    pub epoch: i64,
}
