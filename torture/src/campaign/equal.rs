//! The kind `equal`: the same programs on both databases, without faults.

use std::sync::Arc;
use std::time::Duration;

use super::{Part, Plan, Report, Round, RoundOptions, RoundViolation};
use crate::checker::{self, Violation};
use workflow_tests::Database;

pub(super) async fn round(part: Part) -> Report {
    let mut total = Report::new("equal", &part.plan);
    let mut seen = Vec::new();
    for database in [Database::Sqlite, Database::Postgres] {
        let plan = Arc::new(Plan { database, ..(*part.plan).clone() });
        let part = Part { plan, ..part.clone() };
        let options = RoundOptions { workers: 2, at_once: 50, most: part.count, ..RoundOptions::default() };
        let round = Round::begin(part.clone(), "equal", options).await;
        while !super::load::over_within(&round.load, Duration::from_secs(60)).await && !round.load.is_stuck() {}
        let (testbed, evidence) = round.end().await;
        total.take(&evidence, checker::violations(&evidence), &part);
        seen.push(evidence.observable());
        testbed.sweep().await;
    }
    total.done = seen[0].len().min(seen[1].len());
    for (key, on_sqlite) in &seen[0] {
        let on_postgres = seen[1].get(key);
        if on_postgres != Some(on_sqlite) {
            let what = format!("{key} is {on_sqlite:?} on SQLite, {on_postgres:?} on PostgreSQL");
            let violation = Violation { invariant: "I-Equal", run: String::new(), what };
            total.violations.push(RoundViolation { violation, seed: part.seed, count: part.count });
        }
    }
    total
}
