//! Statements are constants, one per file, each with a header; migrations are numbered.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use regex::Regex;

use crate::sources::{all_shipped, files, root, shipped, shown};

const DRIVERS: [&str; 2] = ["workflow-sqlite", "workflow-postgres"];

fn statements(driver: &str) -> Vec<PathBuf> {
    files(&root().join(driver).join("src/sql"), "sql")
}

/// The driver takes a statement that is not a constant only by `AssertSqlSafe`. Each place stands
/// here with what it inserts: nothing from outside but the schema's name, which
/// `StoreOptions::check` has checked.
#[test]
fn statements_are_constants() {
    let exceptions = [
        ("workflow-postgres/sql.rs", 1, "the checked schema, the time and a number of ours"),
        ("workflow-postgres/migrate.rs", 1, "the checked schema"),
        ("workflow-flows/database.rs", 1, "the schema of a table, which the database has quoted"),
        ("workflow-sqlite/transfer_sql.rs", 1, "names of our own tables and columns"),
        ("workflow-sqlite/rows.rs", 1, "a constant, its row of parameters repeated"),
    ];
    for source in all_shipped() {
        let path = source.shown();
        let uses = source.text.matches("AssertSqlSafe(").count();
        let allowed = exceptions.iter().find(|(file, _, _)| *file == path).map_or(0, |(_, count, _)| *count);
        assert_eq!(uses, allowed, "{path} makes statements: bind what comes from outside");
        // A constant is one whichever way it is handed over.
        let made = source.text.replace("SqlStr::from_static(", "").contains("SqlStr::from");
        assert!(!made, "{path} makes statements");
    }
    let open = shipped("workflow-sdk").into_iter().find(|source| source.path == "client/open.rs").unwrap();
    assert!(open.text.contains("options.check()?"), "the schema is checked before it is used");
    for driver in DRIVERS {
        for path in statements(driver) {
            let text = fs::read_to_string(&path).unwrap();
            let holes: BTreeSet<&str> = text.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
            for hole in holes {
                let values = ["schema", "now", "far_future", "ranks", "rank_count", "head_starts", "scan_budget"];
                let lists = ["source", "order", "error_bytes", "refusal", "refusal_code"];
                let parts =
                    ["after", "none_lost", "returning", "lapsed", "or_lapsed", "turn", "gate", "at_most", "within"];
                let known = values.contains(&hole) || parts.contains(&hole) || lists.contains(&hole);
                assert!(driver == "workflow-postgres" && known, "{} has a hole {{{hole}}}", shown(&path));
            }
        }
    }
}

#[test]
fn statements_name_their_callers_and_their_guarantees() {
    for path in DRIVERS.into_iter().flat_map(statements) {
        let text = fs::read_to_string(&path).unwrap();
        let comment: Vec<&str> = text.lines().take_while(|line| line.starts_with("--")).collect();
        let has = |label: &str| comment.iter().any(|line| line.contains(label));
        assert!(has("Called by: ") && has("Guarantees: "), "{} does not", shown(&path));
    }
}

#[test]
fn migrations_have_the_same_dense_numbers_on_both_databases() {
    let names = |driver: &str| {
        let paths = files(&root().join(driver).join("migrations"), "sql").into_iter();
        paths.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let [sqlite, postgres] = DRIVERS.map(names);
    assert_eq!(sqlite, postgres);
    for (name, number) in sqlite.iter().zip(1..) {
        assert!(name.starts_with(&format!("{number:04}_")), "{name} leaves a gap");
    }
}

/// A run holds a slot of its queue and gate while its status is `running` (D0053). So a statement
/// that changes the status changes the slots. The list says how, with a conformance case for each
/// statement that takes or frees slots.
const STATUS_CHANGES: [(&str, &str, Option<&str>); 14] = [
    ("insert_runs", "a new run holds no slot", None),
    ("start_runs", "a new run holds no slot", None),
    ("cancel_runs", "ends only runs that have not begun", None),
    ("cancel_children", "ends only runs that have not begun", None),
    ("revive_run", "a failed run holds no slot", None),
    ("claim_runs", "takes slots", Some("at_most_the_limit_of_runs_behind_a_gate_are_under_way")),
    ("end_runs", "frees slots", Some(FREES)),
    ("park_runs", "frees slots", Some(FREES)),
    ("release_claims", "frees slots", Some(FREES)),
    ("continue_runs", "frees slots", Some(FREES)),
    ("retry_runs", "frees slots", Some(FREES)),
    ("terminate_runs", "frees slots", Some(FREES)),
    ("release_unknown_claims", "frees slots", Some(FREES)),
    ("expire_runs", "frees slots", Some("a_run_that_expires_behind_a_full_gate_frees_its_slot")),
];

const FREES: &str = "a_full_gate_is_looked_at_once_a_run_behind_it_holds_no_slot";

/// Returns a statement without its comments.
fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n")
}

