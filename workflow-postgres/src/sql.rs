//! Every statement of this store, one per file. Those that batches need are composed of parts
//! (`parts.rs`).
//!
//! A file names every table as `{schema}.table`, because the application's transactions and poolers
//! do not have our search path. `{now}` is the time of the statement in microseconds, or that of a
//! manual clock, bound as `$1`. One statement sees one time. `{ranks}` and `{head_starts}` are the
//! numbers of all ranks and their head starts, as arrays.
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
use workflow_engine::model::{ErrorSummary, Rank, Timestamp};
use workflow_engine::store::{FENCE_REFUSAL, FENCE_SQLSTATE, SCAN_BUDGET};

use super::parts::{Parts, PartsFence};
use super::scan::ScanStatements;
use super::timeline::NewestTimeline;

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
        Self::of(format_args!("{name}.sql"), with_planted_bugs(without_comment(text)), schema)
    }

    /// Returns the statement of this file over a source of runs, in an order of ids.
    pub(super) fn over(name: &str, text: &str, source: &str, order: &str, schema: &str) -> Self {
        let text = without_comment(text).replace("{source}", without_comment(source)).replace("{order}", order);
        Self::of(format_args!("{name}"), &text, schema)
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
        let text = text.replace("{ranks}", &array("smallint", Rank::number));
        let text = text
            .replace("{head_starts}", &array("bigint", Rank::head_start))
            .replace("{rank_count}", &Rank::ALL.len().to_string());
        let text = text
            .replace("{begun_head_start}", &Rank::Begun.head_start().to_string())
            .replace("{scan_budget}", &SCAN_BUDGET.to_string())
            .replace("{refusal}", FENCE_REFUSAL)
            .replace("{refusal_code}", FENCE_SQLSTATE)
            .replace("{error_bytes}", &ErrorSummary::MAX_STORED_BYTES.to_string());
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

/// Returns the text of a file without the comment at its beginning.
fn without_comment(text: &str) -> &str {
    let comment: usize = text.split_inclusive('\n').take_while(|line| line.starts_with("--")).map(str::len).sum();
    text.get(comment..).unwrap_or_default()
}

/// Returns this of each rank, as an array of a type of the server.
fn array<T: ToString>(element: &str, of: fn(Rank) -> T) -> String {
    format!("'{{{}}}'::{element}[]", Rank::ALL.map(|rank| of(rank).to_string()).join(", "))
}

/// Returns the text, or one with the bug that is planted in it.
fn with_planted_bugs(text: &'static str) -> &'static str {
    let text = altered("unfenced-heartbeat", text, " AND r.epoch = claim.epoch", "");
    let text = altered("uncounted-crash", text, "crashes = r.crashes + 1", "crashes = r.crashes");
    let text = altered("blame-beside-others", text, "CASE WHEN r.alone_epoch = r.epoch THEN", "CASE WHEN true THEN");
    let counts = "SET epoch = r.epoch + 1, crashes = r.crashes + (r.status = 'running')::integer,";
    let text = altered("lapse-counts-crash", text, "SET epoch = r.epoch + 1,", counts);
    let text = altered("unsorted-update", text, "ORDER BY id\n) AS wanted", "ORDER BY random()\n) AS wanted");
    let text = altered("unlocked-queue", text, "ORDER BY q.queue\nFOR NO KEY UPDATE SKIP LOCKED", "ORDER BY q.queue");
    let locks = "WHERE g.id = t.gate_id FOR NO KEY UPDATE SKIP LOCKED";
    let text = altered("unlocked-gate", text, locks, "WHERE g.id = t.gate_id");
    let (ended, dropped) = ("WITH ended AS", "WITH dropped AS (DELETE FROM {schema}.workflow_gate_wakes), ended AS");
    let text = altered("gate-asleep", text, ended, dropped);
    let text = altered("unfreed-gate", text, "FROM woken WHERE woken.open_at IS NULL", "FROM woken WHERE false");
    let text = altered("rank-ignored", text, "rank = 0, status = 'running'", "status = 'running'");
    let text = altered("normal-sync", text, "ELSE 'on' END", "ELSE 'off' END");
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
            /// Statements of lists.
            pub(super) scans: ScanStatements,
            /// The newest timeline that sessions have met. It is here because all that opens a
            /// session has the statements of its settings.
            pub(super) timeline: NewestTimeline,
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
                    scans: ScanStatements::load(schema),
                    timeline: NewestTimeline::default(),
                    composed: Mutex::default(),
                }
            }

            /// Returns the name of the schema.
            pub(super) fn schema(&self) -> &str {
                &self.schema
            }

            /// Returns every statement with its name, so that a test can prepare each.
            #[cfg(test)]
            pub(super) fn all(&self) -> Vec<(String, Statement)> {
                let mut all = vec![$((concat!(stringify!($name), ".sql").to_owned(), self.$name.clone()),)*];
                all.extend(self.scans.all());
                all.extend(Parts::all().into_iter().map(|parts| (parts.to_string(), self.parts(parts))));
                all
            }
        }
    };
}

