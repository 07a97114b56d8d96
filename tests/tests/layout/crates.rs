//! Which crate and which module may use which. Cargo forbids an import of a crate that is not
//! listed; these tests keep the list.

use std::collections::BTreeSet;
use std::fs;

use crate::sources::{SHIPPED, all_shipped, root, shipped};

/// For each crate, the crates of the workspace below it. Arrows point downwards only.
const BELOW: [(&str, &[&str]); 14] = [
    ("workflow-engine", &[]),
    ("workflow-macros", &[]),
    ("workflow-sqlite", &["workflow-engine"]),
    ("workflow-postgres", &["workflow-engine"]),
    ("workflow-sdk", &["workflow-engine", "workflow-macros", "workflow-postgres", "workflow-sqlite"]),
    ("workflow-worker", &["workflow-engine", "workflow-sdk"]),
    ("workflow-testing", &["workflow-engine", "workflow-sdk", "workflow-worker"]),
    ("workflow-flows", &["workflow-sdk"]),
    ("workflow-http", &["workflow-flows", "workflow-sdk"]),
    ("workflow-remote", &["workflow-sdk"]),
    ("workflow-tools", &["workflow-flows"]),
    ("workflow-dashboard", &["workflow-flows", "workflow-http", "workflow-sdk"]),
    ("workflow-mcp", &["workflow-flows", "workflow-http", "workflow-sdk"]),
    (
        "workflow-cli",
        &[
            "workflow-dashboard",
            "workflow-flows",
            "workflow-http",
            "workflow-mcp",
            "workflow-remote",
            "workflow-sdk",
            "workflow-testing",
            "workflow-tools",
            "workflow-worker",
        ],
    ),
];

/// The crates of the workspace that a manifest depends on outside of tests.
fn dependencies(manifest: &str) -> BTreeSet<&str> {
    let section = manifest.split("[dependencies]").nth(1).unwrap_or_default().split("\n[").next().unwrap_or_default();
    let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
    names.filter(|name| name.starts_with("workflow-")).collect()
}

#[test]
fn crates_depend_only_on_crates_below_them() {
    let mut above: BTreeSet<&str> = SHIPPED.into_iter().collect();
    for (package, below) in BELOW {
        let manifest = fs::read_to_string(root().join(package).join("Cargo.toml")).unwrap();
        let allowed: BTreeSet<&str> = below.iter().copied().collect();
        assert_eq!(dependencies(&manifest), allowed, "{package}: left: its manifest; right: this test");
        above.remove(package);
        assert!(below.iter().all(|crate_below| !above.contains(crate_below)), "{package} depends on a crate above it");
    }
    assert!(above.is_empty(), "crates without a place: {above:?}");
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
fn modules_of_the_engine_use_only_modules_below_them() {
    let rules: [(&str, &[&str]); 8] = [
        ("faults/", &["faults"]),
        ("model/", &["model"]),
        ("schedule/", &["schedule", "model"]),
        ("replay/", &["replay", "model", "faults"]),
        ("store/", &["store", "model", "faults"]),
        ("observe/", &["observe", "store", "model"]),
        ("runtime/", &["runtime", "replay", "schedule", "observe", "store", "model", "faults"]),
        ("executor/", &["executor", "observe", "store", "model", "faults"]),
    ];
    for source in shipped("workflow-engine").iter().filter(|source| source.path != "lib.rs") {
        let rule = rules.iter().find(|(folder, _)| source.path.starts_with(folder));
        let (folder, allowed) = rule.unwrap_or_else(|| panic!("{} has no rule", source.shown()));
        for module in modules_used(&source.text) {
            let is_allowed = allowed.contains(&module.as_str());
            assert!(is_allowed, "{} uses crate::{module}; {folder} may use {allowed:?}", source.shown());
        }
    }
}

/// A rule: no file below this path has one of these words.
struct Refused {
    package: &'static str,
    folder: &'static str,
    words: &'static [&'static str],
}

