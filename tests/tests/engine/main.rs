//! Behaviour that authors and applications can rely on. Each case runs on each database, with the
//! client and the worker in this process.

#![allow(clippy::unit_arg, reason = "bodies of steps that only make a note")]

use std::time::Duration;

use workflow_sdk::{ClientError, RunHandle, RunStatus, StoredError};
use workflow_tests::{Database, Live, until};

mod application_pools;
mod application_transactions;
mod attributes;
mod authoring;
mod batches_in_line;
mod breaker;
mod bulk;
mod cancel;
mod changes;
mod children;
mod claims;
mod client;
mod codec;
mod concurrency;
mod continue_as_new;
mod deadline;
mod deletion;
mod divergence;
mod early_outcomes;
mod errors;
mod events;
mod executor;
mod explanation;
mod foreign_awaits;
mod fork;
mod gates;
mod interruption;
mod observer;
mod operate;
mod operate_reads;
mod order_notification;
mod orders;
mod parking;
mod patch;
mod pause;
mod planted;
mod poolers;
mod preflight;
mod queues;
mod refusals;
mod retention;
mod retried_runs;
mod retry;
mod rooms;
mod saga;
mod schedule_changes;
mod schedule_orders;
mod schedules;
mod shutdown;
mod signals;
mod single;
mod spans;
mod statistics;
mod step_limits;
mod step_rates;
mod streams;
mod timeouts;
mod traces;
mod transaction;
mod transfer;
mod unreadable_rows;

/// Longer than any case takes: a case that hangs fails with a message.
const LIMIT: Duration = Duration::from_secs(90);

