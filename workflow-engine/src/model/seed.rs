//! Values that look random and come out the same whenever a run is replayed, on every machine and release: name-based
//! UUIDs (version 5) under the run's id.

use uuid::Uuid;

use super::{RunId, Timestamp};

/// The UUID that belongs to this purpose in this run.
#[must_use]
pub fn derived_uuid(run: RunId, purpose: &str) -> Uuid {
    Uuid::new_v5(&run.as_uuid(), purpose.as_bytes())
}

/// The id of a run that belongs to this purpose in this run, in order among those of its time.
#[must_use]
pub fn derived_run_id(run: RunId, purpose: &str, at: Timestamp) -> RunId {
    let millis = u64::try_from(at.as_micros() / 1000).unwrap_or_default();
    let derived = derived_uuid(run, purpose).into_bytes();
    let mut tail = [0; 10];
    tail.copy_from_slice(&derived[..10]);
    uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid().into()
}

/// The name of a purpose in this generation of a run: what one generation drew the next does not draw again.
#[must_use]
pub fn in_generation(generation: i64, purpose: String) -> String {
    if generation == 0 { purpose } else { format!("{purpose} of generation {generation}") }
}

/// The number that belongs to this purpose in this run.
#[must_use]
pub fn derived_u64(run: RunId, purpose: &str) -> u64 {
    // The low half holds the UUID's variant bits at fixed places, the high half its version: mixing makes all 64 vary.
    let (high, low) = derived_uuid(run, purpose).as_u64_pair();
    high.rotate_left(32) ^ low
}

/// The number from 0 to below 1 that belongs to this purpose in this run.
#[must_use]
pub fn derived_fraction(run: RunId, purpose: &str) -> f64 {
    // 53 bits: as many as the mantissa of an f64 holds exactly.
    let numerator = (derived_u64(run, purpose) >> 11) as f64;
    numerator / (1_u64 << 53) as f64
}
