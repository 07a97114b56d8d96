//! The program `workflow`, as its users call it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use workflow_sdk::prelude::*;
use workflow_tests::Live;

#[workflow]
pub(crate) async fn doubled(ctx: &Ctx, number: u64) -> Result<u64> {
    ctx.step("double", async || ok(number * 2)).await
}

#[workflow]
pub(crate) async fn fails(ctx: &Ctx, reason: String) -> Result<()> {
    ctx.step("charge", async || Err(Error::fatal(reason.clone()))).await
}

#[workflow]
pub(crate) async fn asks(ctx: &Ctx) -> Result<bool> {
    Ok(ctx.approval("ship").to("ops").await?.is_some_and(|decision| decision.approved))
}

/// The program on a database.
pub(crate) struct Shell {
    pub(crate) url: String,
    pub(crate) schema: Option<String>,
    pub(crate) token: Option<&'static str>,
}

impl Shell {
    pub(crate) fn of(live: &Live) -> Self {
        Self { url: live.url(), schema: live.schema().map(str::to_owned), token: None }
    }

    /// The program that asks a server before the database.
    pub(crate) async fn over_http(live: &Live) -> Self {
        let access = workflow_http::Access::token("s3cr3t", workflow_http::Actor::admin("ada"));
        let routes = workflow_http::router(live.client.clone(), access);
        let app = axum::Router::new().nest("/workflows", routes);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/workflows", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { url, schema: None, token: Some("s3cr3t") }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program(arguments);
        command.env("WORKFLOW_DATABASE_URL", &self.url);
        if let Some(token) = self.token {
            command.env("WORKFLOW_TOKEN", token);
        }
        if let Some(schema) = &self.schema {
            command.env("WORKFLOW_SCHEMA", schema);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Returns the standard output of a command that succeeds.
    pub(crate) fn says(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}\n{output:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// Checks the exit code, and the words in the standard output and the standard error.
    pub(crate) fn check(&self, arguments: &[&str], code: i32, out: &str, err: &str) {
        check(arguments, &self.run(arguments), code, out, err);
    }
}

pub(crate) fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_workflow"));
    for name in ["WORKFLOW_DATABASE_URL", "WORKFLOW_TOKEN", "WORKFLOW_SCHEMA", "WORKFLOW_ACTOR", "NO_COLOR", "LOGNAME"]
    {
        command.env_remove(name);
    }
    command.args(arguments).env("USER", "ada").env("TZ", "UTC").stdin(Stdio::null());
    command
}

pub(crate) fn check(arguments: &[&str], output: &Output, code: i32, out: &str, err: &str) {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let shown = format!("{arguments:?}: {:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}", output.status);
    assert_eq!(output.status.code(), Some(code), "{shown}");
    assert!(stdout.contains(out) && (!out.is_empty() || stdout.is_empty()), "not {out:?} in {shown}");
    assert!(stderr.contains(err), "not {err:?} in {shown}");
}

/// Gives the program this text as its standard input.
pub(crate) fn piped(mut command: Command, text: &str) -> Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Compares a text with its snapshot, after replacing what differs between two executions.
pub(crate) fn assert_snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "[id]");
    settings.add_filter(r"\[id\](, \[id\])+", "[ids]");
    settings.add_filter(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)", "[time]");
    settings.add_filter(r"\d\d:\d\d:\d\d", "[time]");
    settings.add_filter(r"\b\d{1,2} [A-Z][a-z]{2} (\d\d:\d\d|\d{4})\b", "[time]");
    settings.add_filter(r"\d+(\.\d+)? (ms|s|min|h|d)\b( \d+ (s|min|h)\b)?", "[span]");
    settings.add_filter(r#"("\w*(at|since|until)": )\d+"#, "$1[time]");
    settings.add_filter(r"[█░×·▒╌]+( +[█░×·▒╌]+)*|[=:x.>~]{3,}", "[bars]");
    settings.add_filter(r"[_.:=+*#-]{20,}", "[chart]");
    settings.add_filter(r"\.rs:\d+", ".rs:[line]");
    settings.add_filter(r" +", " ");
    settings.add_filter(r" \n", "\n");
    // The database of the moment, and a server that may run without fsync because tests need none.
    settings.add_filter(r"(SQLite|PostgreSQL) \d[^\n]*, schema level \d+, [\d.]+ \w+", "[database]");
    settings.add_filter(r"(?m)^warn the server runs without [^\n]*\n", "");
    settings.add_filter(r"the (database|server) is [^\n]*, as [^\n]* says[^\n]*", "[target]");
    settings.add_filter(r"zone data [^\n]*, (from|a part of) [^\n]*", "[zone data]");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_snapshot_path("snapshots");
    settings.bind(|| insta::assert_snapshot!(name, text));
}
