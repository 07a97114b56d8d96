//! Where a claim begins to look for waiting runs.
//!
//! The index of due runs keeps the old entry of a claimed run until a vacuum, once per minute at
//! best. A claim takes the longest due runs of each rank of a lane, so it would walk over all these
//! entries first. Therefore a claim that follows a full claim begins where claims of that rank and
//! lane ended before.
//!
//! A run that has been due for longer and came later is passed over meanwhile: one that was
//! resumed, that another claim had locked, or whose start took long to commit. The next claim from
//! the beginning finds it. That is a claim after one that was not full, or after [`LONGEST`].

use std::collections::HashMap;
use std::time::{Duration, Instant};

use workflow_engine::model::{Lane, Rank, RunId, Timestamp, WorkerId};
use workflow_engine::store::ClaimRequest;

/// Time after which a claim begins at the beginning again.
const LONGEST: Duration = Duration::from_millis(500);

/// A position in the order in which the runs of one rank of a lane are claimed.
pub(super) type Cursor = (Timestamp, RunId);

/// Where a claim begins. It looks at the ranks of lanes without a cursor from the beginning.
pub(super) type Cursors = HashMap<(Lane, Rank), Cursor>;

/// Where the next claim begins: at the beginning, unless the last claim left cursors.
#[derive(Debug)]
pub(super) struct ClaimCursor {
    left: Option<Left>,
    longest: Duration,
}

/// The cursors that full claims leave to the next claim of their worker.
#[derive(Debug)]
struct Left {
    worker: WorkerId,
    cursors: Cursors,
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

    /// Forgets the cursors.
    pub(super) fn forget(&mut self) {
        self.left = None;
    }

    /// Returns the cursors from which this claim resumes; none if it begins at the beginning.
    pub(super) fn of(&self, request: &ClaimRequest, now: Instant) -> Cursors {
        let resumes = |left: &&Left| left.worker == request.worker && now.duration_since(left.since) < self.longest;
        self.left.as_ref().filter(resumes).map(|left| left.cursors.clone()).unwrap_or_default()
    }

    /// Saves the positions of the last runs of this claim if the claim was full; otherwise forgets
    /// all cursors. `resumed` says whether the claim began at cursors. A rank of a lane of which
    /// the claim took no run then keeps its cursor.
    pub(super) fn save(&mut self, request: &ClaimRequest, resumed: bool, full_until: Option<Cursors>, now: Instant) {
        let left = self.left.take().filter(|left| resumed && left.worker == request.worker);
        self.left = full_until.map(|last| {
            let (mut cursors, since) = left.map_or((Cursors::new(), now), |left| (left.cursors, left.since));
            cursors.extend(last);
            Left { worker: request.worker, cursors, since }
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn lane(workflow: &str) -> Lane {
        Lane { queue: "default".into(), workflow: workflow.into(), version: "1".into() }
    }

    fn request(worker: WorkerId) -> ClaimRequest {
        ClaimRequest {
            worker,
            lanes: vec![lane("a"), lane("b")],
            limited: Vec::new(),
            gated: Vec::new(),
            gates_first: Vec::new(),
            limit: 2,
            lease: Duration::from_secs(30),
        }
    }

    fn at<const N: usize>(cursors: [(&str, i64); N]) -> Cursors {
        let cursor = |(workflow, micros)| {
            ((lane(workflow), Rank::Begun), (Timestamp::from_micros(micros), uuid::Uuid::nil().into()))
        };
        cursors.into_iter().map(cursor).collect()
    }

    #[test]
    fn a_claim_resumes_where_full_ones_have_ended_in_each_lane() {
        let (mut cursor, request, now) = (ClaimCursor::default(), request(WorkerId::generate()), Instant::now());
        assert_eq!(cursor.of(&request, now), at([]));
        cursor.save(&request, false, Some(at([("a", 7)])), now);
        assert_eq!(cursor.of(&request, now), at([("a", 7)]));
        cursor.save(&request, true, Some(at([("b", 3)])), now);
        assert_eq!(cursor.of(&request, now), at([("a", 7), ("b", 3)]), "a lane without a run keeps its cursor");
        let turned = ClaimRequest { lanes: vec![lane("b"), lane("a")], ..request.clone() };
        assert_eq!(cursor.of(&turned, now), at([("a", 7), ("b", 3)]), "the order of the lanes does not matter");
        cursor.save(&request, true, None, now);
        assert_eq!(cursor.of(&request, now), at([]), "the claim was not full");
    }

    #[test]
    fn a_claim_by_another_worker_begins_at_the_beginning() {
        let (mut cursor, request, now) = (ClaimCursor::default(), request(WorkerId::generate()), Instant::now());
        cursor.save(&request, false, Some(at([("a", 7)])), now);
        assert_eq!(cursor.of(&ClaimRequest { worker: WorkerId::generate(), ..request }, now), at([]));
    }

    #[test]
    fn after_some_time_a_claim_begins_at_the_beginning_however_many_claims_are_full() {
        let (mut cursor, request, begun) = (ClaimCursor::default(), request(WorkerId::generate()), Instant::now());
        cursor.save(&request, false, Some(at([("a", 7)])), begun);
        cursor.save(&request, true, Some(at([("a", 8)])), begun + LONGEST / 2);
        assert_eq!(cursor.of(&request, begun + LONGEST / 2), at([("a", 8)]));
        assert_eq!(cursor.of(&request, begun + LONGEST), at([]));
        cursor.save(&request, false, Some(at([("a", 9)])), begun + LONGEST);
        assert_eq!(cursor.of(&request, begun + LONGEST), at([("a", 9)]));
    }
}
