use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The fate of an occurrence that is due while a run of its schedule has not ended. Runs that were
/// triggered count; backfilled runs do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Overlap {
    /// The occurrence starts no run.
    #[default]
    Skip,
    /// The occurrence waits until no run is left, unless another one waits already.
    BufferOne,
    /// The occurrence waits for its turn.
    BufferAll {
        /// The most occurrences that wait. Range: 1 to 1,000.
        max: u32,
    },
    /// The runs that have not ended are canceled, and the occurrence starts once they have ended. A
    /// run that has not ended after a worker's `cancel_grace` is terminated.
    CancelOther,
    /// The occurrence starts a run beside the others.
    Allow,
}

/// The fate of occurrences that passed while no worker was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum CatchUp {
    /// Only the latest one starts a run, if it is not older than `window`. The run knows how many
    /// it stands for. This holds for all that are due at one look of a worker, so a schedule with
    /// an occurrence per second starts fewer runs when workers are late.
    Latest {
        /// The greatest age. Range: a second to a year.
        #[cfg_attr(feature = "openapi", schema(value_type = crate::model::DurationDocument))]
        window: Duration,
    },
    /// Each one that is not older than `window` starts a run, but only the latest `max` of them.
    All {
        /// The greatest age. Range: a second to a year.
        #[cfg_attr(feature = "openapi", schema(value_type = crate::model::DurationDocument))]
        window: Duration,
        /// The most runs at once. Range: 1 to 1,000.
        max: u32,
    },
    /// None starts a run, except one that is at most this late.
    Skip {
        /// The lateness that is not noticed. Range: a second to a year.
        #[cfg_attr(feature = "openapi", schema(value_type = crate::model::DurationDocument))]
        within: Duration,
    },
}

impl CatchUp {
    /// The most occurrences that one look at a schedule starts, and that may wait.
    pub const MOST: u32 = 1000;
    /// The window of the default.
    pub const DEFAULT_WINDOW: Duration = Duration::from_secs(24 * 3600);
    /// The usual bound of [`Skip`](Self::Skip): an occurrence that is no later starts its run.
    pub const PUNCTUAL: Duration = Duration::from_secs(60);

    /// Returns the greatest age at which an occurrence still starts a run.
    #[must_use]
    pub const fn window(self) -> Duration {
        match self {
            Self::Latest { window } | Self::All { window, .. } => window,
            Self::Skip { within } => within,
        }
    }
}

impl Default for CatchUp {
    fn default() -> Self {
        Self::Latest { window: Self::DEFAULT_WINDOW }
    }
}
