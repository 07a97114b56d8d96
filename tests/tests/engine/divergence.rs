//! One binary parks a run, and another binary claims it, in which the workflow of that name
//! differs.

use std::time::Duration;

use workflow_sdk::prelude::*;
use workflow_sdk::{CancelOutcome, RunsWith, Timestamp};
use workflow_tests::log_capture::log_lines;
use workflow_tests::{EventRecorder, Live, LocalWorker, Probe};
use workflow_worker::Worker;

use crate::reaches;

const HOUR: Duration = Duration::from_secs(3600);

/// The first step of the workflow in every binary.
async fn charge(ctx: &Ctx<Probe>) -> Result<String> {
    ctx.step("charge", async || Ok::<_, Error>(format!("receipt {}", ctx.state().count("charge")))).await
}

#[workflow(name = "order")]
async fn recorded(ctx: &Ctx<Probe>) -> Result<String> {
    let receipt = charge(ctx).await?;
    ctx.sleep(Duration::from_millis(1)).await?;
    ctx.sleep(HOUR).await?;
    Ok(receipt)
}

/// Makes the recorded calls and ends.
#[workflow(name = "order")]
async fn fixed(ctx: &Ctx<Probe>) -> Result<String> {
    let receipt = charge(ctx).await?;
    ctx.sleep(Duration::from_millis(1)).await?;
    Ok(receipt)
}

/// Makes no call.
#[workflow(name = "order")]
async fn gone(ctx: &Ctx<Probe>) -> Result<String> {
    Ok(format!("{:?}", ctx.run_id()))
}

/// Returns a run that is parked in a long sleep, after one step and a short sleep.
async fn parked(db: &Live, probe: &Probe) -> workflow_sdk::RunHandle<String> {
    let worker = LocalWorker::start(db.worker(probe.clone()).register(recorded));
    let run = db.client.start(recorded, ()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    worker.stop().await;
    run
}

/// Makes the only run due, unless a worker has it.
async fn make_due(db: &Live) {
    db.raw().await.execute("UPDATE workflow_runs SET available_at = 0 WHERE status = 'parked'").await;
}

/// Lets a worker with this code claim the run, and returns the error with which it parks it.
async fn diverges<W: RunsWith<Probe>>(db: &Live, code: W) -> String {
    let probe = Probe::new();
    let run = parked(db, &probe).await;
    let wait = run.run().await.unwrap().available_at;
    let before = run.history().await.unwrap();
    make_due(db).await;
    let worker = LocalWorker::start(db.worker(probe.clone()).register(code));
    let looked = async || run.run().await.unwrap().error;
    let error = workflow_tests::until("the divergence is recorded", looked).await;
    let now = run.run().await.unwrap();
    assert_eq!(
        (now.status, error.kind),
        (RunStatus::Parked, ErrorKind::Divergence),
        "the run is parked and not failed"
    );
    assert!(now.available_at > Timestamp::from(std::time::SystemTime::now()), "the run waits for other code");
    assert!(now.available_at < wait);
    worker.stop().await;
    assert_eq!(run.history().await.unwrap(), before, "nothing was recorded");
    assert_eq!(probe.notes(), ["charge"], "no body ran");

    // A worker with the recorded code resumes the run.
    make_due(db).await;
    let worker = LocalWorker::start(db.worker(probe.clone()).register(recorded));
    let healed = async || run.run().await.unwrap().error.is_none().then_some(());
    workflow_tests::until("the divergence is over", healed).await;
    reaches(&run, RunStatus::Parked).await;
    worker.stop().await;
    assert_eq!(run.run().await.unwrap().available_at, wait, "the sleep ends at its original time");

    make_due(db).await;
    let worker = LocalWorker::start(db.worker(probe.clone()).register(fixed));
    assert_eq!(run.result().await.unwrap(), "receipt 1");
    worker.stop().await;
    assert_eq!(probe.notes(), ["charge"]);
    error.message
}

pub async fn a_removed_step_parks_the_run(db: Live) {
    let expected = r#"the code does not fit the run's history
  recorded: #1 step "charge" (succeeded, 11 bytes)
            #2 sleep "sleep" (succeeded)
  current:  the workflow ends
  differs:  nothing asks for step "charge"
  help:     keep the old way for runs that have gone it:
                if ctx.patched("no-charge")? {
                    // without step "charge"
                } else {
                    // step "charge", as it was
                }
            or deploy code that makes the recorded calls (the run waits for it), or terminate the run
  note:     nothing was changed? outside of steps a workflow may depend only on its input and on ctx"#;
    assert_eq!(diverges(&db, gone).await, expected);
}

pub async fn a_call_of_another_kind_parks_the_run(db: Live) {
    #[workflow(name = "order")]
    async fn other_kind(ctx: &Ctx<Probe>) -> Result<String> {
        let receipt = charge(ctx).await?;
        ctx.step("sleep", async || {
            ctx.state().note("sleep");
            Ok::<_, Error>(())
        })
        .await?;
        Ok(receipt)
    }
    let text = diverges(&db, other_kind).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "the code does not fit the run's history",
            "  recorded: #2 sleep \"sleep\" (succeeded)",
            "  current:  step \"sleep\"",
        ]
    );
    assert!(lines[3].starts_with("              --> ") && lines[3].contains("divergence.rs:"), "{}", lines[3]);
    assert_eq!(lines[4], "  differs:  the kind of the call: sleep is recorded, the code has a step");
    assert_eq!(lines[5], "  after:    #1 step \"charge\" (succeeded)");
}

