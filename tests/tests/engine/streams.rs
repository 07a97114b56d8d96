//! Published values and streams: what clients read from a run while it runs.

use futures::StreamExt;
use workflow_sdk::prelude::*;
use workflow_sdk::{ClientError, RunId};
use workflow_tests::{Live, LocalWorker, Probe, until};

#[workflow]
async fn import(ctx: &Ctx<Probe>, pages: u64) -> Result<u64> {
    for page in 0..pages {
        ctx.publish("progress", &page)?;
        let probe = ctx.state();
        ctx.step("page", || async move {
            probe.pass(&format!("page {page}")).await;
            Ok::<_, Error>(page)
        })
        .await?;
        ctx.emit("log", &format!("page {page}"))?;
    }
    ctx.publish("progress", &pages)?;
    ctx.emit("log", "done")?;
    Ok(pages)
}

pub async fn a_client_follows_a_run_while_it_runs(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(import));
    let run = db.client.start(import, 3).await.unwrap();
    // One stream in this process, and one as in another process.
    let elsewhere = db.second_client().await;
    let mut streams = [run.stream::<String>("log"), elsewhere.stream::<String>(run.id(), "log")];
    for page in 0..3 {
        let published = async || (run.state::<u64>("progress").await.unwrap() == Some(page)).then_some(());
        until("progress", published).await;
        probe.open(&format!("page {page}"));
        for stream in &mut streams {
            assert_eq!(stream.next().await.unwrap().unwrap(), format!("page {page}"));
            assert_eq!(stream.last(), page + 1);
        }
    }
    for stream in &mut streams {
        assert_eq!(stream.next().await.unwrap().unwrap(), "done");
        assert!(stream.next().await.is_none(), "the stream ends with its run");
        assert!(stream.next().await.is_none());
    }
    assert_eq!(run.result().await.unwrap(), 3);
    assert_eq!(elsewhere.state::<u64>(run.id(), "progress").await.unwrap(), Some(3));
    let late: Vec<_> = run.stream::<String>("log").map(Result::unwrap).collect().await;
    assert_eq!(late, ["page 0", "page 1", "page 2", "done"]);
    let rest: Vec<_> = run.stream::<String>("log").after(2).map(Result::unwrap).collect().await;
    assert_eq!(rest, ["page 2", "done"]);
    assert!(run.stream::<String>("nothing").next().await.is_none());
    worker.stop().await;
}

pub async fn a_wait_for_the_next_item_can_be_dropped(db: Live) {
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(import));
    let run = db.client.start(import, 1).await.unwrap();
    let mut stream = run.stream::<String>("log");
    for _ in 0..5 {
        let mut next = stream.next();
        assert!(futures::poll!(&mut next).is_pending());
    }
    probe.open("page 0");
    assert_eq!(stream.next().await.unwrap().unwrap(), "page 0");
    assert_eq!(stream.next().await.unwrap().unwrap(), "done");
    assert!(stream.next().await.is_none());
    worker.stop().await;
}

pub async fn an_invalid_name_or_type_is_refused(db: Live) {
    let run = db.client.start(import, 0).await.unwrap();
    let worker = LocalWorker::start(db.worker(Probe::new()).register(import));
    run.result().await.unwrap();

    let unknown = RunId::generate();
    assert!(matches!(db.client.state::<u64>(unknown, "progress").await, Err(ClientError::UnknownRun { .. })));
    let mut stream = db.client.stream::<u64>(unknown, "log");
    assert!(matches!(stream.next().await, Some(Err(ClientError::UnknownRun { run_id })) if run_id == unknown));

    assert!(matches!(run.state::<u64>("").await, Err(ClientError::Name(_))));
    assert!(matches!(run.stream::<u64>("a\n").next().await, Some(Err(ClientError::Name(_)))));

    let refused = run.state::<String>("progress").await.unwrap_err().to_string();
    assert!(refused.contains("the published value \"progress\"") && refused.contains("String"), "{refused}");
    let mut stream = run.stream::<u64>("log");
    let refused = stream.next().await.unwrap().unwrap_err();
    assert!(matches!(refused, ClientError::DecodeLive { .. }), "{refused:?}");
    assert!(refused.to_string().contains("item 1 of stream \"log\""), "{refused}");
    assert!(stream.next().await.is_none(), "the stream continues after the bad item");
    worker.stop().await;
}

