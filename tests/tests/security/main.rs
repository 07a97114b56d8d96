//! Security tests: values in logs and errors, secrets of flows, hostile names, damaged documents,
//! and the roles of PostgreSQL.

use workflow_tests::{Database, Live};

#[path = "../../../workflow-flows/tests/common/mod.rs"]
mod common;
mod flows;
mod fuzz;
mod logs;
mod names;
mod roles;

workflow_tests::cases! {
    "security", "db: Live)",
    flows {
        no_secret_of_a_flow_is_kept_or_told,
    }
    logs {
        no_value_of_an_author_is_logged,
        no_error_and_no_debug_output_shows_a_value,
    }
    names {
        a_hostile_name_is_stored_as_it_is_or_refused,
        a_hostile_filter_finds_nothing,
    }
}

async fn check<Case: Future<Output = ()>>(database: Database, case: impl FnOnce(Live) -> Case) {
    let live = Live::new(database).await;
    case(live.clone()).await;
    live.sweep().await;
}
