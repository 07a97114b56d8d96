//! What authors and applications can rely on: one list of cases, client and worker in this process, on each database.

#![allow(clippy::unit_arg, reason = "bodies of steps that only leave a note")]

use std::time::Duration;

use workflow_sdk::{ClientError, RunHandle, RunStatus, StoredError};
use workflow_tests::{Database, Live, until};

mod authoring;
mod cancel;
mod children;
mod client;
mod concurrency;
mod deadline;
mod divergence;
mod errors;
mod executor;
mod foreign;
mod refused;
mod shutdown;
mod signals;
mod waiting;
mod within;

/// Longer than any case takes, and a hang is no silence.
const LIMIT: Duration = Duration::from_secs(90);

workflow_tests::cases! {
    "engine", "db: Live)",
    authoring {
        a_step_gives_its_decoded_stored_value,
        a_failing_step_is_retried_by_its_policy,
        retries_end_with_the_policy,
        a_fatal_error_ends_the_retries,
        an_error_can_name_the_next_delay,
        a_step_times_out,
        a_panic_in_a_step_is_a_failed_attempt,
        a_panic_in_a_workflow_fails_its_run_alone,
        a_panic_in_a_decoder_fails_its_run_alone,
        the_final_error_of_a_step_can_be_handled,
        an_error_keeps_its_causes,
        a_step_knows_its_attempt_and_its_key,
        a_repeated_name_is_another_step,
        what_may_differ_between_machines_survives_a_park,
        a_workflow_needs_neither_input_nor_state,
        an_output_that_cannot_be_stored_fails_the_run,
        an_input_that_does_not_decode_fails_the_run,
    }
    waiting {
        a_step_beside_a_sleep_runs_once,
        the_sibling_of_a_failing_step_keeps_its_success,
        a_race_gives_the_faster,
        nothing_swallows_a_park,
        sleeps_do_not_eat_the_retry_budget,
        a_short_wait_stays_in_memory,
        a_long_back_off_parks,
        a_saturated_worker_takes_the_next_run_at_once,
        a_parked_run_holds_no_permit,
        a_thousand_runs_of_parallel_steps_end,
    }
    concurrency {
        a_map_is_bounded_and_gives_its_results_in_order,
        the_first_failure_drops_the_other_items,
        a_map_can_let_every_item_end,
        a_map_with_a_limit_of_0_is_refused,
        a_map_whose_worker_is_gone_runs_no_finished_body_again,
        ten_thousand_items_end_and_are_replayed,
        scopes_show_in_the_keys,
        a_timeout_ends_what_takes_too_long,
        a_timeout_lets_pass_what_ends_in_time,
        a_timeout_outlives_its_worker,
        a_run_is_parked_within_a_timeout_until_its_end,
        the_first_to_end_wins_again_after_a_park,
    }
    divergence {
        a_history_that_cannot_be_understood_parks_its_run,
        a_step_that_is_gone_parks_the_run,
        another_kind_of_call_parks_the_run,
        an_output_of_another_type_parks_the_run,
        an_input_of_another_type_parks_the_run,
        a_diverged_run_can_be_canceled,
        an_added_step_runs,
    }
    foreign {
        a_bare_sleep_is_warned_of_once,
        a_bare_sleep_can_fail_the_run,
        calls_of_the_context_are_never_foreign,
        no_foreign_wake_is_lost,
        a_workflow_that_wakes_itself_goes_on,
    }
    errors {
        an_error_of_a_type_that_never_retries_ends_the_retries,
        a_field_of_an_error_is_the_next_delay,
        an_error_without_its_delay_leaves_it_to_the_policy,
        a_typed_error_is_the_same_first_and_on_replay,
        another_process_reads_a_typed_error,
        a_client_reads_the_typed_error_of_a_run,
        an_error_type_of_a_library_is_found,
        an_error_too_large_for_its_value_is_kept_without_it,
        a_history_shows_what_is_left_of_the_budget,
    }
    cancel {
        a_pending_run_is_canceled_at_once,
        a_parked_run_is_canceled_at_once,
        a_running_run_is_dropped_and_ends_canceled,
        another_process_cancels_within_a_heartbeat,
        a_run_that_lingers_in_memory_is_canceled,
        the_cancel_of_an_ended_run_says_how_it_ended,
        a_cancel_races_with_the_end,
    }
    children {
        a_parent_gets_the_outputs_of_its_children,
        a_parent_gets_the_error_of_its_child,
        a_parent_learns_that_its_child_was_canceled,
        a_detached_child_outlives_its_parent,
        the_end_of_a_parent_cancels_its_children,
        a_cycle_of_children_ends_at_the_limit,
        a_key_of_another_run_is_refused,
        the_input_of_a_child_may_be_as_large_as_the_limit,
        a_child_whose_deadline_has_passed_fails_without_a_step,
        a_thousand_children_resume_their_parent_a_few_times,
    }
    signals {
        a_body_outlives_an_inbox_that_cannot_be_read,
        no_run_sleeps_over_a_signal_of_another_process,
        signals_are_taken_in_order_before_and_after_the_wait,
        a_wait_ends_with_its_timeout,
        a_running_run_hears_of_a_signal,
        a_wait_that_loses_a_race_consumes_nothing,
        a_key_makes_one_signal,
        a_workflow_sends_a_signal_once,
        a_signal_that_cannot_be_taken_is_refused,
        an_approval_is_listed_and_decided_once,
        an_escalated_approval_is_no_longer_listed,
    }
    deadline {
        a_run_that_no_worker_knows_fails_at_its_deadline,
        a_delayed_run_fails_at_its_deadline,
        a_parked_run_fails_at_its_deadline,
        a_running_body_is_dropped_at_the_deadline,
        no_body_begins_after_the_deadline,
        a_run_that_ends_in_time_has_no_deadline,
    }
    client {
        a_key_makes_one_run,
        the_order_of_a_map_makes_no_other_input,
        a_run_starts_after_its_delay_or_at_its_time,
        only_served_queues_are_worked_on,
        only_the_version_of_a_worker_is_worked_on,
        a_run_is_stored_as_it_was_started,
        thousands_are_started_at_once,
        of_many_inputs_one_refused_starts_none,
        a_thousand_concurrent_starts_are_all_stored,
        a_run_is_started_by_name,
        a_result_of_another_type_is_told,
        everyone_who_waits_learns_of_the_end,
        a_history_shows_what_runs,
        a_list_has_each_run_once_on_its_pages,
        an_unknown_run_is_told_everywhere,
    }
    within {
        a_run_exists_if_its_transaction_commits,
        a_connection_with_an_own_begin_is_a_transaction_too,
        a_key_holds_within_a_transaction,
        a_transaction_on_another_database_is_refused,
        bad_input_is_refused_before_the_transaction_is_touched,
    }
    refused {
        an_unknown_scheme,
        a_url_that_is_not_understood,
        a_database_that_cannot_be_written,
        a_file_that_is_read_only,
        a_file_that_is_no_database,
        a_newer_schema,
        options_out_of_range,
        an_input_that_cannot_be_stored,
        a_value_of_a_step_that_cannot_be_stored,
        names_that_cannot_be_stored,
        a_step_whose_name_cannot_be_stored,
        a_step_inside_a_step,
        a_worker_that_cannot_work,
        a_worker_without_queues,
    }
    executor {
        a_bad_write_leaves_its_neighbours_whole,
        the_order_of_writes_outlives_a_split,
        a_transient_failure_is_repeated,
        a_commit_whose_reply_was_lost_is_applied_once,
        runs_end_over_lost_replies,
        a_claim_whose_reply_was_lost_is_given_back,
        the_end_of_the_executor_is_loud,
        a_full_queue_holds_its_senders_back,
        a_dropped_sender_is_committed_all_the_same,
    }
    shutdown {
        a_running_step_ends_and_the_rest_is_given_back,
        nothing_is_claimed_while_steps_end,
        a_claim_that_was_under_way_is_given_back,
        a_step_that_outlasts_the_grace_is_dropped,
        a_dropped_worker_gives_its_runs_back,
        a_run_that_lingers_is_given_back_at_once,
        an_idle_worker_stops_at_once,
    }
}

/// Runs a case on a fresh database.
async fn check<Case: Future<Output = ()>>(database: Database, case: impl FnOnce(Live) -> Case) {
    let live = Live::new(database).await;
    let limit = tokio::time::timeout(LIMIT, case(live.clone()));
    assert!(limit.await.is_ok(), "the case had not ended after {LIMIT:?}");
    live.sweep().await;
}

/// The error of a run that failed.
#[track_caller]
fn failure<T: std::fmt::Debug>(result: Result<T, ClientError>) -> StoredError {
    match result {
        Err(ClientError::RunFailed { error, .. }) => error,
        other => panic!("expected RunFailed, got {other:?}"),
    }
}

/// Waits until a run has this status.
async fn reaches<O>(run: &RunHandle<O>, status: RunStatus) {
    let what = format!("run {} becomes {status}", run.id());
    until(&what, async || (run.status().await.unwrap() == status).then_some(())).await;
}

/// Waits until a fact holds.
async fn holds(what: &str, fact: impl AsyncFn() -> bool) {
    until(what, async || fact().await.then_some(())).await;
}
