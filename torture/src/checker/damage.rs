//! Reads what the database reports about its own state.

use workflow_tests::{Database, RawConnection};

/// Returns the damage to the database. `deadlocks_before` is the [count](deadlocks) at the
/// beginning: other tests on the same server may have made deadlocks on purpose.
pub(super) async fn damage(raw: &mut RawConnection, database: Database, deadlocks_before: i64) -> Vec<String> {
    let mut damage = Vec::new();
    match database {
        Database::Memory => unreachable!("a testbed has no database in memory"),
        Database::Sqlite => {
            let check = raw.lines("PRAGMA integrity_check", "integrity_check").await;
            damage.extend(check.into_iter().filter(|line| line != "ok"));
        }
        Database::Postgres => {
            let deadlocks = deadlocks(raw, database).await - deadlocks_before;
            if deadlocks > 0 {
                damage.push(format!("{deadlocks} deadlocks"));
            }
            let invalid = "SELECT count(*) FROM pg_index WHERE NOT indisvalid";
            if raw.number(invalid).await > 0 {
                damage.push("an index is not valid".into());
            }
            damage.extend(corruption(raw).await);
        }
    }
    damage
}

/// Counts the deadlocks of the database since the server's statistics began.
pub(crate) async fn deadlocks(raw: &mut RawConnection, database: Database) -> i64 {
    match database {
        Database::Memory | Database::Sqlite => 0,
        Database::Postgres => {
            raw.number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").await
        }
    }
}

/// Returns what PostgreSQL's own check of tables and indexes finds, if the server has it. The
/// [server of a campaign](crate::campaign::Cluster) has it.
async fn corruption(raw: &mut RawConnection) -> Vec<String> {
    if raw.number("SELECT count(*) FROM pg_extension WHERE extname = 'amcheck'").await == 0 {
        return Vec::new();
    }
    let tables = "SELECT c.relname || ': ' || v.msg AS line FROM pg_class AS c, public.verify_heapam(c.oid) AS v
        WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace";
    let mut found = raw.lines(tables, "line").await;
    let indexes =
        "SELECT c.oid::text AS line FROM pg_class AS c JOIN pg_am AS a ON a.oid = c.relam AND a.amname = 'btree'
        WHERE c.relkind = 'i' AND c.relnamespace = current_schema()::regnamespace";
    for index in raw.lines(indexes, "line").await {
        found.extend(raw.refused(format!("SELECT public.bt_index_check({index}, true)")).await);
    }
    found
}
