//! Every statement of this store, one a file.
//!
//! A file names every table as `{schema}.table`: the application's transactions and poolers do not have our search path.
//! `{now}` is the time of the statement in microseconds, or that of a manual clock, bound as `$1`; one statement sees one
//! time.
//!
//! Rows that come as arrays, many in a batch, stand in a select list: `SELECT unnest($1) AS id, unnest($2) AS epoch`. As a function in
//! FROM, the server puts each array aside whole, as a table of its own, before it reads the first row: a third of an insert.

use std::sync::Arc;

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Execute, Postgres};

use workflow_engine::faults::altered;
use workflow_engine::model::Timestamp;

use super::error::Failure;

/// The time is stable within a statement, so an index condition may use it. A subquery: it is computed once, not once a row.
const NOW: &str = "(SELECT COALESCE($1::bigint, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint))";

/// A statement, ready for one schema.
#[derive(Clone, Debug)]
pub(super) struct Statement(Arc<str>);

impl Statement {
    /// The statement of this file. The server shows the beginning of what it executes (`pg_stat_activity`): so of the comment there, only
    /// the name of the file is sent.
    fn load(name: &str, text: &'static str, without: &[&str], schema: &str) -> Self {
        let comment: usize = text.split_inclusive('\n').take_while(|line| line.starts_with("--")).map(str::len).sum();
        let text = &text[comment..];
        let text = altered("unfenced-heartbeat", text, " AND r.epoch = claim.epoch", "");
        let text = altered("late-crash-count", text, "r.crashes + (r.status = 'running')::integer", "r.crashes");
        let text = altered("unsorted-update", text, "ORDER BY id\n) AS wanted", "ORDER BY random()\n) AS wanted");
        let text = altered("normal-sync", text, "'synchronous_commit', 'on'", "'synchronous_commit', 'off'");
        let text =
            altered("fast-path-unfenced-end", text, "r.ctid = held.place AND r.epoch = f.epoch", "r.ctid = held.place");
        let final_ = "WHERE (SELECT verdict.holds FROM verdict) AND a.ctid = found.place AND a.status = 'running'";
        let bad = "WHERE (SELECT verdict.holds FROM verdict) AND a.ctid = found.place";
        let text = altered("fast-path-final-overwritten", text, final_, bad);
        let text = cut(text, without);
        let far_future = Timestamp::FAR_FUTURE.as_micros().to_string();
        let text = text.replace("{schema}", &quoted(schema)).replace("{now}", NOW).replace("{far_future}", &far_future);
        Self(format!("-- {name}.sql\n{text}").into())
    }

    /// The statement as a query that is prepared once a connection.
    pub(super) fn query(&self) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(self.safe())
    }

    /// The same with the arguments of another one, which has the same parameters.
    pub(super) fn with_arguments_of(
        &self,
        mut other: Query<'static, Postgres, PgArguments>,
    ) -> Result<Query<'static, Postgres, PgArguments>, Failure> {
        let arguments = other.take_arguments().map_err(sqlx::Error::Encode)?.unwrap_or_default();
        Ok(sqlx::query_with(self.safe(), arguments))
    }

    /// Safe to assert: all that was put into it are our own constants and the schema's name, which `connect` has checked.
    fn safe(&self) -> AssertSqlSafe<Arc<str>> {
        AssertSqlSafe(Arc::clone(&self.0))
    }

    /// The text.
    #[cfg(test)]
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

/// The text without these parts: a part begins with its name in a comment, `/*name*/`, and ends with `/*end*/`.
pub(super) fn cut(text: &str, without: &[&str]) -> String {
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, part)) = rest.split_once("/*") {
        left.push_str(before);
        let (name, part) = part.split_once("*/").unwrap_or((part, ""));
        let (part, after) = part.split_once("/*end*/").unwrap_or((part, ""));
        if !without.contains(&name) {
            left.push_str(part);
        }
        rest = after;
    }
    left + rest
}

/// The schema's name as an identifier: one of the accepted form may still be a word of SQL, such as `order`.
pub(super) fn quoted(schema: &str) -> String {
    format!("\"{schema}\"")
}

macro_rules! statements {
    ($($name:ident),*; $($shorter:ident = $file:ident without $($part:literal),+;)*) => {
        /// The statements, each loaded for one schema.
        #[derive(Debug)]
        pub(super) struct Sql {
            $(pub(super) $name: Statement,)*
            $(pub(super) $shorter: Statement,)*
        }

        impl Sql {
            /// Reads every file for this schema, whose name must have been checked.
            pub(super) fn load(schema: &str) -> Self {
                Self {
                    $($name: Statement::load(
                        stringify!($name), include_str!(concat!("sql/", stringify!($name), ".sql")), &[], schema,
                    ),)*
                    $($shorter: Statement::load(
                        stringify!($file), include_str!(concat!("sql/", stringify!($file), ".sql")), &[$($part),+], schema,
                    ),)*
                }
            }

            /// Every statement with the name of its file, so that a test can prepare each.
            #[cfg(test)]
            pub(super) fn all(&self) -> Vec<(&'static str, &Statement)> {
                vec![
                    $((concat!(stringify!($name), ".sql"), &self.$name),)*
                    $((concat!(stringify!($file), ".sql"), &self.$shorter),)*
                ]
            }
        }
    };
}

statements! {
    cancel_children,
    cancel_runs,
    check_server,
    claim_runs,
    configure_session,
    configure_writer,
    consume_signals, copy_history, continue_runs,
    create_schema,
    create_schema_table,
    delete_received_signals,
    delete_steps,
    delete_worker,
    end_worker_session,
    expire_runs,
    find_due_lanes,
    find_next_due,
    find_parents,
    forget_interruption,
    find_schema,
    find_started_runs,
    find_unlocked_workers, find_worker,
    finish_claims,
    insert_attempts,
    insert_held_attempt,
    insert_runs,
    insert_schema_version,
    insert_signals,
    insert_worker,
    list_approvals,
    list_runs,
    lock_families,
    lock_migrations,
    lock_out_vacuum,
    lock_runs,
    lock_tables,
    lock_worker, lock_workers,
    mark_fork, mark_transaction,
    notify_change, notify_change_within,
    pause_run, plain_batch, read_emitted,
    read_claims, read_ended,
    read_fence,
    read_history,
    read_inbox, read_published,
    read_run,
    read_schema_version, read_statuses,
    read_wakes, read_workers,
    release_unknown_claims,
    release_worker,
    renew_claims,
    reset_outcomes, resume_run, retry_runs, revive_run, start_and_claim_runs, terminate_runs,
    unlock_worker,
    unmark_transaction,
    update_attempts,
    wake_runs;
    plain_batch_of_new = plain_batch without "shown";
    plain_batch_without_claim = plain_batch without "claim", "lapsed";
    plain_batch_of_new_without_claim = plain_batch without "shown", "claim", "lapsed";
    plain_batch_of_usual = plain_batch without "shown", "unusual";
    plain_batch_of_usual_onward = plain_batch without "shown", "unusual", "lapsed";
    plain_batch_of_usual_without_claim = plain_batch without "shown", "unusual", "claim", "lapsed";
}
