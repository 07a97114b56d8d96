//! The route of the metrics in a program that nests it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{Server, beside};
use workflow_http::metrics_router;
use workflow_sdk::metrics::DatabaseGauges;
use workflow_tests::{Database, Live};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scrape_gets_what_the_recorder_has_even_without_the_database() {
    let live = Live::new(Database::Sqlite).await;
    let scrapes = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&scrapes);
    let render = move || format!("scrapes {}\n", counted.fetch_add(1, Ordering::Relaxed) + 1);
    let server = Server::serve(metrics_router(DatabaseGauges::new(live.client.clone()), render)).await;
    let answer = beside(move || server.get("/metrics")).await;
    assert_eq!((answer.status, answer.text.as_str()), (200, "scrapes 1\n"));
    assert!(answer.head.contains("text/plain; version=0.0.4"), "{}", answer.head);
    // New gauges have read nothing yet, so that this scrape asks the database.
    live.client.store().close().await;
    let gauges = DatabaseGauges::new(live.client.clone());
    gauges.refresh().await.unwrap_err();
    let server = Server::serve(metrics_router(gauges, || "alone\n".to_owned())).await;
    let answer = beside(move || server.get("/metrics")).await;
    assert_eq!((answer.status, answer.text.as_str()), (200, "alone\n"));
    live.sweep().await;
}
