//! Requests that must change nothing and show nothing.

use workflow_dashboard::{Access, Actor};
use workflow_tests::{Database, Live, LocalWorker};

use crate::browser::{Browser, beside};
use crate::fails;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_form_of_another_site_changes_nothing() {
    let live = Live::new(Database::Sqlite).await;
    let mut browser = Browser::start(&live, Access::local()).await;
    beside(move || {
        browser.visit();
        let token = browser.get("/workflows").text;
        assert!(!token.contains("token\" value=\"\""), "a form without a token");
        let form = [("action", "start_run"), ("workflow", "greets"), ("input", "1")];
        let good = browser.submit(&form);
        assert_eq!(good.status, 303, "{}", good.text);
        let token = cookie(&browser);
        for headers in [
            &[("Origin", "https://evil.example")][..],
            &[("Origin", "null")],
            &[("Sec-Fetch-Site", "cross-site")],
            &[("Sec-Fetch-Site", "same-site")],
            &[("Sec-Fetch-Site", "none")],
            &[],
            &[("Sec-Fetch-Site", "cross-site"), ("Origin", "http://localhost")],
        ] {
            browser.submit_from(headers, &token, &form).is_page(403).hides("Send again");
        }
        for token in ["", "x", "0123456789abcdef0123456789abcdef"] {
            browser
                .submit_from(&[("Sec-Fetch-Site", "same-origin")], token, &form)
                .is_page(403)
                .shows("older than")
                .hides("Send again");
        }
        // A name that leads to this machine, as after a rebinding.
        for host in ["evil.example", "127.0.0.1.nip.io:7777", ""] {
            browser.send("GET", "/runs", &[("Host", host)], "").is_page(401).hides("greets").hides("class=\"rail\"");
        }
        let elsewhere = [&form[..], &[("back", "//evil.example")]].concat();
        browser.submit(&elsewhere);
        for back in ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"] {
            let done = browser.submit(&[
                ("action", "pause_queue"),
                ("queue", "default"),
                ("reason", "a test"),
                ("back", back),
            ]);
            assert_eq!(done.header("location"), Some("/workflows"), "{back}: {}", done.text);
        }
        browser.send("POST", "/orders", &[("Sec-Fetch-Site", "same-origin")], "{}").is_page(415);
        browser.send("POST", "/runs", &[("Sec-Fetch-Site", "same-origin")], "").is_page(404);
        let large = "x".repeat(1_100_000);
        browser.submit(&[("action", "start_run"), ("workflow", "w"), ("input", &large)]).is_page(413);
        for path in ["/runs/..%2f..%2fetc", "/queues/%3Cscript%3E", "/runs/%00", "/assets/..%2fapp.css"] {
            let page = browser.get(path);
            assert!((400..500).contains(&page.status), "{path}: {}", page.status);
            page.hides("<script>");
        }
    })
    .await;
    assert_eq!(live.client.operate().runs(Default::default()).await.unwrap().items.len(), 2, "the two good forms");
    live.sweep().await;
}

fn cookie(browser: &Browser) -> String {
    let page = browser.get("/workflows");
    let field = page.text.split("name=\"token\" value=\"").nth(1).unwrap_or_else(|| panic!("{}", page.text));
    field.split('"').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_viewer_reads_and_changes_nothing() {
    let live = Live::new(Database::Sqlite).await;
    let working = LocalWorker::start(live.worker(()).register(fails));
    let run = live.client.start(fails, "card 4711".to_owned()).await.unwrap();
    run.result().await.unwrap_err();
    let access = Access::by(async |parts| {
        let name = parts.headers.get("x-user")?.to_str().ok()?;
        Some(Actor::viewer(name).without_payloads())
    });
    let browser = Browser::start(&live, access).await;
    let read_only = Browser::start(&live, Access::open().read_only()).await;
    let locked = Browser::start(&live, Access::password("ops", "horse", Actor::operator("ops"))).await;
    let id = run.id();
    beside(move || {
        browser.get("/runs").is_page(401);
        let user = ("X-User", "ada");
        for path in ["", "/runs", &format!("/runs/{id}"), &format!("/runs/{id}?step=charge"), "/audit"] {
            let page = browser.send("GET", path, &[user], "");
            page.is_page(200).hides("4711").hides("method=\"post\"").shows("ada");
        }
        for tab in ["history", "data"] {
            browser.send("GET", &format!("/runs/{id}?tab={tab}"), &[user], "").is_page(200).hides("4711");
        }
        browser.send("GET", &format!("/runs/{id}/payload?of=input"), &[user], "").is_page(403).hides("4711");
        let token = "0123456789abcdef0123456789abcdef";
        let cookie = format!("workflow_token={token}");
        let headers = [user, ("Sec-Fetch-Site", "same-origin"), ("Cookie", cookie.as_str())];
        let form = [("action", "delete_run"), ("run", &id.to_string())];
        browser.submit_from(&headers, token, &form).is_page(403).shows("needs the role Admin").hides("Send again");
        // A form that cannot be read is refused before its role is known.
        for action in ["start_run", "set_limit"] {
            let unread = [("action", action), ("workflow", "w"), ("limit", "l"), ("input", "{"), ("rate", "x")];
            browser.submit_from(&headers, token, &unread).is_page(400).hides("Send again");
        }
        read_only.submit_from(&headers, token, &form).is_page(403).shows("only reads");
        read_only.get(&format!("/runs/{id}")).is_page(200).shows("4711").hides("method=\"post\"");
        let page = locked.get("/runs");
        page.is_page(401).hides("4711");
        assert!(page.header("www-authenticate").unwrap().starts_with("Basic"), "{}", page.head);
        locked.send("GET", "/runs", &[("Authorization", "Basic b3BzOmhvcnNl")], "").is_page(200);
        locked.send("GET", "/runs", &[("Authorization", "Basic b3BzOmhvcnNm")], "").is_page(401);
    })
    .await;
    assert!(live.client.operate().run(run.id()).await.is_ok(), "nothing was deleted");
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_with_names_of_secrets_are_left_out() {
    let live = Live::new(Database::Sqlite).await;
    let input = serde_json::json!({ "order": 7, "card": "4711" });
    let run = live.client.start_by_name("checkout", &input).await.unwrap().id();
    let browser = Browser::start(&live, Access::local()).await;
    beside(move || {
        for place in ["", "?tab=data", "/payload?of=input"] {
            let page = browser.get(&format!("/runs/{run}{place}"));
            assert_eq!(page.status, 200);
            page.shows("order").hides("4711");
        }
    })
    .await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn assets_are_kept_and_open_to_all() {
    let live = Live::new(Database::Sqlite).await;
    let browser = Browser::start(&live, Access::password("ops", "horse", Actor::viewer("ops"))).await;
    beside(move || {
        let page = browser.get("");
        for part in ["rel=\"icon\"", "rel=\"stylesheet\""] {
            let asset = browser.get(&page.link_behind(part));
            assert_eq!(asset.status, 200, "{part}");
            assert!(asset.header("cache-control").unwrap().contains("immutable"), "{}", asset.head);
        }
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(browser.get("/assets/app-0.css").status, 404);
    })
    .await;
    live.sweep().await;
}
