use std::time::Duration;

use serde::{Deserialize, Serialize};
use workflow_sdk::prelude::*;
use workflow_sdk::{AttemptStatus, StepAttempt, TypedPayload};
use workflow_tests::{Live, LocalWorker, PaymentError, Probe, until};

use crate::{failure, reaches};

const SOON: Duration = Duration::from_millis(20);
const HOUR: Duration = Duration::from_secs(3600);
/// Long enough for a park, with a linger time of zero.
const NAP: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize, StepError)]
enum CardError {
    #[error("the card was stolen")]
    #[retry(never)]
    Stolen,
    #[error("the bank is busy")]
    #[retry(after = pause)]
    Busy { pause: Option<Duration> },
    #[error("the card has {missing} cents too little")]
    Declined { missing: u64, note: String },
}

fn declined() -> CardError {
    CardError::Declined { missing: 5, note: "\u{0}\n\"€\"".into() }
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("lost")]
struct Lost {}

fn row<'a>(history: &'a [StepAttempt], key: &str, attempt: i64) -> &'a StepAttempt {
    let found = history.iter().find(|row| row.step_key == key && row.attempt == attempt);
    found.unwrap_or_else(|| panic!("no attempt {attempt} of {key:?} in {history:#?}"))
}

pub async fn an_error_of_a_type_that_never_retries_ends_the_retries(db: Live) {
    #[workflow]
    async fn charge_once(ctx: &Ctx<Probe>) -> Result<()> {
        let body = async || {
            ctx.state().note("try");
            Err::<(), _>(CardError::Stolen)
        };
        ctx.step("charge", body).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(charge_once));
    let run = db.client.start(charge_once, ()).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!((error.message.as_str(), error.fatal), ("the card was stolen", true));
    assert_eq!(probe.times("try"), 1);
    worker.stop().await;
}

pub async fn a_field_of_an_error_sets_the_next_delay(db: Live) {
    #[workflow]
    async fn charge_later(ctx: &Ctx) -> Result<u32> {
        let body = async || match ctx.attempt() {
            1 => Err(CardError::Busy { pause: Some(SOON) }),
            attempt => Ok(attempt),
        };
        // With the delay of this policy the case would not end.
        ctx.step("charge", body).retry(Retry::fixed(HOUR)).await
    }
    let worker = LocalWorker::start(db.worker(()).register(charge_later));
    let run = db.client.start(charge_later, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), 2);
    let history = run.history().await.unwrap();
    let (first, second) = (row(&history, "charge", 1), row(&history, "charge", 2));
    assert!(second.started_at.since(first.completed_at.unwrap()) >= SOON);
    assert_eq!(first.error.as_ref().unwrap().retry_after(), Some(SOON));
    worker.stop().await;
}

pub async fn an_error_without_a_delay_uses_the_policy(db: Live) {
    #[workflow]
    async fn charge_by_policy(ctx: &Ctx) -> Result<()> {
        let body = async || Err::<(), _>(CardError::Busy { pause: None });
        ctx.step("charge", body).retry(Retry::fixed(SOON).max_attempts(2)).await
    }
    let worker = LocalWorker::start(db.worker(()).register(charge_by_policy));
    let run = db.client.start(charge_by_policy, ()).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!((error.retry_after(), error.downcast()), (None, Some(CardError::Busy { pause: None })));
    let history = run.history().await.unwrap();
    let delay = row(&history, "charge", 2).started_at.since(row(&history, "charge", 1).completed_at.unwrap());
    assert!(delay >= SOON, "the second attempt came after {delay:?}");
    worker.stop().await;
}

pub async fn a_typed_error_is_the_same_first_and_on_replay(db: Live) {
    #[workflow]
    async fn look_twice(ctx: &Ctx<Probe>) -> Result<(u64, bool)> {
        let body = async || Err::<(), _>(declined());
        let error = ctx.step("charge", body).retry(Retry::none()).await.unwrap_err();
        ctx.state().note(format!("{:?}", error.downcast::<CardError>()));
        assert!(error.downcast::<Lost>().is_none());
        let missing = match error.downcast() {
            Some(CardError::Declined { missing, .. }) => missing,
            _ => return Err(error),
        };
        ctx.sleep(NAP).await?;
        ctx.step("order", async || Ok::<_, Error>((missing, error.is_fatal()))).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(look_twice).linger(Duration::ZERO));
    let run = db.client.start(look_twice, ()).await.unwrap();
    assert_eq!(run.result().await.unwrap(), (5, false));
    worker.stop().await;
    let notes = probe.notes();
    assert!(notes.len() >= 2, "the sleep was a park, and the replay read the error again");
    assert!(notes.iter().all(|note| *note == format!("{:?}", Some(declined()))), "{notes:?}");
}

