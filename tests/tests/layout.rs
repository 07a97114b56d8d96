//! The house: who may use whom, one writer, numbered migrations, and documents that name tests which exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found
}

/// Source files that are shipped, with their paths below `src` and their texts without test modules.
fn shipped(package: &str) -> Vec<(String, String)> {
    let src = root().join(package).join("src");
    files(&src, "rs")
        .into_iter()
        .filter(|path| !is_test(path))
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            (path.strip_prefix(&src).unwrap().to_string_lossy().into_owned(), text)
        })
        .collect()
}

fn is_test(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    name == "tests" || name.ends_with("_tests")
}

/// The first part of each path that a file uses under `crate::`.
fn modules_used(text: &str) -> BTreeSet<String> {
    text.match_indices("crate::")
        .map(|(at, found)| {
            let rest = &text[at + found.len()..];
            rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>()
        })
        .filter(|module| module.starts_with(|c: char| c.is_lowercase()))
        .collect()
}

#[test]
fn modules_use_only_what_lies_below_them() {
    let rules: [(&str, &[&str]); 5] = [
        ("model/", &[]),
        ("replay/", &["model", "planted"]),
        ("store/", &["store", "model", "failpoint", "planted"]),
        ("ctx/", &["ctx", "model", "replay", "error", "payload", "planted", "transaction", "workflow"]),
        ("executor/", &["executor", "store", "model", "failpoint", "planted"]),
    ];
    let sources = shipped("workflow-sdk");
    for (folder, allowed) in rules {
        for (path, text) in sources.iter().filter(|(path, _)| path.starts_with(folder)) {
            for module in modules_used(text) {
                assert!(
                    allowed.contains(&module.as_str()),
                    "{path} uses crate::{module}; {folder} may use {allowed:?}"
                );
            }
        }
    }
}

#[test]
fn the_core_is_pure_and_databases_do_not_know_each_other() {
    let sources = shipped("workflow-sdk");
    let refuse = |folder: &str, words: &[&str]| {
        for (path, text) in sources.iter().filter(|(path, _)| path.starts_with(folder)) {
            for word in words {
                assert!(!text.contains(word), "{path} mentions {word}");
            }
        }
    };
    // What handles an author's values does not log either.
    refuse("model/", &["tokio", "sqlx", "async ", "tracing"]);
    refuse("replay/", &["tokio", "sqlx", "async ", "Instant", "SystemTime", "fastrand", "std::thread", "tracing"]);
    refuse("ctx/", &["sqlx", "use tokio", "Instant", "tracing"]);
    refuse("client/", &["store::sqlite::sql", "sqlx::query"]);
    refuse("store/sqlite/", &["postgres", "Postgres"]);
    refuse("store/postgres/", &["sqlite", "Sqlite"]);
    for (path, text) in shipped("workflow-worker") {
        assert!(!text.contains("sqlx"), "workflow-worker/{path} mentions sqlx");
    }
}

#[test]
fn only_the_executor_commits() {
    for package in ["workflow-sdk", "workflow-worker"] {
        for (path, text) in shipped(package) {
            let door = path.starts_with("executor/") || path.starts_with("store/");
            assert!(door || !text.contains("store.commit("), "{package}/{path} commits beside the executor");
        }
    }
}

/// The one exception: a body's transaction commits itself, for its statements cannot be queued. It is opened by the drive's
/// port and committed by one file, with the claim's fence.
#[test]
fn only_a_step_transaction_commits_beside_the_executor() {
    for package in ["workflow-sdk", "workflow-worker"] {
        for (path, text) in shipped(package) {
            let path = format!("{package}/{path}");
            let text: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
            let below = path.starts_with("workflow-sdk/store/");
            let opens = path == "workflow-worker/port.rs";
            assert!(below || opens || !text.contains("store().begin("), "{path} opens transactions");
            let commits = path == "workflow-worker/transaction.rs";
            assert!(below || commits || !text.contains("transaction.commit("), "{path} commits transactions");
        }
    }
    let port = shipped("workflow-worker").into_iter().find(|(path, _)| path == "port.rs").unwrap().1;
    assert!(port.contains("store().begin("), "the rule looks for what is not there any more");
}

