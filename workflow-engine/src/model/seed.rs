//! Values that look random and are identical on every replay of a run, on every machine and in
//! every release. They are name-based UUIDs (version 5) under the run's id.

use uuid::Uuid;

use super::{RunId, Timestamp};

/// Returns the UUID of this purpose in this run.
#[must_use]
pub fn derived_uuid(run: RunId, purpose: &str) -> Uuid {
    Uuid::new_v5(&run.as_uuid(), purpose.as_bytes())
}

/// Returns the run id of this purpose in this run. It sorts among the ids that are generated at
/// `at`.
#[must_use]
pub fn derived_run_id(run: RunId, purpose: &str, at: Timestamp) -> RunId {
    let millis = u64::try_from(at.as_micros() / 1000).unwrap_or_default();
    let derived = derived_uuid(run, purpose).into_bytes();
    let mut tail = [0; 10];
    tail.copy_from_slice(&derived[..10]);
    uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid().into()
}

/// Returns the name of a purpose in one generation of a run, so that no two generations draw the
/// same values.
#[must_use]
pub fn in_generation(generation: i64, purpose: String) -> String {
    if generation == 0 { purpose } else { format!("{purpose} of generation {generation}") }
}

/// Returns the number of this purpose in this run.
#[must_use]
pub fn derived_u64(run: RunId, purpose: &str) -> u64 {
    // The low half has the UUID's variant bits at fixed positions and the high half its version.
    // Mixing the halves makes all 64 bits vary.
    let (high, low) = derived_uuid(run, purpose).as_u64_pair();
    high.rotate_left(32) ^ low
}

/// Returns the number of this purpose in this run, at least 0 and below 1.
#[must_use]
pub fn derived_fraction(run: RunId, purpose: &str) -> f64 {
    // The mantissa of an f64 holds exactly 53 bits.
    let numerator = (derived_u64(run, purpose) >> 11) as f64;
    numerator / (1_u64 << 53) as f64
}
