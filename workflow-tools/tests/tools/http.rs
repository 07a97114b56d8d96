use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use workflow_flows::{ErrorClass, Tool, ToolCall, ToolError};
use workflow_tools::http::{Credentials, Http, HttpBuilder};

use crate::call;
use crate::stub::{Reply, Stub};

/// A client that may reach 127.0.0.1 alone.
fn builder() -> HttpBuilder {
    Http::builder().allow_network("127.0.0.1".parse().unwrap()).timeout(Duration::from_secs(20))
}

fn http() -> Http {
    builder().build().unwrap()
}

async fn refused(http: &Http, args: Value) -> ToolError {
    call(http, args).await.expect_err("it is refused")
}

#[tokio::test]
async fn an_answer_is_read_by_its_type() {
    let stub = Stub::start(|request| match request.split(' ').nth(1).unwrap() {
        "/json" => Reply::json(r#"{"id": 7}"#),
        "/text" => {
            Reply::new("200 OK", "content-type: text/plain\r\nset-cookie: s=hunter2\r\nx-a: 1\r\nx-a: 2\r\n", "hi")
        }
        "/wrong" => Reply::json("<html>"),
        _ => Reply::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n\xff\x00".to_vec()),
    })
    .await;
    let http = http();
    let json = call(&http, json!({ "url": stub.url("/json") })).await.unwrap();
    assert_eq!((&json["status_code"], &json["body"]["id"]), (&json!(200), &json!(7)));
    let text = call(&http, json!({ "url": stub.url("/text") })).await.unwrap();
    assert_eq!((&text["body"], &text["headers"]["x-a"]), (&json!("hi"), &json!("1, 2")));
    assert!(!text.to_string().contains("hunter2"), "cookies are credentials");
    assert_eq!(call(&http, json!({ "url": stub.url("/wrong") })).await.unwrap()["body"], "<html>");
    let error = refused(&http, json!({ "url": stub.url("/wrong"), "expect": "json" })).await;
    assert_eq!(error.class, ErrorClass::Failed);
    assert_eq!(call(&http, json!({ "url": stub.url("/raw") })).await.unwrap()["body_base64"], "/wA=");
    assert!(call(&http, json!({ "url": stub.url("/raw"), "expect": "text" })).await.is_err());
}

#[tokio::test]
async fn a_request_carries_what_the_flow_says_and_the_key() {
    let stub = Stub::start(|_| Reply::json("null")).await;
    let args = json!({
        "method": "POST", "url": stub.url("/charges"), "query": { "a": [1, 2] }, "headers": { "X-Trace": 5 }, "json": { "n": 1 },
    });
    call(&http(), args).await.unwrap();
    let request = stub.requests().remove(0).to_ascii_lowercase();
    assert!(request.starts_with("post /charges?a=1&a=2 http/1.1\r\n"), "{request}");
    for line in
        ["idempotency-key: run-1/charge", "x-trace: 5", "content-type: application/json", "accept-encoding: identity"]
    {
        assert!(request.contains(&format!("\r\n{line}\r\n")), "{line} is missing in {request}");
    }
    assert!(request.ends_with("{\"n\":1}"), "{request}");
}

#[tokio::test]
async fn a_value_in_the_path_leads_to_no_other_path() {
    let stub = Stub::start(|_| Reply::json("null")).await;
    for path in ["/orders/../admin", "/orders/%2e%2E/admin", "/orders/..\\admin", "/orders/..?x=1"] {
        let error = refused(&http(), json!({ "url": stub.url(path) })).await;
        assert_eq!((error.class, error.message.contains("`..`")), (ErrorClass::Invalid, true), "{path}: {error}");
    }
    assert_eq!(stub.requests().len(), 0, "nothing was sent");
    // As `url.encode` writes it.
    call(&http(), json!({ "url": stub.url("/orders/..%2Fadmin") })).await.unwrap();
    assert!(stub.requests()[0].starts_with("GET /orders/..%2Fadmin "), "{}", stub.requests()[0]);
}

#[tokio::test]
async fn a_status_decides_the_class() {
    let stub = Stub::start(|request| {
        let status = request.split(['/', ' ']).nth(2).unwrap();
        Reply::new(&format!("{status} Status"), "retry-after: 7\r\n", "")
    })
    .await;
    let http = http();
    for (status, class) in [
        (400, ErrorClass::Invalid),
        (404, ErrorClass::Invalid),
        (408, ErrorClass::Timeout),
        (429, ErrorClass::RateLimited),
        (500, ErrorClass::Unavailable),
        (503, ErrorClass::Unavailable),
    ] {
        let error = refused(&http, json!({ "url": stub.url(&format!("/{status}")) })).await;
        assert_eq!(error.class, class, "{status}");
        assert_eq!(error.retry_after, Some(Duration::from_secs(7)), "{status}");
        let accepted = json!({ "url": stub.url(&format!("/{status}")), "accept": [404, "400-410", "429", "5xx"] });
        assert_eq!(call(&http, accepted).await.unwrap()["status_code"], status);
    }
}

#[tokio::test]
async fn private_addresses_are_refused_in_every_form() {
    let stub = Stub::start(|_| Reply::json("1")).await;
    let port = stub.address.port();
    let closed = Http::builder().build().unwrap();
    for host in [
        "127.0.0.1",
        "localhost",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "0.0.0.0",
        "[::]",
        "169.254.169.254",
        "[64:ff9b::127.0.0.1]",
    ] {
        let error = refused(&closed, json!({ "url": format!("http://{host}:{port}/") })).await;
        assert_eq!(error.class, ErrorClass::Invalid, "{host}: {error}");
        assert!(error.message.contains("private address"), "{host}: {error}");
    }
    assert_eq!(stub.requests().len(), 0, "nothing was sent");
    // The resolver gives the allowed address of a name alone.
    assert!(call(&http(), json!({ "url": format!("http://localhost:{port}/") })).await.is_ok());
    let error = refused(&http(), json!({ "url": format!("http://127.0.0.2:{port}/") })).await;
    assert!(error.message.contains("private address"), "{error}");
}

#[tokio::test]
async fn redirects_stay_on_the_host() {
    let stub = Stub::start(|request| match request.split(' ').nth(1).unwrap() {
        "/a" => Reply::new("302 Found", "location: /b\r\n", ""),
        "/b" => Reply::new("307 Temporary", "location: /c\r\n", ""),
        "/loop" => Reply::new("302 Found", "location: /loop\r\n", ""),
        "/file" => Reply::new("302 Found", "location: file:///etc/passwd\r\n", ""),
        _ => Reply::json("\"end\""),
    })
    .await;
    let http = http();
    let args =
        json!({ "method": "POST", "url": stub.url("/a"), "json": 1, "headers": { "authorization": "Bearer hunter2" } });
    assert_eq!(call(&http, args).await.unwrap()["body"], "end");
    let seen = stub.requests();
    assert!(seen[1].starts_with("GET /b") && seen[1].contains("hunter2"), "the same server: {}", seen[1]);
    assert!(refused(&http, json!({ "url": stub.url("/loop") })).await.message.contains("more than 5 times"));
    let error = refused(&http, json!({ "url": stub.url("/a"), "redirects": false })).await;
    assert_eq!(error.class, ErrorClass::Invalid);
    let stays = call(&http, json!({ "url": stub.url("/a"), "redirects": false, "accept": ["3xx"] })).await.unwrap();
    assert_eq!(stays["headers"]["location"], "/b");
    assert!(call(&http, json!({ "url": stub.url("/file") })).await.is_err());
}

#[tokio::test]
async fn redirects_to_other_hosts_are_not_followed_or_carry_nothing() {
    let other = Stub::start(|_| Reply::json("\"other\"")).await;
    let target = other.url("/x");
    let stub = Stub::start(move |request| {
        let status = if request.starts_with("POST") { "307 Temporary" } else { "302 Found" };
        Reply::new(status, &format!("location: {target}\r\n"), "")
    })
    .await;
    let args = json!({ "url": stub.url("/"), "headers": { "authorization": "Bearer hunter2", "x-key": "hunter3", "accept": "a/b" } });
    let error = refused(&http(), args.clone()).await;
    assert!(error.message.contains("redirects"), "{error}");
    assert_eq!(other.requests().len(), 0, "another port is another server");
    let crosses = builder().cross_host_redirects(true).build().unwrap();
    assert_eq!(call(&crosses, args).await.unwrap()["body"], "other");
    let seen = other.requests().remove(0);
    assert!(seen.contains("accept: a/b") && !seen.contains("hunter"), "{seen}");
    let posted = json!({ "method": "POST", "url": stub.url("/"), "text": "hunter2" });
    assert_eq!(refused(&crosses, posted).await.class, ErrorClass::Invalid);
    assert_eq!(other.requests().len(), 1, "a body goes to no other host");
}

#[tokio::test]
async fn a_redirect_to_a_private_address_is_refused() {
    let inner = Stub::start_at("127.0.0.2:0", |_| Reply::json("\"inner\"")).await;
    let target = inner.url("/latest/meta-data");
    let stub = Stub::start(move |_| Reply::new("302 Found", &format!("location: {target}\r\n"), "")).await;
    let crosses = builder().cross_host_redirects(true).build().unwrap();
    let error = refused(&crosses, json!({ "url": stub.url("/") })).await;
    assert!(error.message.contains("private address"), "{error}");
    assert_eq!(inner.requests().len(), 0);
}

#[tokio::test]
async fn hostile_servers_are_bounded() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
    let stub = Stub::start(|request| match request.split(' ').nth(1).unwrap() {
        "/silent" => Reply::Silent,
        "/endless" => Reply::Endless(HEAD),
        "/headers" => Reply::Endless("HTTP/1.1 200 OK\r\nx: "),
        "/declared" => Reply::Endless("HTTP/1.1 200 OK\r\ncontent-length: 9999999999\r\n\r\n"),
        "/cut" => Reply::Reset("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"),
        "/reset" => Reply::Reset(""),
        "/gzip" => Reply::new("200 OK", "content-encoding: gzip\r\n", "bomb"),
        _ => Reply::Bytes(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec()),
    })
    .await;
    let http = http();
    let of =
        async |path: &str, timeout: &str| refused(&http, json!({ "url": stub.url(path), "timeout": timeout })).await;
    let error = of("/silent", "200ms").await;
    assert_eq!((error.class, error.message.contains("200ms")), (ErrorClass::Timeout, true), "{error}");
    for path in ["/endless", "/declared"] {
        let error = of(path, "20s").await;
        assert_eq!((error.class, error.message.contains("1048576 bytes")), (ErrorClass::Invalid, true), "{error}");
    }
    for path in ["/cut", "/reset", "/headers", "/nothing"] {
        assert_eq!(of(path, "20s").await.class, ErrorClass::Connection, "{path}");
    }
    assert!(of("/gzip", "20s").await.message.contains("encoded"), "nothing is unpacked");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = refused(&http, json!({ "url": format!("http://127.0.0.1:{closed}/") })).await;
    assert_eq!(error.class, ErrorClass::Connection, "{error}");
    let error = refused(&http, json!({ "url": "http://no-such-host.invalid/" })).await;
    assert_eq!(error.class, ErrorClass::Connection, "{error}");
}