pub async fn an_output_of_another_type_parks_the_run(db: Live) {
    #[workflow(name = "order")]
    async fn other_type(ctx: &Ctx<Probe>) -> Result<String> {
        let receipt: u64 = ctx
            .step("charge", async || {
                ctx.state().note("other");
                Ok::<_, Error>(1)
            })
            .await?;
        Ok(receipt.to_string())
    }
    let text = diverges(&db, other_type).await;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "the code does not fit the run's history",
            "  recorded: #1 step \"charge\" (succeeded)",
            "  current:  step \"charge\"",
        ]
    );
    assert!(lines[3].starts_with("              --> ") && lines[3].contains("divergence.rs:"), "{}", lines[3]);
    assert_eq!(
        lines[4],
        "  differs:  the value does not decode as u64: found string, expected u64 at line 1 column 11"
    );
}

pub async fn a_decoder_that_panics_parks_the_run(db: Live) {
    #[derive(serde::Serialize)]
    struct Strict;

    impl<'de> serde::Deserialize<'de> for Strict {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            panic!("the receipt 1 is not strict")
        }
    }
    #[workflow(name = "order")]
    async fn panicking(ctx: &Ctx<Probe>) -> Result<String> {
        ctx.step("charge", async || {
            ctx.state().note("other");
            Ok::<_, Error>(Strict)
        })
        .await?;
        Ok(String::new())
    }
    let text = diverges(&db, panicking).await;
    assert!(text.contains("Strict: its Deserialize panicked\n"), "{text}");
}

pub async fn an_input_of_another_type_parks_the_run(db: Live) {
    #[workflow(name = "order")]
    async fn other_input(ctx: &Ctx<Probe>, order: u64) -> Result<String> {
        let _ = order;
        charge(ctx).await
    }
    let text = diverges(&db, other_input).await;
    assert!(
        text.contains(
            "  current:  the workflow ends with an error: the input of workflow \"order\" does not decode as u64"
        ),
        "{text}"
    );
}

pub async fn a_diverged_run_can_be_terminated(db: Live) {
    let run = parked(&db, &Probe::new()).await;
    make_due(&db).await;
    let worker = LocalWorker::start(db.worker(Probe::new()).register(gone));
    let looked = async || run.run().await.unwrap().error;
    workflow_tests::until("the divergence is recorded", looked).await;
    worker.stop().await;
    assert_eq!(run.cancel().await.unwrap(), CancelOutcome::Requested, "a corrected version of the code may clean up");
    assert_eq!(run.cancel().await.unwrap(), CancelOutcome::Canceled);
    let row = run.run().await.unwrap();
    assert_eq!((row.status, row.error), (RunStatus::Canceled, None));
}

pub async fn a_canceled_diverged_run_ends_after_its_grace(db: Live) {
    let run = parked(&db, &Probe::new()).await;
    assert_eq!(run.cancel().await.unwrap(), CancelOutcome::Requested);
    let worker = db.worker(Probe::new()).register(gone).cancel_grace(Duration::from_millis(300));
    let worker = LocalWorker::start(worker);
    workflow_tests::until("the run ends", async || (run.status().await.unwrap() == RunStatus::Canceled).then_some(()))
        .await;
    assert!(run.run().await.unwrap().epoch <= 5, "the run is not claimed again and again");
    worker.stop().await;
}

pub async fn a_renamed_step_is_not_carried_out(db: Live) {
    #[workflow(name = "order")]
    async fn renamed(ctx: &Ctx<Probe>) -> Result<String> {
        let receipt =
            ctx.step("charge-card", async || Ok::<_, Error>(format!("{}", ctx.state().count("card")))).await?;
        ctx.sleep(Duration::from_millis(1)).await?;
        ctx.sleep(HOUR).await?;
        Ok(receipt)
    }
    let text = diverges(&db, renamed).await;
    assert!(text.contains("nothing asks for step \"charge\"; was it renamed to \"charge-card\"?"), "{text}");
    assert!(text.contains("if ctx.patched(\"charge-card\")? {"), "{text}");
}

/// Runs `reserve` before `charge`, which old runs have recorded.
#[workflow(name = "order")]
async fn inserted(ctx: &Ctx<Probe>) -> Result<String> {
    ctx.step("reserve", async || Ok::<_, Error>(ctx.state().count("reserve"))).await?;
    charge(ctx).await
}

