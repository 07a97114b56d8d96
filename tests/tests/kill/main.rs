//! Real processes that are killed, stopped, cut off and asked to go. One list of cases, each run on each database; what
//! steps did is read from a ledger that the database under test has no part in.

use workflow_tests::Database;

mod blocked;
mod campaign;
mod crash_loop;
mod crowd;
mod forged;
mod herald;
mod map;
mod matrix;
mod mix;
mod outside;
mod planted;
mod point;
mod random;
mod rerun;
mod saga;
mod shutdown;
mod start;
mod stopped;
mod takeover;
mod transaction;

workflow_tests::cases! {
    "kill", "database: Database)",
    point {
        executor_before_commit,
        executor_after_commit,
        park_after_commit,
        step_body,
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
        an_acknowledged_start_outlives_its_process,
    }
    saga {
        a_failed_run_is_undone_whenever_its_worker_dies,
        a_canceled_run_is_undone_whenever_its_worker_dies,
    }
    random {
        kills_lose_nothing,
        hundreds_at_once_outlive_kills,
    }
    crowd {
        three_processes_write_one_database,
    }
    map {
        a_map_goes_on_where_its_worker_was_killed,
    }
    herald {
        streams_and_generations_survive_a_kill_before_a_continue,
        streams_and_generations_survive_a_kill_after_a_continue,
        streams_and_generations_survive_a_kill_in_a_transaction,
        streams_and_generations_survive_a_kill_before_a_commit,
        streams_and_generations_survive_a_kill_after_a_commit,
    }
    outside {
        signals_are_taken_once_and_in_order,
        a_parent_and_its_children_outlive_their_workers,
        an_approval_is_decided_while_no_worker_lives,
    }
    stopped {
        a_stopped_worker_that_comes_back_writes_nothing,
        a_worker_stopped_before_its_commit_changes_nothing,
        a_worker_stopped_before_the_body_of_a_transaction_begins_none,
    }
    blocked {
        a_step_that_blocks_every_thread_keeps_its_lease,
    }
    takeover {
        runs_of_a_killed_worker_go_on_at_once,
        a_worker_cut_off_and_its_successor_never_both_commit,
    }
    campaign {
        workers_die,
        zombies_come_back,
        programs_give_what_was_foretold,
        clients_race,
    }
    forged {
        every_forgery_is_found,
    }
    shutdown {
        a_worker_that_ends_gives_every_run_back,
        a_second_signal_drops_a_step_that_hangs,
    }
    rerun {
        a_kill_around_a_retry_loses_nothing,
        a_fork_outlives_its_worker,
    }
    crash_loop {
        a_run_that_kills_its_workers_is_failed,
    }
}

/// Runs a case; each makes its own scene.
async fn check<Case: Future<Output = ()>>(database: Database, case: impl FnOnce(Database) -> Case) {
    case(database).await;
}

/// There is no server to kill on SQLite.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_server_dies() {
    campaign::slice("postmaster", Database::Postgres, 5).await;
}

/// It makes a round on each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_databases_show_the_same() {
    campaign::slice("equal", Database::Postgres, 40).await;
}
