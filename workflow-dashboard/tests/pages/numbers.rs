//! Statistics, failures, and the weight of pages.

use workflow_dashboard::{Access, Actor};
use workflow_sdk::operate::{ListFailures, ListStats};
use workflow_tests::{Database, Live, LocalWorker, until};

use crate::browser::{Browser, beside, compressed};
use crate::story::PAGES;
use crate::{fails, greets};

async fn numbers_are_shown(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(()).register(fails).register(greets));
    let mut last = String::new();
    for reason in ["BankTimeout", "BankTimeout", "BankTimeout", "CardDeclined <b>now</b>"] {
        let run = live.client.start(fails, reason.to_owned()).await.unwrap();
        run.result().await.unwrap_err();
        last = run.id().to_string();
    }
    live.client.start(greets, 4).await.unwrap();
    live.client.start(greets, 5).queue("mail for ada").await.unwrap();
    until("the counts", async || {
        let stats = live.client.operate().stats(ListStats::new()).await.ok()?;
        let failures = live.client.operate().failures(ListFailures::new()).await.ok()?;
        (stats.groups[0].total.failed == 4 && failures.items.len() == 2).then_some(())
    })
    .await;
    let access = Access::by(async |parts| {
        let name = parts.headers.get("x-user").and_then(|name| name.to_str().ok())?;
        let actor = Actor::admin(name);
        Some(if name == "blind" { actor.without_payloads() } else { actor })
    });
    let browser = Browser::start(&live, access).await;
    beside(move || {
        let get = |path: &str, user: &str| browser.send("GET", path, &[("X-User", user)], "");
        for range in ["", "?range=24h", "?range=7d", "?range=%3Cscript%3E"] {
            let page = get(range, "ada");
            page.is_page(200).shows("4 runs ended, 4 of them failed").shows("BankTimeout").shows("0.0 % well");
            page.shows("4 of 4 runs of fails failed").hides("<script>");
        }
        // The links to the ranges lead to the overview, which has no slash behind the prefix.
        let overview = get("", "ada");
        for (before, range) in [("class=\"ranges\"", "1h"), (">1 h</a>", "24h"), (">24 h</a>", "7d")] {
            let link = overview.link_behind(before);
            assert_eq!(link, format!("?range={range}"));
            get(&link, "ada").is_page(200).shows("4 runs ended");
        }
        let failures = get("/failures", "ada");
        failures
            .is_page(200)
            .shows("BankTimeout")
            .shows("CardDeclined &lt;b&gt;now&lt;/b&gt;")
            .shows("charge")
            .shows(&last);
        get("/failures?workflow=greets", "ada").shows("No run has failed");
        get("/failures?range=1h&workflow=fails", "ada").is_page(200).shows("BankTimeout");
        for path in ["", "/failures", "/workflows/fails"] {
            get(path, "blind").is_page(200).hides("BankTimeout").hides("CardDeclined").shows("Error of kind");
        }
        let workflow = get("/workflows/fails?range=24h", "ada");
        workflow.is_page(200).shows("BankTimeout").shows("p99").shows("4 runs ended");
        get("/workflows/unknown", "ada").is_page(404);
        get("/workflows", "ada").is_page(200).shows("Ended in 24 h");
        get("/queues/default", "ada").is_page(200).shows("4 runs ended");
        get("/queues", "ada").is_page(200).shows("/queues/mail%20for%20ada\"");
        get("/queues/mail%20for%20ada", "ada").is_page(200).shows("mail for ada");
        // A column leads to the runs of its minute.
        let runs = get(&get("", "ada").link_behind("class=\"base\""), "ada");
        runs.is_page(200).shows(&last);
        weigh(&|path| get(path, "ada"), &last);
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

/// Checks the weight of pages: at most four requests, and bounds after compression.
fn weigh(get: &dyn Fn(&str) -> crate::browser::Page, run: &str) {
    for path in PAGES.into_iter().chain(["/workflows/fails", "/queues/default", &format!("/runs/{run}")]) {
        let page = get(path);
        let size = page.compressed();
        assert!(size <= 25_000, "{path} has {size} bytes");
        let loaded = ["<script ", "<link rel=\"icon\"", "<link rel=\"stylesheet\"", "<img"];
        let requests: usize = loaded.iter().map(|part| page.text.matches(part).count()).sum();
        assert_eq!(requests, 3, "{path} has further files");
    }
    let page = get("");
    let style = get(&page.link_behind("rel=\"stylesheet\""));
    let size = compressed(style.text.as_bytes());
    assert!(size <= 8_000, "{size} bytes of style");
    let place = page.text.split("src=\"/workflows").nth(1).unwrap().split('"').next().unwrap();
    let size = compressed(get(place).text.as_bytes());
    assert!(size <= 12_000, "{size} bytes of script");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_shown_on_sqlite() {
    numbers_are_shown(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_are_shown_on_postgres() {
    numbers_are_shown(Database::Postgres).await;
}
