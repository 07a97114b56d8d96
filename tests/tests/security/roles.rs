//! The PostgreSQL roles of `docs/guide/security.md`: the owner of the schema, the role of workers
//! and clients, and a role that only reads.

use workflow_flows::{FlowStore, InboxMessage, InboxStore, KbDocument, KbSearch, KbStore};
use workflow_sdk::operate::{Action, BulkAction, ListAudit, ListFailures, ListStats, Order, StartBulk};
use workflow_sdk::prelude::*;
use workflow_sdk::{ConnectError, RunFilter};
use workflow_tests::postgres::postgres_url;
use workflow_tests::secret_values::{marked, marked_child, marked_failure, secret, tell};
use workflow_tests::{Database, Live, LocalWorker, Probe, RawConnection};
use workflow_worker::{GateLimits, Limit, Queue, Rate, Worker};

const GUIDE: &str = include_str!("../../../docs/guide/security.md");

/// Returns the guide's SQL block that starts with the comment `begin`, changed to use `schema` and
/// roles with its name.
fn sql(begin: &str, schema: &str) -> String {
    let mut blocks = GUIDE.split("```sql\n").map(str::trim_start);
    let block = blocks.find(|block| block.starts_with(begin)).expect("the guide has this block");
    let block = block.split("```").next().expect("a block ends");
    let block =
        block.replace("SCHEMA workflow", &format!("SCHEMA {schema}")).replace("workflow.", &format!("{schema}."));
    ["owner", "runtime", "reader"]
        .iter()
        .fold(block, |block, role| block.replace(&format!("workflow_{role}"), &format!("{schema}_{role}")))
}

#[workflow]
async fn limited(ctx: &Ctx<Probe>) -> Result<()> {
    ctx.step("limited", async || ok(())).limit("llm", "acct-42").await
}

/// Returns the server's URL for a role without a password.
fn url_of(role: &str) -> String {
    let url = postgres_url();
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (_, server) = rest.split_once('@').expect("a URL with a user");
    format!("{scheme}://{role}@{server}")
}

async fn connect(schema: &str, role: &str) -> Result<Client, ConnectError> {
    let url = url_of(&format!("{schema}_{role}"));
    Client::connect(url).schema(schema).await
}

