//! Helpers of all tests of the workspace: databases that live as long as a test, data with good
//! defaults, and waiting for facts instead of time.

pub mod builders;
pub mod cases;
pub mod document;
pub mod event_recorder;
pub mod faulty;
pub mod fixture;
pub mod gauge;
pub mod live;
pub mod local_worker;
pub mod log_capture;
pub mod log_secrets;
pub mod outcome;
pub mod payment_error;
pub mod planted;
pub mod postgres;
pub mod probe;
pub mod raw_connection;
pub mod secret_values;
pub mod server_script;
pub mod until;

pub use event_recorder::EventRecorder;
pub use faulty::FaultyStore;
pub use fixture::{Database, Empty, Fixture};
pub use gauge::Gauge;
pub use live::Live;
pub use local_worker::LocalWorker;
pub use payment_error::PaymentError;
pub use probe::Probe;
pub use raw_connection::RawConnection;
pub use server_script::ServerScript;
pub use until::until;

/// Compiles the examples of the documents.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/changing-code.md")]
pub mod changing_code {}

/// Compiles the examples of this page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/long-runs.md")]
pub mod long_runs {}

/// Compiles the examples of this page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/operating-runs.md")]
pub mod operating_runs {}

/// Compiles the examples of this page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/schedules.md")]
pub mod schedules {}

/// Compiles the examples of this page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/starting-runs.md")]
pub mod starting_runs {}

/// Compiles the examples of this page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/testing.md")]
pub mod testing {}

/// Compiles the examples of this page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/logging.md")]
pub mod logging {}

/// Compiles the examples of this page.
#[cfg(doctest)]
#[doc = include_str!("../../docs/guide/traces.md")]
pub mod traces {}
