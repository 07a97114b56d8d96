//! Security tests: values in logs and errors, hostile names, damaged documents, and the roles of
//! PostgreSQL.

use workflow_tests::{Database, Live};

mod fuzz;
mod logs;
mod names;
mod roles;

workflow_tests::cases! {
    "security", "db: Live)",
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