workflow_tests::cases! {
    "engine", "db: Live)",
    attributes {
        a_start_takes_queue_and_gate_from_the_attribute,
        a_worker_that_names_no_queue_serves_those_of_its_workflows,
        a_child_takes_queue_and_gate_from_the_attribute,
        a_schedule_takes_queue_and_gate_from_the_attribute,
        a_gate_that_an_attribute_computes_is_checked,
    }
    authoring {
        a_step_returns_its_decoded_stored_value,
        a_value_that_changes_in_json_is_warned_of_once_per_step,
        a_failing_step_is_retried_by_its_policy,
        retries_end_at_the_limit_of_the_policy,
        a_fatal_error_ends_the_retries,
        an_error_can_set_the_next_delay,
        a_step_times_out,
        a_busy_body_keeps_no_timer_waiting,
        a_body_that_wakes_itself_gives_the_thread_back,
        a_panic_in_a_step_is_a_failed_attempt,
        a_panic_in_a_workflow_fails_only_its_run,
        a_panic_in_a_decoder_fails_only_its_run,
        the_final_error_of_a_step_can_be_handled,
        an_error_keeps_its_causes,
        a_step_knows_its_attempt_and_its_key,
        a_workflow_knows_its_name_and_its_version,
        a_body_borrows_its_key_and_may_be_infallible,
        a_repeated_name_is_another_step,
        time_and_random_values_survive_a_park,
        a_workflow_needs_neither_input_nor_state,
        an_output_that_cannot_be_stored_fails_the_run,
        an_input_that_does_not_decode_fails_the_run,
    }
    transfer {
        a_moved_system_goes_on_where_it_was,
        the_source_of_a_move_refuses_every_change,
        a_move_that_stopped_goes_on,
        a_move_that_was_undone_leaves_the_source_as_it_was,
        a_move_is_refused_beside_workers_and_into_a_used_database,
        a_damaged_copy_stays_closed,
        the_runs_of_a_dead_worker_go_on_after_a_move,
        every_column_is_moved_or_said_not_to_be,
    }
    single {
        a_single_start_returns_the_run_that_has_not_ended,
        a_replaced_run_ends_and_the_new_one_runs,
        a_failed_run_is_not_tried_again_beside_another_of_its_key,
        the_last_of_debounced_starts_runs,
        a_debounced_input_stays_encrypted,
        two_processes_debounce_one_run,
        a_period_has_one_run_per_key,
        bad_options_of_a_single_start_are_refused,
        single_starts_join_a_transaction,
    }
    parking {
        a_step_beside_a_sleep_runs_once,
        the_sibling_of_a_failing_step_keeps_its_success,
        a_race_returns_the_faster_branch,
        a_workflow_cannot_swallow_a_park,
        sleeps_do_not_use_up_attempts,
        a_parked_run_resumes_at_its_wake_time,
        a_short_wait_stays_in_memory,
        a_long_back_off_parks,
        a_saturated_worker_takes_the_next_run_at_once,
        a_parked_run_holds_no_permit,
        a_thousand_runs_of_parallel_steps_end,
    }
    concurrency {
        a_map_is_bounded_and_returns_its_results_in_order,
        the_first_failure_drops_the_other_items,
        a_map_can_finish_every_item,
        a_map_of_a_canceled_run_begins_no_further_item,
        a_map_with_a_limit_of_0_is_refused,
        a_map_of_a_lost_worker_repeats_no_finished_body,
        ten_thousand_items_end_and_are_replayed,
        scopes_are_part_of_the_step_keys,
        a_timeout_ends_slow_work,
        a_timeout_lets_fast_work_finish,
        a_timeout_survives_its_worker,
        a_run_parks_within_a_timeout,
        a_race_has_the_same_winner_after_a_park,
    }
    patch {
        a_run_past_a_patch_keeps_the_old_branch_and_others_take_the_new,
        a_run_older_than_a_deprecated_patch_waits_for_matching_code,
        a_patch_name_used_twice_fails_the_run,
    }
    continue_as_new {
        every_replay_and_generation_has_the_time_of_the_creation,
        each_generation_has_all_attempts_of_the_policy,
        a_run_that_continues_keeps_its_handle_and_returns_its_last_result,
        an_input_of_another_type_fails_the_run,
        a_history_that_reaches_its_limit_fails_the_run,
        a_history_above_its_limit_fails_before_the_workflow_is_called,
        a_limit_of_zero_is_refused,
        a_run_that_is_asked_to_cancel_does_not_continue,
    }
    observer {
        every_event_of_a_run_comes_once_and_in_order,
        failures_and_cancels_are_observed,
        the_line_of_a_failed_run_names_its_step_and_attempt,
        a_run_that_is_taken_over_is_reported_with_its_crashes,
        a_run_is_taken_over_if_a_worker_held_it_whatever_its_crashes,
        a_run_that_diverges_is_reported_to_observers,
    }
    operate {
        queries_find_runs,
        a_search_finds_the_runs_that_limits_hold_back,
        a_listed_run_says_what_it_does_now,
        pages_lead_to_older_and_newer_runs,
        a_bad_request_for_a_list_says_what_is_wrong,
    }
    order_notification {
        observers_learn_of_ordered_starts,
        an_ordered_emission_whose_reply_was_lost_is_not_repeated,
    }
    orders {
        each_order_about_a_run_does_what_it_says,
        orders_change_where_a_run_waits,
        an_order_that_is_refused_changes_nothing_and_leaves_no_row,
        a_started_run_gets_the_very_text_of_its_input,
        a_person_decides_about_an_approval_once,
        orders_change_queues_gates_and_limits,
        an_order_about_an_unknown_queue_or_limit_is_carried_out_with_a_warning,
        nothing_is_taken_back_from_an_unknown_queue_or_limit,
        orders_change_schedules,
        an_order_whose_reply_was_lost_leaves_one_row,
        the_payloads_of_orders_are_encoded,
        pages_of_audit_rows_follow_each_other,
    }
    changes {
        changes_of_runs_are_told_until_they_end,
        a_reader_that_comes_back_has_missed_nothing,
        a_start_of_a_transaction_that_commits_late_is_told,
        steps_of_a_run_are_told_in_their_order,
        items_and_published_values_are_read_as_they_come,
        many_readers_cost_the_reads_of_one,
        what_cannot_be_followed_is_refused,
    }
    operate_reads {
        a_run_is_read_with_its_payloads_and_its_reason,
        runs_are_found_by_either_end_of_their_ids,
        a_history_is_read_in_pages,
        a_timeline_shows_attempts_and_waits,
        a_timeline_shows_a_crash,
        counts_and_queues_are_read,
        the_seats_of_a_limit_are_read_page_by_page,
        workers_workflows_and_limits_are_read,
        schedules_and_approvals_are_read,
        encoded_payloads_are_shown_to_a_client_with_the_key,
    }
    streams {
        a_client_follows_a_run_while_it_runs,
        a_wait_for_the_next_item_can_be_dropped,
        an_invalid_name_or_type_is_refused,
        a_value_over_the_limit_is_refused_and_the_run_goes_on,
        progress_from_the_body_of_a_step_is_seen_while_it_runs,
        a_long_stream_arrives_complete_and_in_order,
    }
    divergence {
        an_unreadable_history_parks_its_run,
        a_removed_step_parks_the_run,
        a_call_of_another_kind_parks_the_run,
        an_output_of_another_type_parks_the_run,
        a_decoder_that_panics_parks_the_run,
        an_input_of_another_type_parks_the_run,
        a_diverged_run_can_be_terminated,
        a_canceled_diverged_run_ends_after_its_grace,
        a_renamed_step_is_not_carried_out,
        an_inserted_step_parks_the_run_until_a_patch_inserts_it,
        a_branch_that_yields_before_a_recorded_call_is_waited_for,
        a_divergence_is_logged_once_per_run_and_code,
    }
    preflight {
        an_exported_history_replays_on_its_code,
        a_history_of_signals_replays,
        an_exported_history_diverges_on_other_code,
        an_unsuitable_history_is_refused,
        every_unfinished_run_is_judged,
        a_report_without_divergence_is_clean,
        a_worker_without_workflows_judges_no_run,
        a_workflow_that_publishes_is_judged,
        one_run_of_the_database_is_replayed,
    }
    gates {
        the_limit_of_each_gate_holds_over_workers,
        a_worker_finds_the_first_run_behind_a_gate_of_its_queue,
        a_run_behind_a_full_gate_says_so_and_begins_when_the_limit_rises,
        a_parent_and_its_child_behind_a_gate_with_one_slot_both_end,
        a_fork_waits_behind_the_gate_of_its_source,
        a_debounced_start_moves_its_run_behind_another_gate,
        names_of_gates_are_checked,
        a_used_up_rate_of_a_gate_is_explained,
        a_rate_out_of_range_is_refused_and_a_used_up_one_is_explained,
    }
    queues {
        the_limit_of_a_queue_holds_over_workers,
        limits_that_an_operator_sets_hold_without_a_restart,
        a_paused_queue_drains_and_goes_on_when_it_is_resumed,
        a_parent_and_its_child_in_a_queue_with_one_slot_both_end,
        a_start_is_explained_before_it_is_made,
        names_of_queues_are_checked,
    }
    rooms {
        a_full_queue_refuses_starts_until_a_worker_has_begun_some,
        a_bound_that_an_operator_sets_holds_for_every_client_at_once,
        processes_that_start_at_once_never_exceed_a_bound,
        children_of_a_run_start_in_a_full_queue,
        a_transaction_counts_its_own_starts,
    }
    step_limits {
        the_limit_of_steps_holds_over_workers,
        a_run_that_waits_for_a_seat_lets_others_go_on_and_is_explained,
        a_limit_for_steps_is_raised_and_lowered_without_a_restart,
        a_changed_limit_holds_within_two_seconds,
        the_seat_of_a_worker_that_died_is_used_again,
        a_canceled_run_leaves_the_line,
        a_step_that_loses_a_race_leaves_the_line,
        the_steps_that_wait_for_a_cleared_limit_are_refused,
        limits_that_are_not_declared_and_bad_names_are_refused,
    }
    step_rates {
        bodies_begin_at_the_rate_of_their_limit_over_workers,
        a_step_that_waits_for_a_rate_lets_others_go_on_and_is_explained,
        each_attempt_counts_for_the_rate,
        a_rate_is_changed_without_a_restart,
        a_step_of_a_worker_that_died_begins_at_the_rate,
        a_step_behind_one_that_leaves_begins_earlier,
        rates_of_limits_that_cannot_be_used_are_refused,
    }
    foreign_awaits {
        a_bare_sleep_is_logged_once,
        a_bare_sleep_can_fail_the_run,
        a_foreign_await_that_nothing_wakes_is_warned_of_once,
        a_foreign_await_that_nothing_wakes_can_fail_the_run,
        calls_of_the_context_are_never_foreign,
        a_select_beside_a_body_that_uses_up_the_budget_is_not_foreign,
        no_foreign_wake_is_lost,
        a_workflow_that_wakes_itself_goes_on,
    }
    errors {
        an_error_of_a_type_that_never_retries_ends_the_retries,
        a_field_of_an_error_sets_the_next_delay,
        an_error_without_a_delay_uses_the_policy,
        a_typed_error_is_the_same_first_and_on_replay,
        another_process_reads_a_typed_error,
        a_client_reads_the_typed_error_of_a_run,
        an_error_type_of_a_library_is_found,
        an_error_that_is_too_large_is_stored_without_its_value,
        a_history_shows_the_attempts_left,
    }
    breaker {
        an_open_circuit_parks_runs_and_calls_no_body,
        one_probe_at_a_time_tests_an_open_circuit,
        a_fatal_error_does_not_open_a_circuit,
        steps_of_one_name_share_a_circuit_and_others_do_not,
        an_opening_is_logged_once,
    }
    cancel {
        a_pending_run_is_canceled_at_once,
        a_parked_run_wakes_to_be_canceled,
        a_running_run_is_dropped_and_ends_canceled,
        another_process_cancels_before_a_heartbeat,
        a_cancel_before_the_first_wait_for_a_signal_is_not_lost,
        a_run_that_lingers_in_memory_is_canceled,
        the_cancel_of_an_ended_run_says_how_it_ended,
        a_cancel_races_with_the_end,
    }
    children {
        a_parent_gets_the_outputs_of_its_children,
        a_parent_gets_the_error_of_its_child,
        a_parent_learns_that_its_child_was_canceled,
        a_detached_child_outlives_its_parent,
        a_detached_child_ends_with_its_parent_if_it_is_told_so,
        the_end_of_a_parent_cancels_its_children,
        a_child_whose_body_runs_ends_soon_after_its_parent,
        a_cycle_of_children_ends_at_the_limit,
        a_parent_learns_that_the_row_of_its_child_is_gone,
        a_look_for_a_deleted_child_that_failed_is_repeated,
        a_child_whose_start_is_not_committed_is_not_missing,
        a_key_of_another_run_is_refused,
        a_child_has_the_version_the_tags_and_the_delay_of_its_call,
        children_have_the_names_of_their_calls,
        a_child_is_started_by_name,
        the_input_of_a_child_may_be_as_large_as_the_limit,
        a_child_whose_deadline_has_passed_fails_without_a_step,
        a_thousand_children_resume_their_parent_a_few_times,
    }
    events {
        an_event_wakes_every_run_that_waits_for_it,
        a_run_emits_an_event_to_runs,
        a_wait_for_an_event_ends_with_its_timeout,
        a_wait_with_a_timeout_of_zero_ends_at_once,
        a_timeout_of_zero_does_not_wait_for_an_open_emission,
        a_step_after_a_wait_begins_once_the_wait_is_registered,
        an_event_is_delivered_if_its_transaction_commits,
        an_emission_above_read_committed_is_refused,
        an_emission_beside_an_open_one_is_busy,
        bad_names_of_events_are_refused,
        a_retried_run_waits_again,
        a_run_that_is_retried_after_its_deadline_waits_again,
        dropped_waits_begin_anew_once_their_run_is_retried,
        a_wait_that_loses_a_race_is_not_left,
        an_event_passes_through_the_codec,
    }
    signals {
        a_body_survives_an_inbox_that_cannot_be_read,
        a_wait_does_not_time_out_before_its_inbox_was_read,
        a_signal_of_another_process_wakes_its_run,
        signals_are_taken_in_order_before_and_after_the_wait,
        a_wait_ends_with_its_timeout,
        a_running_run_receives_a_signal,
        a_wait_that_loses_a_race_consumes_nothing,
        a_key_makes_one_signal,
        a_workflow_sends_a_signal_once,
        a_signal_that_cannot_be_taken_is_refused,
        a_signal_to_a_full_inbox_is_refused,
        an_approval_is_listed_and_decided_once,
        an_approval_that_timed_out_is_not_asked,
        an_escalated_approval_is_no_longer_listed,
    }
    interruption {
        a_run_cleans_up_after_a_step,
        a_run_cleans_up_after_a_sleep,
        a_run_of_a_lost_worker_cleans_up_on_the_next,
        a_canceled_run_may_return_any_result,
        a_shielded_part_ends_before_the_run_is_canceled,
        the_grace_ends_a_clean_up_that_hangs,
        the_grace_ends_a_clean_up_that_is_parked,
        a_second_cancel_or_a_termination_ends_a_clean_up_at_once,
        a_termination_by_another_process_drops_the_run,
        two_cancels_at_once_are_one,
        a_run_cleans_up_after_its_deadline,
        a_run_that_returns_after_its_deadline_has_failed,
        a_worker_that_stops_leaves_the_clean_up_to_the_next,
    }
    saga {
        a_run_that_succeeds_undoes_nothing,
        a_run_that_fails_or_panics_undoes_in_reverse_order,
        a_run_that_is_canceled_undoes,
        a_run_that_passes_its_deadline_undoes,
        a_run_that_is_held_back_past_its_deadline_undoes,
        a_run_that_returns_a_value_after_its_deadline_undoes,
        a_run_at_the_limit_of_its_history_undoes_all,
        a_terminated_run_undoes_nothing,
        a_failed_compensation_is_reported,
        a_compensation_for_a_step_that_never_ran_is_refused,
        the_grace_bounds_the_compensations_of_a_canceled_run,
        nothing_interrupts_the_undo_of_a_run_that_failed,
        a_run_that_is_being_undone_is_not_tried_again,
        a_panic_in_the_destructor_of_a_compensation_is_contained,
    }
    deletion {
        every_call_says_that_a_deleted_run_is_gone,
        a_wait_for_a_deleted_run_ends,
        a_run_that_is_needed_is_not_deleted,
        a_parent_that_is_tried_again_learns_that_its_child_was_deleted,
    }
    bulk {
        a_chunk_whose_reply_was_lost_counts_once,
        a_preview_counts_and_shows_examples,
        a_refused_write_fails_its_run_alone,
        a_run_whose_id_is_ahead_is_changed_too,
        an_operation_can_be_stopped_repeated_and_listed,
        each_action_does_what_the_single_order_does,
        each_run_of_a_query_is_canceled_once,
        failed_runs_are_retried_once_and_signals_sent_once,
        the_payload_of_an_operation_is_encoded,
    }
    retention {
        old_runs_are_deleted_and_others_stay,
        a_worker_that_keeps_runs_longer_protects_them,
        a_retention_out_of_range_is_refused,
        a_prune_deletes_once_what_no_worker_keeps,
    }
    statistics {
        counts_equal_what_ran,
        counts_are_written_while_a_worker_works,
        alike_failures_are_one_group,
        a_codec_leaves_no_message_of_an_error,
        a_kill_loses_the_counts_of_a_moment,
        a_step_shows_the_line_that_calls_it,
    }
    traces {
        a_trace_survives_a_kill_and_reaches_children,
        a_run_belongs_to_the_trace_that_it_was_given_first,
        a_tracing_system_numbers_the_spans,
        a_trace_that_is_not_understood_stops_no_run,
    }
    spans {
        a_run_is_one_trace_with_links_from_drive_to_drive,
        a_drive_has_a_link_to_the_drive_of_a_dead_worker,
        a_run_outside_of_every_trace_gets_a_trace_per_drive,
    }
    deadline {
        a_run_without_a_worker_fails_at_its_deadline,
        a_delayed_run_fails_at_its_deadline,
        a_parked_run_fails_at_its_deadline,
        a_running_body_is_dropped_at_the_deadline,
        no_body_begins_after_the_deadline,
        a_run_that_ends_in_time_has_no_deadline,
    }
    claims {
        claims_take_turns_over_the_workflows_of_a_worker,
        starts_of_another_process_need_no_poll,
        each_worker_of_a_process_hears_of_starts_of_another_one,
        runs_one_after_the_other_need_no_query_for_due_runs,
    }
    client {
        a_key_makes_one_run,
        the_order_of_map_entries_does_not_change_the_input,
        a_run_starts_after_its_delay_or_at_its_time,
        a_worker_takes_only_runs_of_its_queues,
        a_worker_takes_only_runs_of_its_versions,
        a_run_is_stored_as_it_was_started,
        thousands_are_started_at_once,
        one_refused_input_of_many_starts_no_run,
        a_thousand_concurrent_starts_are_all_stored,
        a_run_is_started_by_name,
        a_result_of_another_type_is_an_error,
        every_waiting_caller_gets_the_result,
        the_result_of_a_removed_run_is_an_error,
        a_history_shows_running_steps,
        the_pages_of_a_list_show_each_run_once,
        every_call_reports_an_unknown_run,
        a_client_that_is_dropped_leaves_no_connection,
    }
    codec {
        no_payload_is_stored_as_plain_text,
        a_client_without_the_key_sees_names_and_no_values,
        a_client_without_the_key_changes_a_schedule_and_not_its_input,
        a_run_waits_for_a_worker_that_has_its_key,
        a_row_that_was_changed_or_moved_is_refused,
        payloads_older_than_the_codec_are_read_unless_refused,
        a_plain_error_is_refused_with_plain_payloads,
        a_codec_that_fails_or_panics_affects_one_write,
        a_repeated_signal_is_decoded,
        a_batch_in_line_is_encoded_like_any_other,
        the_limit_counts_the_plain_text,
    }
    application_pools {
        runs_work_over_a_pool_of_the_application,
        reads_take_a_connection_of_the_pool_and_writes_do_not,
        a_pool_that_the_application_closed_is_refused,
    }
    timeouts {
        a_call_ends_although_the_database_does_not_answer,
        a_client_whose_database_does_not_answer_is_refused,
    }
    application_transactions {
        a_run_exists_if_its_transaction_commits,
        a_connection_after_an_explicit_begin_is_a_transaction,
        a_key_is_unique_within_a_transaction,
        a_transaction_on_another_database_is_refused,
        bad_input_is_refused_before_the_transaction_is_touched,
        a_new_lane_outlives_the_transaction_that_needed_it_first,
    }
    unreadable_rows {
        an_unknown_kind_of_error_stops_only_its_run,
        a_list_shows_rows_with_the_reasons,
        a_run_without_a_lane_is_shown_and_reached_by_its_id,
        an_unreadable_end_reaches_only_its_waiters,
        a_step_error_of_an_unknown_kind_parks_its_run,
        a_parent_waits_for_a_worker_that_understands_the_error_of_its_child,
    }
    transaction {
        rows_and_outcome_are_committed_together,
        an_error_rolls_back_and_is_retried,
        a_value_that_cannot_be_stored_rolls_back,
        the_handle_of_the_other_database_is_refused,
        outcomes_keep_their_order_beside_ordinary_steps,
        a_body_that_waits_for_its_own_transaction_times_out,
        a_kept_handle_is_refused,
        a_body_that_ends_the_transaction_itself_is_refused,
        a_failed_statement_can_be_ignored_only_on_sqlite,
        a_transaction_of_the_driver_is_a_savepoint,
        a_deferred_constraint_fails_the_attempt,
        a_body_goes_on_while_the_crashes_of_its_run_are_cleared,
        a_body_goes_on_while_the_queue_of_the_executor_is_full,
        a_commit_whose_reply_was_lost_is_not_repeated,
        a_commit_that_never_arrived_is_retried,
        a_connection_lost_during_the_commit_fails_the_attempt,
        a_body_that_is_dropped_leaves_nothing,
        a_run_that_is_canceled_rolls_back,
        starts_and_cancels_join,
        a_database_in_memory_has_transactions_too,
    }
    refusals {
        an_unknown_scheme,
        a_malformed_url,
        a_database_that_cannot_be_written,
        a_file_that_is_read_only,
        a_file_that_is_not_a_database,
        a_newer_schema,
        options_out_of_range,
        an_input_that_cannot_be_stored,
        an_input_that_its_own_check_refuses,
        a_value_of_a_step_that_cannot_be_stored,
        names_that_cannot_be_stored,
        tags_over_their_limit,
        a_step_whose_name_cannot_be_stored,
        a_step_inside_a_step,
        a_worker_that_cannot_work,
        a_worker_without_queues,
        extremes_that_are_accepted,
    }
    early_outcomes {
        writes_that_are_sent_together_are_committed_together,
        an_end_is_refused_with_the_outcome_before_it,
        a_run_fails_if_the_database_refuses_its_last_outcome,
        a_run_fails_if_the_database_refuses_its_end,
        a_run_does_not_end_while_an_outcome_that_it_has_seen_is_sent,
    }
    executor {
        a_bad_write_does_not_fail_its_neighbours,
        a_split_batch_keeps_the_order_of_its_writes,
        a_commit_is_retried_after_a_transient_failure,
        a_commit_whose_reply_was_lost_is_applied_once,
        a_cancel_whose_reply_was_lost_is_not_a_second_one,
        a_pending_claim_waits_for_a_due_run,
        runs_end_although_replies_are_lost,
        a_claim_whose_reply_was_lost_is_given_back,
        the_end_of_the_executor_is_reported,
        a_full_queue_makes_its_senders_wait,
        a_write_of_a_dropped_sender_is_committed,
        a_blocked_runtime_is_notified_of_other_processes,
    }
    batches_in_line {
        a_batch_in_line_is_committed_once,
        a_pending_claim_takes_the_run_that_a_batch_before_the_one_in_line_made_due,
        a_batch_in_line_whose_reply_was_lost_is_repeated_without_its_claims,
        a_batch_in_line_waits_while_the_one_before_it_is_retried,
        a_batch_in_line_waits_while_a_bad_write_before_it_is_found,
        hundreds_of_runs_survive_a_failing_database,
    }
    retried_runs {
        a_retry_starts_a_failed_child_anew,
        a_retry_takes_the_output_of_a_child_that_was_retried,
        a_policy_starts_a_failed_child_anew,
        a_retry_starts_a_detached_child_whose_key_was_taken,
        a_retry_starts_a_canceled_child_anew,
        a_retried_run_awaits_a_child_that_goes_on,
        the_timeouts_and_sleeps_of_a_retried_run_begin_anew,
        a_policy_lets_timeouts_and_sleeps_begin_anew,
    }
    retry {
        a_failed_run_resumes_where_it_failed,
        a_run_can_be_retried_more_than_once,
        a_retried_run_keeps_the_outcomes_of_siblings_and_handlers,
        a_retry_gives_a_step_all_its_attempts_again,
        a_run_that_failed_outside_of_a_step_is_called_again,
        a_retry_after_the_deadline_needs_a_new_deadline,
        a_run_that_cannot_be_retried_is_refused,
        two_retries_at_once_are_one,
        a_workflow_with_a_policy_resumes_where_it_failed,
        a_policy_that_is_used_up_fails_the_run,
        a_fatal_error_is_not_retried_by_the_workflow,
        a_run_that_waits_for_its_next_attempt_can_be_canceled,
        a_retry_waits_for_records_that_are_unsent,
    }
    fork {
        a_fork_keeps_the_history_before_its_step,
        a_fork_can_take_another_version_and_queue,
        a_fork_without_a_step_starts_from_the_beginning,
        a_run_of_any_status_can_be_forked,
        an_unknown_step_is_refused_with_similar_names,
        a_fork_refuses_what_cannot_be_stored,
        the_key_of_a_fork_returns_the_same_fork,
    }
    pause {
        a_paused_run_finishes_its_running_steps_and_begins_no_others,
        another_process_pauses_within_a_heartbeat,
        another_process_pauses_before_a_heartbeat,
        a_pending_run_waits_until_it_is_resumed,
        a_sleep_continues_while_its_run_is_paused,
        a_paused_run_can_be_canceled,
        an_unknown_run_cannot_be_paused,
    }
    explanation {
        an_unserved_version_is_explained,
        a_fork_to_an_unserved_version_stays_due,
        a_worker_warns_of_due_unserved_versions,
        versions_live_side_by_side,
        every_status_of_a_run_is_explained,
        a_divergence_is_explained,
        a_wait_for_a_free_worker_is_explained,
        a_run_that_is_held_back_is_explained,
        a_worker_that_works_once_waits_for_runs_that_it_holds_back,
        a_worker_that_works_once_leaves_runs_that_may_not_begin,
    }
    schedules {
        two_workers_start_one_run_per_occurrence,
        workers_leave_due_schedules_to_the_first_one,
        a_restart_after_three_days_catches_up_as_the_policy_says,
        the_runs_of_a_schedule_have_its_priority,
        each_overlap_policy_treats_a_run_that_has_not_ended,
        a_canceled_run_that_does_not_end_is_terminated_after_the_grace,
        the_occurrence_is_the_same_on_every_replay_and_in_a_fork,
        a_failed_run_pauses_a_schedule_that_asks_for_it,
        a_schedule_fires_again_after_its_last_run_was_deleted,
        a_clock_that_is_set_back_starts_no_run_twice,
        the_next_due_time_wakes_the_worker,
    }
    schedule_changes {
        a_paused_schedule_starts_nothing_and_catches_nothing_up,
        a_triggered_run_starts_at_once_and_counts_for_the_overlap,
        a_backfill_that_is_interrupted_and_resumed_starts_each_run_once,
        an_update_while_a_schedule_fires_leaves_no_occurrence_of_both,
        code_declares_schedules_and_an_operators_changes_stay,
        a_group_retires_what_it_does_not_declare_any_more,
        a_worker_refuses_schedules_that_can_not_work,
        a_computed_input_is_computed_by_a_worker_that_declares_it,
        a_deleted_schedule_starts_nothing_more,
    }
    schedule_orders {
        an_operator_creates_changes_backfills_and_deletes_a_schedule,
        an_order_about_a_schedule_that_is_refused_changes_nothing,
        an_order_about_a_schedule_has_its_effect_once,
        a_worker_keeps_what_an_operator_has_changed,
    }
    shutdown {
        a_running_step_ends_and_the_rest_is_given_back,
        nothing_is_claimed_while_steps_end,
        a_claim_in_flight_at_shutdown_is_given_back,
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

/// Waits until `fact` is true.
async fn holds(what: &str, fact: impl AsyncFn() -> bool) {
    until(what, async || fact().await.then_some(())).await;
}
