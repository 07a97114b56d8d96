//! What authors and applications can rely on: one list of cases, client and worker in this process, on each database.

use std::time::Duration;

use workflow_sdk::{ClientError, RunHandle, RunStatus, StoredError};
use workflow_tests::{Database, Live, until};

mod authoring;
mod cancel;
mod deadline;
mod divergence;
mod foreign;
mod waiting;

/// Longer than any case takes, and a hang is no silence.
const LIMIT: Duration = Duration::from_secs(90);

/// Makes a test of each case for each database.
macro_rules! cases {
    ($($noun:ident { $($case:ident,)+ })+) => {
        cases! { @database sqlite Sqlite $($noun { $($case,)+ })+ }
        cases! { @database postgres Postgres $($noun { $($case,)+ })+ }
    };
    (@database $module:ident $database:ident $($noun:ident { $($case:ident,)+ })+) => {
        mod $module {
            $(mod $noun {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $case() {
                    crate::check(workflow_tests::Database::$database, crate::$noun::$case).await;
                })+
            })+
        }
    };
}

cases! {
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
    divergence {
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
    cancel {
        a_pending_run_is_canceled_at_once,
        a_parked_run_is_canceled_at_once,
        a_running_run_is_dropped_and_ends_canceled,
        another_process_cancels_within_a_heartbeat,
        a_run_that_lingers_in_memory_is_canceled,
        the_cancel_of_an_ended_run_says_how_it_ended,
        a_cancel_races_with_the_end,
    }
    deadline {
        a_run_that_no_worker_knows_fails_at_its_deadline,
        a_delayed_run_fails_at_its_deadline,
        a_parked_run_fails_at_its_deadline,
        a_running_body_is_dropped_at_the_deadline,
        no_body_begins_after_the_deadline,
        a_run_that_ends_in_time_has_no_deadline,
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
