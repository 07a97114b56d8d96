//! Helpers of all tests of the workspace: databases that live as long as a test, data with good
//! defaults, and waiting for facts instead of time.

pub mod captured;
pub mod cases;
pub mod declined;
pub mod disclosed;
pub mod faulty;
pub mod fixture;
pub mod live;
pub mod make;
pub mod marked;
pub mod outcome;
pub mod planted;
pub mod postgres;
pub mod probe;
pub mod raw;
pub mod until;
pub mod working;

pub use declined::Declined;
pub use faulty::FaultyStore;
pub use fixture::{Database, Empty, Fixture};
pub use live::Live;
pub use probe::Probe;
pub use raw::RawConnection;
pub use until::until;
pub use working::Working;

/// Compiles the examples of the documents.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/changing-code.md")]
pub mod changing_code {}

/// As [`changing_code`].
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/long-runs.md")]
pub mod long_runs {}

/// As [`changing_code`].
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/testing.md")]
pub mod testing {}
