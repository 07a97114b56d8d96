//! Faults of the database itself.

use std::time::Duration;

use workflow_sdk::Timestamp;
use workflow_sdk::operate::{DatabaseView, MoveView, PostgresView, SleepingGate, SqliteView, SystemView, TableView};

use crate::clock::span;

use super::{Finding, Level};

/// The difference between two clocks that is a fault, in milliseconds.
const LARGE_DIFFERENCE: i64 = 1_000;

/// The size of a WAL that a checkpoint should have emptied: SQLite begins anew at a few MiB.
const LARGE_WAL: u64 = 1 << 30;

/// The room on a file system below which a database may soon find none.
const LITTLE_ROOM: u64 = 256 << 20;

/// How far a standby may be behind its primary before that is a fault, in milliseconds.
const LARGE_LAG: u64 = 60_000;

/// How long a transaction may be open before that is a fault, in milliseconds.
const LONG_TRANSACTION: i64 = 600_000;

/// The dead rows of a table below which nothing is slow, whatever their share is.
const MANY_DEAD_ROWS: u64 = 100_000;

/// The tables that a finding about missing rights names.
const NAMED_TABLES: usize = 3;

/// Adds one line with the kind, version and size of the database, then a line per fault.
pub(super) fn examine(system: &SystemView, now: Timestamp, findings: &mut Vec<Finding>) {
    let SystemView { release, database, .. } = system;
    let bytes = database.bytes.map(|bytes| format!(", {}", size(bytes))).unwrap_or_default();
    let DatabaseView { kind, version, schema_level, known_level, .. } = database;
    findings.push(Finding::ok(format!("{kind} {version}, schema level {schema_level}{bytes}")));
    if schema_level > known_level {
        findings.push(Finding::warn(
            format!("the schema has level {schema_level}, and release {release} knows levels up to {known_level}"),
            "deploy a release that knows the level: this one is refused when it connects again",
        ));
    }
    if schema_level < known_level {
        findings.push(Finding::bad(
            format!("the schema has level {schema_level}, and release {release} needs level {known_level}"),
            "workflow migrate",
        ));
    }
    if let Some(view) = &database.moved {
        moved(view, now, findings);
    }
    clock(database, findings);
    for part in &database.refused {
        let fact = format!("the database does not show {part} to this role");
        findings.push(Finding::warn(fact, "look as a role that may read this, for example as the owner of the tables"));
    }
    if let Some(view) = &database.sqlite {
        sqlite(view, findings);
    }
    if let Some(view) = &database.postgres {
        postgres(view, findings);
    }
    for SleepingGate { queue, gate, due_since } in &database.sleeping_gates {
        let late = span(now.since(*due_since));
        findings.push(Finding::bad(
            format!("no claim looks at gate {gate} of queue {queue}, although a run behind it has been due for {late}"),
            format!(
                "set the limits of the queue again, which wakes its gates: workflow queues limit {queue}, with all limits \
                 that workflow queues list shows"
            ),
        ));
    }
}

fn moved(view: &MoveView, now: Timestamp, findings: &mut Vec<Finding>) {
    let fact = view.sentence(|time| format!("{} ago", span(now.since(time))));
    let fix = match (view.arrives, view.ended_at) {
        (true, _) => {
            "give the same workflow move again, which goes on where it stopped; after --undo this copy is useless"
        }
        (false, None) => "give the same workflow move again, or open this database: workflow move --from URL --undo",
        (false, Some(_)) => {
            "use the other database; if nothing uses it, workflow move --from URL --undo --yes opens this one again"
        }
    };
    findings.push(Finding::bad(format!("{fact}: nothing can be changed here"), fix));
}

fn clock(DatabaseView { clock_ahead_millis, .. }: &DatabaseView, findings: &mut Vec<Finding>) {
    let Some(ahead) = clock_ahead_millis.filter(|ahead| ahead.abs() >= LARGE_DIFFERENCE) else { return };
    let difference = span(Duration::from_millis(ahead.unsigned_abs()));
    let place = if ahead > 0 { "ahead of" } else { "behind" };
    findings.push(Finding::warn(
        format!("the clock of the database is {difference} {place} that of the program that asked it"),
        "let NTP set the clocks of both hosts; the database's clock decides when runs are due",
    ));
}

