//! The harness of the replay tests: flows, drives without a worker, and their results.

mod drive;
mod flow;
mod port;
mod stop;

use workflow_sdk::{Result, RunId, StoredError, Timestamp};

pub(crate) use self::drive::{Delivery, Drive};
pub(crate) use self::flow::{Flow, flow, flow_of};
pub(crate) use self::stop::Stop;
pub(crate) use crate::attempt_table::{Table, row};
pub(crate) use crate::world::{Seen, World};

/// The time at which every run begins.
pub(crate) const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

pub(crate) const PAYLOAD_LIMIT: usize = 1000;

pub(crate) fn run_id() -> RunId {
    "018f0000-0000-7000-8000-000000000001".parse().unwrap()
}

/// Runs to the end on this history, and then replays the whole history. The replay must return the
/// same result, begin no body and write nothing. Returns the result and the notes of the first
/// drive.
pub(crate) fn run_and_replay(table: &mut Table, flow: &Flow) -> (Result<String, StoredError>, Vec<String>) {
    let mut drive = Drive::begin(table, flow);
    let Stop::Ended(first) = drive.run(table) else { panic!("the run does not end") };
    let mut replay = Drive::begin(table, flow);
    let Stop::Ended(again) = replay.advance() else { panic!("the replay does not end: {:?}", replay.events) };
    assert_eq!(first, again, "the replay has another result");
    assert_eq!(replay.world.notes(), [""; 0], "the replay began bodies");
    assert!(replay.in_flight.is_empty(), "the replay wrote rows");
    (first, drive.world.notes())
}
