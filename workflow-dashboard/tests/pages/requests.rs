//! Hostile requests, one a line: each is refused, and changes nothing.

use workflow_dashboard::{Access, Actor};
use workflow_sdk::operate::ListAudit;
use workflow_tests::{Database, Live};

use crate::browser::{Browser, Page, beside, escaped};
use crate::greets;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A request and the status of its answer.
type Case<'a> = (&'a str, u16, Box<dyn Fn(&Browser) -> Page + 'a>);

/// Returns a form as the body of a request.
fn body(fields: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    pairs.join("&")
}

/// Sends a form with these headers beside the usual ones.
fn post(browser: &Browser, path: &str, headers: &[(&str, &str)], body: &str) -> Page {
    let cookie = format!("workflow_token={TOKEN}");
    let mut all = vec![("X-User", "ada"), ("Content-Type", "application/x-www-form-urlencoded")];
    if !headers.iter().any(|(name, _)| *name == "Cookie") {
        all.push(("Cookie", &cookie));
    }
    all.retain(|(name, _)| !headers.iter().any(|(other, _)| other == name));
    all.extend_from_slice(headers);
    browser.send("POST", path, &all, body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_requests_are_refused() {
    let live = Live::new(Database::Sqlite).await;
    let run = live.client.start(greets, 1).await.unwrap().id().to_string();
    let access = Access::by(async |parts| match parts.headers.get("x-user")?.to_str().ok()? {
        "ada" => Some(Actor::admin("ada")),
        "viewer" => Some(Actor::viewer("viewer")),
        "operator" => Some(Actor::operator("operator")),
        _ => None,
    });
    let browser = Browser::start(&live, access).await;
    let local = Browser::start(&live, Access::local()).await;
    beside(move || {
        let terminate = body(&[("token", TOKEN), ("action", "terminate_run"), ("run", &run)]);
        let here = ("Sec-Fetch-Site", "same-origin");
        let sent = |headers: &'static [(&'static str, &'static str)]| {
            let form = terminate.clone();
            Box::new(move |browser: &Browser| post(browser, "/orders", headers, &form)) as Box<dyn Fn(&Browser) -> Page>
        };
        let form = |fields: Vec<(&'static str, String)>| {
            let mut pairs = vec![("token", TOKEN.to_owned())];
            pairs.extend(fields);
            let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let form = body(&pairs);
            Box::new(move |browser: &Browser| post(browser, "/orders", &[here], &form)) as Box<dyn Fn(&Browser) -> Page>
        };
        let by = |user: &'static str, fields: Vec<(&'static str, String)>| {
            let mut pairs = vec![("token", TOKEN.to_owned())];
            pairs.extend(fields);
            let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
            let form = body(&pairs);
            Box::new(move |browser: &Browser| post(browser, "/orders", &[here, ("X-User", user)], &form))
                as Box<dyn Fn(&Browser) -> Page>
        };
        let get = |path: &'static str| {
            Box::new(move |browser: &Browser| browser.send("GET", path, &[("X-User", "ada")], ""))
                as Box<dyn Fn(&Browser) -> Page>
        };
        let with = |method: &'static str, path: &'static str| {
            Box::new(move |browser: &Browser| browser.send(method, path, &[("X-User", "ada"), here], ""))
                as Box<dyn Fn(&Browser) -> Page>
        };
        let run = || run.clone();
        let cases: Vec<Case<'_>> = vec![
            // Forms of other pages.
            ("a foreign origin", 403, sent(&[("Origin", "https://evil.example")])),
            ("no origin", 403, sent(&[])),
            ("an opaque origin", 403, sent(&[("Origin", "null")])),
            ("an origin without a scheme", 403, sent(&[("Origin", "localhost")])),
            ("another port", 403, sent(&[("Origin", "http://127.0.0.1:1")])),
            ("a longer name", 403, sent(&[("Origin", "http://127.0.0.1.evil.example")])),
            ("a cross-site form", 403, sent(&[("Sec-Fetch-Site", "cross-site")])),
            ("a form of the same site", 403, sent(&[("Sec-Fetch-Site", "same-site")])),
            ("a form that was typed", 403, sent(&[("Sec-Fetch-Site", "none")])),
            ("two words in the header", 403, sent(&[("Sec-Fetch-Site", "same-origin, cross-site")])),
            (
                "cross-site with the right origin",
                403,
                sent(&[("Sec-Fetch-Site", "cross-site"), ("Origin", "http://localhost")]),
            ),
            // Tokens.
            ("no cookie", 403, sent(&[("Sec-Fetch-Site", "same-origin"), ("Cookie", "other=1")])),
            (
                "another cookie",
                403,
                sent(&[
                    ("Sec-Fetch-Site", "same-origin"),
                    ("Cookie", "workflow_token=ffffffffffffffffffffffffffffffff"),
                ]),
            ),
            ("a short cookie", 403, sent(&[("Sec-Fetch-Site", "same-origin"), ("Cookie", "workflow_token=0")])),
            ("an empty cookie", 403, sent(&[("Sec-Fetch-Site", "same-origin"), ("Cookie", "workflow_token=")])),
            // Bodies.
            (
                "JSON in place of a form",
                415,
                sent(&[("Sec-Fetch-Site", "same-origin"), ("Content-Type", "application/json")]),
            ),
            (
                "text in place of a form",
                415,
                sent(&[("Sec-Fetch-Site", "same-origin"), ("Content-Type", "text/plain")]),
            ),
            (
                "several parts in place of a form",
                415,
                sent(&[("Sec-Fetch-Site", "same-origin"), ("Content-Type", "multipart/form-data; boundary=x")]),
            ),
            (
                "a body of more than 1 MiB",
                413,
                form(vec![("action", "start_run".into()), ("workflow", "w".into()), ("input", "7".repeat(1_100_000))]),
            ),
            ("no action", 400, form(vec![])),
            ("an unknown action", 400, form(vec![("action", "drop_tables".into())])),
            ("an id that is a path", 400, form(vec![("action", "terminate_run".into()), ("run", "../../etc".into())])),
            ("an id with a quote", 400, form(vec![("action", "terminate_run".into()), ("run", "' OR 1=1 --".into())])),
            (
                "every run by an empty search that is missing",
                400,
                form(vec![("action", "start_bulk".into()), ("apply", "delete_run".into())]),
            ),
            (
                "many runs, one of them no id",
                400,
                form(vec![
                    ("action", "each_run".into()),
                    ("apply", "delete_run".into()),
                    ("runs", format!("{} x", run())),
                ]),
            ),
            (
                "more runs than a page has",
                400,
                form(vec![
                    ("action", "each_run".into()),
                    ("apply", "delete_run".into()),
                    ("runs", vec![run(); 101].join(" ")),
                ]),
            ),
            (
                "a name with a line break",
                400,
                form(vec![
                    ("action", "signal_run".into()),
                    ("run", run()),
                    ("name", "a\r\nSet-Cookie: x".into()),
                    ("payload", "{".into()),
                ]),
            ),
            // Roles.
            ("a viewer terminates", 403, by("viewer", vec![("action", "terminate_run".into()), ("run", run())])),
            (
                "a viewer terminates many",
                403,
                by(
                    "viewer",
                    vec![("action", "start_bulk".into()), ("apply", "terminate_run".into()), ("q", "".into())],
                ),
            ),
            (
                "a viewer stops a bulk operation",
                403,
                by("viewer", vec![("action", "stop_bulk".into()), ("bulk", run())]),
            ),
            ("a viewer starts", 403, by("viewer", vec![("action", "start_run".into()), ("workflow", "w".into())])),
            ("an operator deletes", 403, by("operator", vec![("action", "delete_run".into()), ("run", run())])),
            (
                "an operator deletes many",
                403,
                by("operator", vec![("action", "each_run".into()), ("apply", "delete_run".into()), ("runs", run())]),
            ),
            (
                "an operator sets a limit",
                403,
                by(
                    "operator",
                    vec![("action", "set_limit".into()), ("limit", "l".into()), ("concurrency", "0".into())],
                ),
            ),
            ("a stranger", 401, by("mallory", vec![("action", "terminate_run".into()), ("run", run())])),
            // Paths and methods.
            ("a path in an id", 400, get("/runs/..%2f..%2fetc%2fpasswd")),
            ("a null byte in an id", 400, get("/runs/%00")),
            ("a path in the name of a file", 404, get("/assets/..%2f..%2fCargo.toml")),
            ("markup in the name of a workflow", 404, get("/workflows/%3Cscript%3E")),
            ("markup in the name of a queue", 404, get("/queues/%3Cscript%3E")),
            ("an order by GET", 404, get("/orders?action=terminate_run")),
            ("a page by POST", 404, with("POST", "/runs")),
            ("a run by DELETE", 404, with("DELETE", "/runs/01900000-0000-7000-8000-000000000000")),
            ("another method", 404, with("TRACE", "/")),
            ("a place that belongs to no list", 400, get("/runs?cursor=%27;--")),
            (
                "a number that is too large",
                400,
                get("/runs/01900000-0000-7000-8000-000000000000?from=99999999999999999999"),
            ),
        ];
        assert!(cases.len() >= 40, "{}", cases.len());
        for (name, status, request) in &cases {
            let page = request(&browser);
            assert_eq!(page.status, *status, "{name}: {}", page.text);
            page.hides("<script>");
            assert!(!page.head.to_lowercase().contains("set-cookie: x"), "{name}: {}", page.head);
        }
        // A name that leads to this machine, as after a rebinding.
        for host in ["evil.example", "127.0.0.1.nip.io", "localhost.evil.example", "[::1].evil.example", ""] {
            local.send("GET", "/runs", &[("Host", host)], "").is_page(401).hides("greets");
        }
        for back in [
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "javascript:alert(1)",
            "/%0d%0aX: y",
            "/\r\nX: y",
        ] {
            let pause = [("token", TOKEN), ("action", "pause_queue"), ("queue", "q"), ("reason", "r"), ("back", back)];
            let done = post(&browser, "/orders", &[here], &body(&pause));
            let place = done.header("location").unwrap_or_default().to_owned();
            assert!(place == "/workflows" || place.starts_with("/workflows/%0d"), "{back:?}: {place} {}", done.text);
        }
    })
    .await;
    let audit = live.client.operate().audit(ListAudit::new().verb("run.")).await.unwrap();
    assert!(audit.items.is_empty(), "no run was changed: {:?}", audit.items);
    live.sweep().await;
}