pub async fn a_value_over_the_limit_is_refused_and_the_run_goes_on(db: Live) {
    #[workflow]
    async fn large(ctx: &Ctx) -> Result<Vec<(ErrorKind, String)>> {
        let value = "x".repeat(2_000);
        ctx.publish("progress", "small")?;
        let refused = [ctx.publish("progress", &value), ctx.emit("log", &value)];
        ctx.emit("log", "small")?;
        ctx.step("page", async || Ok::<_, Error>(())).await?;
        Ok(refused.into_iter().map(Result::unwrap_err).map(|error| (error.kind(), error.message().into())).collect())
    }
    let client = db.connect().payload_limit(1_000).await.unwrap();
    let worker = LocalWorker::start(workflow_worker::Worker::new(client, ()).register(large));
    let run = db.client.start(large, ()).await.unwrap();
    for (kind, message) in run.result().await.unwrap() {
        assert_eq!(kind, ErrorKind::Refused);
        assert!(message.contains("is 2002 bytes, the limit is 1000"), "{message}");
    }
    assert_eq!(run.state::<String>("progress").await.unwrap().as_deref(), Some("small"));
    let items: Vec<_> = run.stream::<String>("log").map(Result::unwrap).collect().await;
    assert_eq!(items, ["small"]);
    worker.stop().await;
}

pub async fn progress_from_the_body_of_a_step_is_seen_while_it_runs(db: Live) {
    #[workflow]
    async fn download(ctx: &Ctx<Probe>) -> Result<u64> {
        ctx.step("download", async || {
            for part in 0..3_u64 {
                ctx.publish("parts", &part)?;
                ctx.state().pass(&format!("part {part}")).await;
            }
            Ok::<_, Error>(3)
        })
        .await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(download));
    let run = db.client.start(download, ()).await.unwrap();
    for part in 0..3 {
        let published = async || (run.state::<u64>("parts").await.unwrap() == Some(part)).then_some(());
        until("parts", published).await;
        probe.open(&format!("part {part}"));
    }
    assert_eq!(run.result().await.unwrap(), 3);
    worker.stop().await;
}

/// Emits a thousand items, with parks and replays in between.
pub async fn a_long_stream_arrives_complete_and_in_order(db: Live) {
    #[workflow]
    async fn long(ctx: &Ctx) -> Result<u64> {
        for round in 0..4_u64 {
            for item in 0..250 {
                ctx.emit("log", &(round * 250 + item))?;
            }
            ctx.sleep(std::time::Duration::from_secs(3600)).await?;
        }
        Ok(1000)
    }
    let worker = LocalWorker::start(db.worker(()).register(long));
    let run = db.client.start(long, ()).await.unwrap();
    let follower = tokio::spawn(run.stream::<u64>("log").map(Result::unwrap).collect::<Vec<_>>());
    for round in 1..=4 {
        let parked = async || {
            let row = run.run().await.unwrap();
            (row.status == RunStatus::Parked && row.epoch == round).then_some(())
        };
        until("the run is parked once more", parked).await;
        let mut raw = db.raw().await;
        raw.execute("UPDATE step_attempts SET output = '0' WHERE kind = 'sleep' AND status = 'running'").await;
        raw.execute("UPDATE workflow_runs SET available_at = 0").await;
    }
    assert_eq!(follower.await.unwrap(), (0..1000).collect::<Vec<_>>());
    assert_eq!(run.history().await.unwrap().iter().filter(|row| row.step_key == "emitted/log").count(), 1);
    worker.stop().await;
}
