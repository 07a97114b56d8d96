//! Where a claim begins to look.
//!
//! Of each run that was claimed, its old entry stays in the index of due runs until a vacuum, which comes once a minute at best; and a
//! claim takes the longest due, so it walks over all of these first: for 100,000 runs in a row, a fifth of the server's time. So a claim that follows
//! one which found as many as it might begins where that one ended. What is due for longer and came later (a run that was resumed, that
//! another claim had locked, whose start took long to commit) waits for the next claim that begins at the beginning, and so may what
//! another worker has lost. That is one which follows a claim that did not find as many as it might, or comes after [`LONGEST`].

use std::time::{Duration, Instant};

use workflow_engine::model::{Lane, RunId, Timestamp, WorkerId};
use workflow_engine::store::ClaimRequest;

/// So long claims may begin where the last one ended.
const LONGEST: Duration = Duration::from_millis(500);

/// A place in the order in which runs are claimed.
pub(super) type Place = (Timestamp, RunId);

/// Where the next claim begins; the beginning, unless the last one left something else.
#[derive(Debug)]
pub(super) struct ClaimStart {
    mark: Option<Mark>,
    longest: Duration,
}

#[derive(Debug)]
struct Mark {
    worker: WorkerId,
    lanes: Vec<Lane>,
    place: Place,
    /// When a claim began at the beginning.
    since: Instant,
}

impl Default for ClaimStart {
    fn default() -> Self {
        Self::within(LONGEST)
    }
}

impl ClaimStart {
    /// The beginning. So long, claims may begin elsewhere.
    pub(super) fn within(longest: Duration) -> Self {
        Self { mark: None, longest }
    }

    /// Forgets where the last claim ended.
    pub(super) fn forget(&mut self) {
        self.mark = None;
    }

    /// The place at which this claim begins. `None`: the beginning.
    pub(super) fn of(&self, request: &ClaimRequest, now: Instant) -> Option<Place> {
        let mark = self.mark.as_ref().filter(|mark| {
            mark.worker == request.worker
                && mark.lanes == request.lanes
                && now.duration_since(mark.since) < self.longest
        });
        mark.map(|mark| mark.place)
    }

    /// This claim has begun at `began` and found so many runs, the last one at this place.
    pub(super) fn ended(
        &mut self,
        request: &ClaimRequest,
        began: Option<Place>,
        found: (usize, Option<Place>),
        now: Instant,
    ) {
        let since = self.mark.take().filter(|_| began.is_some()).map_or(now, |mark| mark.since);
        self.mark = match found {
            (count, Some(place)) if count >= request.limit as usize => {
                Some(Mark { worker: request.worker, lanes: request.lanes.clone(), place, since })
            }
            _ => None,
        };
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

    fn place(at: i64) -> Place {
        (Timestamp::from_micros(at), uuid::Uuid::nil().into())
    }

    #[test]
    fn a_claim_begins_where_one_that_was_full_has_ended() {
        let (mut start, request, now) = (ClaimStart::default(), request(WorkerId::generate()), Instant::now());
        assert_eq!(start.of(&request, now), None);
        start.ended(&request, None, (2, Some(place(7))), now);
        assert_eq!(start.of(&request, now), Some(place(7)));
        start.ended(&request, Some(place(7)), (1, Some(place(8))), now);
        assert_eq!(start.of(&request, now), None, "there was no more");
    }

    #[test]
    fn a_claim_of_another_worker_or_of_other_lanes_begins_at_the_beginning() {
        let (mut start, request, now) = (ClaimStart::default(), request(WorkerId::generate()), Instant::now());
        start.ended(&request, None, (2, Some(place(7))), now);
        assert_eq!(start.of(&ClaimRequest { worker: WorkerId::generate(), ..request.clone() }, now), None);
        assert_eq!(start.of(&ClaimRequest { lanes: Vec::new(), ..request.clone() }, now), None);
    }

    #[test]
    fn what_was_passed_over_is_looked_for_in_time_however_many_claims_are_full() {
        let (mut start, request, begun) = (ClaimStart::default(), request(WorkerId::generate()), Instant::now());
        start.ended(&request, None, (2, Some(place(7))), begun);
        start.ended(&request, Some(place(7)), (2, Some(place(8))), begun + LONGEST / 2);
        assert_eq!(start.of(&request, begun + LONGEST / 2), Some(place(8)));
        assert_eq!(start.of(&request, begun + LONGEST), None);
        start.ended(&request, None, (2, Some(place(9))), begun + LONGEST);
        assert_eq!(start.of(&request, begun + LONGEST), Some(place(9)));
    }
}
