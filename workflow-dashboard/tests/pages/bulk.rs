//! Changes of many runs, without a script.

use std::sync::Arc;

use workflow_dashboard::{Access, Actor, router};
use workflow_engine::store::Write;
use workflow_sdk::operate::ListBulks;
use workflow_sdk::{Client, DatabaseErrorKind, Priority, RunStatus};
use workflow_tests::faulty::Fault;
use workflow_tests::{Database, FaultyStore, Live, LocalWorker, until};

use crate::browser::{Browser, beside};
use crate::{fails, greets};

async fn many_runs_are_changed(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(()).register(greets).register(fails));
    let mut runs = Vec::new();
    for number in 0..5 {
        runs.push(live.client.start(greets, number).key(format!("many-{number}")).await.unwrap());
    }
    let failed = live.client.start(fails, "x".to_owned()).await.unwrap();
    failed.result().await.unwrap_err();
    // A list may miss a run whose status changes while it is read.
    until("runs that wait", async || {
        let list = workflow_sdk::operate::ListRuns::new("status:parked".parse().ok()?);
        let page = workflow_sdk::operate::OperateRuns::runs(&live.client, list).await.ok()?;
        (page.items.len() == 5).then_some(())
    })
    .await;
    let ids: Vec<String> = runs.iter().map(|run| run.id().to_string()).collect();
    let failed = failed.id().to_string();

    let mut browser = Browser::start(&live, Access::local()).await;
    let (first, browser) = beside(move || {
        browser.visit();
        let list = browser.get("/runs?q=workflow:greets");
        list.shows("name=\"run\"").shows("Change all that match").shows("action=\"/workflows/bulk/new\"");
        // Enter on a row that is chosen presses the first button of the form.
        let form = list.text.split("class=\"chosen\"").nth(1).unwrap();
        let first = form.split("<button").nth(1).unwrap().split('>').next().unwrap();
        assert!(first.contains("name=\"action\" value=\"\""), "{first}");
        let entered = browser.get(&format!("/bulk/new?q=workflow:greets&run={}&action=", ids[0]));
        entered.is_page(200).shows("many-0").hides("many-1").hides("All that match");

        // Two that are chosen, and one that has ended.
        let chosen = format!("/bulk/new?q=&run={}&run={}&run={failed}&action=cancel_run", ids[0], ids[1]);
        browser.get(&chosen).is_page(200).shows("3 runs").shows("many-0").hides("many-2").shows("each_run");
        let runs = [ids[0].as_str(), &ids[1], &failed].join(" ");
        let cancel = [("action", "each_run"), ("apply", "cancel_run"), ("runs", &runs), ("reason", "ordered twice")];
        let done = browser.submit(&cancel);
        assert_eq!((done.status, done.header("location")), (303, Some("/workflows/runs")), "{}", done.text);

        // All that a search finds.
        let all = browser.get("/bulk/new?q=workflow:greets+is:open&all=1&action=cancel_run");
        all.is_page(200).shows("All that match").shows("many-4").shows("start_bulk");
        all.shows("workflow runs cancel --where 'workflow:greets is:open'");
        let query = "workflow:greets is:open";
        let order = [("action", "start_bulk"), ("apply", "cancel_run"), ("q", query), ("reason", "a wrong <b>")];
        let done = browser.submit(&order);
        assert_eq!(done.status, 303, "{}", done.text);
        let place = done.header("location").unwrap().strip_prefix("/workflows").unwrap().to_owned();
        browser.get(&place).is_page(200).shows("run.cancel").shows("a wrong &lt;b&gt;");

        for (path, status) in [
            ("/bulk/new", 200),
            ("/bulk/new?run=x", 400),
            ("/bulk/new?all=1&q=status:faild", 400),
            ("/bulk/new?run=01900000-0000-7000-8000-000000000000", 404),
            ("/bulk/x", 400),
            ("/bulk/01900000-0000-7000-8000-000000000000", 404),
            ("/bulk?cursor=x", 400),
        ] {
            browser.get(path).is_page(status);
        }
        let none = [("action", "start_bulk"), ("apply", "delete_run"), ("reason", "no search")];
        browser.submit(&none).is_page(400);
        (place, browser)
    })
    .await;
    until("the end of the operation", async || {
        let page = live.client.operate().bulks(ListBulks::new()).await.ok()?;
        page.items.first().is_some_and(|bulk| bulk.status.has_ended()).then_some(())
    })
    .await;
    for run in &runs {
        until("a canceled run", async || {
            let detail = workflow_sdk::operate::OperateRuns::run(&live.client, run.id()).await.ok()?;
            (detail.summary.status == RunStatus::Canceled).then_some(())
        })
        .await;
    }
    beside(move || {
        browser.get(&first).is_page(200).shows("Done").shows("3 runs dealt with.").shows("aria-label=\"100 % done\"");
        browser.get("/bulk").is_page(200).shows("workflow:greets is:open").shows("run.cancel").shows("local");
        browser.get("/audit?verb=run.cancel").shows("ordered twice");
        // Stopping it once it has ended changes nothing.
        let id = first.rsplit('/').next().unwrap().to_owned();
        let stopped = browser.submit(&[("action", "stop_bulk"), ("bulk", &id), ("back", &first)]);
        assert_eq!(stopped.status, 303, "{}", stopped.text);
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_runs_are_changed_on_sqlite() {
    many_runs_are_changed(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_runs_are_changed_on_postgres() {
    many_runs_are_changed(Database::Postgres).await;
}

/// A list may be older than the cancel of another person.
async fn a_cancel_of_chosen_runs_only_asks(database: Database) {
    let live = Live::new(database).await;
    let working = LocalWorker::start(live.worker(()).register(greets).linger(std::time::Duration::ZERO));
    let (one, other) =
        (live.client.start(greets, 1).await.unwrap().id(), live.client.start(greets, 2).await.unwrap().id());
    let status = async |run| workflow_sdk::operate::OperateRuns::run(&live.client, run).await.unwrap().summary.status;
    for run in [one, other] {
        until("a run that waits", async || (status(run).await == RunStatus::Parked).then_some(())).await;
    }
    working.stop().await;
    live.client.cancel(one).await.unwrap();
    let mut browser = Browser::start(&live, Access::local()).await;
    let reader = Browser::start(&live, Access::local()).await;
    let browser = beside(move || {
        browser.visit();
        // The form of a run does what it says, whatever has happened since it was drawn.
        browser.get(&format!("/runs/{other}")).shows("name=\"only_ask\"");
        browser.get(&format!("/runs/{one}")).shows("This one ends the run at once").hides("name=\"only_ask\"");
        let run = one.to_string();
        browser.submit(&[("action", "cancel_run"), ("run", &run), ("only_ask", "true")]);
        let runs = format!("{one} {other}");
        let cancel = [("action", "each_run"), ("apply", "cancel_run"), ("runs", &runs), ("reason", "twice")];
        let done = browser.submit(&cancel);
        assert_eq!(done.status, 303, "{}", done.text);
        let note = done.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let next = reader.send("GET", "/runs", &[("Cookie", &note)], "");
        next.shows("cancel was done for 1 of 2 runs; asked to end before, and left so: 1");
        browser
    })
    .await;
    assert_eq!((status(one).await, status(other).await), (RunStatus::Parked, RunStatus::Parked));
    beside(move || browser.submit(&[("action", "cancel_run"), ("run", &one.to_string())])).await;
    assert_eq!((status(one).await, status(other).await), (RunStatus::Canceled, RunStatus::Parked));
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_of_chosen_runs_only_asks_on_sqlite() {
    a_cancel_of_chosen_runs_only_asks(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_of_chosen_runs_only_asks_on_postgres() {
    a_cancel_of_chosen_runs_only_asks(Database::Postgres).await;
}

async fn many_runs_change_their_place(database: Database) {
    let live = Live::new(database).await;
    let mut runs = Vec::new();
    for number in 0..3 {
        runs.push(live.client.start(greets, number).key(format!("place-{number}")).await.unwrap().id());
    }
    let ids: Vec<String> = runs.iter().map(ToString::to_string).collect();
    let mut browser = Browser::start(&live, Access::local()).await;
    let (place, browser) = beside(move || {
        browser.visit();
        let both = [ids[0].as_str(), &ids[1]].join(" ");
        // The page has the fields of both actions, and says what will happen.
        let page = browser.get(&format!("/bulk/new?q=&run={}&run={}&action=set_priority", ids[0], ids[1]));
        page.is_page(200).shows("2 runs: each waits with this priority for its first claim");
        page.shows("<select name=\"priority\">").shows("name=\"queue\"");
        page.shows(&format!("workflow runs set-priority PRIORITY {both}"));

        // A value that is refused changes no run.
        let chosen = |fields: &[(&str, &str)]| {
            let order = [("action", "each_run"), ("runs", both.as_str()), ("reason", "first")];
            let all = [&order[..], fields].concat();
            browser.submit(&all)
        };
        let matching = |fields: &[(&str, &str)]| {
            let order = [("action", "start_bulk"), ("q", "workflow:greets"), ("reason", "a new machine")];
            let all = [&order[..], fields].concat();
            browser.submit(&all)
        };
        let long = "q".repeat(300);
        for (fields, says) in [
            (&[("apply", "set_priority")][..], "The field priority is empty"),
            (&[("apply", "set_priority"), ("priority", "soon")][..], "No priority is called soon"),
            (&[("apply", "move_to"), ("queue", " ")][..], "The field queue is empty"),
            (&[("apply", "move_to"), ("queue", long.as_str())][..], "bytes without control characters"),
        ] {
            chosen(fields).is_page(400).shows(says);
            matching(fields).is_page(400).shows(says);
        }

        let done = chosen(&[("apply", "set_priority"), ("priority", "urgent")]);
        assert_eq!(done.status, 303, "{}", done.text);
        let done = matching(&[("apply", "move_to"), ("queue", "imports")]);
        assert_eq!(done.status, 303, "{}", done.text);
        let place = done.header("location").unwrap().strip_prefix("/workflows").unwrap().to_owned();
        (place, browser)
    })
    .await;
    // No worker serves these runs, but any worker does the bulk operation.
    let working = LocalWorker::start(live.worker(()).register(fails));
    until("the end of the operation", async || {
        let page = live.client.operate().bulks(ListBulks::new()).await.ok()?;
        page.items.first().is_some_and(|bulk| bulk.status.has_ended()).then_some(())
    })
    .await;
    for (number, run) in runs.iter().enumerate() {
        let summary = workflow_sdk::operate::OperateRuns::run(&live.client, *run).await.unwrap().summary;
        let priority = if number < 2 { Priority::Urgent } else { Priority::Normal };
        assert_eq!((summary.lane.queue.as_str(), summary.priority), ("imports", Some(priority)), "{number}");
    }
    beside(move || {
        browser.get(&place).is_page(200).shows("run.move_to").shows("3 runs dealt with.");
        browser.get("/audit?verb=run.set_priority").shows("first").shows("urgent");
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_runs_change_their_place_on_sqlite() {
    many_runs_change_their_place(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_runs_change_their_place_on_postgres() {
    many_runs_change_their_place(Database::Postgres).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_bounds_what_is_done_to_many_runs() {
    let live = Live::new(Database::Sqlite).await;
    let run = live.client.start(greets, 1).await.unwrap().id().to_string();
    let access = Access::by(async |parts| match parts.headers.get("x-user")?.to_str().ok()? {
        "viewer" => Some(Actor::viewer("viewer")),
        name => Some(Actor::operator(name)),
    });
    let browser = Browser::start(&live, access).await;
    beside(move || {
        let token = "0123456789abcdef0123456789abcdef";
        let cookie = format!("workflow_token={token}");
        let submit = |user: &str, fields: &[(&str, &str)]| {
            let headers = [("X-User", user), ("Sec-Fetch-Site", "same-origin"), ("Cookie", cookie.as_str())];
            browser.submit_from(&headers, token, fields)
        };
        browser.send("GET", "/runs", &[("X-User", "viewer")], "").is_page(200).hides("name=\"run\"");
        let preview = browser.send("GET", &format!("/bulk/new?run={run}"), &[("X-User", "viewer")], "");
        preview.is_page(200).hides("each_run");
        for (user, apply) in [("viewer", "cancel_run"), ("operator", "delete_run")] {
            for action in [("each_run", "runs", run.as_str()), ("start_bulk", "q", "is:open")] {
                let (action, name, value) = action;
                let refused = submit(user, &[("action", action), ("apply", apply), (name, value), ("reason", "x")]);
                refused.is_page(403).shows("needs the role").hides("Send again");
            }
        }
        let limit = [("action", "set_limit"), ("limit", "l"), ("concurrency", "-1"), ("reason", "x")];
        submit("operator", &limit).is_page(400).hides("Send again");
        let retry = [("action", "each_run"), ("apply", "retry_run"), ("runs", "x"), ("reason", "x")];
        submit("operator", &retry).is_page(400).shows("Send again");
    })
    .await;
    let runs = workflow_sdk::operate::OperateRuns::runs(&live.client, Default::default()).await.unwrap();
    assert_eq!(runs.items[0].status, RunStatus::Pending, "nothing was changed");
    live.sweep().await;
}

/// The page tells of the runs that were dealt with before, and no further one is tried.
async fn a_database_that_goes_away_ends_the_change_of_chosen_runs(database: Database) {
    let live = Live::new(database).await;
    let mut runs = Vec::new();
    for number in 0..3 {
        runs.push(live.client.start(greets, number).await.unwrap().id());
    }
    let store = Arc::new(FaultyStore::new(Arc::clone(live.client.store())));
    let second = runs[1];
    let is_second = move |write: &Write| matches!(write.inner(), Write::Cancel(run) if *run == second);
    store.fail_next(is_second, Fault::Before(DatabaseErrorKind::Moved));
    let client = Client::over(store.clone(), 1024 * 1024);
    let mut browser = Browser::serve(router(client, Access::local())).await;
    let ids: Vec<String> = runs.iter().map(ToString::to_string).collect();
    let chosen = ids.join(" ");
    beside(move || {
        browser.visit();
        let cancel = [("action", "each_run"), ("apply", "cancel_run"), ("runs", &chosen), ("reason", "a test")];
        let stopped = browser.submit(&cancel);
        stopped.is_page(503).shows("The database is away").shows("Use the database to which the system was moved");
        stopped.shows(&format!("1 run was dealt with before; whether run {second} was changed is not known"));
        stopped.hides("of 3 runs");
        let left = stopped.fields().into_iter().find(|(name, _)| name == "runs").map(|(_, left)| left);
        assert_eq!(left.as_deref(), chosen.split_once(' ').map(|(_, left)| left), "the first run is done");
    })
    .await;
    assert_eq!(store.faults_left(), 0);
    for (run, expected) in runs.into_iter().zip([RunStatus::Canceled, RunStatus::Pending, RunStatus::Pending]) {
        let summary = workflow_sdk::operate::OperateRuns::run(&live.client, run).await.unwrap().summary;
        assert_eq!(summary.status, expected);
    }
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_goes_away_ends_the_change_of_chosen_runs_on_sqlite() {
    a_database_that_goes_away_ends_the_change_of_chosen_runs(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_goes_away_ends_the_change_of_chosen_runs_on_postgres() {
    a_database_that_goes_away_ends_the_change_of_chosen_runs(Database::Postgres).await;
}
