//! What the tests of the workspace share: databases that live as long as a test, data with good defaults, and waiting
//! for facts instead of for time.

pub mod fixture;
pub mod ledger;
pub mod make;
pub mod outcome;
pub mod postgres;
pub mod raw;
pub mod until;
pub mod worker_process;
pub mod workflows;

pub use fixture::{Database, Empty, Fixture};
pub use raw::RawConnection;
pub use until::until;