#[test]
fn statements_that_change_the_status_of_runs_treat_their_slots() {
    let cases = fs::read_to_string(root().join("tests/tests/conformance/gate.rs")).unwrap();
    for (name, _, case) in STATUS_CHANGES {
        let case = case.map(|case| format!("pub async fn {case}("));
        assert!(case.is_none_or(|case| cases.contains(&case)), "the case of {name} does not exist");
    }
    let updates = Regex::new(r"UPDATE (OR \w+ )?(\{schema\}\.)?workflow_runs\b").unwrap();
    let inserts = Regex::new(r"INSERT (OR \w+ )?INTO (\{schema\}\.)?workflow_runs\b").unwrap();
    let status = Regex::new(r"(SET|,)\s+status = ").unwrap();
    let mut found = BTreeSet::new();
    for path in DRIVERS.into_iter().flat_map(statements) {
        let text = without_comments(&fs::read_to_string(&path).unwrap());
        // A replaced row would be deleted, without a trigger on SQLite.
        assert!(!text.contains("REPLACE INTO"), "{} replaces rows", shown(&path));
        if inserts.is_match(&text) || updates.is_match(&text) && status.is_match(&text) {
            found.insert(path.file_stem().unwrap().to_string_lossy().into_owned());
        }
    }
    let listed: BTreeSet<String> = STATUS_CHANGES.iter().map(|(name, ..)| (*name).to_owned()).collect();
    assert_eq!(found, listed, "left: changes the status of runs; right: says what it does to their slots");
}

/// The triggers tell the gates what has become of their runs, whichever statement has changed them.
#[test]
fn triggers_tell_gates_of_every_change_of_their_runs() {
    for source in all_shipped() {
        let text = source.text.to_uppercase();
        let disables = ["DISABLE TRIGGER", "SESSION_REPLICATION_ROLE", "WRITABLE_SCHEMA"];
        assert!(disables.iter().all(|word| !text.contains(word)), "{} disables triggers", source.shown());
    }
    let waits = "NEW.lane_id < 0 AND NEW.status IN ('pending', 'parked') AND NEW.paused_at IS NULL";
    let frees = "NEW.lane_id < 0 AND OLD.status = 'running' AND NEW.status <> 'running'";
    let releases = "NEW.lane_id < 0 AND OLD.status = 'running' AND NEW.status = 'running' \
                    AND (NEW.available_at < OLD.available_at OR (OLD.paused_at IS NOT NULL AND NEW.paused_at IS NULL))";
    let triggers = [
        ("workflow_runs_wait", "AFTER INSERT", waits),
        ("workflow_runs_wait_again", "AFTER UPDATE OF status, available_at, paused_at", waits),
        ("workflow_runs_free", "AFTER UPDATE OF status", frees),
        ("workflow_runs_release", "AFTER UPDATE OF available_at, paused_at", releases),
    ];
    for driver in DRIVERS {
        let mut schema = String::new();
        for path in files(&root().join(driver).join("migrations"), "sql") {
            schema += &without_comments(&fs::read_to_string(path).unwrap());
        }
        let schema = schema.split_whitespace().collect::<Vec<_>>().join(" ").replace("{schema}.", "");
        for (name, event, condition) in triggers {
            let (before, after) = match driver {
                "workflow-sqlite" => ("WHEN ", " BEGIN"),
                _ => ("FOR EACH ROW WHEN (", ") EXECUTE"),
            };
            let trigger = format!("CREATE TRIGGER {name} {event} ON workflow_runs {before}{condition}{after}");
            assert!(schema.contains(&trigger), "{driver} has not: {trigger}");
        }
    }
}
