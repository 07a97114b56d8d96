//! Hostile names, which would do harm if they became part of a statement's text.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRng, TestRunner};
use workflow_engine::store::StoreOptions;
use workflow_sdk::prelude::*;
use workflow_sdk::{ClientError, ConnectError, LimitRule, Rate, RunFilter, SCHEDULE_TAG, Schedule};
use workflow_tests::{Live, LocalWorker};

const HOSTILE: [&str; 11] = [
    "'",
    "''; DROP TABLE workflow_runs; --",
    "\"; DROP SCHEMA workflow CASCADE; --",
    "$1",
    "{schema}",
    "{now}",
    "%s%n",
    "\\'; SELECT pg_sleep(100); --",
    "a/*",
    "[\"a\",null]",
    "naïve \u{1f980} ' || (SELECT 1) || '",
];

/// Returns the hostile names, and `count` random ones of characters that are special in SQL, JSON
/// or patterns.
fn names(count: usize) -> Vec<String> {
    let mut runner = TestRunner::new_with_rng(Config::default(), TestRng::deterministic_rng(Default::default()));
    let made = "['\"\\\\;$%_{}\\[\\]()*/ -|:,.0a\u{e4}\u{202e}\u{0}\n]{1,40}";
    let made = proptest::string::string_regex(made).unwrap();
    let random = (0..count).map(|_| made.new_tree(&mut runner).unwrap().current());
    HOSTILE.iter().map(|name| (*name).to_owned()).chain(random).collect()
}

#[workflow]
async fn named(ctx: &Ctx, name: String) -> Result<String> {
    let kept = ctx.step(&name, async || Ok::<_, Error>(name.clone())).limit(&name, &name).await?;
    ctx.publish(&name, &kept)?;
    ctx.emit(&name, &kept)?;
    let received: Option<String> = ctx.signal(name.as_str()).await?;
    Ok(received.unwrap_or_default())
}

/// Every name is either stored and found unchanged, or refused as a name.
pub async fn a_hostile_name_is_stored_as_it_is_or_refused(db: Live) {
    let working = LocalWorker::start(db.worker(()).register(named));
    let tables = db.raw().await.table_names().await;
    let mut accepted = 0;
    for name in names(40) {
        let rule = LimitRule::none().concurrency(1).rate(Rate::per_second(1000));
        if let Err(refused) = db.client.limit(&name).set(rule).await {
            assert!(matches!(refused, ClientError::Name(_)), "{name:?}: {refused}");
        }
        let start = db.client.start(named, name.clone()).key(&name).tag(&name, &name).version("1");
        let run = match start.await {
            Ok(run) => run,
            Err(ClientError::Name(_)) if name.chars().any(|c| c.is_control() || c == '\u{202e}') => continue,
            Err(error) => panic!("{name:?}: {error}"),
        };
        accepted += 1;
        let record = db.client.limit(&name).record().await.unwrap();
        assert_eq!(record.map(|record| record.name), Some(name.clone()));
        run.signal(name.as_str(), &name).key(&name).await.unwrap();
        assert_eq!(run.result().await.unwrap(), name);
        assert_eq!(db.client.emit(name.as_str(), &name, &name).await.unwrap(), 0);
        assert_eq!(run.state::<String>(&name).await.unwrap().as_ref(), Some(&name));
        assert!(run.history().await.unwrap().iter().any(|row| row.step_key == name), "{name:?}");
        let again = db.client.start(named, name.clone()).key(&name).await.unwrap();
        assert_eq!(again.id(), run.id(), "{name:?}");
        let elsewhere = db.client.start_by_name(&name, &1.into()).queue(&name).version(&name).await.unwrap();
        let row = elsewhere.run().await.unwrap();
        assert_eq!((row.lane.queue, row.lane.workflow, row.lane.version), (name.clone(), name.clone(), name.clone()));
        let schedule = Schedule::every(&name, Duration::from_secs(86_400)).start_by_name(&name, &1.into());
        let schedule = db.client.create_schedule(schedule).await.unwrap();
        let triggered = schedule.trigger().await.unwrap().run().await.unwrap();
        assert_eq!(triggered.tags.get(SCHEDULE_TAG), Some(&name));
        assert_eq!(schedule.describe().await.unwrap().name, name);
        let found = db.client.list(&RunFilter::new().tag(&name, &name)).await.unwrap();
        assert_eq!(found.iter().map(|run| run.id).collect::<Vec<_>>(), [run.id()], "{name:?}");
    }
    working.stop().await;
    assert!(accepted >= HOSTILE.len(), "{accepted}");
    assert_eq!(db.raw().await.table_names().await, tables, "every table is still there");
}

pub async fn a_hostile_filter_finds_nothing(db: Live) {
    db.client.start_by_name("checkout", &1.into()).tag("region", "eu").await.unwrap();
    for name in names(40) {
        let filters = [
            RunFilter::new().workflow(&name),
            RunFilter::new().queue(&name),
            RunFilter::new().tag("region", &name),
            RunFilter::new().tag(&name, "eu"),
        ];
        for filter in filters {
            match db.client.list(&filter).await {
                Ok(found) => assert!(found.is_empty(), "{name:?} finds {found:?}"),
                // PostgreSQL does not accept NUL in a text.
                Err(error) => assert!(name.contains('\0'), "{name:?}: {error}"),
            }
        }
        let mut options = StoreOptions::default();
        options.schema.clone_from(&name);
        let refused = workflow_sdk::internal::connect(&db.url(), options).await;
        assert!(matches!(refused, Err(ConnectError::InvalidSchema { .. })), "{name:?}: {refused:?}");
    }
}
