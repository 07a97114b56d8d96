//! The pages as the program serves them: beside a worker on one port, and by a verb of their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::common::{Shell, check, doubled, program};
use rustix::process::{Pid, Signal, kill_process};
use workflow_tests::{Database, Live};

/// The example `orders`, which cargo builds beside the tests.
fn orders(directory: &tempfile::TempDir, arguments: &[&str]) -> Command {
    let test = std::env::current_exe().unwrap();
    let mut command = Command::new(test.parent().unwrap().parent().unwrap().join("examples/orders"));
    command.args(arguments).current_dir(directory.path()).stdin(Stdio::null());
    for name in ["WORKFLOW_DATABASE_URL", "ORDERS_DATABASE_URL", "WORKFLOW_SCHEMA", "WORKFLOW_HTTP_TOKEN", "RUST_LOG"] {
        command.env_remove(name);
    }
    command
}

/// A program that listens on an address.
struct Serving {
    child: Child,
    address: String,
    log: BufReader<std::process::ChildStderr>,
}

impl Serving {
    /// Starts the program, and reads its address from the line that says that it listens.
    fn start(mut command: Command, says: &str, before: &str, after: char) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while log.read_line(&mut line).unwrap() > 0 {
            if let Some((_, rest)) = line.split_once(before).filter(|_| line.contains(says)) {
                let address = rest.split(after).next().unwrap().to_owned();
                return Self { child, address, log };
            }
            line.clear();
        }
        panic!("the program ended before it listened: {}", child.wait().unwrap());
    }

    /// Starts a worker with a port.
    fn worker(directory: &tempfile::TempDir, token: Option<&str>) -> Self {
        let mut command = orders(directory, &["run", "--log", "json", "--http", "127.0.0.1:0"]);
        if let Some(token) = token {
            command.env("WORKFLOW_HTTP_TOKEN", token);
        }
        Self::start(command, "listening for HTTP", "address\":\"", '"')
    }

    /// Starts the verb `dashboard`.
    fn pages(shell: &Shell, options: &[&str]) -> Self {
        let arguments = [&["dashboard", "--listen", "127.0.0.1:0"][..], options].concat();
        Self::start(shell.command(&arguments), "the dashboard is at", "http://", '/')
    }

    /// Sends a request; returns the status and the whole answer.
    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: 0\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str("host: localhost\r\n");
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        write!(stream, "{head}\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("no status: {answer}")), answer)
    }

    /// Returns the answer to a request that has this status and these words.
    fn shows(&self, path: &str, headers: &[(&str, &str)], status: u16, words: &[&str]) -> String {
        let (got, answer) = self.send("GET", path, headers);
        assert_eq!(got, status, "{path}: {answer}");
        for word in words {
            assert!(answer.contains(word), "{path}: not {word:?} in {answer}");
        }
        answer
    }

    /// Asks the program to end; returns its exit code.
    fn end(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_raw(self.child.id().cast_signed()).unwrap(), signal).unwrap();
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap().code()
    }
}

const PAGE: &str = "<!DOCTYPE html>";

#[test]
fn one_port_has_the_pages_the_interface_and_the_metrics() {
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::worker(&directory, None);
    let start = orders(&directory, &["runs", "start", "nothing", "--input", "1", "-o", "ids"]).output().unwrap();
    assert!(start.status.success(), "{start:?}");
    let id = String::from_utf8(start.stdout).unwrap().trim_end().to_owned();
    serving.shows("/", &[], 200, &[PAGE, "text/html"]);
    let page =
        serving.shows(&format!("/runs/{id}"), &[], 200, &[PAGE, "nothing", "method=\"post\" action=\"/orders\""]);
    // The stylesheet and the script are on the port, too.
    let asset = page.split("href=\"").filter_map(|rest| rest.split('"').next()).find(|link| link.contains(".css"));
    serving.shows(asset.expect("a page has a stylesheet"), &[], 200, &["text/css"]);
    serving.shows("/api/v1/runs", &[], 200, &["application/json", &id]);
    serving.shows("/metrics", &[], 200, &["workflow_database_up 1"]);
    serving.shows("/healthz", &[], 200, &[]);
    // Programs are told of a wrong path as everywhere in the interface.
    for path in ["/api/v1/nothing", "/api/v2/runs", "/nothing"] {
        serving.shows(path, &[], 404, &["application/problem+json"]);
    }
    // A page of another site, whose name leads to this machine, is not let in.
    serving.shows("/", &[("host", "evil.example")], 401, &[PAGE]);
    assert_eq!(serving.send("POST", "/orders", &[("origin", "http://evil.example")]).0, 403);
    assert_eq!(serving.end(Signal::TERM), Some(0));
}