pub async fn another_process_reads_a_typed_error(db: Live) {
    #[workflow]
    async fn pass_on(ctx: &Ctx<Probe>) -> Result<u64> {
        let body = async || {
            ctx.state().note("try");
            Err::<(), _>(declined())
        };
        let error = ctx.step("charge", body).retry(Retry::none()).await.unwrap_err();
        ctx.sleep(NAP).await?;
        let Some(CardError::Declined { missing, .. }) = error.downcast() else { return Err(error) };
        Ok(missing)
    }
    let probe = Probe::new();
    let first = LocalWorker::start(db.worker(probe.clone()).register(pass_on).linger(Duration::ZERO));
    let run = db.client.start(pass_on, ()).await.unwrap();
    reaches(&run, RunStatus::Parked).await;
    first.stop().await;
    let second = db.second_client().await;
    let worker = LocalWorker::start(workflow_worker::Worker::new(second, probe.clone()).register(pass_on));
    assert_eq!(run.result().await.unwrap(), 5);
    assert_eq!(probe.times("try"), 1);
    worker.stop().await;
}

pub async fn a_client_reads_the_typed_error_of_a_run(db: Live) {
    #[workflow]
    async fn fail_by_step(ctx: &Ctx) -> Result<()> {
        ctx.step("charge", async || Err::<(), _>(declined())).retry(Retry::none()).await
    }
    #[workflow]
    async fn fail_by_itself(_ctx: &Ctx) -> Result<(), CardError> {
        Err(declined())
    }
    let worker = LocalWorker::start(db.worker(()).register(fail_by_step).register(fail_by_itself));
    for run in [db.client.start(fail_by_step, ()).await, db.client.start(fail_by_itself, ()).await] {
        let run = run.unwrap();
        let error = failure(run.result().await);
        assert_eq!(error.downcast(), Some(declined()));
        assert!(error.downcast::<Lost>().is_none());
        assert_eq!(run.run().await.unwrap().error, Some(error));
    }
    worker.stop().await;
}

pub async fn an_error_type_of_a_library_is_found(db: Live) {
    #[workflow]
    async fn charge_by_library(ctx: &Ctx) -> Result<()> {
        ctx.step("charge", async || Err::<(), _>(PaymentError { missing: 7 })).await
    }
    let worker = LocalWorker::start(db.worker(()).register(charge_by_library));
    let run = db.client.start(charge_by_library, ()).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!((error.fatal, error.downcast()), (true, Some(PaymentError { missing: 7 })));
    assert_eq!(error.payload.unwrap().type_name, "workflow_tests::payment_error::PaymentError");
    worker.stop().await;
}

pub async fn an_error_that_is_too_large_is_stored_without_its_value(db: Live) {
    #[workflow]
    async fn quote(ctx: &Ctx) -> Result<()> {
        let note = "x".repeat(TypedPayload::MAX_BYTES);
        let body = async || Err::<(), _>(CardError::Declined { missing: 1, note: note.clone() });
        ctx.step("charge", body).retry(Retry::none()).await
    }
    let worker = LocalWorker::start(db.worker(()).register(quote));
    let run = db.client.start(quote, ()).await.unwrap();
    let error = failure(run.result().await);
    assert_eq!(error.message, "the card has 1 cents too little");
    assert_eq!(error.downcast::<CardError>(), None);
    assert!(error.causes[0].contains("the limit is 65536"), "{:?}", error.causes);
    worker.stop().await;
}

pub async fn a_history_shows_the_attempts_left(db: Live) {
    #[workflow]
    async fn budget(ctx: &Ctx<Probe>) -> Result<()> {
        let body = async || {
            if ctx.attempt() == 2 {
                ctx.state().pass("the first row has been read").await;
            }
            Err::<(), _>(declined())
        };
        ctx.step("charge", body).retry(Retry::fixed(SOON).max_attempts(3)).await
    }
    let probe = Probe::new();
    let worker = LocalWorker::start(db.worker(probe.clone()).register(budget));
    let run = db.client.start(budget, ()).await.unwrap();
    let failed = async || {
        let history = run.history().await.unwrap();
        history.into_iter().find(|row| row.status == AttemptStatus::Failed)
    };
    let first = until("the first attempt has failed", failed).await;
    let error = first.error.as_ref().unwrap();
    assert_eq!(error.attempts_left, Some(2));
    assert_eq!(error.next_attempt_at, Some(first.completed_at.unwrap() + SOON));
    probe.open("the first row has been read");

    let last = failure(run.result().await);
    assert_eq!((last.attempts_left, last.next_attempt_at), (None, None), "the last attempt has no next attempt");
    let history = run.history().await.unwrap();
    assert_eq!(row(&history, "charge", 2).error.as_ref().unwrap().attempts_left, Some(1));
    assert_eq!(row(&history, "charge", 3).error.as_ref(), Some(&last));
    assert_eq!(last.downcast(), Some(declined()));
    worker.stop().await;
}
