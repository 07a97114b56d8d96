//! Real processes that are killed, stopped, disconnected and asked to end. Each case runs on each
//! database. The cases read what the steps did from a ledger outside of the database under test.

use workflow_tests::Database;

mod blocked_threads;
mod bulk;
mod campaign;
mod checker;
mod contention;
mod continue_as_new;
mod crash_loop;
mod external_events;
mod failpoints;
mod lapsed_lease;
mod map;
mod matrix;
mod planted;
mod random_kills;
mod retry_and_fork;
mod saga;
mod shutdown;
mod start;
mod step_limits;
mod stopped_process;
mod takeover;
mod transaction;
mod workload;

workflow_tests::cases! {
    "kill", "database: Database)",
    failpoints {
        executor_before_commit,
        executor_after_commit,
        park_after_commit,
        step_body,
    }
    bulk {
        a_bulk_cancel_survives_kills_and_counts_each_run_once,
    }
    matrix {
        every_point_survives_a_kill,
        every_point_survives_a_stop,
        every_point_survives_a_delay,
        every_point_survives_an_error_before_it,
        every_point_survives_a_lost_reply,
    }
    transaction {
        transaction_body,
        transaction_before_commit,
        kills_leave_each_effect_once,
    }
    start {
        an_acknowledged_start_survives_its_process,
    }
    saga {
        a_failed_run_is_undone_whenever_its_worker_dies,
        a_canceled_run_is_undone_whenever_its_worker_dies,
    }
    random_kills {
        kills_lose_nothing,
        hundreds_of_concurrent_runs_survive_kills,
    }
    contention {
        three_processes_write_one_database,
    }
    map {
        a_map_resumes_after_its_worker_was_killed,
    }
    continue_as_new {
        streams_and_generations_survive_a_kill_before_a_continue,
        streams_and_generations_survive_a_kill_after_a_continue,
        streams_and_generations_survive_a_kill_in_a_transaction,
        streams_and_generations_survive_a_kill_before_a_commit,
        streams_and_generations_survive_a_kill_after_a_commit,
    }
    external_events {
        signals_are_taken_once_and_in_order,
        events_reach_each_wait_once,
        a_parent_and_its_children_survive_their_workers,
        an_approval_is_decided_while_no_worker_lives,
    }
    stopped_process {
        a_stopped_worker_that_comes_back_writes_nothing,
        a_worker_stopped_for_many_leases_does_not_take_itself_for_stuck,
        a_worker_stopped_before_its_commit_changes_nothing,
        a_worker_stopped_before_the_body_of_a_transaction_begins_none,
    }
    blocked_threads {
        a_step_that_blocks_every_thread_keeps_its_lease,
        a_run_that_never_awaits_loses_its_lease_and_its_neighbour_does_not,
        a_runtime_that_stands_still_gives_up_all_its_runs,
        a_run_that_never_awaits_is_cleaned_up_by_its_successor,
        a_run_that_never_awaits_is_terminated_without_another_worker,
    }
    lapsed_lease {
        a_body_is_dropped_when_its_lease_may_have_ended,
        a_body_ends_after_its_lease_if_its_worker_lets_it,
    }
    step_limits {
        a_limit_for_steps_holds_while_workers_are_killed,
    }
    takeover {
        runs_of_a_killed_worker_resume_at_once,
        a_worker_cut_off_and_its_successor_never_both_commit,
        a_living_worker_keeps_its_runs_when_a_session_is_cut,
        a_stopped_worker_keeps_its_runs_beside_one_that_died,
    }
    campaign {
        workers_die,
        zombies_come_back,
        a_stopped_machine_goes_on,
        hung_runs_are_taken_over,
        bombs_fail_and_no_other_run,
        nothing_is_acknowledged_while_a_file_is_away,
        a_pooler_dies_and_one_that_lends_is_refused,
        a_limit_holds_while_workers_die,
        events_are_heard_once_while_workers_die,
        seats_hold_while_workers_die,
        schedules_start_one_run_per_occurrence,
        programs_return_the_predicted_results,
        clients_race,
    }
    checker {
        every_violation_is_found,
    }
    shutdown {
        a_worker_that_stops_gives_every_run_back,
        a_second_signal_drops_a_step_that_hangs,
    }
    retry_and_fork {
        a_kill_around_a_retry_loses_nothing,
        a_fork_survives_its_worker,
    }
    crash_loop {
        a_run_that_kills_its_workers_is_failed,
        runs_in_flight_at_two_deaths_go_on_at_full_speed,
        runs_in_flight_at_three_deaths_go_on_at_full_speed,
        a_run_that_records_an_outcome_in_each_life_is_never_suspected,
        no_innocent_run_fails_beside_runs_that_kill_their_workers,
    }
}

/// Runs a case. Each case makes its own testbed.
async fn check<Case: Future<Output = ()>>(database: Database, case: impl FnOnce(Database) -> Case) {
    case(database).await;
}

/// Runs only on PostgreSQL, because SQLite has no server to kill.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_server_dies() {
    campaign::slice("postmaster", Database::Postgres, 5).await;
}

/// Runs only on PostgreSQL, because SQLite has no standby.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failovers_lose_nothing() {
    campaign::slice("failover", Database::Postgres, 3).await;
}

/// Runs once, because it makes a round on each database.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_databases_give_equal_results() {
    campaign::slice("equal", Database::Postgres, 40).await;
}