#[test]
fn the_token_of_the_interface_opens_the_pages() {
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::worker(&directory, Some("secret"));
    let bearer = ("authorization", "Bearer secret");
    // `token:secret`, as a browser sends it.
    let password = ("authorization", "Basic dG9rZW46c2VjcmV0");
    for path in ["/", "/runs"] {
        let refused = serving.shows(path, &[], 401, &[PAGE, "www-authenticate: Basic realm="]);
        assert!(!refused.contains("secret"), "{refused}");
        serving.shows(path, &[("authorization", "Bearer secre")], 401, &[PAGE]);
        serving.shows(path, &[("authorization", "Basic dG9rZW46c2VjcmU=")], 401, &[PAGE]);
        serving.shows(path, &[bearer], 200, &[PAGE]);
        serving.shows(path, &[password], 200, &[PAGE]);
    }
    serving.shows("/api/v1/runs", &[], 401, &["www-authenticate: Bearer"]);
    serving.shows("/api/v1/runs", &[password], 401, &["www-authenticate: Bearer"]);
    serving.shows("/api/v1/runs", &[bearer], 200, &[]);
    // A browser sends the password by itself, also with a request that another site has caused.
    for path in ["/api/v1/orders", "/api/v1/runs", "/mcp"] {
        assert_eq!(serving.send("POST", path, &[password, ("origin", "http://evil.example")]).0, 401, "{path}");
    }
    for from in [("origin", "http://evil.example"), ("sec-fetch-site", "cross-site")] {
        assert_eq!(serving.send("POST", "/orders", &[password, from]).0, 403, "{from:?}");
    }
    for path in ["/healthz", "/metrics"] {
        serving.shows(path, &[], 200, &[]);
    }
    assert_eq!(serving.end(Signal::TERM), Some(0));
}

#[test]
fn a_token_may_come_from_a_file_and_must_fit_into_a_header() {
    let directory = tempfile::tempdir().unwrap();
    let serving = Serving::worker(&directory, Some("secret\n"));
    serving.shows("/api/v1/runs", &[], 401, &["www-authenticate: Bearer"]);
    serving.shows("/api/v1/runs", &[("authorization", "Bearer secret")], 200, &[]);
    serving.shows("/runs", &[("authorization", "Basic dG9rZW46c2VjcmV0")], 200, &[PAGE]);
    assert_eq!(serving.end(Signal::TERM), Some(0));
    for (token, says) in [
        ("", "WORKFLOW_HTTP_TOKEN is empty"),
        ("\n", "WORKFLOW_HTTP_TOKEN is empty"),
        ("sec\nret", "characters that no header can carry"),
        ("s\u{e9}cret", "characters that no header can carry"),
    ] {
        let verbs = [&["serve", "--http", "127.0.0.1:0"], &["mcp", "--http", "127.0.0.1:0"]];
        let worker = orders(&directory, &["run", "--once", "--http", "127.0.0.1:0"]);
        for mut command in verbs.map(|verb| program(verb)).into_iter().chain([worker]) {
            let output = command.env("WORKFLOW_HTTP_TOKEN", token).output().unwrap();
            check(&[token], &output, 2, "", says);
        }
    }
}

