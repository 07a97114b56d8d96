//! Both ways to commit have the same effect: random batches go through the fast path on one
//! database and through the slow path on another. After each batch the outcomes and all rows must
//! be equal.
//!
//! `WORKFLOW_DIFFERENTIAL_BATCHES` sets the number of batches per database (default: 400).

use workflow_tests::Database;

mod model;
mod paths;
mod plan;
mod planted;
mod twins;

workflow_tests::cases! {
    "differential", "database: Database)",
    paths {
        batches_of_a_worker_at_work_agree,
        ordinary_batches_agree,
        batches_of_all_kinds_agree,
    }
}

async fn check<F: Future<Output = ()>>(database: Database, case: impl FnOnce(Database) -> F) {
    case(database).await;
}