#[tokio::test]
async fn the_time_of_the_step_bounds_the_call() {
    let stub = Stub::start(|_| Reply::Silent).await;
    let mut of_step = ToolCall::new(json!({ "url": stub.url("/") }), "ann", "key");
    of_step.timeout = Some(Duration::from_millis(100));
    assert_eq!(http().call(of_step).await.unwrap_err().class, ErrorClass::Timeout);
}

#[tokio::test]
async fn no_error_holds_a_secret() {
    let stub = Stub::start(|request| {
        let echo = request.replace("\r\n", " ");
        Reply::new("422 Unprocessable", "", &format!("field amount is wrong; you sent {echo}"))
    })
    .await;
    let args = json!({
        "method": "POST", "url": stub.url("/bot-hunter2/send?k=hunter3"), "query": { "api_key": "hunter4" },
        "headers": { "Authorization": "Bearer hunter5" }, "json": { "deep": [{ "password": "hunter6" }] },
    });
    let error = refused(&http(), args.clone()).await;
    assert!(error.message.contains("field amount is wrong"), "the server's reason is kept: {error}");
    assert!(!error.message.contains("hunter"), "{error}");
    let broken = Stub::start(|_| Reply::Reset("")).await;
    let mut elsewhere = args;
    elsewhere["url"] = json!(broken.url("/bot-hunter2/send?k=hunter3"));
    assert!(!refused(&http(), elsewhere).await.message.contains("hunter"));
}