async fn the_dashboard_is_a_verb(database: Database) {
    let live = Live::new(database).await;
    let id = live.client.start(doubled, 21).await.unwrap().id();
    let shell = Shell::of(&live);
    let checked = tokio::task::spawn_blocking(move || {
        let path = format!("/runs/{id}");
        let serving = Serving::pages(&shell, &[]);
        serving.shows("/", &[], 200, &[PAGE]);
        serving.shows(&path, &[], 200, &[PAGE, "doubled", "method=\"post\""]);
        let taken = shell.run(&["dashboard", "--listen", &serving.address]);
        assert_eq!(taken.status.code(), Some(1), "{taken:?}");
        assert!(String::from_utf8_lossy(&taken.stderr).contains("choose another port: --listen"), "{taken:?}");
        assert_eq!(serving.end(Signal::INT), Some(130));

        let serving = Serving::pages(&shell, &["--read-only"]);
        let page = serving.shows(&path, &[], 200, &[PAGE, "doubled"]);
        assert!(!page.contains("method=\"post\""), "{page}");
        let (status, answer) = serving.send("POST", "/orders", &[("sec-fetch-site", "same-origin")]);
        assert!(status == 403 && answer.contains("only reads"), "{answer}");
        assert_eq!(serving.end(Signal::INT), Some(130));
    });
    checked.await.unwrap();
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dashboard_is_a_verb_on_sqlite() {
    the_dashboard_is_a_verb(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dashboard_is_a_verb_on_postgres() {
    the_dashboard_is_a_verb(Database::Postgres).await;
}

/// Returns the command that a page offers to copy.
fn copied(page: &str) -> String {
    let (_, rest) = page.split_once("<pre class=\"wrap\" data-copied>").unwrap();
    let (command, _) = rest.split_once("</pre>").unwrap();
    command.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Executes a line of a shell that finds the program.
fn typed(shell: &Shell, line: &str) -> Output {
    let program = shell.command(&[]);
    let directory = Path::new(program.get_program()).parent().unwrap();
    let mut typed = Command::new("sh");
    typed.args(["-c", line]).stdin(Stdio::null());
    typed.env("PATH", format!("{}:{}", directory.display(), std::env::var("PATH").unwrap()));
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => typed.env(name, value),
            None => typed.env_remove(name),
        };
    }
    typed.output().unwrap()
}

/// A line that was copied from a page shows what the page shows.
async fn each_page_copies_a_command_that_works(database: Database) {
    let live = Live::new(database).await;
    let id = live.client.start(doubled, 21).await.unwrap().id().to_string();
    let shell = Shell::of(&live);
    let checked = tokio::task::spawn_blocking(move || {
        shell.says(&["runs", "pause", &id, "--reason", "a look"]);
        let serving = Serving::pages(&shell, &[]);
        let preview = |of: &str| format!("/bulk/new?{of}&action=cancel_run");
        for (path, more, says) in [
            ("/".to_owned(), "", ""),
            ("/runs".to_owned(), "", &*id),
            ("/runs?q=-status:failed".to_owned(), "", &*id),
            ("/runs?q=-status:pending".to_owned(), "", "no run matches"),
            (preview("all=1&q=-status:failed"), " --dry-run", &*id),
            (preview("all=1&q="), " --dry-run", &*id),
            (preview(&format!("run={id}")), " --dry-run", &*id),
            (format!("/audit?verb=run.&target=run:{id}&actor=ada"), "", "a look"),
            ("/audit?actor=bob".to_owned(), "", "no change matches"),
            ("/failures?range=24h&workflow=doubled".to_owned(), "", "nothing has failed"),
            (format!("/runs/{id}"), "", "doubled"),
            (format!("/runs/{id}?tab=history"), "", ""),
            ("/queues/default".to_owned(), "", "no gate"),
            ("/queues".to_owned(), "", "default"),
            ("/words".to_owned(), "", "QUERY"),
            ("/approvals".to_owned(), "", ""),
            ("/schedules".to_owned(), "", ""),
            ("/workflows".to_owned(), "", ""),
            ("/workers".to_owned(), "", ""),
            ("/bulk".to_owned(), "", ""),
        ] {
            let line = copied(&serving.shows(&path, &[], 200, &[PAGE])) + more;
            let output = typed(&shell, &line);
            let said = [output.stdout.as_slice(), &output.stderr].concat();
            assert!(output.status.success() && String::from_utf8_lossy(&said).contains(says), "{line}: {output:?}");
        }
        assert_eq!(serving.end(Signal::INT), Some(130));
    });
    checked.await.unwrap();
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_page_copies_a_command_that_works_on_sqlite() {
    each_page_copies_a_command_that_works(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_page_copies_a_command_that_works_on_postgres() {
    each_page_copies_a_command_that_works(Database::Postgres).await;
}
