//! Where a claim begins to look for waiting runs.
//!
//! The index of due runs keeps the old entry of a claimed run until a vacuum, once per minute at
//! best. A claim takes the longest due runs, so it would walk over all these entries first.
//! Therefore a claim that follows a full claim begins where that one ended.
//!
//! A run that has been due for longer and came later is passed over meanwhile: one that was
//! resumed, that another claim had locked, or whose start took long to commit. The next claim from
//! the beginning finds it. That is a claim after one that was not full, or after [`LONGEST`].

use std::time::{Duration, Instant};

use workflow_engine::model::{Lane, RunId, Timestamp, WorkerId};
use workflow_engine::store::ClaimRequest;

/// Time after which a claim begins at the beginning again.
const LONGEST: Duration = Duration::from_millis(500);

/// A position in the order in which runs are claimed.
pub(super) type Cursor = (Timestamp, RunId);

/// Where the next claim begins: at the beginning, unless the last claim left a cursor.
#[derive(Debug)]
pub(super) struct ClaimCursor {
    left: Option<Left>,
    longest: Duration,
}

/// The cursor that a full claim leaves, and the claims that may resume from it.
#[derive(Debug)]
struct Left {
    worker: WorkerId,
    lanes: Vec<Lane>,
    cursor: Cursor,
    /// When a claim last began at the beginning.
    since: Instant,
}

impl Default for ClaimCursor {
    fn default() -> Self {
        Self::within(LONGEST)
    }
}

impl ClaimCursor {
    /// Begins at the beginning. Claims may resume from a cursor for at most `longest`.
    pub(super) fn within(longest: Duration) -> Self {
        Self { left: None, longest }
    }

    /// Forgets the cursor.
    pub(super) fn forget(&mut self) {
        self.left = None;
    }

    /// Returns the cursor from which this claim resumes; `None` if it begins at the beginning.
    pub(super) fn of(&self, request: &ClaimRequest, now: Instant) -> Option<Cursor> {
        let left = self.left.as_ref().filter(|left| {
            left.worker == request.worker
                && left.lanes == request.lanes
                && now.duration_since(left.since) < self.longest
        });
        left.map(|left| left.cursor)
    }

    /// Saves the position of the last run of this claim if the claim was full; otherwise forgets
    /// the cursor. `resumed` says whether the claim began at a cursor.
    pub(super) fn save(&mut self, request: &ClaimRequest, resumed: bool, full_until: Option<Cursor>, now: Instant) {
        let since = self.left.take().filter(|_| resumed).map_or(now, |left| left.since);
        let (worker, lanes) = (request.worker, &request.lanes);
        self.left = full_until.map(|cursor| Left { worker, lanes: lanes.clone(), cursor, since });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn request(worker: WorkerId) -> ClaimRequest {
        let lane = Lane { queue: "default".into(), workflow: "checkout".into(), version: "1".into() };
        ClaimRequest { worker, lanes: vec![lane], limit: 2, lease: Duration::from_secs(30) }
    }

    fn at(micros: i64) -> Cursor {
        (Timestamp::from_micros(micros), uuid::Uuid::nil().into())
    }

    #[test]
    fn a_claim_resumes_where_a_full_one_has_ended() {
        let (mut cursor, request, now) = (ClaimCursor::default(), request(WorkerId::generate()), Instant::now());
        assert_eq!(cursor.of(&request, now), None);
        cursor.save(&request, false, Some(at(7)), now);
        assert_eq!(cursor.of(&request, now), Some(at(7)));
        cursor.save(&request, true, None, now);
        assert_eq!(cursor.of(&request, now), None, "the claim was not full");
    }

    #[test]
    fn a_claim_by_another_worker_or_of_other_lanes_begins_at_the_beginning() {
        let (mut cursor, request, now) = (ClaimCursor::default(), request(WorkerId::generate()), Instant::now());
        cursor.save(&request, false, Some(at(7)), now);
        assert_eq!(cursor.of(&ClaimRequest { worker: WorkerId::generate(), ..request.clone() }, now), None);
        assert_eq!(cursor.of(&ClaimRequest { lanes: Vec::new(), ..request.clone() }, now), None);
    }

    #[test]
    fn after_some_time_a_claim_begins_at_the_beginning_however_many_claims_are_full() {
        let (mut cursor, request, begun) = (ClaimCursor::default(), request(WorkerId::generate()), Instant::now());
        cursor.save(&request, false, Some(at(7)), begun);
        cursor.save(&request, true, Some(at(8)), begun + LONGEST / 2);
        assert_eq!(cursor.of(&request, begun + LONGEST / 2), Some(at(8)));
        assert_eq!(cursor.of(&request, begun + LONGEST), None);
        cursor.save(&request, false, Some(at(9)), begun + LONGEST);
        assert_eq!(cursor.of(&request, begun + LONGEST), Some(at(9)));
    }
}
