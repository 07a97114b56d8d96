//! What a database, a log or a name must not give away or do: cases on each database, and PostgreSQL's roles.

use workflow_tests::{Database, Live};

mod fuzz;
mod logs;
mod names;
mod roles;

workflow_tests::cases! {
    "security", "db: Live)",
    logs {
        nothing_that_an_author_hands_over_is_logged,
        no_error_and_no_debug_output_shows_a_value,
    }
    names {
        a_hostile_name_is_a_name_or_refused,
        a_hostile_filter_finds_nothing,
    }
}

async fn check<Case: Future<Output = ()>>(database: Database, case: impl FnOnce(Live) -> Case) {
    let live = Live::new(database).await;
    case(live.clone()).await;
    live.sweep().await;
}