const REFUSED: [Refused; 18] = [
    // Values of authors pass through these modules, so they write no log either.
    Refused { package: "workflow-engine", folder: "model/", words: &["tokio", "async ", "tracing"] },
    Refused {
        package: "workflow-engine",
        folder: "replay/",
        words: &["tokio", "async ", "Instant", "SystemTime", "fastrand", "std::thread", "tracing"],
    },
    Refused { package: "workflow-engine", folder: "schedule/", words: &["tokio", "async ", "SystemTime", "tracing"] },
    Refused { package: "workflow-sdk", folder: "", words: &["jiff", "croner"] },
    Refused { package: "workflow-engine", folder: "runtime/", words: &["use tokio", "Instant", "tracing"] },
    Refused { package: "workflow-engine", folder: "", words: &["sqlx::", "SqliteStore", "PostgresStore"] },
    Refused { package: "workflow-sdk", folder: "ctx/", words: &["use tokio", "Instant", "tracing"] },
    Refused { package: "workflow-sdk", folder: "", words: &["sqlx::query(", "SqlitePool", "PgPool"] },
    Refused { package: "workflow-worker", folder: "", words: &["sqlx"] },
    Refused { package: "workflow-dashboard", folder: "", words: &["sqlx", "store()", "Client"] },
    // A page that has a style or a script of its own would need a weaker policy.
    Refused { package: "workflow-dashboard", folder: "", words: &["style=", "onclick", "onsubmit"] },
    // Flows have no network; one file knows the library of MCP.
    Refused { package: "workflow-flows", folder: "", words: &["reqwest", "std::net", "tokio::net"] },
    Refused { package: "workflow-tools", folder: "mcp/pool", words: &["rmcp"] },
    // An agent does what any operator may; its calls know neither the protocol nor the database.
    Refused { package: "workflow-mcp", folder: "", words: &["sqlx", "Client", "store()."] },
    // The command line does what any program could do with the interface for operators.
    Refused { package: "workflow-http", folder: "", words: &["sqlx", "Client", "store()"] },
    Refused { package: "workflow-cli", folder: "verbs/", words: &["sqlx", "Client", "store()"] },
    Refused { package: "workflow-sqlite", folder: "", words: &["Postgres", "postgres"] },
    Refused { package: "workflow-postgres", folder: "", words: &["Sqlite", "sqlite"] },
];

#[test]
fn the_core_is_pure_and_databases_do_not_know_each_other() {
    for Refused { package, folder, words } in REFUSED {
        for source in shipped(package).iter().filter(|source| source.path.starts_with(folder)) {
            for word in words {
                assert!(!source.code().contains(word), "{} mentions {word}", source.shown());
            }
        }
    }
}

/// A store is used through its contract alone. Only the drivers, and the transaction handle of a
/// step's body, downcast a connection.
#[test]
fn no_crate_looks_behind_the_contract_of_a_store() {
    for source in all_shipped() {
        let text = source.code();
        assert!(!text.contains("as_any"), "{} looks behind a contract", source.shown());
        let in_driver = ["workflow-sqlite", "workflow-postgres"].contains(&source.package);
        let in_memory = source.shown().starts_with("workflow-testing/memory/");
        let is_tx = source.shown() == "workflow-sdk/transaction.rs";
        let casts = text.contains("connection.downcast") || text.contains("connection().downcast");
        assert!(in_driver || in_memory || is_tx || !casts, "{} casts a connection", source.shown());
    }
}

#[test]
fn shipped_files_are_small() {
    for source in all_shipped() {
        let lines = source.text.lines().count();
        assert!(lines <= 450, "{} has {lines} lines: split it by reason to change", source.shown());
    }
}

/// The crates of others that an application builds with `workflow-sdk`, its default features and
/// the system of this test, one a line.
const DEPENDENCIES: &str = "tests/sdk-dependencies.txt";

/// Each new dependency is a line of a change, because authors of workflows build them
/// all. `WORKFLOW_REWRITE=1 cargo test -p workflow-tests --test layout` writes the list.
#[test]
fn the_crates_below_the_sdk_are_those_of_the_list() {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let tree = ["tree", "-p", "workflow-sdk", "-e", "normal,build", "--prefix", "none", "--format", "{p}"];
    let mut command = std::process::Command::new(cargo);
    let output = command.args(tree).args(["--locked", "--offline"]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let tree = String::from_utf8(output.stdout).unwrap();
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    let built: BTreeSet<&str> = names.filter(|name| !name.is_empty() && !name.starts_with("workflow-")).collect();
    let path = root().join(DEPENDENCIES);
    if std::env::var_os("WORKFLOW_REWRITE").is_some() {
        let lines: String = built.iter().flat_map(|name| [*name, "\n"]).collect();
        fs::write(&path, lines).unwrap();
    }
    let listed = fs::read_to_string(&path).unwrap();
    let listed: BTreeSet<&str> = listed.lines().collect();
    let added: Vec<_> = built.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&built).collect();
    assert!(added.is_empty() && gone.is_empty(), "{DEPENDENCIES}: add {added:?}, and take {gone:?} away");
    // Libraries of pages, servers, command lines and flows are for the crates above.
    for name in ["axum", "maud", "clap", "reqwest", "rmcp", "utoipa", "opentelemetry", "openssl", "aws-lc-rs"] {
        assert!(!built.contains(name), "{name} stands below the SDK");
    }
}
