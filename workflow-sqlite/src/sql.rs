//! Every statement of this store, one per file.
//!
//! Statements that write many rows of a batch are `INSERT OR FAIL` or `UPDATE OR FAIL`. The default
//! is ABORT: if such a statement fails, SQLite undoes it alone, so it copies each page before it
//! changes the page. A batch does not need that, because its whole transaction is rolled back.
//!
//! Statements that change runs by their ids say `+status = 'running'`. With a bare `status`, SQLite
//! may search the index of running runs for the ids, if `ANALYZE` was executed while no run was
//! running.

macro_rules! statements {
    ($($(#[$attribute:meta])? $name:ident = $file:literal;)*) => {
        $($(#[$attribute])? pub(super) const $name: &str = include_str!(concat!("sql/", $file));)*

        /// Every statement with the name of its file, so that a test can prepare each of them.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, &str)] = &[$(($file, $name)),*];
    };
}

/// Joins statements that reach the database's thread in one call. Their parameters follow each
/// other.
macro_rules! script {
    ($($part:expr),*) => { concat!($($part, ";\n"),*) };
}

/// Begins a write transaction, and reads the data version, which shows commits of other
/// connections.
pub(super) const BEGIN_AND_LOOK: &str = script!("BEGIN IMMEDIATE", include_str!("sql/read_data_version.sql"));

/// The first script of the fast path, in the order of the contract. It finds the due runs, and
/// neither claims them nor commits.
pub(super) const FAST_BATCH: &str = script!(
    "BEGIN IMMEDIATE",
    include_str!("sql/read_data_version.sql"),
    include_str!("sql/insert_runs.sql"),
    include_str!("sql/read_fence.sql"),
    include_str!("sql/upsert_attempts.sql"),
    include_str!("sql/end_runs.sql"),
    include_str!("sql/park_runs.sql"),
    include_str!("sql/find_due_runs.sql")
);

/// [`FAST_BATCH`] for the batches that a busy worker writes most: first successes, ends whose
/// claims are in the fence cache, and a claim. Every statement costs a message between the
/// database's thread and the executor's, even if it changes nothing.
pub(super) const FAST_BATCH_OF_WORK: &str = script!(
    "BEGIN IMMEDIATE",
    include_str!("sql/read_data_version.sql"),
    include_str!("sql/upsert_successes.sql"),
    include_str!("sql/end_runs.sql"),
    include_str!("sql/find_due_runs.sql")
);

/// Claims runs and reads them.
pub(super) const CLAIM: &str = script!(include_str!("sql/claim_runs.sql"), include_str!("sql/read_claimed.sql"));

/// The second script of the fast path, for a batch that claims.
pub(super) const CLAIM_AND_COMMIT: &str =
    script!(include_str!("sql/claim_runs.sql"), include_str!("sql/read_claimed.sql"), "COMMIT");

/// Composes a statement of a list: `$before`, a source in an order of its ids, `$after`.
macro_rules! over {
    ($before:literal, $source:literal, $order:literal, $after:literal) => {
        concat!(
            include_str!(concat!("sql/", $before)),
            include_str!(concat!("sql/parts/", $source)),
            " ORDER BY id ",
            $order,
            " LIMIT +?3\n",
            include_str!(concat!("sql/parts/", $after))
        )
    };
}

/// The statements of lists over one source and in one direction.
pub(super) struct ScanStatements {
    /// Finds where the part of a list ends.
    pub(super) find_end: &'static str,
    /// Reads the runs of the part.
    pub(super) list: &'static str,
}

macro_rules! scans {
    ($($older:ident, $newer:ident = $source:literal;)*) => {
        $(
            pub(super) const $older: ScanStatements = ScanStatements {
                find_end: over!("find_scan_end.sql", $source, "DESC", "find_scan_end_rest.sql"),
                list: over!("list_runs.sql", $source, "DESC", "list_runs_rest.sql"),
            };
            pub(super) const $newer: ScanStatements = ScanStatements {
                find_end: over!("find_scan_end.sql", $source, "ASC", "find_scan_end_rest.sql"),
                list: over!("list_runs.sql", $source, "ASC", "list_runs_rest.sql"),
            };
        )*

        /// The statements of lists with their names, so that a test can prepare each of them.
        #[cfg(test)]
        pub(super) const SCANS: &[(&str, ScanStatements)] = &[$(($source, $older), ($source, $newer)),*];
    };
}

scans! {
    SCAN_ALL_OLDER, SCAN_ALL_NEWER = "scan_all.sql";
    SCAN_TAGGED_OLDER, SCAN_TAGGED_NEWER = "scan_tagged.sql";
    SCAN_PENDING_OLDER, SCAN_PENDING_NEWER = "scan_pending.sql";
    SCAN_PARKED_OLDER, SCAN_PARKED_NEWER = "scan_parked.sql";
    SCAN_PAUSED_OLDER, SCAN_PAUSED_NEWER = "scan_paused.sql";
    SCAN_RUNNING_OLDER, SCAN_RUNNING_NEWER = "scan_running.sql";
    SCAN_FAILED_OLDER, SCAN_FAILED_NEWER = "scan_failed.sql";
    SCAN_KEYED_OLDER, SCAN_KEYED_NEWER = "scan_keyed.sql";
}

statements! {
    CANCEL_CHILDREN = "cancel_children.sql";
    CANCEL_RUNS = "cancel_runs.sql";
    #[cfg(test)]
    CLAIM_RUNS = "claim_runs.sql";
    CLEAR_SINGLE_KEYS = "clear_single_keys.sql";
    CONSUME_SIGNALS = "consume_signals.sql";
    COPY_HISTORY = "copy_history.sql";
    CONTINUE_RUNS = "continue_runs.sql";
    COUNT_BEHIND = "count_behind.sql";
    COUNT_DUE_BEFORE = "count_due_before.sql";
    COUNT_RUNNING = "count_running.sql";
    COUNT_WAITING = "count_waiting.sql";
    COUNT_WAITING_BEHIND = "count_waiting_behind.sql";
    COUNT_WAITING_RUNS = "count_waiting_runs.sql";
    END_TURNS = "end_turns.sql";
    FIND_DUE_GATES = "find_due_gates.sql";
    FIND_LAPSED_GATES = "find_lapsed_gates.sql";
    FREE_GATES = "free_gates.sql";
    INSERT_GATED_LANES = "insert_gated_lanes.sql";
    INSERT_GATED_QUEUES = "insert_gated_queues.sql";
    INSERT_GATES = "insert_gates.sql";
    INSERT_TURNS = "insert_turns.sql";
    USE_RATE_OF_LINE = "use_rate_of_line.sql";
    USE_RATE_OF_QUEUE = "use_rate_of_queue.sql";
    USE_RATES_OF_GATES = "use_rates_of_gates.sql";
    WEIGH_GATE = "weigh_gate.sql";
    BEGIN_TRANSFER_WRITES = "begin_transfer_writes.sql";
    CREATE_SCHEMA_TABLE = "create_schema_table.sql";
    CREATE_TRANSFER_TABLE = "create_transfer_table.sql";
    DROP_TRANSFER_TABLE = "drop_transfer_table.sql";
    END_TRANSFER = "end_transfer.sql";
    END_TRANSFER_WRITES = "end_transfer_writes.sql";
    FIND_RECORDED_WORKER = "find_recorded_worker.sql";
    FIND_TRANSFER_TABLE = "find_transfer_table.sql";
    INSERT_TRANSFER = "insert_transfer.sql";
    READ_TRANSFER = "read_transfer.sql";
    DECLARE_LIMIT = "declare_limit.sql";
    DECLARE_QUEUE = "declare_queue.sql";
    DELETE_RECEIVED_SIGNALS = "delete_received_signals.sql";
    FIND_EVENT_WAITS = "find_event_waits.sql";
    INSERT_EVENT_WAITS = "insert_event_waits.sql";
    FIND_DELIVERIES = "find_deliveries.sql";
    DELETE_LEFT_WAITS = "delete_left_waits.sql";
    DELIVER_EVENT = "deliver_event.sql";
    DELETE_MET_WAITS = "delete_met_waits.sql";
    FIND_EMISSION = "find_emission.sql";
    INSERT_EMISSION = "insert_emission.sql";
    DELETE_EVENT_WAITS = "delete_event_waits.sql";
    DELETE_DELIVERIES = "delete_deliveries.sql";
    DELETE_SCHEDULES = "delete_schedules.sql";
    DELETE_ATTEMPTS_OF_RUNS = "delete_attempts_of_runs.sql";
    DELETE_RUNS = "delete_runs.sql";
    DELETE_SIGNALS_OF_RUNS = "delete_signals_of_runs.sql";
    COUNT_ROWS_OF_RUNS = "count_rows_of_runs.sql";
    FIND_DELETED_RUNS = "find_deleted_runs.sql";
    DELETE_SEATS = "delete_seats.sql";
    DELETE_SEATS_OF_RUNS = "delete_seats_of_runs.sql";
    DELETE_STEPS = "delete_steps.sql";
    DELETE_WORKER = "delete_worker.sql";
    END_RUNS = "end_runs.sql";
    EXPIRE_RUNS = "expire_runs.sql";
    FIND_APPROVALS_END = "find_approvals_end.sql";
    FIND_AUDITS_END = "find_audits_end.sql";
    FIND_AUDITS_END_OF_TARGET = "find_audits_end_of_target.sql";
    FIND_AWAITED_STEPS = "find_awaited_steps.sql";
    FIND_DUE_LANES = "find_due_lanes.sql";
    FIND_DUE_SCHEDULES = "find_due_schedules.sql";
    FIND_DUE_RUNS = "find_due_runs.sql";
    FIND_FINAL_ATTEMPTS = "find_final_attempts.sql";
    FIND_OLDEST_DUE = "find_oldest_due.sql";
    FIND_NEXT_DUE = "find_next_due.sql";
    FIND_PARENTS = "find_parents.sql";
    FIND_QUEUE = "find_queue.sql";
    FIND_RUN = "find_run.sql";
    FIND_SCHEMA = "find_schema.sql";
    FIND_SIGNALS = "find_signals.sql";
    FIND_SINGLE_RUNS = "find_single_runs.sql";
    FIND_SLEEPING_GATES = "find_sleeping_gates.sql";
    FIND_STARTED_RUNS = "find_started_runs.sql";
    FREE_KEYS = "free_keys.sql";
    FIND_WAITING_LINE = "find_waiting_line.sql";
    FORGET_INTERRUPTION = "forget_interruption.sql";
    DROP_OPEN_WAITS = "drop_open_waits.sql";
    FORGET_RATES_OF_LINES = "forget_rates_of_lines.sql";
    FIND_DUE_BULK = "find_due_bulk.sql";
    FIND_NEXT_BULK = "find_next_bulk.sql";
    INSERT_AUDITS = "insert_audits.sql";
    INSERT_BULK = "insert_bulk.sql";
    LIST_BULKS = "list_bulks.sql";
    LOCK_BULKS = "lock_bulks.sql";
    READ_BULK = "read_bulk.sql";
    UPDATE_BULK = "update_bulk.sql";
    INSERT_LANES = "insert_lanes.sql";
    INSERT_RUNS = "insert_runs.sql";
    INSERT_SCHEMA_VERSION = "insert_schema_version.sql";
    INSERT_SIGNALS = "insert_signals.sql";
    INSERT_WORKER = "insert_worker.sql";
    LIST_GATES = "list_gates.sql";
    LIST_LANES = "list_lanes.sql";
    LIST_APPROVALS = "list_approvals.sql";
    LIST_APPROVALS_OF_RUN = "list_approvals_of_run.sql";
    COUNT_HELD_RUNS = "count_held_runs.sql";
    COUNT_RUNNING_RUNS = "count_running_runs.sql";
    ADD_ENDED = "add_ended.sql";
    ADD_FAILURES = "add_failures.sql";
    FIND_ENDED = "find_ended.sql";
    LIST_FAILURES = "list_failures.sql";
    LIST_SOURCE_LINES = "list_source_lines.sql";
    LIST_STATISTICS = "list_statistics.sql";
    PUT_SOURCE_LINES = "put_source_lines.sql";
    PUT_STATISTICS = "put_statistics.sql";
    TAKE_STATISTICS = "take_statistics.sql";
    TRIM_FAILURES = "trim_failures.sql";
    LIST_AUDITS = "list_audits.sql";
    LIST_AUDITS_OF_TARGET = "list_audits_of_target.sql";
    COUNT_RUNS = "count_runs.sql";
    COUNT_SEATS = "count_seats.sql";
    LIST_RUNNING = "list_running.sql";
    LIST_RUNNING_BEHIND = "list_running_behind.sql";
    LIST_SCHEDULES = "list_schedules.sql";
    LIST_HELD_SEATS = "list_held_seats.sql";
    LIST_WAITING_SEATS = "list_waiting_seats.sql";
    LIST_WORKERS = "list_workers.sql";
    MARK_CALLED = "mark_called.sql";
    MARK_FORK = "mark_fork.sql";
    MARK_TRANSACTION = "mark_transaction.sql";
    MOVE_RUNS = "move_runs.sql";
    OVERRIDE_LIMIT = "override_limit.sql";
    OVERRIDE_QUEUE = "override_queue.sql";
    PARK_RUNS = "park_runs.sql";
    PAUSE_QUEUE = "pause_queue.sql";
    PAUSE_RUN = "pause_run.sql";
    PLACE_RUNS = "place_runs.sql";
    READ_BOUNDS = "read_bounds.sql";
    #[cfg(test)]
    READ_CLAIMED = "read_claimed.sql";
    READ_DATABASE_BYTES = "read_database_bytes.sql";
    READ_DATA_VERSION = "read_data_version.sql";
    READ_EMITTED = "read_emitted.sql";
    READ_ENDED = "read_ended.sql";
    READ_FENCE = "read_fence.sql";
    READ_HISTORY = "read_history.sql";
    READ_HISTORY_PAGE = "read_history_page.sql";
    READ_HISTORY_ROW = "read_history_row.sql";
    READ_OPEN_STEPS = "read_open_steps.sql";
    READ_STEP_HISTORY = "read_step_history.sql";
    READ_STEPS = "read_steps.sql";
    READ_TAGS = "read_tags.sql";
    READ_INBOX = "read_inbox.sql";
    READ_GATE_USE = "read_gate_use.sql";
    READ_INPUTS = "read_inputs.sql";
    READ_JOURNAL_MODE = "read_journal_mode.sql";
    READ_LOCKING_MODE = "read_locking_mode.sql";
    READ_LOST_SINGLE = "read_lost_single.sql";
    READ_MAIN_FILE = "read_main_file.sql";
    READ_MISSING = "read_missing.sql";
    READ_PLACEMENTS = "read_placements.sql";
    READ_PUBLISHED = "read_published.sql";
    READ_REVISIONS = "read_revisions.sql";
    READ_RUN = "read_run.sql";
    READ_LIMITS = "read_limits.sql";
    READ_SEAT_WAITS = "read_seat_waits.sql";
    READ_SEATS = "read_seats.sql";
    READ_QUEUES = "read_queues.sql";
    READ_RATE_OF_LINE = "read_rate_of_line.sql";
    READ_SCHEDULE = "read_schedule.sql";
    READ_SCHEMA_VERSION = "read_schema_version.sql";
    READ_SQLITE_VERSION = "read_sqlite_version.sql";
    READ_STATUSES = "read_statuses.sql";
    READ_SYNCHRONOUS = "read_synchronous.sql";
    READ_WAKES = "read_wakes.sql";
    READ_WORKERS = "read_workers.sql";
    RELEASE_CLAIMS = "release_claims.sql";
    RELEASE_UNKNOWN_CLAIMS = "release_unknown_claims.sql";
    RENEW_CLAIMS = "renew_claims.sql";
    RESET_OUTCOMES = "reset_outcomes.sql";
    RESUME_LATE_RUNS = "resume_late_runs.sql";
    RESUME_RUN = "resume_run.sql";
    RETRY_RUNS = "retry_runs.sql";
    REVIVE_RUN = "revive_run.sql";
    SET_CRASHES = "set_crashes.sql";
    SET_JOURNAL_MODE = "set_journal_mode.sql";
    SET_SINGLE_KEYS = "set_single_keys.sql";
    TERMINATE_RUNS = "terminate_runs.sql";
    UNMARK_TRANSACTION = "unmark_transaction.sql";
    UPSERT_ATTEMPTS = "upsert_attempts.sql";
    UPSERT_HELD_ATTEMPTS = "upsert_held_attempts.sql";
    UPSERT_SCHEDULES = "upsert_schedules.sql";
    UPSERT_SEAT = "upsert_seat.sql";
    #[cfg(test)]
    UPSERT_SUCCESSES = "upsert_successes.sql";
    WAKE_RUNS = "wake_runs.sql";
}
