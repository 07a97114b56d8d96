//! Statements are constants, one per file, each with a header; migrations are numbered.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

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
