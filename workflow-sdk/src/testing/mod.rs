//! What authors use in their own tests. Feature `testing`.

mod replay;

pub use crate::backend::memory::MemoryDatabase;
pub use replay::{ReplayError, replay};