/// Inserts the step as the report of the divergence advises.
#[workflow(name = "order")]
async fn inserted_by_patch(ctx: &Ctx<Probe>) -> Result<String> {
    if ctx.patched("reserve")? {
        ctx.step("reserve", async || Ok::<_, Error>(ctx.state().count("reserve"))).await?;
    }
    let receipt = charge(ctx).await?;
    ctx.sleep(Duration::from_millis(1)).await?;
    Ok(receipt)
}

pub async fn an_inserted_step_parks_the_run_until_a_patch_inserts_it(db: Live) {
    let text = diverges(&db, inserted).await;
    assert!(text.contains("nothing asks for step \"charge\"; in its place comes step \"reserve\""), "{text}");
    assert!(text.contains("// step \"charge\", as it was; nothing if that follows here"), "{text}");

    let probe = Probe::new();
    let run = parked(&db, &probe).await;
    make_due(&db).await;
    let worker = LocalWorker::start(db.worker(probe.clone()).register(inserted));
    workflow_tests::until("the divergence is recorded", async || run.run().await.unwrap().error).await;
    worker.stop().await;
    make_due(&db).await;
    let worker = LocalWorker::start(db.worker(probe.clone()).register(inserted_by_patch));
    assert_eq!(run.result().await.unwrap(), "receipt 1");
    assert_eq!(probe.notes(), ["charge"], "an old run goes on in the old way");
    let new = db.client.start(inserted_by_patch, ()).await.unwrap();
    new.result().await.unwrap();
    assert_eq!(probe.notes(), ["charge", "reserve", "charge"]);
    worker.stop().await;
}

/// Claims with equal code find the same report again and again.
pub async fn a_divergence_is_logged_once_per_run_and_code(db: Live) {
    let events = EventRecorder::new();
    let client = db.connect().observer(events.clone()).await.unwrap();
    let run = parked(&db, &Probe::new()).await;
    let reports = || events.of(run.id()).iter().filter(|event| *event == "run_diverged").count();
    for (tries, logged) in [(3, 1), (5, 2)] {
        let worker = Worker::new(client.clone(), Probe::new());
        let worker = LocalWorker::start(if logged == 1 { worker.register(gone) } else { worker.register(inserted) });
        let enough = async || {
            make_due(&db).await;
            (reports() >= tries).then_some(())
        };
        workflow_tests::until("the run has diverged several times", enough).await;
        worker.stop().await;
        let lines = log_lines(&["ERROR", "the code does not fit", &run.id().to_string()]);
        assert_eq!(lines.len(), logged, "{lines:?}");
    }
}

/// The wake of a yield comes after the poll, and is no reason to give a run up.
pub async fn a_branch_that_yields_before_a_recorded_call_is_waited_for(db: Live) {
    #[workflow(name = "order", allow(tokio_time))]
    async fn yields(ctx: &Ctx<Probe>) -> Result<String> {
        let yielding = async {
            for _ in 0..5 {
                tokio::task::yield_now().await;
            }
            let receipt = charge(ctx).await?;
            ctx.sleep(Duration::from_millis(1)).await?;
            Ok::<_, Error>(receipt)
        };
        let note = ctx.step("note", async || {
            ctx.state().note("note");
            Ok::<_, Error>(())
        });
        let (receipt, note) = futures::join!(yielding, note);
        note?;
        receipt
    }
    let probe = Probe::new();
    let run = parked(&db, &probe).await;
    make_due(&db).await;
    let worker = LocalWorker::start(db.worker(probe.clone()).register(yields));
    assert_eq!(run.result().await.unwrap(), "receipt 1");
    assert_eq!(probe.notes(), ["charge", "note"]);
    worker.stop().await;
}

pub async fn an_unreadable_history_parks_its_run(db: Live) {
    let probe = Probe::new();
    let run = parked(&db, &probe).await;
    db.raw().await.execute("UPDATE step_attempts SET kind = 'riddle' WHERE step_key = 'charge'").await;
    make_due(&db).await;
    let worker = LocalWorker::start(db.worker(probe.clone()).register(recorded));
    let looked = async || run.run().await.unwrap().error;
    let error = workflow_tests::until("the reason is recorded", looked).await;
    let now = run.run().await.unwrap();
    assert_eq!((now.status, error.kind), (RunStatus::Parked, ErrorKind::Divergence));
    assert!(error.message.starts_with("the run's history cannot be read"), "{error}");
    assert!(now.available_at > Timestamp::from(std::time::SystemTime::now()), "the run is not tried again at once");
    assert_eq!(probe.notes(), ["charge"], "no body ran");

    db.raw().await.execute("UPDATE step_attempts SET kind = 'step' WHERE step_key = 'charge'").await;
    make_due(&db).await;
    let healed = async || run.run().await.unwrap().error.is_none().then_some(());
    workflow_tests::until("the run continues", healed).await;
    worker.stop().await;
}