impl Sql {
    /// Returns a statement of this text, which was made of names of our own.
    pub(super) fn made(&self, name: &str, text: &str) -> Statement {
        Statement::of(format_args!("{name}"), text, &self.schema)
    }

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
    clear_single_keys,
    configure_session,
    configure_writer,
    consume_signals,
    continue_runs,
    copy_history,
    count_behind,
    count_due_before,
    count_held_runs,
    count_running,
    count_running_runs, count_runs, count_seats, count_waiting, count_waiting_runs,
    begin_transfer_writes, create_fence,
    create_schema,
    create_schema_table, create_transfer_table,
    declare_limit,
    declare_queue,
    delete_deliveries,
    delete_event_waits,
    delete_left_waits,
    delete_received_signals,
    delete_runs,
    delete_schedules,
    delete_seats,
    delete_steps,
    delete_worker,
    deliver_event,
    drop_fence, drop_transfer_table, end_transfer, end_transfer_writes,
    end_turns,
    end_worker_session,
    drop_open_waits,
    expire_runs,
    find_approvals_end, find_audits_end, find_audits_end_of_target,
    find_awaited_steps,
    find_deliveries,
    find_deleted_runs,
    find_due_lanes,
    find_due_schedules,
    find_emission,
    find_event_waits,
    find_final_attempts,
    find_lapsed_gates,
    find_next_due,
    find_oldest_due,
    find_parents,
    find_queue,
    find_recorded_worker,
    find_run,
    find_schema,
    find_signals,
    find_oldest_transaction,
    find_single_runs,
    find_sleeping_gates,
    find_started_runs,
    find_transfer_table,
    find_waiting_lines,
    find_worker,
    forget_interruption, forget_rates_of_lines,
    free_gates,
    free_keys, grant_transfer_table,
    find_due_bulk, find_next_bulk,
    insert_audits,
    insert_bulk,
    list_bulks,
    lock_bulks,
    read_bulk,
    update_bulk,
    insert_emission,
    insert_event_waits,
    insert_gated_lanes,
    insert_gated_queues,
    insert_gates,
    insert_lanes,
    insert_schedules,
    insert_schema_version,
    insert_signals,
    insert_transfer,
    insert_worker,
    list_approvals, list_approvals_of_run,
    add_ended, add_failures, find_ended, list_failures, list_source_lines, list_statistics, put_source_lines,
    put_statistics, take_statistics,
    trim_failures, try_lock_statistics,
    list_audits, list_audits_of_target, list_gates, list_held_seats, list_lanes, list_waiting_seats,
    list_running,
    list_running_behind,
    list_schedules,
    lock_bounds,
    lock_event,
    lock_families, lock_fenced_tables,
    lock_gates, lock_lines,
    lock_migrations,
    lock_out_vacuum,
    lock_queues,
    lock_runs,
    lock_schedules,
    lock_single_key,
    lock_tables,
    lock_witness,
    lock_woken_gates,
    lock_worker,
    lock_workers,
    mark_called,
    mark_fork,
    mark_transaction,
    move_runs,
    notify_change,
    notify_change_within,
    open_gates, override_limit,
    override_queue,
    pause_queue,
    pause_run,
    place_runs,
    read_bounds,
    read_claims,
    read_data_version,
    read_emitted,
    read_ended,
    read_fence,
    read_gate_use,
    read_history, read_history_page, read_history_row,
    read_inbox,
    read_isolation,
    read_limits, read_lost_single,
    read_missing, read_missing_rights, read_now, read_open_steps,
    read_placements,
    read_published,
    read_queues, read_rates_of_lines,
    read_run,
    read_schedule,
    read_schema_version,
    read_seat_waits,
    read_seats, read_server, read_standby,
    read_statuses, read_step_history, read_steps, read_tables, read_tags, read_timeline, read_transfer,
    read_wakes,
    read_worker_locks,
    read_workers,
    release_unknown_claims,
    release_worker,
    renew_claims,
    reset_outcomes,
    resume_late_runs,
    resume_run,
    retry_runs,
    revive_run,
    set_crashes, set_gate_numbers, set_lane_numbers,
    set_single_keys, use_rate_of_queue, use_rates_of_gates, use_rates_of_lines,
    terminate_runs,
    try_lock_bounds,
    try_lock_events,
    try_lock_single_keys,
    try_share_events,
    unlock_worker,
    unmark_transaction,
    update_schedules,
    upsert_seats,
    wake_runs,
    weigh_gate,
}