/// Names in the form of a failpoint's, in files that have any.
fn failpoints_in(text: &str) -> BTreeSet<String> {
    let is_name = |word: &str| word.bytes().all(|c| c.is_ascii_lowercase() || matches!(c, b'_' | b'.'));
    let literals = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split('"').skip(1).step_by(2));
    let names = literals.filter(|word| is_name(word) && word.split('.').filter(|part| part.len() > 2).count() == 2);
    if text.contains("failpoint") { names.map(str::to_owned).collect() } else { BTreeSet::new() }
}

#[test]
fn every_failpoint_is_in_the_table_and_in_the_code() {
    let mut in_code = BTreeSet::new();
    for package in ["workflow-sdk", "workflow-worker"] {
        for (path, text) in shipped(package).into_iter().filter(|(path, _)| !path.starts_with("failpoint")) {
            in_code.extend(failpoints_in(&text));
            let calls = text.matches("failpoint(").count() + text.matches("failpoint_error(").count();
            let named = text.matches("failpoint(\"").count() + text.matches("failpoint_error(\"").count();
            assert!(calls == named || path == "conclude.rs", "{package}/{path} names a failpoint elsewhere");
        }
    }
    let in_table: BTreeSet<String> =
        workflow_engine::faults::POINTS.iter().map(|point| point.name.to_owned()).collect();
    assert_eq!(in_table.len(), workflow_engine::faults::POINTS.len(), "a name twice");
    assert_eq!(in_code, in_table, "left: in the code; right: in failpoint/points.rs");
}

/// The driver takes a statement that is no constant only by `AssertSqlSafe`. Each place stands here with what it puts in: nothing that
/// comes from outside but the schema's name, which `connect` has checked.
#[test]
fn statements_are_constants() {
    let exceptions = [
        ("store/postgres/sql.rs", 1, "the checked schema, the time and a number of ours"),
        ("store/postgres/migrate.rs", 1, "the checked schema"),
        ("store/sqlite/rows.rs", 1, "a constant, its row of parameters repeated"),
    ];
    for package in ["workflow-sdk", "workflow-worker"] {
        for (path, text) in shipped(package) {
            let uses = text.matches("AssertSqlSafe(").count();
            let allowed = exceptions.iter().find(|(file, _, _)| *file == path).map_or(0, |(_, count, _)| *count);
            assert_eq!(uses, allowed, "{package}/{path} makes statements: bind what comes from outside");
            // A constant is one whichever way it is handed over.
            let made = text.replace("SqlStr::from_static(", "").contains("SqlStr::from");
            assert!(!made, "{package}/{path} makes statements");
        }
    }
    let schema = shipped("workflow-sdk").into_iter().find(|(path, _)| path == "store/connect.rs").unwrap().1;
    assert!(schema.contains("check_schema(&options.schema)?"), "the schema is checked before it is used");
    for database in ["sqlite", "postgres"] {
        let sql = root().join("workflow-sdk/src/store").join(database).join("sql");
        for path in files(&sql, "sql") {
            let text = fs::read_to_string(&path).unwrap();
            let holes: BTreeSet<&str> = text.split('{').skip(1).filter_map(|rest| rest.split('}').next()).collect();
            for hole in holes {
                let known = ["schema", "now", "far_future"].contains(&hole);
                assert!(database == "postgres" && known, "{} has a hole {{{hole}}}", path.display());
            }
        }
    }
}

#[test]
fn statements_say_who_calls_them_and_what_they_guarantee() {
    for database in ["sqlite", "postgres"] {
        for path in files(&root().join("workflow-sdk/src/store").join(database).join("sql"), "sql") {
            let text = fs::read_to_string(&path).unwrap();
            let comment: Vec<&str> = text.lines().take_while(|line| line.starts_with("--")).collect();
            let says = |what: &str| comment.iter().any(|line| line.contains(what));
            assert!(says("Called by: ") && says("Guarantees: "), "{} does not", path.display());
        }
    }
}

