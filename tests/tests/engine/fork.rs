use std::time::Duration;

use serde_json::json;
use workflow_sdk::prelude::*;
use workflow_sdk::{ClientError, FORKED_FROM, NameSubject, RunFilter, RunId};
use workflow_tests::{Live, LocalWorker, Probe};

use crate::reaches;
use crate::retry::{checkout, failed};

const HOUR: Duration = Duration::from_secs(3600);

#[workflow(name = "checkout", version = "2")]
async fn checkout_2(ctx: &Ctx<Probe>, cents: u64) -> Result<String> {
    let probe = ctx.state();
    let hold = ctx.step("reserve", async || Ok::<_, Error>(probe.count("reserve"))).await?;
    let invoice = ctx.step("invoice", async || Ok::<_, Error>(format!("invoice of {cents} cents"))).await?;
    Ok(format!("{hold} {invoice}"))
}

pub async fn a_fork_keeps_the_history_before_its_step(db: Live) {
    let probe = Probe::new();
    let source = failed(&db, &probe).await;
    let before = (source.run().await.unwrap(), source.history().await.unwrap());
    probe.note("card is good");
    let fork = source.fork().from("charge").input(&7_u64).tag("why", "repair").await.unwrap();
    assert_ne!(fork.id(), source.id());
    let row = fork.run().await.unwrap();
    let tags = [("region", "eu"), ("why", "repair"), (FORKED_FROM, &source.id().to_string())];
    assert_eq!(row.tags, tags.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect());
    assert_eq!((row.lane, row.key, row.input.as_str(), row.parent), (before.0.lane.clone(), None, "7", None));

    let worker = LocalWorker::start(db.worker(probe.clone()).register(checkout));
    assert_eq!(fork.result().await.unwrap(), "1 7 cents 1");
    worker.stop().await;
    assert_eq!(probe.notes(), ["reserve", "charge", "card is good", "charge", "ship"]);
    assert_eq!(
        (source.run().await.unwrap(), source.history().await.unwrap()),
        before,
        "the source of the fork does not change"
    );
    let of_source = RunFilter::new().tag(FORKED_FROM, source.id().to_string());
    let found = db.client.list(&of_source).await.unwrap();
    assert_eq!(found.iter().map(|run| run.id).collect::<Vec<_>>(), [fork.id()]);
}

pub async fn a_fork_can_take_another_version_and_queue(db: Live) {
    let probe = Probe::new();
    let source = failed(&db, &probe).await;
    let worker = db.worker(probe.clone()).register(checkout).register(checkout_2).queues(["default", "repairs"]);
    let worker = LocalWorker::start(worker);
    let fork = db.client.fork(source.id()).from("charge").version("2").queue("repairs").await.unwrap();
    assert_eq!(fork.result().await.unwrap(), json!("1 invoice of 42 cents"));
    let lane = fork.run().await.unwrap().lane;
    assert_eq!((lane.version.as_str(), lane.queue.as_str()), ("2", "repairs"));
    worker.stop().await;
    assert_eq!(probe.notes(), ["reserve", "charge"], "the fork keeps the outcome of reserve");
}

pub async fn a_fork_without_a_step_starts_from_the_beginning(db: Live) {
    let probe = Probe::new();
    let source = failed(&db, &probe).await;
    probe.note("card is good");
    let worker = LocalWorker::start(db.worker(probe.clone()).register(checkout));
    assert_eq!(source.fork().await.unwrap().result().await.unwrap(), "2 42 cents 1");
    worker.stop().await;
}

pub async fn a_run_of_any_status_can_be_forked(db: Live) {
    #[workflow]
    async fn naps(ctx: &Ctx<Probe>) -> Result<usize> {
        let first = ctx.step("first", async || Ok::<_, Error>(ctx.state().count("first"))).await?;
        ctx.sleep(HOUR).await?;
        Ok(first)
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(naps));
    let source = db.client.start(naps, ()).await.unwrap();
    reaches(&source, RunStatus::Parked).await;
    // The sleep has no outcome yet. The fork keeps every outcome and starts the sleep again.
    let fork = source.fork().from("sleep").await.unwrap();
    reaches(&fork, RunStatus::Parked).await;
    source.cancel().await.unwrap();
    let second = source.fork().from("sleep").await.unwrap();
    reaches(&second, RunStatus::Parked).await;
    worker.stop().await;
    assert_eq!(probe.notes(), ["first"]);
    assert_eq!(fork.status().await.unwrap(), RunStatus::Parked);
}

pub async fn an_unknown_step_is_refused_with_similar_names(db: Live) {
    let source = failed(&db, &Probe::new()).await;
    let error = db.client.fork(source.id()).from("charg").await.unwrap_err();
    let ClientError::UnknownStep { run_id, key, near } = &error else { panic!("{error}") };
    assert_eq!(
        (*run_id, key.as_str(), &near[..]),
        (source.id(), "charg", &["charge".to_owned(), "reserve".into()][..])
    );
    assert_eq!(
        error.to_string(),
        format!("run {} has no step \"charg\"; did you mean \"charge\" or \"reserve\"?", source.id())
    );
    let new = db.client.start(checkout, 1).await.unwrap();
    assert_eq!(
        new.fork().from("charge").await.unwrap_err().to_string(),
        format!("run {} has no step \"charge\", for it has no history; fork it without .from(..)", new.id())
    );
    assert_eq!(db.client.list(&RunFilter::new()).await.unwrap().len(), 2, "nothing was started");
}

pub async fn a_fork_refuses_what_cannot_be_stored(db: Live) {
    let source = db.client.start(checkout, 1).await.unwrap();
    let unknown = RunId::generate();
    assert!(matches!(db.client.fork(unknown).await, Err(ClientError::UnknownRun { run_id }) if run_id == unknown));
    let names = [
        (source.fork().version(""), NameSubject::Version),
        (source.fork().queue("\n"), NameSubject::Queue),
        (source.fork().key(""), NameSubject::Key),
        (source.fork().tag("", "x"), NameSubject::Tag),
    ];
    for (fork, subject) in names {
        let error = fork.await.unwrap_err();
        assert!(matches!(&error, ClientError::Name(name) if name.subject == subject), "{error}");
    }
    let error = source.fork().input(&"x".repeat(3 << 20)).await.unwrap_err();
    assert!(matches!(error, ClientError::Payload(_)), "{error}");
    assert_eq!(db.client.list(&RunFilter::new()).await.unwrap().len(), 1);
}

pub async fn the_key_of_a_fork_returns_the_same_fork(db: Live) {
    let source = failed(&db, &Probe::new()).await;
    let fork = source.fork().from("charge").key("again").await.unwrap();
    assert_eq!(source.fork().from("charge").key("again").await.unwrap().id(), fork.id());
    let other_input = source.fork().key("again").input(&43).await.unwrap_err();
    assert!(matches!(other_input, ClientError::KeyConflict { run_id, .. } if run_id == fork.id()), "{other_input}");
    // Without the check, the key of the source run would return the source run.
    let own = source.fork().key("order-42").await.unwrap_err();
    assert!(matches!(own, ClientError::KeyConflict { run_id, .. } if run_id == source.id()), "{own}");
}
