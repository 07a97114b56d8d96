//! Operators look at a real standby: every read answers and says so, and every change is refused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::common::{Shell, doubled};
use workflow_http::{Access, Actor};
use workflow_sdk::prelude::*;
use workflow_sdk::{ClientError, ConnectError};
use workflow_tests::{Database, Live, LocalWorker, ServerScript, until};
use workflow_worker::{Worker, WorkerError};

/// Sends a request without a body; returns the whole answer.
fn send(address: &str, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer s3cr3t\r\nconnection: close\r\n\
         content-length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Serves routes for as long as the runtime lives; returns their address.
async fn serve(routes: axum::Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let service = routes.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, service).await });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_answers_operators_and_refuses_changes() {
    let live = Live::new(Database::Postgres).await;
    let schema = live.schema().unwrap().to_owned();
    let standby = ServerScript::standby();
    let connect = || Client::connect(standby.url.as_str()).schema(schema.as_str());
    let refused = connect().await.map(drop);
    assert!(matches!(refused, Err(ConnectError::Standby { .. })), "only a program that asks for it: {refused:?}");

    let primary = Shell::of(&live);
    let shell = Shell { url: standby.url.clone(), schema: Some(schema.clone()), token: None };
    let run = primary.says(&["runs", "start", "checkout", "--queue", "mail", "--key", "order-1", "-o", "ids"]);
    until("the standby has the run", async || {
        let listed = shell.run(&["runs", "list", "-o", "ids"]);
        String::from_utf8(listed.stdout).unwrap().contains(&run).then_some(())
    })
    .await;
    // The standby does not see the liveness lock of the worker.
    let working = LocalWorker::start(live.worker(()).register(doubled));
    until("the standby has the worker", async || {
        let listed = shell.run(&["workers", "--json"]);
        String::from_utf8(listed.stdout).unwrap().contains("\"live\": true").then_some(())
    })
    .await;
    let reads: [&[&str]; 15] = [
        &["runs", "list", "key:order-1"],
        &["runs", "show", &run],
        &["runs", "history", &run],
        &["runs", "explain", &run],
        &["counts"],
        &["queues", "list"],
        &["limits", "list"],
        &["schedules", "list"],
        &["approvals", "list"],
        &["workers"],
        &["workflows"],
        &["bulk", "list"],
        &["audit"],
        &["stats"],
        &["failures"],
    ];
    for arguments in reads {
        let output = shell.run(arguments);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{arguments:?}: {told}");
        assert!(told.contains("this is a standby of ") && told.contains("; nothing can be changed here"), "{told}");
    }
    shell.check(&["doctor"], 1, "this is a standby of ", "behind; nothing can be changed here");
    assert!(String::from_utf8(shell.run(&["doctor"]).stdout).unwrap().contains("1 worker lives"));

    let changes: [&[&str]; 9] = [
        &["runs", "start", "checkout"],
        &["runs", "cancel", &run],
        &["runs", "pause", &run],
        &["runs", "signal", &run, "--name", "go"],
        &["queues", "pause", "mail", "--reason", "a test"],
        &["limits", "set", "llm", "--concurrency", "2"],
        &["schedules", "create", "nightly", "checkout", "--every", "1h"],
        &["events", "emit", "shipped", "order-1"],
        &["runs", "cancel", "--where", "status:pending", "--yes"],
    ];
    for arguments in changes {
        shell.check(arguments, 1, "", "and takes no changes");
        shell.check(arguments, 1, "", "send the change to the primary, ");
    }
    shell.check(&["migrate"], 9, "", "connect to the primary");
    assert!(!primary.says(&["queues", "list"]).contains("paused"), "nothing has changed");
    assert_eq!(primary.says(&["runs", "list", "-o", "ids"]), run);

    programs_are_told(connect().allow_standby(true).await.unwrap(), &run).await;
    working.stop().await;
    drop(standby);
    live.sweep().await;
}

/// The client, a worker, the interface over HTTP and the pages, on a client of the standby.
async fn programs_are_told(client: Client, run: &str) {
    let view = client.operate().system().await.unwrap().database.postgres.unwrap();
    let facts = view.standby.expect("the server is a standby");
    assert!(facts.primary.is_some() && facts.lag_millis.is_some(), "{facts:?}");
    let refused = client.start(doubled, 7).await.map(drop);
    let Err(ClientError::Standby(standby)) = &refused else { panic!("a standby takes no start: {refused:?}") };
    assert_eq!(standby.primary, facts.primary);
    let worker = Worker::new(client.clone(), ()).register(doubled).run().await;
    assert!(matches!(worker, Err(WorkerError::Standby(_))), "{worker:?}");

    let access = || Access::token("s3cr3t", Actor::admin("ada"));
    let address = serve(workflow_http::router(client.clone(), access())).await;
    let canceling = address.clone();
    let path = format!("/api/v1/runs/{run}/cancel");
    let answer = tokio::task::spawn_blocking(move || send(&canceling, "POST", &path)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 409 ") && answer.contains("\"code\":\"standby\""), "{answer}");
    let path = format!("/api/v1/runs/{run}");
    let answer = tokio::task::spawn_blocking(move || send(&address, "GET", &path)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");

    let address = serve(workflow_dashboard::router(client.clone(), access())).await;
    let page = tokio::task::spawn_blocking(move || send(&address, "GET", "/queues")).await.unwrap();
    let standby = format!("This is a standby of {}, ", facts.primary.unwrap());
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains(&standby), "{page}");
    assert!(page.contains(" behind. It shows the past, and nothing can be changed here."), "{page}");
    client.store().close().await;
}
