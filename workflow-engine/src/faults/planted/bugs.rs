//! Every bug that can be planted.

/// What finds a planted bug.
#[derive(Clone, Copy, Debug)]
pub enum Check {
    /// A case of a test binary, which then fails and says this.
    Case {
        /// The binary.
        binary: &'static str,
        /// The case as `file::function`.
        case: &'static str,
        /// A part of what it says.
        says: &'static str,
    },
    /// Only a campaign: no process that lives can see it.
    Campaign,
}

/// A bug that can be planted.
#[derive(Clone, Copy, Debug)]
pub struct PlantedBug {
    /// Its name in `WORKFLOW_PLANTED`.
    pub name: &'static str,
    /// What it breaks.
    pub breaks: &'static str,
    /// The databases on which it is one.
    pub databases: &'static [&'static str],
    /// What finds it in CI.
    pub found_by: Check,
    /// The kind of campaign that finds it. `None`: a campaign cannot tell what it does from what may be.
    pub campaign: Option<&'static str>,
}

impl PlantedBug {
    const fn new(name: &'static str, breaks: &'static str, found_by: Check, campaign: Option<&'static str>) -> Self {
        Self { name, breaks, databases: &["sqlite", "postgres"], found_by, campaign }
    }

    const fn only(self, databases: &'static [&'static str]) -> Self {
        Self { databases, ..self }
    }
}

const fn conformance(case: &'static str, says: &'static str) -> Check {
    Check::Case { binary: "conformance", case, says }
}

const fn engine(case: &'static str, says: &'static str) -> Check {
    Check::Case { binary: "engine", case, says }
}

const fn kill(case: &'static str, says: &'static str) -> Check {
    Check::Case { binary: "kill", case, says }
}

/// All of them. A test of each binary plants those that its cases find, and sees them fail.
pub const BUGS: &[PlantedBug] = &[
    PlantedBug::new(
        "no-epoch-check",
        "a batch does not look whether its claims hold: a worker that lost its run writes on",
        conformance("fence::a_stale_attempt_changes_nothing", "Lost"),
        Some("zombie"),
    ),
    PlantedBug::new(
        "stale-claims",
        "the writer relies on claims that it knew, though others may have taken them since: a worker that lost its run writes on",
        conformance("fence::a_claim_used_in_many_batches_is_lost_once_another_process_claims_its_run", "Lost"),
        Some("zombie"),
    ),
    PlantedBug::new(
        "unfenced-heartbeat",
        "leases are renewed by run alone: a worker that lost its run renews another's claim",
        conformance("fence::a_stale_renewal_changes_nothing", "panicked"),
        Some("zombie"),
    ),
    PlantedBug::new(
        "reply-before-commit",
        "the executor answers before the commit: a crash takes back what a workflow has seen",
        kill("failpoints::executor_before_commit", "is not recorded"),
        Some("kill"),
    ),
    PlantedBug::new(
        "hint-only-wake",
        "an idle worker waits for hints alone, without a poll and the next due time: timers of parked runs never fire",
        engine("parking::a_parked_run_resumes_at_its_wake_time", "waited 20s in vain"),
        Some("programs"),
    ),
    PlantedBug::new(
        "park-without-recheck",
        "a park does not compare the wakes: what came between the look and the park is slept over",
        conformance("park::an_unseen_wake_keeps_the_run_due", "panicked"),
        Some("programs"),
    ),
    PlantedBug::new(
        "late-crash-count",
        "a claim does not count the crash it finds, so a body that kills its worker is never counted",
        conformance("lease::only_a_claim_that_finds_the_run_running_counts_a_crash", "panicked"),
        Some("kill"),
    ),
    PlantedBug::new(
        "normal-sync",
        "commits do not wait for the disk (synchronous NORMAL; synchronous_commit off): a power cut loses answers that were given",
        Check::Campaign,
        Some("power"),
    ),
    PlantedBug::new(
        "deferred-begin",
        "a write transaction begins by reading: with several processes its first write is refused at once",
        kill("contention::three_processes_write_one_database", "WARN"),
        Some("programs"),
    )
    .only(&["sqlite"]),
    PlantedBug::new(
        "unsorted-update",
        "a batch locks its runs in no order: two batches deadlock",
        conformance("batch::concurrent_batches_of_the_same_runs_do_not_deadlock", "deadlock"),
        Some("programs"),
    )
    .only(&["postgres"]),
    PlantedBug::new(
        "child-outside-transaction",
        "a child is committed before the row of its parent: a crash between them leaves a child that nobody knows",
        conformance("child::a_child_is_not_started_without_its_row", "a child without a row"),
        Some("kill"),
    ),
    PlantedBug::new(
        "undecoded-first-value",
        "a step gives the value of its body, not the stored one: the first run sees another value than a replay",
        engine("authoring::a_step_returns_its_decoded_stored_value", "panicked"),
        Some("programs"),
    ),
    PlantedBug::new(
        "race-loser-rerun",
        "bodies begin though a recorded outcome can still be delivered: on replay the loser of a race runs again",
        engine("concurrency::a_race_has_the_same_winner_after_a_park", "panicked"),
        Some("programs"),
    ),
    PlantedBug::new(
        "lost-wake",
        "a signal does not wake its run: one that is parked sleeps over it",
        conformance("signal::a_signal_makes_a_parked_run_due", "panicked"),
        Some("programs"),
    ),
    PlantedBug::new(
        "stale-position",
        "a replay does not go on from the recorded positions but counts from the first: outcomes are delivered in another order",
        kill("failpoints::step_body", "have the same place"),
        Some("kill"),
    ),
    PlantedBug::new(
        "signal-twice",
        "a signal that was taken stays in the inbox: the next wait takes it again",
        conformance("signal::a_signal_is_consumed_once", "panicked"),
        Some("programs"),
    ),
    PlantedBug::new(
        "repeated-claim",
        "a claim whose reply was lost is made again: what the first one took is held by nobody",
        engine("executor::a_claim_whose_reply_was_lost_is_given_back", "panicked"),
        // What nobody drives is taken up when its lease ends, as that of a worker that was late.
        None,
    ),
    PlantedBug::new(
        "early-timer",
        "a sleep ends at once",
        engine("parking::sleeps_do_not_use_up_attempts", "claimed"),
        Some("programs"),
    ),
];
