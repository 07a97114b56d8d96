use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection, Row};
use workflow_engine::model::RunFilter;
use workflow_engine::store::{DatabaseErrorKind, Store, StoreOptions, Write};

use super::PostgresStore;
use super::fixture_tests::{Fixture, TestResult, fixture, new_run, url};
use super::timeline::Place;

/// Returns the place of the test server as a role without any right sees it.
async fn place_of_server(fixture: &Fixture) -> TestResult<Place> {
    fixture.execute("CREATE ROLE r_{schema} LOGIN PASSWORD 'secret'").await?;
    let server = url()?;
    let (scheme, rest) = server.split_once("://").ok_or("no URL")?;
    let rest = rest.split_once('@').map_or(rest, |(_, rest)| rest);
    let as_role = format!("{scheme}://r_{}:secret@{rest}", fixture.schema);
    let mut connection = PgConnection::connect(&as_role).await?;
    let row = fixture.store.sql.read_timeline.query().fetch_one(&mut connection).await?;
    connection.close().await?;
    fixture.execute("DROP ROLE r_{schema}").await?;
    Ok(Place { system: row.try_get("system_identifier")?, timeline: row.try_get("timeline")? })
}

/// Every session of a store that has met a newer timeline is refused, and nothing is written.
#[tokio::test]
async fn a_server_on_an_older_timeline_is_refused_and_nothing_is_written() -> TestResult {
    let fixture = fixture().await?;
    let place = place_of_server(&fixture).await?;
    assert!(place.timeline >= 1, "{place:?}");
    let options = StoreOptions { pool_size: 1, schema: fixture.schema.clone(), ..StoreOptions::default() };
    let store = PostgresStore::open(&url()?, options).await?;
    // As if another server of this name had been promoted, and had been met.
    store.sql.timeline.admit(Place { timeline: place.timeline + 1, ..place })?;
    let begun = Instant::now();
    let run = new_run();
    let committed = store.commit(&[Write::Start(run.clone())]).await.map(drop);
    let listed = store.list(&RunFilter::new()).await.map(drop);
    let listening = store.listen().await.map(drop);
    for refused in [committed, listed, listening] {
        let error = refused.err().ok_or("a session was not refused")?;
        assert_eq!(error.kind, DatabaseErrorKind::OldTimeline, "{error}: {}", error.source);
    }
    // A pool tries for ten seconds.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert!(fixture.store.list(&RunFilter::new()).await?.is_empty());

    // The store that has not met the newer timeline works, and so does a new one.
    let new = fixture.second().await?;
    new.commit(&[Write::Start(run)]).await?;
    assert_eq!(fixture.store.list(&RunFilter::new()).await?.len(), 1);
    Ok(())
}
