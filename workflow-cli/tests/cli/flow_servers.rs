//! The verbs about deployed flows by a server: each command says the same as on a database, and a
//! verb that a server does not have is refused.

use std::fs;
use std::process::{Command, Stdio};

use axum::Router;
use serde_json::Value;
use workflow_flows::check::{Options, check};
use workflow_flows::{FlowClient, FlowRuntime, FlowStart, FlowStore, Flows, ToolCall, flow};
use workflow_http::{Access, Actor, router, router_with_flows};
use workflow_sdk::RunId;
use workflow_sdk::operate::{ListApprovals, ListRuns};
use workflow_tests::{Database, Live, LocalWorker, until};

const ORDER: &str = "flow: 1\nname: order\ndescription: Ships.\ninput: { type: object, required: [id] }\n\
                     do:\n  - { id: say, set: { id: \"{{input.id}}\" } }\n";

const BAD: &str = "flow: 1\nname: bad\ndo:\n  - id: charge\n    tool: log\n    retires: { attempts: 2 }\n";

/// The documents of the commands. The last one is of a dialect that has no place for a name.
fn documents() -> [(&'static str, String); 6] {
    let calling = |name: &str, tool: &str| format!("flow: 1\nname: {name}\ndo: [ {{ id: a, tool: {tool} }} ]\n");
    [
        ("order.yaml", ORDER.to_owned()),
        ("second.yaml", ORDER.replace("Ships.", "Ships more.")),
        ("bad.yaml", BAD.to_owned()),
        ("known.yaml", calling("known", "charge")),
        ("unknown.yaml", calling("unknown", "chrge")),
        ("gate.json", include_str!("../../../workflow-flows/tests/two_table/gate.json").to_owned()),
    ]
}

/// The commands, each with its exit code and words of its output. They run in this order.
const COMMANDS: &[(&[&str], i32, &str)] = &[
    (&["flow", "list"], 0, "no flow is deployed"),
    (&["flow", "list", "--json"], 0, "[]"),
    (&["flow", "deploy", "bad.yaml"], 1, "bad.yaml:6:5: error F010"),
    (&["flow", "deploy", "order.yaml", "bad.yaml", "--json"], 1, "F010"),
    (&["flow", "deploy", "missing.yaml"], 2, "missing.yaml"),
    (&["flow", "deploy", "order.yaml", "second.yaml"], 2, "two documents have the flow"),
    (&["flow", "deploy", "order.yaml", "--name", "other"], 2, "not \"other\""),
    (&["flow", "deploy", "order.yaml", "--version", "a b"], 2, "the name of a version is refused"),
    (&["flow", "list", "-o", "ids"], 0, ""),
    (&["flow", "deploy", "order.yaml"], 0, "deployed"),
    (&["flow", "deploy", "order.yaml", "--json"], 0, "\"is_new\": false"),
    (&["flow", "deploy", "second.yaml", "gate.json", "--version", "2.0"], 0, "gate"),
    (&["flow", "deploy", "order.yaml", "--version", "2.0"], 1, "F310"),
    (&["flow", "deploy", "gate.json", "--name", "door", "--dialect", "two-table"], 0, "door"),
    (&["flow", "list", "-o", "ids"], 0, "door\ngate\norder"),
    (&["flow", "list", "--json"], 0, "\"description\": \"Ships more.\""),
    (&["flow", "list", "order", "--iso", "--utc"], 0, "ann"),
    (&["flow", "list", "none"], 4, "there is no flow \"none\""),
    (&["flow", "run", "none"], 4, "and no file \"none\""),
    (&["flow", "run", "order", "--version", "9"], 4, "has no version \"9\""),
    (&["flow", "run", "order", "--input", "{}"], 2, "F060"),
    (&["flow", "run", "order", "--input", "{"], 2, "JSON"),
    (&["flow", "run", "order", "-i", r#"{"id": 7}"#, "--tag", "eu"], 2, "NAME=VALUE"),
    (&["flow", "run", "order", "--dialect", "native"], 2, "--dialect is for documents"),
    (&["flow", "run", "order", "--dialect", "native", "--dry-run"], 2, "--dialect is for documents"),
    (&["runs", "list", "-o", "ids"], 0, ""),
    (&["flow", "run", "order", "-i", r#"{"id": 7}"#, "--key", "o-1", "--tag", "of=shop", "--wait"], 0, r#"{"id":7}"#),
    (&["flow", "run", "order", "-i", r#"{"id": 7}"#, "--key", "o-1", "--tag", "of=shop"], 0, "nothing was started"),
    (&["flow", "run", "order", "-i", r#"{"id": 8}"#, "--key", "o-1"], 1, "another key"),
    (&["flow", "run", "order", "--queue", "slow", "--in", "1h", "-i", r#"{"id": 9}"#], 0, "was started"),
    (&["flow", "run", "order", "--version", "1", "-i", r#"{"id": 9}"#, "--json"], 0, "\"outcome\": \"started\""),
    (&["runs", "list", "tag.of:shop tag.flow:order tag.flow_version:2.0 key:order/o-1", "-o", "ids"], 0, "[id]"),
    (&["runs", "list", "queue:slow status:pending", "-o", "ids"], 0, "[id]"),
    (&["runs", "list", "tag.flow_version:1", "-o", "ids"], 0, "[id]"),
];

/// The program, in a directory with the documents, on a database or a server.
struct Shell {
    place: tempfile::TempDir,
    to: String,
    schema: Option<String>,
    token: Option<&'static str>,
}

impl Shell {
    fn new(to: String, schema: Option<&str>, token: Option<&'static str>) -> Self {
        let place = tempfile::tempdir().unwrap();
        for (name, text) in documents() {
            fs::write(place.path().join(name), text).unwrap();
        }
        Self { place, to, schema: schema.map(str::to_owned), token }
    }

    fn of(live: &Live) -> Self {
        Self::new(live.url_of_tables(), live.schema(), None)
    }

    /// Returns the exit code, and both outputs without ids and times.
    fn run(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_workflow"));
        for name in ["WORKFLOW_DATABASE_URL", "WORKFLOW_TOKEN", "WORKFLOW_SCHEMA", "WORKFLOW_ACTOR", "NO_COLOR"] {
            command.env_remove(name);
        }
        command.args(arguments).args(["--to", &self.to]).env("USER", "ann").current_dir(self.place.path());
        command.envs(self.token.map(|token| ("WORKFLOW_TOKEN", token)));
        command.envs(self.schema.as_ref().map(|schema| ("WORKFLOW_SCHEMA", schema)));
        let output = command.stdin(Stdio::null()).output().unwrap();
        let text = |bytes: Vec<u8>| plain(&String::from_utf8(bytes).unwrap());
        let text = [text(output.stdout), text(output.stderr)].join("\n--- errors\n");
        (output.status.code().unwrap(), text)
    }

    /// Checks the exit code and the words of a command.
    fn check(&self, arguments: &[&str], code: i32, words: &str) -> String {
        let (found, text) = self.run(arguments);
        assert!(found == code && text.contains(words), "{arguments:?}: {found}, not {code} with {words:?}: {text}");
        text
    }
}

/// Leaves out of a text what differs from one execution to the next, and the widths of columns.
fn plain(text: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_micros = bare.len() == 16 && bare.bytes().all(|byte| byte.is_ascii_digit());
        let is_time = bare.len() > 20 && bare.contains('T') && bare.matches(':').count() > 1;
        match (bare.parse::<RunId>().is_ok(), is_micros || is_time) {
            (true, _) => word.replace(bare, "[id]"),
            (_, true) => word.replace(bare, "[time]"),
            _ => word.to_owned(),
        }
    };
    let line = |line: &str| line.split(' ').filter(|word| !word.is_empty()).map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Lets in each request with the role and the name that its token says, as `admin-ann`.
fn by_token() -> Access {
    Access::by(async |parts| {
        let header = parts.headers.get("authorization")?.to_str().ok()?;
        let (role, name) = header.strip_prefix("Bearer ")?.split_once('-')?;
        Some(match role {
            "admin" => Actor::admin(name),
            "operator" => Actor::operator(name),
            _ => Actor::viewer(name),
        })
    })
}

async fn flows(live: &Live) -> Flows {
    Flows::new(live.client.clone(), FlowStore::connect(&live.url_of_tables()).await.unwrap())
}

/// Serves routes below a prefix on a port of this machine, and returns their URL.
async fn serve(routes: Router) -> String {
    let app = Router::new().nest("/workflows", routes);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/workflows", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    url
}

fn runtime() -> FlowRuntime {
    FlowRuntime::builder().tool("charge", |_: Value, _: ToolCall| async move { Ok("paid") }).build()
}

/// Runs all commands on a database of their own, and returns what they say.
async fn run_commands(database: Database, over_http: bool) -> Vec<String> {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(runtime()).register(flow));
    let shell = if over_http {
        let url = serve(router_with_flows(live.client.clone(), by_token(), flows(&live).await)).await;
        Shell::new(url, None, Some("admin-ann"))
    } else {
        Shell::of(&live)
    };
    let said = COMMANDS.iter().map(|(arguments, code, words)| shell.check(arguments, *code, words)).collect();
    working.stop().await;
    live.sweep().await;
    said
}

async fn commands_say_by_a_server_what_they_say_on_its_database(database: Database) {
    let direct = run_commands(database, false).await;
    let by_server = run_commands(database, true).await;
    for ((arguments, ..), (direct, by_server)) in COMMANDS.iter().zip(direct.iter().zip(&by_server)) {
        assert_eq!(direct, by_server, "{arguments:?}: left: the database; right: the server");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_say_by_a_server_what_they_say_on_its_database_on_sqlite() {
    commands_say_by_a_server_what_they_say_on_its_database(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_say_by_a_server_what_they_say_on_its_database_on_postgres() {
    commands_say_by_a_server_what_they_say_on_its_database(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_lets_an_account_do_what_its_role_allows() {
    let live = Live::new(Database::Sqlite).await;
    let url = serve(router_with_flows(live.client.clone(), by_token(), flows(&live).await.runtime(runtime()))).await;
    let shell = |token| Shell::new(url.clone(), None, token);
    let (admin, operator, viewer) = (shell(Some("admin-ann")), shell(Some("operator-bob")), shell(Some("viewer-vic")));
    let input = ["-i", r#"{"id": 1}"#];
    let run = [&["flow", "run", "order"][..], &input].concat();

    for stranger in [shell(None), shell(Some("nothing"))] {
        for arguments in [&["flow", "list"][..], &["flow", "deploy", "order.yaml"], &run[..]] {
            stranger.check(arguments, 3, "sign in to the application");
        }
    }
    viewer.check(&["flow", "deploy", "order.yaml"], 3, "flow.deploy needs the role Admin, and vic is Viewer");
    operator.check(&["flow", "deploy", "order.yaml"], 3, "flow.deploy needs the role Admin, and bob is Operator");
    viewer.check(&["flow", "list", "--json"], 0, "[]");
    // The name that a command gives is not the account of the token.
    admin.check(&["flow", "deploy", "order.yaml", "--actor", "eve", "--json"], 0, "\"created_by\": \"ann\"");
    viewer.check(&["flow", "list", "-o", "ids"], 0, "order");
    viewer.check(&run, 3, "run.start needs the role Operator");
    viewer.check(&["runs", "list", "-o", "ids"], 0, "");
    operator.check(&[&run[..], &["--actor", "eve", "--key", "o-1"]].concat(), 0, "was started");
    admin.check(&["audit", "--verb", "run.start", "--by", "bob"], 0, "run.start");
    let started = live.client.operate().runs(ListRuns::default()).await.unwrap().items[0].id;
    let started = live.client.operate().run(started).await.unwrap();
    let input: Value = serde_json::from_str(started.input.unwrap().json.unwrap().as_str()).unwrap();
    assert_eq!(input["actor"], "bob");

    // The tools are those of the server.
    viewer.check(&["flow", "check", "known.yaml", "--connect"], 3, "flow.check needs the role Operator");
    let known = operator.check(&["flow", "check", "known.yaml", "--connect", "--plan"], 0, "is valid");
    assert!(known.contains("1: a"), "the plan is drawn: {known}");
    operator.check(&["flow", "check", "unknown.yaml"], 0, "is valid");
    operator.check(&["flow", "check", "unknown.yaml", "--connect"], 1, "F040");
    admin.check(&["flow", "deploy", "known.yaml", "unknown.yaml", "--connect"], 1, "unknown.yaml:3:");
    admin.check(&["flow", "list", "known"], 4, "there is no flow");
    admin.check(&["flow", "deploy", "known.yaml", "--connect"], 0, "deployed");
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_refuses_what_it_cannot_do() {
    let live = Live::new(Database::Sqlite).await;
    let url = serve(router_with_flows(live.client.clone(), by_token(), flows(&live).await)).await;
    let (server, database) = (Shell::new(url.clone(), None, Some("admin-ann")), Shell::of(&live));
    let run = ["flow", "run", "order", "-i", r#"{"id": 1}"#];
    server.check(&["flow", "deploy", "order.yaml"], 0, "deployed");
    for (option, why) in [(&["--dry-run"][..], "a server leaves fields out"), (&["--reason", "x"][..], "no reason")] {
        let arguments = [&run[..], option].concat();
        let refused = server.check(&arguments, 2, why);
        assert!(refused.contains("name the database itself with --to"), "{refused}");
        database.check(&arguments, 0, "");
    }
    for verb in ["check", "deploy"] {
        server.check(&["flow", verb, "order.yaml", "--connect"], 2, "this program has no tools of flows");
    }

    // A server without flows, and a prefix that is not that of the interface.
    let plain = serve(router(live.client.clone(), by_token())).await;
    for url in [plain, format!("{url}/elsewhere")] {
        let shell = Shell::new(url, None, Some("admin-ann"));
        for arguments in [
            &["flow", "list"][..],
            &["flow", "list", "order"],
            &["flow", "deploy", "order.yaml"],
            &["flow", "check", "order.yaml", "--connect"],
            &run[..],
        ] {
            let refused = shell.check(arguments, 2, "the server has no paths of flows");
            assert!(refused.contains("serve --flows"), "{refused}");
        }
    }
    // Nothing listens on a port that is closed again.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let away = Shell::new(format!("http://{}", listener.local_addr().unwrap()), None, None);
    drop(listener);
    away.check(&["flow", "deploy", "order.yaml"], 9, "cannot be reached");
    away.check(&["flow", "deploy", "bad.yaml"], 1, "F010");
    live.sweep().await;
}

const ASKS: &str = "flow: 1\nname: asks\ndo: [ { id: way, decision: { prompt: Which?, options: { post: p, van: v } } } ]\n\
                    output: { way: \"{{steps.way.choice}}\" }\n";

const REFUNDS: &str = "flow: 1\nname: refunds\ninput: { type: object, properties: { id: { type: string } } }\n\
    do: [ { id: gate, approval: { to: [ops, finance], title: \"Refund {{input.id}}?\", show: { cents: 4200 } } } ]\n";

/// The question of an approval is listed and shown, on the database and by its server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_shows_what_it_is_about() {
    let live = Live::new(Database::Sqlite).await;
    let working = LocalWorker::start(live.worker(runtime()).register(flow));
    let url = serve(router_with_flows(live.client.clone(), by_token(), flows(&live).await)).await;
    for shell in [Shell::of(&live), Shell::new(url, None, Some("operator-olga"))] {
        let refunds = check(REFUNDS, &Options::default()).flow.unwrap();
        let start = FlowStart::new(refunds).input(serde_json::json!({ "id": "o-7" }));
        let run = live.client.start_definition(start).await.unwrap();
        until("the approval", async || {
            let list = ListApprovals::new().run(run.id());
            (live.client.operate().approvals(list).await.ok()?.items.len() == 1).then_some(())
        })
        .await;
        let id = run.id().to_string();
        shell.check(&["approvals", "list"], 0, "Refund o-7?");
        let shown = shell.check(&["approvals", "show", &id], 0, "approval gate of refunds");
        for words in ["asks ops, finance", "question Refund o-7?", "shows cents: 4200"] {
            assert!(shown.contains(words), "no {words:?} in {shown}");
        }
        let json = shell.check(&["approvals", "show", &id, "gate", "--json"], 0, "\"key\": \"gate\"");
        assert!(json.contains("\"cents\": 4200"), "{json}");
        shell.check(&["approvals", "show", &id, "gat"], 4, "it waits for: gate");
        shell.check(&["approvals", "approve", &id, "gate"], 0, "");
        run.result().await.unwrap();
        shell.check(&["approvals", "show", &id], 4, "waits for no approval");
    }
    working.stop().await;
    live.sweep().await;
}

/// A decision is listed beside approvals, and answered by the name of an option, on the database
/// and by its server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_is_chosen_from_its_options() {
    let live = Live::new(Database::Sqlite).await;
    let working = LocalWorker::start(live.worker(runtime()).register(flow));
    let url = serve(router_with_flows(live.client.clone(), by_token(), flows(&live).await)).await;
    for shell in [Shell::of(&live), Shell::new(url, None, Some("operator-olga"))] {
        let asks = check(ASKS, &Options::default()).flow.unwrap();
        let run = live.client.start_definition(FlowStart::new(asks)).await.unwrap();
        until("the decision", async || {
            let list = ListApprovals::new().run(run.id());
            (live.client.operate().approvals(list).await.ok()?.items.len() == 1).then_some(())
        })
        .await;
        let id = run.id().to_string();
        shell.check(&["approvals", "list"], 0, "way decision asks");
        shell.check(&["approvals", "choose", &id, "way", "boat"], 2, "post, van");
        shell.check(&["approvals", "choose", &id, "way", "{", "--as-json"], 2, "JSON");
        shell.check(&["approvals", "choose", &id, "gate", "van"], 1, "does not wait for a choice");
        shell.check(&["approvals", "choose", &id, "way", "van", "--note", "heavy"], 0, "inbox");
        assert_eq!(run.result().await.unwrap(), serde_json::json!({ "way": "van" }));
    }
    working.stop().await;
    live.sweep().await;
}