fn sqlite(view: &SqliteView, findings: &mut Vec<Finding>) {
    let SqliteView { journal_mode, synchronous, wal_bytes, free_bytes } = view;
    if !matches!(journal_mode.as_str(), "wal" | "memory") {
        findings.push(Finding::bad(
            format!("the journal mode is {journal_mode}: readers and the writer wait for each other"),
            "connect again: each program that connects sets WAL",
        ));
    }
    if let Some(level) = synchronous.as_deref().filter(|level| !matches!(*level, "full" | "extra")) {
        findings.push(Finding::bad(
            format!("synchronous is {level}: a power failure can take back what was acknowledged"),
            "set synchronous to FULL on the connection that writes",
        ));
    }
    if let Some(bytes) = wal_bytes.filter(|bytes| *bytes >= LARGE_WAL) {
        findings.push(Finding::warn(
            format!("the WAL has {}: a read that does not end keeps SQLite from emptying it", size(bytes)),
            "end the program that reads for so long; a later commit then begins the WAL anew",
        ));
    }
    if let Some(bytes) = free_bytes.filter(|bytes| *bytes < LITTLE_ROOM) {
        findings.push(Finding::bad(
            format!("{} are free on the file system of the database", size(bytes)),
            "make room: without it every commit fails",
        ));
    }
}

fn postgres(view: &PostgresView, findings: &mut Vec<Finding>) {
    let PostgresView { role, fsync, full_page_writes, oldest_transaction, hidden_sessions, tables, .. } = view;
    if let Some(standby) = &view.standby {
        let sentence = standby.sentence(span);
        findings.push(match standby.lag_millis {
            Some(lag) if lag < LARGE_LAG => Finding::ok(sentence),
            _ => {
                Finding::warn(sentence, "see pg_stat_replication on the primary, unless that has changed nothing since")
            }
        });
    }
    let off: Vec<&str> = [(*fsync, "fsync"), (*full_page_writes, "full_page_writes")]
        .iter()
        .filter(|(on, _)| !on)
        .map(|(_, name)| *name)
        .collect();
    if !off.is_empty() {
        findings.push(Finding::warn(
            format!("the server runs without {}: a crash of its machine can lose or damage data", off.join(" and ")),
            "switch them on in postgresql.conf",
        ));
    }
    if !view.missing_rights.is_empty() {
        let named: Vec<String> = view
            .missing_rights
            .iter()
            .take(NAMED_TABLES)
            .map(|lacks| format!("{} on {}", lacks.rights, lacks.table))
            .collect();
        let more = match view.missing_rights.len().saturating_sub(NAMED_TABLES) {
            0 => String::new(),
            more => format!("; and rights on {more} more tables"),
        };
        findings.push(Finding::warn(
            format!("role {role} could not run a worker: it lacks {}{more}", named.join("; ")),
            "grant it what docs/guide/security.md lists, unless it is only to read",
        ));
    }
    if let Some(open) = oldest_transaction.as_ref().filter(|open| open.age_millis >= LONG_TRANSACTION) {
        let age = span(Duration::from_millis(open.age_millis.unsigned_abs()));
        let application = if open.application.is_empty() { "a session" } else { open.application.as_str() };
        findings.push(Finding::warn(
            format!("a transaction of {application} has been open for {age}: no vacuum removes rows that it may see"),
            format!("end it in its program, or SELECT pg_terminate_backend({})", open.pid),
        ));
    }
    if *hidden_sessions > 0 {
        let fact = format!("the transactions of {hidden_sessions} sessions are hidden from role {role}");
        findings.push(Finding { level: Level::Ok, fact, fix: Some(format!("GRANT pg_read_all_stats TO {role}")) });
    }
    let is_bloated = |table: &&TableView| table.dead_rows >= MANY_DEAD_ROWS && table.dead_rows > table.live_rows;
    for TableView { name, live_rows, dead_rows, .. } in tables.iter().filter(is_bloated) {
        findings.push(Finding::warn(
            format!("table {name} has about {dead_rows} dead rows and {live_rows} live ones: no vacuum keeps up"),
            format!("end old transactions, see that autovacuum is on, then VACUUM {name}"),
        ));
    }
}

