//! The main path: a person finds a run, reads it and changes it, without a script.

use workflow_dashboard::{Access, Streams};
use workflow_tests::{Database, Live, LocalWorker, until};

use crate::browser::{Browser, beside};
use crate::{DOUBLE_LINE, asks, fails, greets};

pub(crate) const PAGES: [&str; 13] = [
    "",
    "/runs",
    "/words",
    "/approvals",
    "/failures",
    "/workflows",
    "/flows",
    "/queues",
    "/schedules",
    "/workers",
    "/bulk",
    "/audit",
    "/system",
];

async fn a_person_finds_a_run_and_acts(database: Database) {
    let live = Live::new(database).await;
    let mut browser = Browser::start(&live, Access::local()).await;
    let browser = beside(move || {
        for path in PAGES {
            browser.get(path).is_page(200);
        }
        browser.get("").shows("Nothing has run here yet");
        browser.get("/runs").shows("No run yet");
        browser.visit();
        browser
    })
    .await;

    let working = LocalWorker::start(live.worker(()).register(greets).register(asks).register(fails));
    let greeted = live.client.start(greets, 21).key("order-1").tag("region", "eu").await.unwrap();
    let asked = live.client.start(asks, ()).await.unwrap();
    let failed = live.client.start(fails, "<script>alert(1)</script>".to_owned()).await.unwrap();
    failed.result().await.unwrap_err();
    until("the approval", async || {
        (live.client.operate().approvals(Default::default()).await.ok()?.items.len() == 1).then_some(())
    })
    .await;
    until("the step and its source line", async || {
        let timeline = live.client.operate().timeline(greeted.id()).await.ok()?;
        timeline.rows.first()?.source_line.clone()
    })
    .await;

    let ids = [greeted.id(), asked.id(), failed.id()].map(|id| id.to_string());
    let browser = beside(move || {
        let [greeted, asked, failed] = &ids;
        for path in PAGES {
            browser.get(path).is_page(200).hides("<script>alert");
        }
        find(&browser, greeted, failed);
        read(&browser, greeted, failed);

        let run = greeted.as_str();
        let back = format!("/runs/{run}");
        let pause = [("action", "pause_run"), ("run", run), ("back", &back), ("reason", "a look")];
        let done = browser.submit(&pause);
        assert_eq!((done.status, done.header("location")), (303, Some(format!("/workflows/runs/{run}").as_str())));
        browser.get(&back).shows("Paused").shows("Resume");
        browser.submit(&[("action", "resume_run"), ("run", run), ("back", &back)]);
        let signal = [("action", "signal_run"), ("run", run), ("name", "greeting"), ("payload", "\"hello\"")];
        assert_eq!(browser.submit(&signal).status, 303);
        let approve =
            [("action", "approve"), ("run", asked), ("step", "ship"), ("note", "fine"), ("back", "/approvals")];
        assert_eq!(browser.submit(&approve).status, 303);
        browser.get("/audit").shows("run.pause").shows("a look").shows("run.decide").shows("local");
        browser.get("/audit?verb=run.pause").shows("a look").hides("run.decide");

        let started =
            browser.submit(&[("action", "start_run"), ("workflow", "greets"), ("input", "9223372036854775807.10")]);
        let place = started.header("location").unwrap().strip_prefix("/workflows").unwrap().to_owned();
        browser.get(&place).is_page(200).shows("9223372036854775807.10");
        let lost = [
            ("action", "start_run"),
            ("workflow", "greets"),
            ("input", "{\"a\" 1}"),
            ("key", "order-<2>"),
            ("tags", "a=1\nb=2"),
            ("back", "/workflows"),
        ];
        let bad = browser.submit(&lost);
        bad.is_page(400).shows("line 1 column 6").shows("Send again").shows("{&quot;a&quot; 1}</textarea>");
        bad.shows("<input name=\"key\" value=\"order-&lt;2&gt;\"").shows("a=1\nb=2</textarea>");
        bad.shows("<input type=\"hidden\" name=\"workflow\" value=\"greets\">");
        let worse = browser.submit_again(&bad, "input", "[1");
        worse.is_page(400).shows("[1</textarea>").shows("href=\"/workflows/workflows\">Go back");
        let mended = browser.submit_again(&worse, "input", "8");
        assert_eq!(mended.status, 303, "{}", mended.text);
        browser.get("/runs?q=tag.b:2").is_page(200).shows("order-&lt;2&gt;");
        let retried = browser.submit(&[("action", "retry_run"), ("run", asked)]);
        retried.is_page(409).shows("Send again").hides("Try again");
        browser
    })
    .await;
    assert_eq!(greeted.result().await.unwrap().as_deref(), Some("hello"));
    assert!(asked.result().await.unwrap());
    let id = asked.id();
    beside(move || {
        browser.get(&format!("/runs/{id}")).shows("Succeeded");
        browser.submit(&[("action", "delete_run"), ("run", &id.to_string())]);
        browser.get(&format!("/runs/{id}")).is_page(404).shows("This is not here");
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

fn find(browser: &Browser, greeted: &str, failed: &str) {
    let listed = |query: &str| browser.get(&format!("/runs?q={query}"));
    listed("status:failed").is_page(200).shows(failed).hides(greeted);
    listed("tag.region:eu").shows(greeted).hides(failed).shows("order-1");
    listed("status:failed+-workflow:fails").shows("No run matches");
    listed("status:faild").is_page(400).shows("<mark>faild</mark>").shows("Did you mean");
    listed("cursor").is_page(400);
    browser.get("/runs?cursor=nonsense").is_page(400);
    let found = listed(&greeted[24..]);
    assert_eq!((found.status, found.header("location")), (303, Some(format!("/workflows/runs/{greeted}").as_str())));
    browser.get("/words?q=sta").is_page(200).shows("data-text=\"status:\"").shows("data-text=\"started:\"");
    browser.get("/words?q=workflow:gr").shows("data-text=\"workflow:greets\"").hides("data-text=\"workflow:fails\"");
    browser.get("/words?q=tag.").shows("data-text=\"tag.region:eu\"");
    browser.get("/runs").shows("workflow runs list").shows("class=\"facet\"");
}

fn read(browser: &Browser, greeted: &str, failed: &str) {
    let run = browser.get(&format!("/runs/{greeted}?step=double"));
    run.is_page(200)
        .shows("greets")
        .shows("double: done after")
        .shows("Source line")
        .shows(&format!("workflow-dashboard/tests/pages/main.rs:{DOUBLE_LINE}"))
        .shows("Output")
        .shows("42")
        .shows("Run again from here");
    browser.get(&format!("/runs/{greeted}?tab=history")).is_page(200).shows("double").shows("signal");
    browser.get(&format!("/runs/{greeted}?tab=data")).is_page(200).shows("21");
    let signals = browser.get(&format!("/runs/{greeted}?tab=signals"));
    signals.is_page(200).shows("greeting").shows("waits").shows("Send a signal");
    browser.get(&format!("/runs/{greeted}?tab=family")).is_page(200).shows("The run has started no other run");
    let run_page = browser.get(&format!("/runs/{greeted}"));
    let closer = browser.get(&run_page.link_behind(">Fit<"));
    closer.is_page(200).shows("aria-label=\"Earlier\"");
    for window in ["0-1", "999999999-9999999999", "5-2", "x", "-"] {
        browser.get(&format!("/runs/{greeted}?at={window}")).is_page(200);
    }
    let failure = browser.get(&format!("/runs/{failed}?step=charge"));
    failure.is_page(200).shows("&lt;script&gt;alert(1)&lt;/script&gt;").shows("Retry");
    let input = browser.get(&format!("/runs/{failed}/payload?of=input"));
    assert!(input.header("content-disposition").unwrap().starts_with("attachment"), "{}", input.head);
    assert_eq!(input.text, "\"<script>alert(1)</script>\"");
    browser.get("/runs/01900000-0000-7000-8000-000000000000").is_page(404);
    browser.get("/runs/no-id").is_page(400);
    browser.get("/nothing").is_page(404).shows("There is no such page");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_finds_a_run_and_acts_on_sqlite() {
    a_person_finds_a_run_and_acts(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_finds_a_run_and_acts_on_postgres() {
    a_person_finds_a_run_and_acts(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_turn_pages_in_both_directions() {
    let live = Live::new(Database::Sqlite).await;
    for number in 0..120 {
        live.client.start(greets, number).key(format!("key-{number:03}")).await.unwrap();
    }
    let browser = Browser::start(&live, Access::local()).await;
    beside(move || {
        let newest = browser.get("/runs?q=workflow:greets");
        newest.shows("key-119").shows("key-070").hides("key-069");
        let older = browser.get(&newest.link_behind("listfoot"));
        older.shows("key-069").shows("key-020").hides("key-070");
        let oldest = browser.get(&older.link_behind(">Newer<"));
        oldest.shows("key-019").shows("key-000").hides("key-020");
        // "Newer" leads back to the first page, which shows further starts.
        let middle = browser.get(&oldest.link_behind(">Newest<"));
        middle.is_page(200).shows("key-069").shows("key-020").hides("key-070");
        let first = browser.get(&middle.link_behind(">Newest<"));
        assert_eq!((first.status, first.header("location")), (303, Some("/workflows/runs?q=workflow:greets")));
    })
    .await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_is_told_of_changes() {
    let live = Live::new(Database::Sqlite).await;
    let run = live.client.start(greets, 1).await.unwrap().id();
    let streams = Streams::default();
    let browser = Browser::start(&live, Access::local().streams(streams.clone())).await;
    let headers = [("Accept", "text/event-stream"), ("Last-Event-ID", "nonsense")];
    // The server ends what it has begun to send.
    streams.end();
    beside(move || {
        for of in ["".to_owned(), "?q=status:failed".to_owned(), format!("?run={run}")] {
            let told = browser.send("GET", &format!("/changes{of}"), &headers, "");
            told.shows("event: reset").shows("retry: ");
            assert_eq!((told.status, told.header("content-type")), (200, Some("text/event-stream")));
            assert!(told.header("set-cookie").is_none(), "{}", told.head);
        }
        browser.get("/changes?q=status:faild").is_page(400);
        browser.get("/changes?run=01900000-0000-7000-8000-000000000000").is_page(404);
        let stranger = browser.send("GET", "/changes", &[("Host", "evil.example")], "");
        assert_eq!(stranger.status, 401);
    })
    .await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_gets_the_content_alone_and_only_if_it_changed() {
    let live = Live::new(Database::Sqlite).await;
    let mut browser = Browser::start(&live, Access::local()).await;
    let browser = beside(move || {
        let part = browser.send("GET", "/approvals", &[("X-Workflow-Part", "main")], "");
        part.shows("No decision is asked for").hides("<html").hides("class=\"rail\"");
        assert!(part.header("set-cookie").is_none(), "a refresh changes no token");
        let tag = part.header("x-workflow-tag").unwrap();
        let again = browser.send("GET", "/approvals", &[("X-Workflow-Part", "main"), ("X-Workflow-Tag", tag)], "");
        assert_eq!((again.status, again.text.as_str()), (304, ""));
        browser.visit();
        browser
    })
    .await;
    live.client.store().close().await;
    beside(move || {
        let away = browser.get("/runs");
        away.is_page(503).shows("The database is away").shows("Try again").hides("Send again");
        let answer = [
            ("action", "choose"),
            ("run", "01900000-0000-7000-8000-000000000000"),
            ("step", "ask"),
            ("value", "[\"<1>\"]"),
            ("note", "first"),
        ];
        let lost = browser.submit(&answer);
        lost.is_page(503).shows("The database is away").shows("[&quot;&lt;1&gt;&quot;]</textarea>").shows("\"first\"");
        let again = browser.submit_again(&lost, "note", "second");
        again.is_page(503).shows("&lt;1&gt;").shows("\"second\"").hides("\"first\"");
    })
    .await;
}
