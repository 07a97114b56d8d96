//! Signals that no step of a run has read.

use workflow_dashboard::Access;
use workflow_tests::{Database, Live, LocalWorker};

use crate::browser::{Browser, Page, beside};
use crate::greets;

/// Returns how many unread signals of this name the page lists.
fn unread(page: &Page, name: &str) -> usize {
    let list = page.text.split("aria-label=\"Unread signals\"").nth(1).unwrap_or_default();
    let list = list.split("</table>").next().unwrap_or_default();
    list.matches(&format!("<strong>{name}</strong>")).count()
}

async fn unread_signals_are_listed(database: Database) {
    let live = Live::new(database).await;
    let run = live.client.start(greets, 1).await.unwrap();
    let id = run.id().to_string();
    live.client.signal(run.id(), "by-program", &1).await.unwrap();
    let mut browser = Browser::start(&live, Access::local()).await;
    let (browser, id) = beside(move || {
        browser.visit();
        let place = format!("/runs/{id}?tab=signals");
        browser.get(&place).is_page(200).hides("Unread signals").shows("A signal that a program sent is listed once");
        for (name, payload) in [("greeting", "\"hello\""), ("greeting", "\"again\""), ("other", "1")] {
            let signal = [("action", "signal_run"), ("run", id.as_str()), ("name", name), ("payload", payload)];
            assert_eq!(browser.submit(&signal).status, 303);
        }
        let page = browser.get(&place);
        page.is_page(200).shows("Not read yet").hides("by-program").hides("Asked for");
        assert_eq!((unread(&page, "greeting"), unread(&page, "other")), (2, 1), "{}", page.text);
        (browser, id)
    })
    .await;
    let working = LocalWorker::start(live.worker(()).register(greets));
    assert_eq!(run.result().await.unwrap().as_deref(), Some("hello"));
    beside(move || {
        let page = browser.get(&format!("/runs/{id}?tab=signals"));
        page.is_page(200).shows("Never read").shows("Asked for").hides("Send a signal");
        assert_eq!((unread(&page, "greeting"), unread(&page, "other")), (1, 1), "{}", page.text);
    })
    .await;
    working.stop().await;
    live.sweep().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_signals_are_listed_on_sqlite() {
    unread_signals_are_listed(Database::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_signals_are_listed_on_postgres() {
    unread_signals_are_listed(Database::Postgres).await;
}
