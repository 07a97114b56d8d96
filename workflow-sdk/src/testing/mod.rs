//! What authors use in their own tests. Feature `testing`.

mod replay;

pub use replay::{ReplayError, replay};