/// Executes a statement as a role. Returns the error code if the database refuses it.
async fn refusal(schema: &str, role: &str, statement: &str) -> Option<String> {
    use workflow_sdk::sqlx::{AssertSqlSafe, Connection, PgConnection, raw_sql};
    let url = url_of(&format!("{schema}_{role}"));
    let mut connection = PgConnection::connect(&url).await.expect("the role may log in");
    let statement = statement.replace("{schema}", schema);
    let result = raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await;
    result.err().and_then(|error| Some(error.as_database_error()?.code()?.into_owned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_needs_no_permission_to_change_the_schema() {
    let db = Live::new(Database::Postgres).await;
    let schema = format!("r_{}", &db.schema().expect("a schema")[2..20]);
    let schema = schema.as_str();
    let mut raw: RawConnection = db.raw().await;
    raw.execute(sql("-- As a superuser", schema).replace("DATABASE app", "DATABASE postgres")).await;

    assert!(connect(schema, "runtime").await.is_err(), "the runtime role cannot create the schema");
    let owner = connect(schema, "owner").await.expect("the owner migrates");
    owner.store().close().await;
    raw.execute(format!("SET ROLE {schema}_owner; {}; RESET ROLE", sql("-- As workflow_owner", schema))).await;

    let flows_url = |role| {
        let url = url_of(&format!("{schema}_{role}"));
        let separator = if url.contains('?') { '&' } else { '?' };
        format!("{url}{separator}options[search_path]={schema}")
    };
    assert!(FlowStore::connect(&flows_url("runtime")).await.is_err(), "the runtime role cannot create the table");
    drop(FlowStore::connect(&flows_url("owner")).await.expect("the owner creates the table of flows"));
    raw.execute(format!("SET ROLE {schema}_owner; {}; RESET ROLE", sql("-- As workflow_owner, with flows", schema)))
        .await;
    let flows = FlowStore::connect(&flows_url("runtime")).await.expect("the table exists");
    let greet = serde_json::json!({
        "language": 1, "name": "greet", "input": true, "timeout": 60_000, "on_timeout": "fail", "body": { "do": [] },
    });
    let greet = serde_json::from_value(greet).expect("a flow");
    flows.deploy(&greet, "ann", None).await.expect("the runtime role deploys");
    let flows = FlowStore::connect(&flows_url("reader")).await.expect("a reader needs no right to write");
    assert_eq!(flows.list().await.unwrap().len(), 1);
    assert!(flows.deploy(&greet, "ann", Some("2")).await.is_err(), "a reader does not deploy");
    drop(flows);

    let of_owner = flows_url("owner");
    assert!(KbStore::connect(&flows_url("runtime")).await.is_err(), "the runtime role cannot create the base");
    drop((KbStore::connect(&of_owner).await.unwrap(), InboxStore::connect(&of_owner).await.unwrap()));
    let grants = sql("-- As workflow_owner, with a knowledge base", schema);
    raw.execute(format!("SET ROLE {schema}_owner; {grants}; RESET ROLE")).await;
    let kb = KbStore::connect(&flows_url("runtime")).await.expect("the table exists");
    kb.put(&KbDocument::new("support", "t-1", "Printer", "")).await.expect("the runtime role writes documents");
    assert_eq!(kb.put(&KbDocument::new("support", "t-1", "Printer jam", "")).await.unwrap(), 2);
    let kb = KbStore::attach(&flows_url("reader")).await.expect("a reader needs no right to write");
    assert_eq!(kb.search(&KbSearch::new("printer").unwrap()).await.unwrap().len(), 1);
    assert!(kb.put(&KbDocument::new("support", "t-2", "", "")).await.is_err(), "a reader does not write");
    let inbox = InboxStore::connect(&flows_url("runtime")).await.expect("the table exists");
    assert!(inbox.put(&InboxMessage::new("k", "text")).await.unwrap());
    assert!(inbox.mark_read(1).await.unwrap().is_some());
    let inbox = InboxStore::attach(&flows_url("reader")).await.unwrap();
    assert_eq!(inbox.list(None, false, None, 9).await.unwrap().len(), 1);
    assert!(inbox.mark_read(1).await.is_err(), "a reader marks nothing");
    drop((kb, inbox));

    let client = connect(schema, "runtime").await.expect("the schema is up to date");
    let probe = Probe::new();
    let worker = Worker::new(client.clone(), probe).register(marked).register(marked_child).register(marked_failure);
    let worker = worker.register(limited).limit(Limit::new("llm").concurrency(10).rate(Rate::per_second(1000)));
    // With limits, gates and rates, workers write further tables.
    let of_gate = GateLimits::none().concurrency(10).rate(Rate::per_second(1000));
    let queue = Queue::new("default").concurrency(100).rate(Rate::per_second(1000)).per_gate(of_gate);
    let working = LocalWorker::start(worker.queue(queue));
    let run = client.start(marked, secret("input")).key("k").await.unwrap();
    for _ in 0..2 {
        tell(&client, &run).await;
    }
    run.result().await.unwrap();
    client.start(limited, ()).await.unwrap().result().await.unwrap();
    let failed = client.start(marked_failure, secret("input")).gate("acct-1").await.unwrap();
    failed.result().await.unwrap_err();
    let fork = run.fork().from("flaky").await.unwrap();
    fork.cancel().await.unwrap();
    client.pause(fork.id()).await.unwrap();
    working.stop().await;
    let done = client.start(limited, ()).key("deleted").await.unwrap();
    done.cancel().await.unwrap();
    done.delete().await.expect("the runtime role deletes runs");
    let pause = Order::new(Action::PauseQueue { queue: "mail".into() }).reason("the roles");
    client.operate().perform(pause).await.expect("the runtime role leaves audit rows");
    let bulk = StartBulk::new("status:failed".parse().unwrap(), BulkAction::CancelRun);
    let bulk = Order::new(Action::StartBulk(Box::new(bulk)));
    client.operate().perform(bulk).await.expect("the runtime role orders bulk operations");

    let reader = connect(schema, "reader").await.expect("a reader connects");
    assert!(reader.list(&RunFilter::new()).await.unwrap().len() >= 4);
    reader.export(run.id()).await.unwrap();
    assert_eq!(reader.operate().audit(ListAudit::new()).await.unwrap().items.len(), 2);
    let stats = reader.operate().stats(ListStats::new()).await.unwrap();
    assert!(
        stats.groups[0].total.failed > 0 && stats.groups[0].total.canceled > 0,
        "the runtime role counts: {stats:?}"
    );
    assert!(!reader.operate().failures(ListFailures::new()).await.unwrap().items.is_empty());
    let report = Worker::new(reader.clone(), Probe::new()).register(marked).preflight().await;
    report.expect("a preflight needs only read access");
    let start = reader.start(marked_child, "no".into()).await;
    assert!(start.is_err(), "{start:?}");

    let missing = async |client: &Client| {
        client.operate().system().await.unwrap().database.postgres.expect("a server").missing_rights
    };
    let lacks = missing(&client).await;
    assert!(lacks.is_empty(), "the guide grants what `workflow doctor` asks for: {lacks:?}");
    let lacks = missing(&reader).await;
    let of_runs = lacks.iter().find(|lacks| lacks.table == "workflow_runs").map(|lacks| lacks.rights.as_str());
    assert_eq!(of_runs, Some("DELETE, INSERT, UPDATE"), "{lacks:?}");

    const DENIED: &str = "42501";
    let tables = ["workflow_runs", "step_attempts", "workflow_signals", "workflow_workers", "workflow_schema"];
    for role in ["runtime", "reader"] {
        for table in tables {
            for statement in [
                format!("ALTER TABLE {{schema}}.{table} ADD COLUMN x text"),
                format!("DROP TABLE {{schema}}.{table}"),
                format!("TRUNCATE {{schema}}.{table}"),
                format!("CREATE INDEX x ON {{schema}}.{table} ((1))"),
            ] {
                assert_eq!(refusal(schema, role, &statement).await.as_deref(), Some(DENIED), "{role}: {statement}");
            }
        }
        for statement in ["CREATE TABLE {schema}.x (a text)", "DROP SCHEMA {schema} CASCADE", "CREATE SCHEMA x"] {
            assert_eq!(refusal(schema, role, statement).await.as_deref(), Some(DENIED), "{role}: {statement}");
        }
    }
    for (role, statement) in [
        ("runtime", "DELETE FROM {schema}.workflow_lanes"),
        ("runtime", "DELETE FROM {schema}.workflow_audit"),
        ("runtime", "DELETE FROM {schema}.workflow_bulk"),
        ("runtime", "DELETE FROM {schema}.workflow_flows"),
        ("runtime", "DELETE FROM {schema}.workflow_knowledge"),
        ("runtime", "DELETE FROM {schema}.workflow_inbox"),
        ("runtime", "UPDATE {schema}.workflow_flows SET body = '{}'"),
        ("runtime", "UPDATE {schema}.workflow_audit SET actor = 'eve'"),
        ("runtime", "INSERT INTO {schema}.workflow_schema VALUES (99)"),
        ("runtime", "UPDATE {schema}.workflow_schema SET version = 99"),
        ("reader", "UPDATE {schema}.workflow_runs SET status = 'canceled'"),
        ("reader", "INSERT INTO {schema}.workflow_signals VALUES (NULL)"),
        ("reader", "DELETE FROM {schema}.step_attempts"),
        ("reader", "DELETE FROM {schema}.workflow_runs"),
        ("reader", "DELETE FROM {schema}.workflow_stats"),
    ] {
        assert_eq!(refusal(schema, role, statement).await.as_deref(), Some(DENIED), "{role}: {statement}");
    }
    client.store().close().await;
    reader.store().close().await;
    let roles = ["owner", "runtime", "reader"].map(|role| format!("{schema}_{role}")).join(", ");
    raw.execute(format!("DROP SCHEMA {schema} CASCADE; DROP OWNED BY {roles}; DROP ROLE {roles}")).await;
    db.sweep().await;
}
