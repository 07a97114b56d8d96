//! Faults that tests cause on purpose: failpoints and planted bugs. Both compile to nothing without
//! their features.

mod failpoint;
mod planted;

#[cfg(feature = "failpoints")]
pub use failpoint::{Action, POINTS, Point};
pub use failpoint::{Fault, failpoint, failpoint_error};
#[cfg(feature = "planted-bugs")]
pub use planted::{BUGS, Check, PlantedBug, plant};
pub use planted::{altered, planted};