struct PerActor;

#[async_trait]
impl Credentials for PerActor {
    async fn headers(&self, actor: &str, host: &str) -> Result<Vec<(String, String)>, ToolError> {
        Ok(vec![("authorization".to_owned(), format!("Bearer hunter2-{actor}-{host}"))])
    }
}

#[tokio::test]
async fn credentials_are_those_of_the_actor() {
    let stub = Stub::start(|request| {
        let sent = request.lines().find(|line| line.starts_with("authorization")).unwrap_or_default();
        Reply::new("403 Forbidden", "", sent)
    })
    .await;
    let http = builder().credentials(PerActor).build().unwrap();
    let error = refused(&http, json!({ "url": stub.url("/"), "headers": { "Authorization": "Bearer mine" } })).await;
    assert!(!error.message.contains("hunter2"), "{error}");
    assert!(stub.requests()[0].contains("authorization: Bearer hunter2-ann-127.0.0.1\r\n"), "{}", stub.requests()[0]);
}

#[tokio::test]
async fn a_server_without_tls_is_refused_by_https() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 200 OK\r\n\r\n").await;
    });
    assert_eq!(refused(&http(), json!({ "url": url })).await.class, ErrorClass::Connection);
}

#[tokio::test]
async fn actions_of_the_dialect_keep_their_statuses() {
    let stub = Stub::start(|_| Reply::new("404 Not Found", "content-type: application/json\r\n", "{\"e\": 1}")).await;
    let actions = http().actions();
    let get = actions.iter().find(|tool| tool.name() == "http.get").unwrap();
    let result = call(get.as_ref(), json!({ "url": stub.url("/"), "timeout": "5s" })).await.unwrap();
    assert_eq!((&result["status_code"], &result["status"]), (&json!(404), &json!("404 Not Found")));
    assert_eq!(result["body"], json!({ "e": 1 }));
    assert!(result["duration_ms"].is_u64());
    let strict = json!({ "url": stub.url("/"), "fail_on_error_status": true });
    assert_eq!(call(get.as_ref(), strict).await.unwrap_err().class, ErrorClass::Invalid);
}
