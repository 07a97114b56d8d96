//! Lists every bug that can be planted.

/// The check that finds a planted bug.
#[derive(Clone, Copy, Debug)]
pub enum Check {
    /// A case of a test binary. With the bug planted, the case fails with this message.
    Case {
        /// The name of the binary.
        binary: &'static str,
        /// The case as `file::function`.
        case: &'static str,
        /// A part of the failure's message.
        says: &'static str,
    },
    /// Only a campaign finds it, because no living process can see its effect, or because a case
    /// would need a quiet machine.
    Campaign,
}

/// A bug that can be planted.
#[derive(Clone, Copy, Debug)]
pub struct PlantedBug {
    /// The bug's name in `WORKFLOW_PLANTED`.
    pub name: &'static str,
    /// The promise that the bug breaks.
    pub breaks: &'static str,
    /// The databases on which the bug can be planted.
    pub databases: &'static [&'static str],
    /// The check in CI that finds the bug.
    pub found_by: Check,
    /// The kind of campaign that finds the bug. `None`: a campaign cannot tell its effect from
    /// correct behavior.
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

const fn differential(case: &'static str, says: &'static str) -> Check {
    Check::Case { binary: "differential", case, says }
}

/// All planted bugs. A test in each binary plants the bugs that its cases find, and sees the cases
/// fail.
pub const BUGS: &[PlantedBug] = &[
    PlantedBug::new(
        "no-epoch-check",
        "a batch does not check its claims: a worker that lost its run still writes",
        conformance("fence::a_stale_attempt_changes_nothing", "Lost"),
        Some("zombie"),
    ),
    PlantedBug::new(
        "stale-claims",
        "the writer trusts cached claims that other workers may have taken: a worker that lost its run still writes",
        conformance("fence::a_claim_used_in_many_batches_is_lost_once_another_process_claims_its_run", "Lost"),
        Some("zombie"),
    ),
    PlantedBug::new(
        "unfenced-heartbeat",
        "leases are renewed by run id alone: a worker that lost its run renews the claim of another worker",
        conformance("fence::a_stale_renewal_changes_nothing", "panicked"),
        Some("zombie"),
    ),
    PlantedBug::new(
        "reply-before-commit",
        "the executor answers before the commit: a crash undoes results that a workflow has seen",
        kill("failpoints::executor_before_commit", "is not recorded"),
        Some("kill"),
    ),
    PlantedBug::new(
        "hint-only-wake",
        "an idle worker waits only for hints, without polling and without the next due time: timers of parked runs never fire",
        engine("parking::a_parked_run_resumes_at_its_wake_time", "waited 20s in vain"),
        Some("programs"),
    ),
    PlantedBug::new(
        "park-without-recheck",
        "a park does not compare the number of wakes: a wake between the look and the park is missed",
        conformance("park::an_unseen_wake_keeps_the_run_due", "panicked"),
        Some("programs"),
    ),
    PlantedBug::new(
        "uncounted-crash",
        "the death of a worker counts no crash: a body that kills its worker is never isolated",
        conformance("lease::only_the_death_of_its_worker_counts_a_crash_of_a_run", "panicked"),
        Some("kill"),
    ),
    PlantedBug::new(
        "lapse-counts-crash",
        "the claim of a run whose lease has ended counts a crash: a stopped machine makes runs fail",
        conformance("lease::only_the_death_of_its_worker_counts_a_crash_of_a_run", "panicked"),
        Some("stops"),
    ),
    PlantedBug::new(
        "blame-beside-others",
        "each death counts a lone crash: runs fail because of their neighbours",
        conformance("lease::only_the_death_of_its_worker_counts_a_crash_of_a_run", "panicked"),
        Some("bombs"),
    ),
    PlantedBug::new(
        "renewed-hang",
        "the lease of a run that blocks its thread is renewed for ever: no other worker takes it over",
        kill(
            "blocked_threads::a_run_that_never_awaits_loses_its_lease_and_its_neighbour_does_not",
            "in vain: a body begins in process",
        ),
        Some("hang"),
    ),
    PlantedBug::new(
        "unchecked-files",
        "commits to a file that was moved away are acknowledged: they are lost with it",
        // A write is lost (I-Ack), or the file is damaged so that the campaign cannot read it.
        kill("campaign::nothing_is_acknowledged_while_a_file_is_away", "FAILED: "),
        Some("files"),
    )
    .only(&["sqlite"]),
    PlantedBug::new(
        "lent-sessions",
        "a pooler that lends transactions is not refused: locks and settings reach the sessions of others",
        kill("campaign::a_pooler_dies_and_one_that_lends_is_refused", "I-Pooler"),
        Some("pooler"),
    )
    .only(&["postgres"]),
    PlantedBug::new(
        "unchecked-timeline",
        "a primary from before a failover is not refused: a worker that is led there works on, and loses what it does",
        Check::Campaign,
        Some("failover"),
    )
    .only(&["postgres"]),
    PlantedBug::new(
        "normal-sync",
        "commits do not wait for the disk (synchronous NORMAL; synchronous_commit off): a power cut loses acknowledged writes",
        Check::Campaign,
        Some("power"),
    ),
    PlantedBug::new(
        "deferred-begin",
        "a write transaction begins with a read: with several processes its first write is refused at once",
        kill("contention::three_processes_write_one_database", "WARN"),
        Some("programs"),
    )
    .only(&["sqlite"]),
    PlantedBug::new(
        "unsorted-update",
        "a batch locks its runs in any order: two batches deadlock",
        conformance("batch::concurrent_batches_of_the_same_runs_do_not_deadlock", "deadlock"),
        Some("programs"),
    )
    .only(&["postgres"]),
    PlantedBug::new(
        "child-outside-transaction",
        "a child is committed before the row of its parent: a crash between them leaves a child without a parent's row",
        conformance("child::a_child_is_not_started_without_its_row", "a child without a row"),
        Some("kill"),
    ),
    PlantedBug::new(
        "undecoded-first-value",
        "a step returns the value of its body, not the stored value: the first run may differ from a replay",
        engine("authoring::a_step_returns_its_decoded_stored_value", "panicked"),
        Some("programs"),
    ),
    PlantedBug::new(
        "race-loser-rerun",
        "bodies begin although a recorded outcome can still be delivered: on replay the loser of a race runs again",
        engine("concurrency::a_race_has_the_same_winner_after_a_park", "panicked"),
        Some("programs"),
    ),
    PlantedBug::new(
        "lost-wake",
        "a signal does not wake its run: a parked run misses it",
        conformance("signal::a_signal_makes_a_parked_run_due", "panicked"),
        Some("programs"),
    ),
    PlantedBug::new(
        "stale-position",
        "a replay counts positions from the first instead of continuing after the recorded ones: outcomes are delivered in another order",
        kill("failpoints::step_body", "have the same position"),
        Some("kill"),
    ),
    PlantedBug::new(
        "signal-twice",
        "a consumed signal stays in the inbox: the next wait consumes it again",
        conformance("signal::a_signal_is_consumed_once", "panicked"),
        Some("programs"),
    ),
    PlantedBug::new(
        "repeated-emission",
        "each attempt of a step emits its event again: runs hear it twice, or the number of runs is wrong",
        conformance("event::a_step_emits_its_event_once", "panicked"),
        Some("events"),
    ),
    PlantedBug::new(
        "unlocked-queue",
        "two claims count the running runs of a queue at the same time, and both begin what is free",
        conformance("claim_lock::a_queue_that_another_claim_counts_is_left_to_it", "left to the other claim"),
        Some("limits"),
    )
    .only(&["postgres"]),
    PlantedBug::new(
        "unlocked-gate",
        "two claims count the running runs behind a gate at the same time, and both begin what is free",
        conformance("claim_lock::a_gate_that_another_claim_counts_is_left_to_it", "left to the other claim"),
        Some("limits"),
    )
    .only(&["postgres"]),
    PlantedBug::new(
        "gate-asleep",
        "a claim that ends its turns forgets the starts that commit meanwhile: a run behind a gate is never claimed",
        conformance(
            "claim_lock::a_start_that_commits_during_a_claim_is_found_by_the_next_one",
            "started while a claim changed",
        ),
        Some("limits"),
    )
    .only(&["postgres"]),
    PlantedBug::new(
        "one-snapshot",
        "a claim counts the running runs in a snapshot that is older than its locks: it begins what others began meanwhile",
        conformance("claim_lock::a_claim_counts_what_was_committed_before_it_has_its_locks", "both slots were taken"),
        // The server refuses nearly every such claim: it meets a run that another one has changed.
        None,
    )
    .only(&["postgres"]),
    PlantedBug::new(
        "unfreed-gate",
        "claims are not told that a run behind a full gate gave its slot back: the next run waits for the end of a lease",
        conformance("gate::a_full_gate_is_looked_at_once_a_run_behind_it_holds_no_slot", "panicked"),
        // Nothing exceeds a limit, and the runs begin late.
        None,
    ),
    PlantedBug::new(
        "rank-ignored",
        "a run that has begun waits with the priority of a new one: a woken run is stuck behind a backlog",
        conformance("priority::a_run_that_has_begun_goes_before_a_backlog", "what has come due by itself"),
        // Nothing but the order of the runs changes.
        None,
    ),
    PlantedBug::new(
        "uncounted-slots",
        "a claim does not count the runs of a queue that other workers drive",
        conformance("queue::at_most_the_limit_of_a_queues_runs_are_under_way", "panicked"),
        Some("limits"),
    ),
    PlantedBug::new(
        "seat-without-epoch",
        "a seat is held by its row, and not by the claim that took it: the seat of a worker that died is never free",
        conformance("limit::the_seat_of_a_lost_claim_is_free", "panicked"),
        // The run that is taken over asks again, and gets the seat that its row still holds.
        None,
    ),
    PlantedBug::new(
        "uncounted-seats",
        "a step gets a seat whatever number of bodies runs under its key",
        conformance("limit::seats_are_given_in_the_order_in_which_steps_ask", "panicked"),
        Some("seats"),
    ),
    PlantedBug::new(
        "unused-rate",
        "a step that gets a seat does not use the rate of its limit",
        conformance("line_rate::no_period_sees_more_bodies_begin_than_the_rate_and_its_burst", "panicked"),
        Some("seats"),
    ),
    PlantedBug::new(
        "unlocked-line",
        "two batches count the seats of a key at the same time, and both give out what is free",
        conformance("claim_lock::two_batches_never_give_out_one_seat", "was given out twice"),
        Some("seats"),
    )
    .only(&["postgres"]),
    PlantedBug::new(
        "schedule-without-compare",
        "a worker writes over a schedule that another one has moved on meanwhile",
        conformance("schedule::a_change_that_has_seen_an_old_revision_changes_nothing", "panicked"),
        Some("schedules"),
    ),
    PlantedBug::new(
        "repeated-claim",
        "a claim whose reply was lost is sent again: no drive runs what the first claim took",
        engine("executor::a_claim_whose_reply_was_lost_is_given_back", "panicked"),
        // A run without a drive is claimed again when its lease ends, like the run of a slow
        // worker.
        None,
    ),
    PlantedBug::new(
        "fast-path-unfenced-end",
        "the fast path ends and parks runs without a look at the epoch: a worker that lost its run ends it",
        differential("paths::ordinary_batches_agree", "outcomes of batch"),
        // The slow path refuses the same write, so a campaign would have to hit this path with a
        // stale claim.
        None,
    ),
    PlantedBug::new(
        "fast-path-final-overwritten",
        "the fast path writes over an attempt that is final",
        differential("paths::ordinary_batches_agree", "rows after batch"),
        // A worker writes a final row again only if the reply to its commit was lost, and then the
        // row does not change.
        None,
    ),
    PlantedBug::new(
        "fast-path-all-first-successes",
        "the fast path takes every new attempt for the first one of its step, and for a success",
        differential("paths::batches_of_a_worker_at_work_agree", "rows after batch"),
        None,
    ),
    PlantedBug::new(
        "early-timer",
        "a sleep ends at once",
        engine("parking::sleeps_do_not_use_up_attempts", "claimed"),
        Some("programs"),
    ),
];
