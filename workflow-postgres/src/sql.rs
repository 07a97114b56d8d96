//! Every statement of this store, one per file. Those that batches need are composed of parts
//! (`parts.rs`).
//!
//! A file names every table as `{schema}.table`, because the application's transactions and poolers
//! do not have our search path. `{now}` is the time of the statement in microseconds, or that of a
//! manual clock, bound as `$1`. One statement sees one time.
//!
//! The rows of a batch come as arrays in a select list: `SELECT unnest($1) AS id, unnest($2) AS
//! epoch`. If `unnest` stood in FROM instead, the server would store each array as a table before
//! it reads the first row.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Postgres};

use workflow_engine::faults::altered;
use workflow_engine::model::Timestamp;

use super::parts::{Parts, PartsFence};

/// The time is stable within a statement, so an index condition may use it. As a subquery it is
/// computed once, not once per row.
const NOW: &str = "(SELECT COALESCE($1::bigint, (extract(epoch FROM statement_timestamp()) * 1000000)::bigint))";

/// A statement, ready for one schema.
#[derive(Clone, Debug)]
pub(super) struct Statement(Arc<str>);

impl Statement {
    /// Returns the statement of this file. The server shows the beginning of what it executes
    /// (`pg_stat_activity`), so the name of the file stands there in place of the file's comment.
    fn load(name: &str, text: &'static str, schema: &str) -> Self {
        let comment: usize = text.split_inclusive('\n').take_while(|line| line.starts_with("--")).map(str::len).sum();
        Self::of(format_args!("{name}.sql"), with_planted_bugs(&text[comment..]), schema)
    }

    /// Returns the statement that has these parts.
    fn composed(parts: Parts, schema: &str) -> Self {
        let prepare = |text| {
            let text = with_planted_bugs(text);
            if parts.fence == PartsFence::None { text } else { with_bugs_of_fast_path(text) }
        };
        Self::of(format_args!("{parts}"), &parts.text(prepare), schema)
    }

    fn of(name: fmt::Arguments<'_>, text: &str, schema: &str) -> Self {
        let far_future = Timestamp::FAR_FUTURE.as_micros().to_string();
        let text = text.replace("{schema}", &quoted(schema)).replace("{now}", NOW).replace("{far_future}", &far_future);
        Self(format!("-- {name}\n{text}").into())
    }

    /// Returns a query, which is prepared once per connection.
    pub(super) fn query(&self) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(self.safe())
    }

    /// Returns a query with these parameters, which is prepared once per connection.
    pub(super) fn query_with(&self, parameters: PgArguments) -> Query<'static, Postgres, PgArguments> {
        sqlx::query_with(self.safe(), parameters)
    }

    /// The text is safe: it has only our own constants and the schema's name, which `connect` has
    /// checked.
    fn safe(&self) -> AssertSqlSafe<Arc<str>> {
        AssertSqlSafe(Arc::clone(&self.0))
    }

    /// Returns the text.
    #[cfg(test)]
    pub(super) fn text(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the text, or one with the bug that is planted in it.
fn with_planted_bugs(text: &'static str) -> &'static str {
    let text = altered("unfenced-heartbeat", text, " AND r.epoch = claim.epoch", "");
    let text = altered("uncounted-crash", text, "crashes = r.crashes + 1", "crashes = r.crashes");
    let text = altered("blame-beside-others", text, "CASE WHEN r.alone_epoch = r.epoch THEN", "CASE WHEN true THEN");
    let counts = "SET epoch = r.epoch + 1, crashes = r.crashes + (r.status = 'running')::integer,";
    let text = altered("lapse-counts-crash", text, "SET epoch = r.epoch + 1,", counts);
    let text = altered("unsorted-update", text, "ORDER BY id\n) AS wanted", "ORDER BY random()\n) AS wanted");
    let text = altered("normal-sync", text, "'synchronous_commit', 'on'", "'synchronous_commit', 'off'");
    altered("fast-path-unfenced-end", text, " AND r.epoch = f.epoch", "")
}

fn with_bugs_of_fast_path(text: &'static str) -> &'static str {
    altered(
        "fast-path-final-overwritten",
        text,
        "a.ctid = found.place AND a.status = 'running'",
        "a.ctid = found.place",
    )
}

/// Returns the schema's name as an identifier: a valid name may still be a word of SQL, such as
/// `order`.
pub(super) fn quoted(schema: &str) -> String {
    format!("\"{schema}\"")
}

macro_rules! statements {
    ($($name:ident),* $(,)?) => {
        /// The statements, each loaded for one schema.
        #[derive(Debug)]
        pub(super) struct Sql {
            $(pub(super) $name: Statement,)*
            schema: String,
            /// Statements that were composed of parts.
            composed: Mutex<HashMap<Parts, Statement>>,
        }

        impl Sql {
            /// Reads every file for this schema, whose name must have been checked.
            pub(super) fn load(schema: &str) -> Self {
                Self {
                    $($name: Statement::load(
                        stringify!($name), include_str!(concat!("sql/", stringify!($name), ".sql")), schema,
                    ),)*
                    schema: schema.into(),
                    composed: Mutex::default(),
                }
            }

            /// Returns every statement with its name, so that a test can prepare each.
            #[cfg(test)]
            pub(super) fn all(&self) -> Vec<(String, Statement)> {
                let mut all = vec![$((concat!(stringify!($name), ".sql").to_owned(), self.$name.clone()),)*];
                all.extend(Parts::all().into_iter().map(|parts| (parts.to_string(), self.parts(parts))));
                all
            }
        }
    };
}

impl Sql {
    /// Returns the statement that has these parts.
    pub(super) fn parts(&self, parts: Parts) -> Statement {
        let mut composed = self.composed.lock().unwrap_or_else(PoisonError::into_inner);
        composed.entry(parts).or_insert_with(|| Statement::composed(parts, &self.schema)).clone()
    }
}

statements! {
    cancel_children,
    cancel_runs,
    check_server,
    configure_session,
    configure_writer,
    consume_signals,
    continue_runs,
    copy_history,
    create_schema,
    create_schema_table,
    delete_received_signals,
    delete_steps,
    delete_worker,
    end_worker_session,
    expire_runs,
    find_due_lanes,
    find_next_due,
    find_final_attempts,
    find_parents,
    find_run,
    find_schema,
    find_signals,
    find_started_runs,
    find_unlocked_workers,
    find_worker,
    forget_interruption,
    free_keys,
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
    lock_worker,
    lock_workers,
    mark_fork,
    mark_transaction,
    notify_change,
    notify_change_within,
    pause_run,
    read_claims,
    read_emitted,
    read_ended,
    read_fence,
    read_history,
    read_inbox,
    read_missing,
    read_published,
    read_run,
    read_schema_version,
    read_statuses,
    read_wakes,
    read_workers,
    release_unknown_claims,
    release_worker,
    renew_claims,
    reset_outcomes,
    resume_run,
    retry_runs,
    revive_run,
    set_crashes,
    terminate_runs,
    unlock_worker,
    unmark_transaction,
    wake_runs,
}
