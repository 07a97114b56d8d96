//! Flows on the databases: versions, pinning, gates, limits, forks, documents and messages. What
//! each construct does is tested in memory by the crate `workflow-flows`.

use std::time::Duration;

use workflow_tests::{Database, Live};

#[path = "../../../workflow-flows/tests/common/mod.rs"]
mod common;
mod crashes;
mod knowledge;
mod process;
mod reports;
mod runs;
mod secrets;
mod triggers;
mod versions;

/// Longer than any case takes: a case that hangs fails with a message.
const LIMIT: Duration = Duration::from_secs(90);

workflow_tests::cases! {
    "flows", "db: Live)",
    crashes {
        a_process_killed_at_each_commit_changes_no_flow,
    }
    knowledge {
        later_runs_find_what_earlier_ones_wrote,
        what_no_base_takes_fails_the_step,
        each_database_finds_what_memory_finds,
        random_searches_agree_with_memory,
        a_worker_killed_at_a_commit_leaves_each_document_once,
    }
    reports {
        a_report_is_kept_while_the_work_is_handed_over,
        an_approval_is_answered_while_others_are_told,
        a_report_for_a_hand_over_that_failed_is_dropped,
    }
    runs {
        the_two_table_flows_run,
        a_gate_is_decided_once_under_double_clicks,
        a_visit_that_waits_is_read_without_the_rest_of_its_run,
        a_limit_holds_over_flows_and_workers,
        a_flow_pauses_or_cancels_its_run_at_its_timeout,
        a_worker_with_lower_limits_keeps_what_was_recorded,
        a_worker_that_stops_gives_its_flows_to_another_one,
    }
    secrets {
        a_value_is_opened_at_its_place_with_its_key_alone,
        secrets_are_copied_as_they_are_sealed,
    }
    triggers {
        a_trigger_of_the_clock_is_a_schedule,
        an_event_of_a_flow_starts_another_once,
        each_event_of_a_loop_starts_a_run,
    }
    versions {
        a_deploy_adds_a_version_for_each_new_body,
        deploys_at_once_give_each_body_a_version,
        runs_keep_the_version_with_which_they_started,
        a_child_starts_with_an_input_that_fits_its_version_alone,
        a_fork_goes_on_with_another_definition,
        a_fork_of_an_old_condition_goes_on_with_one_that_tells,
        deploys_and_starts_declare_the_limits_of_steps,
        an_order_declares_the_limits_of_its_start_and_a_transaction_none,
    }
}

/// Runs a case on a fresh database.
async fn check<Case: Future<Output = ()>>(database: Database, case: impl FnOnce(Live) -> Case) {
    let live = Live::new(database).await;
    let limit = tokio::time::timeout(LIMIT, case(live.clone()));
    assert!(limit.await.is_ok(), "the case had not ended after {LIMIT:?}");
    live.sweep().await;
}
