//! Conformance tests of the stores.
//!
//! Each case of the list runs on SQLite, on PostgreSQL and on the store in memory. A case that
//! cannot run in memory has the reason behind its name.

use workflow_tests::{Database, Fixture};

mod attempt;
mod audit;
mod batch;
mod bulk;
mod cancel;
mod child;
mod claim;
mod claim_lock;
mod claim_plan;
mod count;
mod deadline;
mod deletion;
mod end;
mod event;
mod fence;
mod fork;
mod gate;
mod generation;
mod hint;
mod history_page;
mod lease;
mod limit;
mod line_rate;
mod list;
mod live;
mod liveness;
mod migrate;
mod park;
mod pause;
mod placement;
mod planted;
mod priority;
mod queue;
mod read;
mod release_unknown;
mod retry;
mod room;
mod room_plan;
mod schedule;
mod signal;
mod single;
mod start;
mod statistics;
mod transaction;
mod wait;
mod workers;

workflow_tests::cases! {
    "conformance", "fixture: Fixture)", in memory too,
    start {
        a_run_is_stored_as_it_was_started,
        a_key_that_exists_returns_its_run,
        a_start_may_take_the_key_of_a_run_that_failed_or_was_canceled,
        the_first_of_two_starts_with_a_key_in_one_batch_creates_the_run,
        concurrent_starts_with_a_key_create_one_run,
        a_key_belongs_to_its_workflow,
        a_key_stays_taken_after_the_end,
        a_start_applied_again_returns_created,
        a_delay_counts_from_the_commit,
        a_start_time_is_kept,
        a_start_time_in_the_past_is_due_at_once,
        the_deadline_caps_the_start_time,
        a_new_run_is_seen_by_every_handle,
        processes_that_start_in_a_new_lane_at_once_share_it,
        a_start_in_a_new_lane_leaves_the_rest_of_its_batch_as_it_is,
    }
    single {
        a_run_has_its_single_key_until_it_ends,
        a_run_that_waits_or_begins_anew_keeps_its_single_key,
        a_single_key_belongs_to_its_workflow_and_its_moment,
        starts_of_one_single_key_in_one_batch_find_each_other,
        concurrent_single_starts_create_one_run,
        a_single_start_applied_again_changes_nothing,
        a_replaced_run_is_asked_to_cancel_and_loses_its_key,
        a_replaced_run_that_has_not_begun_ends_with_its_family,
        an_end_of_the_same_batch_frees_a_single_key,
        a_debounced_start_moves_the_run_that_has_not_begun,
        a_debounced_start_leaves_a_run_that_has_begun,
        debounced_starts_of_one_batch_follow_each_other,
        a_run_whose_single_key_another_run_has_is_not_revived,
        concurrent_replacements_leave_one_run_per_key,
    }
    claim {
        a_claim_takes_the_run_and_returns_all_of_it,
        claims_return_inputs_of_every_size,
        a_claim_takes_the_longest_due_run_of_each_lane_in_turns,
        many_due_runs_of_one_lane_do_not_delay_another_lane,
        a_claim_with_spare_capacity_finds_every_due_run,
        resumed_runs_are_not_starved_by_new_ones,
        a_lapsed_lease_is_taken_over_before_runs_that_have_not_begun,
        only_registered_lanes_are_claimed,
        no_lanes_claim_nothing,
        the_limit_is_respected,
        the_limit_holds_over_many_lanes,
        a_lane_given_twice_counts_once,
        nothing_is_claimed_before_it_is_due,
        an_ended_run_is_not_claimed,
        two_claims_of_one_batch_share_the_runs,
        a_claim_takes_runs_started_in_its_batch,
        runs_started_in_the_batch_do_not_starve_older_due_runs,
        concurrent_claimers_never_share_a_run,
        now_is_the_time_of_the_clock,
        next_due_is_the_earliest_of_the_lanes,
    }
    priority {
        the_higher_priority_is_claimed_first,
        one_claim_returns_its_runs_in_the_order_of_their_priorities,
        a_run_that_has_waited_for_the_head_start_goes_first,
        an_urgent_run_goes_first_for_a_day,
        a_run_that_has_begun_goes_before_a_backlog,
        a_child_that_ends_with_its_parent_goes_before_a_backlog,
        a_priority_is_shown_until_the_first_claim,
        full_claims_of_a_backlog_do_not_pass_over_another_priority,
        a_woken_run_is_in_the_next_claim_of_a_worker_amid_a_backlog,
        a_priority_counts_within_its_lane,
        a_run_claimed_in_its_batch_has_begun,
    }
    room {
        starts_beyond_a_bound_are_refused_and_write_nothing,
        a_changed_bound_holds_at_the_next_start,
        a_start_whose_run_exists_is_not_refused,
        a_refused_start_takes_no_key_from_a_failed_run,
        each_gate_has_a_bound_of_its_own_beside_that_of_its_queue,
        only_runs_that_wait_and_have_not_begun_count,
        what_was_accepted_goes_on_in_a_full_queue,
        a_single_start_finds_its_run_before_it_asks_for_room,
        concurrent_starts_never_exceed_a_bound,
    }
    queue {
        the_record_of_a_queue_tells_what_was_declared_set_and_paused,
        at_most_the_limit_of_a_queues_runs_are_under_way,
        a_limit_of_zero_lets_no_run_begin,
        a_run_of_a_full_queue_is_taken_over_when_its_lease_has_ended,
        a_paused_queue_gives_no_runs,
        a_lower_limit_lets_nothing_begin_until_enough_has_ended,
        the_first_limit_of_a_queue_counts_every_run_of_its_backlog,
        a_limit_counts_over_the_lanes_of_its_queue_and_no_other_one,
        a_limited_queue_and_the_others_share_a_claim,
        concurrent_claims_never_exceed_a_limit,
        limits_that_are_not_understood_stop_only_their_queue: "the store in memory stores no text",
    }
    gate {
        at_most_the_limit_of_runs_behind_a_gate_are_under_way,
        a_lapsed_run_behind_any_gate_of_a_full_queue_is_taken_over,
        a_used_up_rate_holds_back_no_other_queue_and_no_run_that_has_begun,
        gates_of_a_queue_with_a_rate_take_turns,
        a_gate_that_waits_for_a_reason_does_not_count_as_asleep,
        a_claim_that_knows_of_no_gates_takes_no_run_behind_one,
        a_run_shows_its_gate_and_its_queue_that_it_has_gates,
        gates_take_turns_however_long_their_backlogs_are,
        a_heavy_gate_gives_more_runs_in_claims_of_any_size,
        runs_behind_gates_go_before_the_others_if_a_claim_says_so,
        a_full_gate_does_not_delay_another_one,
        a_full_gate_is_looked_at_once_a_run_behind_it_holds_no_slot,
        a_run_that_expires_behind_a_full_gate_frees_its_slot,
        runs_of_a_dead_worker_behind_gates_are_taken_over_at_once,
        a_lapsed_run_behind_a_gate_is_found_once_it_is_resumed,
        a_run_behind_a_gate_is_found_however_it_becomes_due,
        a_run_behind_a_full_gate_is_taken_over_when_its_lease_has_ended,
        the_lanes_behind_a_gate_share_its_limit_and_each_has_its_turn,
        the_limits_of_a_queue_and_of_its_gates_both_hold,
        a_changed_limit_of_gates_holds_at_once,
        the_first_limit_of_gates_counts_every_run_of_their_backlogs,
        runs_of_a_queue_begin_at_its_rate,
        a_faster_rate_of_a_queue_or_gate_holds_at_once,
        children_begin_at_the_rate_of_their_queue,
        a_rate_counts_only_first_claims,
        each_gate_has_a_rate_of_its_own,
        a_gate_shows_its_running_runs_and_until_when_its_rate_is_used_up,
        concurrent_claims_exceed_no_limit_of_a_gate_and_lose_no_run,
    }
    claim_lock {
        a_queue_that_another_claim_counts_is_left_to_it: "the store in memory locks nothing",
        a_gate_that_another_claim_counts_is_left_to_it: "the store in memory locks nothing",
        a_claim_counts_what_was_committed_before_it_has_its_locks: "the store in memory locks nothing",
        a_start_that_commits_during_a_claim_is_found_by_the_next_one: "the store in memory has no open transactions",
        two_batches_never_give_out_one_seat: "the store in memory locks nothing",
    }
    limit {
        the_record_of_a_limit_tells_what_was_declared_and_set,
        seats_are_given_in_the_order_in_which_steps_ask,
        a_free_seat_is_kept_for_the_step_that_waits_longest,
        a_step_that_comes_late_gets_the_free_seat_before_those_behind_it,
        a_call_wakes_the_run,
        the_seat_of_a_lost_claim_is_free,
        a_run_that_was_taken_over_asks_before_all_that_wait,
        a_lost_claim_gives_no_seat_back,
        a_run_that_ends_leaves_its_lines,
        a_paused_run_keeps_its_place_and_is_not_called,
        a_parked_run_of_a_paused_queue_is_not_called,
        keys_and_limits_do_not_count_for_each_other,
        a_change_of_a_limit_holds_for_the_next_question,
        a_limit_that_is_not_declared_is_refused,
        the_steps_that_wait_for_a_cleared_limit_are_called_and_refused,
        a_rule_that_is_not_understood_lets_nothing_begin: "the store in memory stores no text",
        concurrent_questions_never_exceed_a_limit,
    }
    line_rate {
        no_period_sees_more_bodies_begin_than_the_rate_and_its_burst,
        a_step_is_told_when_it_may_begin_and_begins_then,
        the_order_of_the_line_holds_at_a_rate,
        a_step_that_leaves_brings_the_next_ones_forward,
        a_step_that_does_not_come_at_its_time_is_called,
        a_repeated_question_uses_a_rate_once_and_a_lost_claim_uses_it_again,
        a_rate_and_a_concurrency_hold_together,
        a_changed_rate_holds_for_the_next_question,
        each_key_has_a_rate_of_its_own,
        rates_that_are_not_used_up_are_forgotten: "the store in memory has no table",
        a_limit_without_a_rate_writes_no_rates: "the store in memory has no table",
        concurrent_questions_never_exceed_a_rate,
    }
    lease {
        a_claim_lasts_as_long_as_its_lease,
        the_end_of_the_lease_lets_another_take_over,
        only_the_death_of_its_worker_counts_a_crash_of_a_run,
        the_death_of_a_worker_is_blamed_on_the_run_that_it_drove_alone,
        only_the_holder_of_a_claim_sets_the_crashes_of_a_run,
        the_first_claim_sets_the_time_of_the_start,
        a_renewed_claim_is_kept,
        a_renewal_reports_each_claim,
        many_claims_are_renewed_at_once,
        a_claim_may_be_renewed_after_its_lease_until_it_is_taken,
    }
    fence {
        a_stale_attempt_changes_nothing,
        a_stale_end_changes_nothing,
        a_stale_park_changes_nothing,
        a_stale_renewal_changes_nothing,
        a_worker_that_claims_again_fences_itself_out,
        a_claim_used_in_many_batches_is_lost_once_another_process_claims_its_run,
        a_claim_used_in_many_batches_is_lost_once_another_process_ends_its_run,
        a_claim_of_the_future_is_lost,
        a_claim_of_an_unknown_run_is_lost,
        a_stale_write_does_not_change_an_ended_run,
        a_write_after_the_end_by_its_claim_is_a_duplicate,
        a_write_after_the_park_by_its_claim_is_a_duplicate,
        a_stale_writer_never_gets_between_check_and_commit,
    }
    attempt {
        an_attempt_that_ends_keeps_its_row,
        a_row_is_stored_unchanged_beside_any_other_row,
        a_row_of_any_claim_has_the_epoch_of_its_claim,
        the_start_and_the_end_of_an_attempt_in_one_batch_are_one_row,
        a_final_row_is_not_changed,
        the_first_of_two_final_rows_in_one_batch_stays,
        a_failed_attempt_before_a_retry_has_no_position,
        a_step_may_fail_for_good,
        a_later_claim_finishes_the_attempt_of_an_earlier_claim,
        the_epoch_of_the_claim_goes_into_the_row,
        payloads_come_back_byte_for_byte,
        large_payloads_come_back,
        odd_names_and_errors_come_back,
        history_is_in_the_order_of_positions,
        every_kind_of_step_comes_back,
    }
    park {
        a_parked_run_is_due_at_its_wake_time,
        an_unseen_wake_keeps_the_run_due,
        a_cancel_before_the_park_keeps_the_run_due,
        a_cancel_after_the_park_makes_the_run_due,
        a_wake_time_in_the_past_counts_as_now,
        the_deadline_caps_the_wake_time,
        a_seen_deadline_does_not_cap_the_wake_time,
        a_run_without_a_wake_time_is_not_due,
        the_reason_is_kept_until_the_next_park,
        crashes_are_reset_only_on_request,
        a_parked_run_waits_for_its_own_time,
    }
    end {
        a_success_is_stored,
        a_failure_is_stored,
        a_cancel_is_stored,
        an_ended_run_is_never_changed,
        the_first_of_two_ends_in_one_batch_stays,
        a_success_clears_the_reason_of_a_park,
        an_end_after_the_lease_stands_if_the_run_was_not_taken_over,
        times_never_decrease_if_the_clock_is_set_back,
    }
    event {
        an_event_reaches_every_wait_once,
        an_event_is_not_kept_for_later_waits,
        an_event_makes_a_parked_run_due,
        an_event_reaches_the_waits_of_its_batch,
        two_waits_of_a_run_receive_an_event_each,
        many_runs_receive_one_event,
        a_stale_wait_is_not_registered,
        an_event_is_consumed_once,
        a_wait_that_received_its_event_is_not_registered_again,
        a_timeout_ends_its_wait_unless_the_event_came_first,
        a_dropped_wait_leaves_nothing,
        a_wait_that_ends_in_its_batch_is_not_left,
        a_run_that_is_over_waits_for_nothing,
        an_expired_run_waits_for_nothing,
        an_ended_run_receives_nothing,
        a_revived_run_waits_again,
        a_run_that_is_tried_again_waits_for_no_event,
        a_step_emits_its_event_once,
        concurrent_emissions_reach_each_wait_once,
    }
    generation {
        a_continued_run_is_due_with_its_new_input_and_no_steps,
        a_key_finds_its_run_after_a_continue,
        a_continue_leaves_other_runs_alone,
        waiting_signals_outlive_a_continue,
        a_stale_continue_changes_nothing,
        a_continue_applied_again_changes_nothing,
        an_end_beats_a_continue_in_one_batch,
        attempts_of_the_batch_come_before_its_continue,
        many_runs_continue_in_one_batch,
        a_request_to_cancel_and_a_deadline_outlive_a_continue,
    }
    live {
        the_last_published_value_is_read,
        items_are_read_in_order_from_any_number,
        an_item_is_never_changed,
        a_history_has_only_the_last_item_of_each_stream,
    }
    cancel {
        a_pending_run_is_canceled_at_once,
        a_delayed_run_is_canceled_at_once,
        a_cancel_of_a_parked_run_makes_it_due_at_once,
        a_cancel_of_a_run_that_waits_for_a_retry_is_a_request,
        a_cancel_of_a_due_run_does_not_delay_it,
        a_retry_of_a_canceled_run_is_due_at_once,
        a_termination_ends_every_unfinished_run,
        a_termination_takes_the_claim_away,
        a_termination_comes_after_the_end_and_the_cancel_of_its_batch,
        a_cancel_of_a_running_run_is_a_request,
        a_cancel_request_outlives_the_worker,
        a_cancel_request_is_recorded_once,
        a_cancel_does_not_change_an_ended_run,
        a_cancel_of_an_unknown_run_returns_unknown,
        a_cancel_races_with_the_end,
        a_cancel_races_with_the_claim,
        a_cancel_races_with_the_park,
    }
    deadline {
        only_runs_without_a_claim_expire,
        a_running_run_expires_after_its_worker_was_forgotten,
        a_run_claimed_before_expires_after_the_patience,
        a_run_claimed_before_does_not_expire_while_a_worker_serves_its_lane,
        a_run_that_undoes_its_own_failure_does_not_expire,
        a_passed_deadline_ends_the_pause_of_a_run_claimed_before,
        nothing_expires_before_its_deadline,
        a_deadline_counts_from_the_commit,
        the_limit_of_expiry_is_respected,
        an_expired_run_never_changes,
        a_claim_returns_the_deadline,
    }
    release_unknown {
        unknown_claims_are_released,
        known_claims_are_kept,
        an_older_claim_does_not_cover_a_newer_one,
        the_claims_of_other_workers_are_kept,
        a_claim_of_the_same_batch_is_kept,
    }
    history_page {
        pages_of_a_history_are_the_history,
        a_large_payload_is_left_out_of_a_page_with_its_size,
        steps_are_read_in_the_order_of_their_outcomes,
        a_read_of_steps_says_that_it_is_cut,
        pages_have_the_last_item_of_every_stream,
        open_steps_are_read_beside_the_last_outcome,
        one_attempt_is_read_by_its_key,
        the_attempts_of_a_step_are_read_with_its_repetitions,
    }
    count {
        counts_are_those_of_the_runs,
        lanes_are_listed_without_their_gates,
        the_oldest_due_run_of_a_queue_is_found,
        running_runs_are_counted_by_their_workers,
        gates_are_listed_in_pages_with_their_runs,
        seats_are_counted_per_limit,
        seats_are_listed_by_key_and_time,
    }
    wait {
        the_runs_before_a_run_are_those_that_claims_take_first,
        a_run_behind_a_gate_waits_for_those_behind_its_gate,
        the_runs_that_hold_slots_are_found_by_queue_and_gate,
        a_started_run_makes_its_queue_known,
        the_steps_that_parked_runs_wait_for_are_found,
    }
    read {
        unknown_ids_are_not_found,
        each_filter_selects,
        filters_are_combined,
        children_are_listed_by_their_parent,
        a_run_is_found_by_its_workflow_and_key,
        statuses_are_alternatives,
        a_key_prefix_is_compared_byte_by_byte,
        odd_tags_are_found,
        pages_contain_each_run_once,
        a_page_size_out_of_range_is_clamped,
        the_newest_run_comes_first,
        ended_returns_only_ended_runs,
        reads_see_their_own_commits,
    }
    list {
        each_condition_selects_what_it_says,
        a_moved_run_has_the_tags_of_the_move,
        a_list_turns_its_pages_in_both_directions,
        the_budget_ends_a_page_and_the_list_goes_on,
        a_cut_source_hides_no_run_of_another_one,
        runs_are_found_by_the_message_of_their_error,
        changes_while_pages_are_turned_neither_hide_nor_repeat_a_run,
        a_list_has_no_payload_and_cuts_a_long_error,
    }
    transaction {
        the_rows_and_the_outcome_are_committed_together,
        a_rolled_back_or_dropped_transaction_leaves_nothing,
        an_invalid_claim_begins_no_transaction,
        a_transaction_of_a_lost_claim_commits_nothing,
        a_claim_never_gets_between_the_check_and_the_commit,
        an_ended_attempt_is_not_committed_again,
        a_closed_store_begins_no_transaction,
    }
    batch {
        an_empty_batch_is_accepted,
        bad_writes_do_not_affect_their_neighbours,
        outcomes_are_in_the_order_of_the_writes,
        a_batch_applied_again_changes_nothing,
        attempts_come_before_the_end,
        a_start_comes_before_its_cancel,
        a_start_comes_before_the_claim,
        a_park_comes_before_the_claim,
        one_batch_of_every_kind_keeps_the_order_of_the_contract,
        concurrent_batches_of_the_same_runs_do_not_deadlock,
        a_closed_store_is_unreachable,
    }
    migrate {
        connecting_again_changes_nothing: "the store in memory has no schema",
        concurrent_connects_migrate_once: "the store in memory has no schema",
        sixteen_processes_migrate_once: "the store in memory has no schema",
        a_newer_schema_is_refused: "the store in memory has no schema",
        a_connect_that_may_not_migrate_changes_nothing: "the store in memory has no schema",
        the_schema_of_an_unreleased_version_is_refused: "the store in memory has no schema",
    }
    hint {
        a_hint_wakes_a_listener,
        each_listener_is_woken,
        a_dropped_wait_loses_no_hint,
        each_commit_changes_the_data_version,
        a_commit_that_comes_late_changes_the_data_version: "the store in memory has no open transactions",
    }
    liveness {
        a_living_worker_is_locked,
        the_first_two_living_workers_are_watchers: "the workers of a store in memory die together",
        a_dropped_session_leaves_its_worker_unlocked,
        a_closed_session_removes_its_worker,
        runs_of_a_released_worker_are_claimable_at_once,
        a_release_leaves_other_workers_alone,
        a_forgotten_living_worker_is_recorded_again,
        a_renewal_after_a_release_keeps_the_claim,
    }
    fork {
        a_fork_copies_the_history_before_its_position,
        a_fork_does_not_copy_an_interruption,
        a_fork_writes_the_given_rows,
        a_fork_without_history_is_a_start,
        a_forked_run_is_claimed_with_its_history,
        a_fork_applied_again_copies_nothing,
        forks_with_one_key_create_one_run,
        a_failure_reset_by_a_retry_is_not_copied,
    }
    retry {
        a_retried_run_waits_for_its_next_attempt,
        a_retry_is_fenced,
        an_end_beats_a_retry_in_one_batch,
        the_deadline_caps_the_next_attempt,
        a_failed_run_is_revived,
        a_retry_drops_open_waits,
        only_a_failed_run_is_revived,
        a_revived_run_gets_the_requested_deadline,
    }
    pause {
        a_paused_run_is_not_claimed_until_it_is_resumed,
        a_pause_keeps_the_wake_time_of_a_parked_run,
        a_renewal_reports_a_pause,
        a_paused_run_whose_worker_died_counts_one_crash,
        a_cancel_ends_a_pause,
        a_paused_run_expires_at_its_deadline,
        an_end_clears_the_pause,
        an_unknown_run_is_neither_paused_nor_resumed,
        paused_runs_can_be_listed,
    }
    placement {
        a_run_is_claimed_by_its_new_priority,
        a_run_that_has_begun_gets_no_priority,
        a_moved_run_is_claimed_from_its_new_queue_alone,
        a_parked_run_moves_with_its_history_and_its_time,
        a_run_that_a_worker_holds_does_not_move,
        an_ended_or_unknown_run_is_not_placed,
        a_move_that_has_seen_another_lane_changes_nothing,
        changes_of_one_run_in_one_batch_keep_their_order,
        the_limits_of_the_new_queue_hold_for_moved_runs,
        a_moved_run_is_found_behind_its_gate,
        a_gate_that_a_run_has_left_serves_the_next_one,
        moves_beside_claims_exceed_no_limit_and_lose_no_run,
    }
    workers {
        a_worker_is_recorded_with_what_it_serves,
        due_versions_are_found,
    }
    schedule {
        a_schedule_is_stored_as_it_was_written,
        a_change_starts_its_runs_in_the_same_commit,
        a_change_that_has_seen_an_old_revision_changes_nothing,
        a_change_applied_again_is_a_duplicate,
        of_two_changes_in_one_batch_the_second_must_have_seen_the_first,
        an_occurrence_whose_key_is_taken_starts_no_run,
        of_many_processes_that_change_a_schedule_one_does,
        due_schedules_are_found_the_longest_due_first,
        schedules_are_listed_in_the_order_of_their_names,
        the_runs_of_a_deleted_schedule_stay,
    }
    signal {
        a_full_inbox_takes_no_signal,
        signal_numbers_increase_in_each_run,
        an_inbox_reports_a_cancel_request,
        concurrent_senders_keep_their_order,
        a_given_key_makes_one_signal,
        a_signal_applied_again_is_accepted_again,
        a_key_stays_taken_after_its_signal_is_consumed,
        a_key_stays_taken_after_its_run_has_ended,
        the_first_of_two_signals_with_a_key_in_a_batch_is_accepted,
        a_signal_to_an_unknown_or_finished_run_changes_nothing,
        a_signal_reaches_a_run_started_in_its_batch,
        a_signal_does_not_make_a_delayed_run_due,
        a_signal_makes_a_parked_run_due,
        a_signal_does_not_delay_a_due_run,
        a_signaled_run_keeps_its_lease_and_cannot_park_unaware,
        a_signal_comes_before_the_park_of_its_batch,
        a_signal_races_with_the_park,
        a_signal_is_consumed_once,
        a_stale_claim_consumes_no_signal,
        the_inbox_returns_the_requested_names,
        the_inbox_has_pages,
        payloads_of_signals_come_back_byte_for_byte,
        wakes_are_read_for_many_runs_and_by_each_renewal,
        pending_approvals_of_unfinished_runs_are_listed,
        decisions_are_listed_beside_approvals,
        a_list_of_approvals_looks_at_a_bounded_number,
    }
    child {
        a_child_is_started_with_its_row,
        a_child_is_not_started_without_its_row: "it needs an SQL trigger that refuses the row",
        a_child_is_claimed_with_its_parent,
        a_stale_claim_starts_nothing,
        a_child_start_applied_again_creates_one_child,
        a_final_step_starts_no_child,
        a_child_whose_key_is_taken_leaves_nothing,
        a_child_takes_the_key_of_a_failed_child_of_its_step_alone,
        the_first_of_two_children_with_a_key_in_a_batch_is_started,
        the_end_of_a_child_wakes_its_parent,
        a_stale_end_of_a_child_does_not_wake_its_parent,
        a_running_parent_cannot_park_unaware_of_the_end_of_its_child,
        many_ends_of_children_in_one_batch_wake_the_parent,
        the_cancel_of_a_child_wakes_its_parent,
        the_expiry_of_a_child_wakes_its_parent,
        the_end_of_a_parent_cancels_its_children,
        the_termination_of_a_parked_parent_cancels_its_children,
        the_expiry_of_a_parent_cancels_its_children,
        a_child_started_in_the_batch_of_the_end_is_canceled,
        parent_and_child_may_end_in_one_batch,
        an_end_written_as_childless_leaves_children_alone,
        concurrent_ends_of_parents_and_children_do_not_deadlock,
    }
    audit {
        a_row_has_the_order_and_its_outcome,
        a_row_is_left_if_and_only_if_something_changed,
        a_write_applied_again_leaves_one_row,
        a_batch_leaves_the_rows_of_its_audited_writes_alone,
        pages_of_rows_follow_each_other,
        the_rows_of_a_deleted_run_stay,
        a_kill_leaves_a_change_and_its_row_or_neither: "its processes share no memory",
    }
    statistics {
        a_process_writes_its_row_again_and_again,
        a_scan_of_statistics_has_a_range_and_a_limit,
        a_fold_keeps_the_sums,
        concurrent_folds_keep_the_sums,
        failures_add_up_per_group,
        the_tags_of_runs_are_read_at_once,
        the_oldest_groups_of_failures_go,
        runs_that_end_without_their_workers_are_counted,
        children_that_end_with_their_parent_are_counted,
        the_source_line_of_a_step_is_that_of_the_last_write,
        the_steps_of_a_version_with_source_lines_are_bounded,
    }
    bulk {
        a_bounded_number_of_failures_is_kept,
        a_chunk_changes_its_runs_and_moves_the_operation_once,
        a_chunk_may_have_every_kind_of_write,
        a_chunk_of_a_lost_claim_changes_nothing,
        a_stopped_operation_changes_no_further_run,
        an_operation_is_claimed_by_one_worker_until_its_lease_ends,
        an_order_is_kept_once_and_read_back,
        operations_are_listed_newest_first_without_payloads,
    }
    deletion {
        a_deleted_run_is_gone_and_its_key_is_free,
        no_table_keeps_a_row_of_a_deleted_run: "it lists the tables of SQL",
        only_an_ended_run_is_deleted,
        a_run_is_deleted_once,
        a_run_that_ended_later_is_kept,
        a_child_is_kept_until_its_parent_has_its_result,
        a_child_outlives_its_deleted_parent,
        a_deletion_comes_after_what_its_batch_does_to_the_run,
        a_fork_of_a_deleted_run_is_refused,
        a_claim_of_a_deleted_run_is_lost,
        a_deletion_beside_a_retry_is_whole,
        a_deletion_beside_a_start_with_its_key_leaves_one_run_at_most,
        a_deletion_beside_a_signal_or_a_fork_leaves_no_row,
        concurrent_deletions_of_families_do_not_deadlock,
        a_kill_leaves_no_half_deleted_run: "a process of its own deletes the runs",
    }
    claim_plan {
        a_claim_reads_only_due_runs: "it checks the plans of SQL statements",
    }
    room_plan {
        a_count_of_waiting_runs_reads_no_further_than_its_bound: "it checks the plans of SQL statements",
    }
}

/// Runs a case on a new database.
async fn check<Case: Future<Output = ()>>(database: Database, case: impl FnOnce(Fixture) -> Case) {
    let fixture = Fixture::new(database).await;
    let cleanup = fixture.cleanup();
    case(fixture).await;
    cleanup.sweep().await;
}
