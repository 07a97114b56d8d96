//! Tools for tests of workflows: replays of stored histories. Feature `testing`.

mod replay;

pub use replay::{ReplayError, replay};
