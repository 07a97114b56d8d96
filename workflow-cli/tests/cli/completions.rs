//! Completions with names of the database, as the scripts of shells ask for them.

use std::net::TcpListener;
use std::process::{Command, Output};

use crate::common::{Shell, check, program};
use workflow_tests::{Database, Live};

async fn a_line_goes_on_with_names(database: Database) {
    let live = Live::new(database).await;
    let shell = Shell::of(&live);
    let goes_on = |line: &str| shell.says(&["completions", "--line", &format!("workflow {line}")]);

    assert_eq!(goes_on("runs show "), "", "an empty database has no names");
    let first = shell.says(&["runs", "start", "checkout", "--queue", "mail"]);
    let second = shell.says(&["runs", "start", "charge"]);
    shell.says(&["schedules", "create", "nightly", "checkout", "--every", "1h"]);
    assert_eq!(goes_on("runs show "), format!("{second}\n{first}"), "the newest first");
    assert_eq!(goes_on(&format!("runs explain {first}")), first);
    assert_eq!(goes_on(&format!("runs cancel {second} {first}")), first);
    assert!(goes_on(&format!("runs show {}", &first[..13])).contains(&first));
    assert_eq!(goes_on("runs show abcdefabcdef"), "");
    assert_eq!(goes_on("runs show not-an-id"), "");
    assert_eq!(goes_on("runs start ch"), "charge\ncheckout");
    assert_eq!(goes_on("stats --workflow che"), "checkout");
    assert_eq!(goes_on("queues pause ma"), "mail");
    assert_eq!(goes_on("runs start checkout --queue ma"), "mail");
    assert_eq!(goes_on("schedules show n"), "nightly");
    assert_eq!(goes_on("schedules create other ch"), "charge\ncheckout");
    assert_eq!(goes_on("ru"), "", "the script knows the verbs");
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_goes_on_with_names_on_sqlite() {
    a_line_goes_on_with_names(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_goes_on_with_names_on_postgres() {
    a_line_goes_on_with_names(Database::Postgres).await;
}

/// A line may name its own database, and a server is asked as a database is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_goes_on_with_names_of_its_own_database() {
    let live = Live::new(Database::Sqlite).await;
    let server = Shell::over_http(&live).await;
    let run = server.says(&["runs", "start", "checkout"]);
    assert_eq!(server.says(&["completions", "--line", "workflow runs show "]), run);
    let url = live.url();
    for line in [format!("workflow --to {url} runs show "), format!("workflow runs show --to='{url}' ")] {
        let arguments = ["completions", "--line", &line];
        check(&arguments, &program(&arguments).output().unwrap(), 0, &run, "");
    }
    live.sweep().await;
}

/// A shell in the middle of a line is told no error, and does not wait for long.
#[test]
fn a_database_that_is_away_is_silent() {
    // It takes connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    for to in
        ["/no/such/file", "mysql://host/db", &format!("postgres://ada@{address}/none"), &format!("http://{address}")]
    {
        let arguments = ["completions", "--line", &format!("workflow --to {to} runs show ")];
        let Output { status, stdout, stderr } = program(&arguments).output().unwrap();
        assert!(status.success() && stdout.is_empty() && stderr.is_empty(), "{to}: {stdout:?} {stderr:?}");
    }
    let nowhere = program(&["completions", "--line", "workflow runs show "]).output().unwrap();
    assert!(nowhere.status.success() && nowhere.stdout.is_empty() && nowhere.stderr.is_empty(), "{nowhere:?}");
    let neither = ["completions"];
    check(&neither, &program(&neither).output().unwrap(), 2, "", "<SHELL>");
}

/// Completes the last of these words by the script in bash, and returns what bash would offer.
fn offered(shell: &Shell, words: &[&str]) -> String {
    const ASK: &str = r#"
        source <("$PROGRAM" completions bash)
        complete -p workflow
        COMP_WORDS=("$PROGRAM" "$@") COMP_CWORD=$# COMP_LINE="$PROGRAM $*"
        COMP_POINT=${#COMP_LINE}
        _workflow_names "$PROGRAM" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["-c", ASK, "bash"]).args(words).env("PROGRAM", env!("CARGO_BIN_EXE_workflow"));
    let Output { status, stdout, stderr } = bash.env("WORKFLOW_DATABASE_URL", &shell.url).output().unwrap();
    assert!(status.success() && stderr.is_empty(), "{}", String::from_utf8_lossy(&stderr));
    let said = String::from_utf8(stdout).unwrap();
    let (registered, offered) = said.split_once('\n').unwrap();
    assert!(registered.contains("-F _workflow_names"), "{registered}");
    offered.trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_script_of_bash_asks_for_names() {
    let live = Live::new(Database::Sqlite).await;
    let shell = Shell::of(&live);
    let run = shell.says(&["runs", "start", "checkout", "--queue", "mail for ada"]);
    assert_eq!(offered(&shell, &["runs", "show", ""]), run);
    assert_eq!(offered(&shell, &["runs", "start", "che"]), "checkout");
    assert_eq!(offered(&shell, &["queues", "pause", "ma"]), r"mail\ for\ ada", "as bash has to read it");
    // Verbs and options stand in the script.
    assert_eq!(offered(&shell, &["runs", "li"]), "list");
    assert_eq!(offered(&shell, &["queues", "pause", "--rea"]), "--reason");
    live.sweep().await;
}