/// Each place at which a payload passes to a database or from one is that of the codec: nobody below it knows of clients, and nobody
/// above it has a store without it.
#[test]
fn payloads_have_one_door() {
    for (path, text) in shipped("workflow-sdk") {
        let opens = text.contains("SqliteStore::open(") || text.contains("PostgresStore::open(");
        assert!(!opens || path == "store/connect.rs", "{path} opens a database");
        let connects = text.contains("connect(&url, self.options");
        assert!(!connects || path == "client/connect.rs", "{path} connects beside the client");
        // The application's transactions, which go past the decorator.
        for word in ["transaction.start(", "transaction.signal("] {
            let coded = text.contains("coding().encode_start(") || text.contains("coding().encode_signal(");
            assert!(!text.contains(word) || coded, "{path} writes payloads that no codec has seen");
        }
    }
    let client = shipped("workflow-sdk").into_iter().find(|(path, _)| path == "client/mod.rs").unwrap().1;
    assert!(client.contains("CodedStore::new(store, coding.clone())"), "a client's store is coded");
}

#[test]
fn every_planted_bug_is_in_the_table_and_in_the_code() {
    let mut in_code = BTreeSet::new();
    for package in ["workflow-sdk", "workflow-worker"] {
        for (_, text) in shipped(package).iter().filter(|(path, _)| !path.starts_with("planted")) {
            for call in ["planted(\"", "altered(\""] {
                let names = text.split(call).skip(1).filter_map(|rest| rest.split('"').next());
                in_code.extend(names.map(str::to_owned));
            }
        }
    }
    let bugs = workflow_engine::faults::BUGS;
    let in_table: BTreeSet<String> = bugs.iter().map(|bug| bug.name.to_owned()).collect();
    assert_eq!(in_table.len(), bugs.len(), "a name twice");
    assert_eq!(in_code, in_table, "left: in the code; right: in planted/bugs.rs");
}

#[test]
fn shipped_files_are_small() {
    for package in ["workflow-sdk", "workflow-macros", "workflow-worker"] {
        for (path, text) in shipped(package) {
            let lines = text.lines().count();
            assert!(lines <= 450, "{package}/{path} has {lines} lines: split it by reason to change");
        }
    }
}

#[test]
fn migrations_have_the_same_dense_numbers_on_both_databases() {
    let names = |database: &str| {
        let mut names: Vec<_> = files(&root().join("workflow-sdk/migrations").join(database), "sql")
            .into_iter()
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("sqlite"), names("postgres"));
    for (index, name) in names("sqlite").iter().enumerate() {
        assert!(name.starts_with(&format!("{:04}_", index + 1)), "{name} leaves a gap");
    }
}

#[test]
fn invariants_name_tests_that_exist() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let section = architecture.split("## Invariants").nth(1).unwrap().split("\n## ").next().unwrap();
    let tests: String = ["tests/tests", "workflow-sdk", "workflow-worker/src"]
        .iter()
        .flat_map(|folder| files(&root().join(folder), "rs"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let named: Vec<_> = section.split('`').skip(1).step_by(2).filter(|word| !word.contains(['/', '.', ' '])).collect();
    assert!(named.len() >= 8, "each invariant names a test, found {named:?}");
    for name in named {
        assert!(tests.contains(&format!("fn {name}")), "ARCHITECTURE.md names the test {name}, which does not exist");
    }
}

#[test]
fn documents_stay_readable() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(architecture.lines().count() <= 250, "ARCHITECTURE.md is longer than 250 lines");
}

/// The targets of links between files of the repository.
fn local_links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .map(|target| target.split('#').next().unwrap_or_default())
        .filter(|t| !t.is_empty() && !t.contains("://"))
        .collect()
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut documents = files(&root().join("docs"), "md");
    documents.extend(
        ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "tests/README.md"]
            .map(|name| root().join(name)),
    );
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for target in local_links(&text) {
            assert!(document.with_file_name(target).exists(), "{} links to {target}", document.display());
        }
    }
}

#[test]
fn the_guide_lists_every_page() {
    let summary = fs::read_to_string(root().join("docs/guide/SUMMARY.md")).unwrap();
    let listed = local_links(&summary);
    for page in files(&root().join("docs/guide"), "md") {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name == "SUMMARY.md" || listed.contains(&name.as_str()), "docs/guide/SUMMARY.md does not list {name}");
    }
}
