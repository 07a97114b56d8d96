//! Every statement of this backend, one a file.

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(pub(super) const $name: &str = include_str!(concat!("sql/", $file));)*

        /// Every statement with the name of its file, so that a test can prepare each.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, &str)] = &[$(($file, $name)),*];
    };
}

statements! {
    CANCEL_RUNS = "cancel_runs.sql";
    CLAIM_RUNS = "claim_runs.sql";
    CONTINUE_RUNS = "continue_runs.sql";
    CREATE_SCHEMA_TABLE = "create_schema_table.sql";
    DELETE_RECEIVED_SIGNALS = "delete_received_signals.sql";
    DELETE_STEPS = "delete_steps.sql";
    DELETE_WORKER = "delete_worker.sql";
    DISOWN_RUNS = "disown_runs.sql";
    END_RUNS = "end_runs.sql";
    EXPIRE_RUNS = "expire_runs.sql";
    FIND_DUE_RUNS = "find_due_runs.sql";
    FIND_NEXT_DUE = "find_next_due.sql";
    FIND_SCHEMA_TABLE = "find_schema_table.sql";
    FIND_STARTED_RUNS = "find_started_runs.sql";
    INSERT_RUNS = "insert_runs.sql";
    INSERT_SCHEMA_VERSION = "insert_schema_version.sql";
    INSERT_WORKER = "insert_worker.sql";
    LIST_RUNS = "list_runs.sql";
    LIST_WORKERS = "list_workers.sql";
    PARK_RUNS = "park_runs.sql";
    READ_DATA_VERSION = "read_data_version.sql";
    READ_EMITTED = "read_emitted.sql";
    READ_ENDED = "read_ended.sql";
    READ_FENCE = "read_fence.sql";
    READ_HISTORY = "read_history.sql";
    READ_JOURNAL_MODE = "read_journal_mode.sql";
    READ_MAIN_FILE = "read_main_file.sql";
    READ_PUBLISHED = "read_published.sql";
    READ_RUN = "read_run.sql";
    READ_SCHEMA_VERSION = "read_schema_version.sql";
    READ_SQLITE_VERSION = "read_sqlite_version.sql";
    READ_STATUSES = "read_statuses.sql";
    RELEASE_CLAIMS = "release_claims.sql";
    RENEW_CLAIMS = "renew_claims.sql";
    SET_JOURNAL_MODE = "set_journal_mode.sql";
    UPSERT_ATTEMPTS = "upsert_attempts.sql";
}