/// Returns a number of bytes in the largest unit in which it is 1 or more.
pub(super) fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >> shift > 0) {
        Some((shift, unit)) => {
            let tenths = (bytes >> (shift - 10)).saturating_mul(10) >> 10;
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;

    /// Returns the findings of one level about a database with these further facts.
    fn found(level: Level, facts: &str) -> Vec<(String, String)> {
        let healthy = r#""kind":"PostgreSQL","version":"17.2","known_level":3,"bytes":3145728"#;
        let level_of_schema = if facts.contains("schema_level") { "" } else { r#","schema_level":3"# };
        let text = format!(r#"{{"release":"0.1.0","database":{{{healthy}{level_of_schema}{facts}}}}}"#);
        let system = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let mut findings = Vec::new();
        examine(&system, Timestamp::from_micros(1_000_000_000), &mut findings);
        let found = findings.into_iter().filter(|finding| finding.level == level);
        found.map(|finding| (finding.fact, finding.fix.unwrap_or_default())).collect()
    }

    /// Expects one finding of this level, with these words.
    fn finds(level: Level, facts: &str, fact: &str, fix: &str) {
        let found = found(level, facts);
        assert_eq!(found.len(), 1, "{facts}: {found:?}");
        assert!(found[0].0.contains(fact) && found[0].1.contains(fix), "{found:?}");
    }

    /// Returns the facts of a server with these, which are the fields of an object, in place of
    /// sound ones.
    fn on_postgres(facts: &str) -> String {
        let read = |text: &str| serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let mut view: Map<String, Value> =
            read(r#"{"role":"app","fsync":true,"full_page_writes":true,"hidden_sessions":0}"#);
        view.extend(read(&format!("{{{facts}}}")));
        format!(r#","postgres":{}"#, Value::Object(view))
    }

    fn on_sqlite(journal_mode: &str, synchronous: &str, rest: &str) -> String {
        format!(r#","sqlite":{{"journal_mode":"{journal_mode}","synchronous":"{synchronous}"{rest}}}"#)
    }

    #[test]
    fn a_sound_database_has_one_line() {
        for facts in [String::new(), on_postgres(""), on_sqlite("wal", "full", r#","wal_bytes":4194304"#)] {
            assert_eq!(found(Level::Ok, &facts)[0].0, "PostgreSQL 17.2, schema level 3, 3.0 MiB");
            assert_eq!((found(Level::Warn, &facts), found(Level::Bad, &facts)), (Vec::new(), Vec::new()), "{facts}");
        }
    }

    #[test]
    fn a_schema_of_another_release_is_found() {
        finds(Level::Warn, r#","schema_level":4"#, "level 4, and release 0.1.0 knows levels up to 3", "deploy");
        finds(Level::Bad, r#","schema_level":2"#, "level 2, and release 0.1.0 needs level 3", "workflow migrate");
    }

    #[test]
    fn a_clock_that_differs_by_a_second_is_found() {
        assert_eq!(found(Level::Warn, r#","clock_ahead_millis":-999"#), []);
        finds(Level::Warn, r#","clock_ahead_millis":-1000"#, "is 1.0 s behind that of the program", "NTP");
        finds(Level::Warn, r#","clock_ahead_millis":90000"#, "is 1 min 30 s ahead of that", "NTP");
    }

    #[test]
    fn a_read_that_the_role_may_not_make_is_said() {
        finds(Level::Warn, r#","refused":["the gates"]"#, "does not show the gates to this role", "a role that may");
        let hidden = on_postgres(r#""hidden_sessions":4"#);
        let ok = found(Level::Ok, &hidden);
        assert_eq!(ok[1].0, "the transactions of 4 sessions are hidden from role app");
        assert_eq!(ok[1].1, "GRANT pg_read_all_stats TO app");
    }

    #[test]
    fn a_gate_asleep_with_a_due_run_is_found() {
        let facts = r#","sleeping_gates":[{"queue":"mail","gate":"acct-42","due_since":880000000}]"#;
        finds(Level::Bad, facts, "gate acct-42 of queue mail, although a run behind it has been due for 2 min", "mail");
    }

    #[test]
    fn unsafe_settings_of_sqlite_are_found() {
        finds(Level::Bad, &on_sqlite("delete", "full", ""), "the journal mode is delete", "connect again");
        for level in ["off", "normal"] {
            finds(Level::Bad, &on_sqlite("wal", level, ""), &format!("synchronous is {level}"), "FULL");
        }
        assert_eq!(found(Level::Bad, &on_sqlite("memory", "extra", "")), []);
    }

    #[test]
    fn a_large_wal_and_a_full_disk_are_found() {
        let wal = on_sqlite("wal", "full", r#","wal_bytes":1073741824"#);
        finds(Level::Warn, &wal, "the WAL has 1.0 GiB", "end the program that reads");
        let disk = on_sqlite("wal", "full", r#","free_bytes":104857600"#);
        finds(Level::Bad, &disk, "100.0 MiB are free", "make room");
    }

    #[test]
    fn unsafe_settings_of_a_server_are_found() {
        let off = on_postgres(r#""fsync":false,"full_page_writes":true"#);
        finds(Level::Warn, &off, "the server runs without fsync:", "postgresql.conf");
        let off = on_postgres(r#""fsync":false,"full_page_writes":false"#);
        finds(Level::Warn, &off, "without fsync and full_page_writes", "postgresql.conf");
    }

    #[test]
    fn missing_rights_are_named() {
        let lacks = |table| format!(r#"{{"table":"{table}","rights":"DELETE, INSERT"}}"#);
        let rights = ["a", "b", "c", "d", "e"].map(lacks).join(",");
        let facts = on_postgres(&format!(r#""missing_rights":[{rights}]"#));
        let words = "role app could not run a worker: it lacks DELETE, INSERT on a; DELETE, INSERT on b";
        finds(Level::Warn, &facts, words, "security.md");
        finds(Level::Warn, &facts, "; and rights on 2 more tables", "unless it is only to read");
    }

    #[test]
    fn an_old_transaction_is_found() {
        let open = |millis: i64, application: &str| {
            let open = format!(r#"{{"pid":77,"application":"{application}","age_millis":{millis}}}"#);
            on_postgres(&format!(r#""oldest_transaction":{open}"#))
        };
        assert_eq!(found(Level::Warn, &open(599_999, "psql")), []);
        finds(Level::Warn, &open(600_000, "psql"), "a transaction of psql has been open for 10 min", "backend(77)");
        finds(Level::Warn, &open(7_200_000, ""), "a transaction of a session has been open for 2 h", "end it");
    }

    #[test]
    fn a_table_of_dead_rows_is_found() {
        let table = |live: u64, dead: u64| {
            let table = format!(r#"{{"name":"workflow_runs","bytes":9,"live_rows":{live},"dead_rows":{dead}}}"#);
            on_postgres(&format!(r#""tables":[{table}]"#))
        };
        assert_eq!(found(Level::Warn, &table(10, 99_999)), []);
        assert_eq!(found(Level::Warn, &table(200_000, 200_000)), []);
        let words = "table workflow_runs has about 200000 dead rows and 10 live ones";
        finds(Level::Warn, &table(10, 200_000), words, "VACUUM workflow_runs");
    }

    #[test]
    fn sizes_have_one_unit() {
        let sizes = [0, 1_023, 1_024, 1_536, 10_485_760, 3_221_225_472].map(size);
        assert_eq!(sizes, ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 KiB", "10.0 MiB", "3.0 GiB"]);
    }
}
