//! Error types of steps that `#[derive(StepError)]` accepts.
#![deny(warnings)]
#![forbid(unsafe_code)]

use std::time::Duration;

use serde::{Deserialize, Serialize};
use workflow_sdk::prelude::*;
use workflow_sdk::{RetryAdvice, StoredError};

mod my_app {
    pub use workflow_sdk;
}

#[derive(Debug, PartialEq, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("{self:?}")]
#[retry(never)]
enum CardError {
    Stolen,
    #[retry(after = pause)]
    Busy {
        pause: Duration,
        queue: u32,
    },
    #[retry(after = 1)]
    Limited(u32, Option<Duration>),
    #[retry(policy)]
    r#Away(String),
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("{self:?}")]
#[step_error(name = "sold out", crate = "crate::step_errors::my_app::workflow_sdk")]
#[retry(after = restock)]
pub struct SoldOut {
    sku: String,
    restock: Option<Duration>,
}

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
#[error("{self:?}")]
struct Plain;

#[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
enum Never {}

#[workflow]
async fn pay(ctx: &Ctx) -> Result<(), CardError> {
    let body = async || Err::<(), _>(CardError::Stolen);
    match ctx.step("pay", body).await {
        Err(error) => Err(error.downcast().unwrap_or(CardError::Away(error.to_string()))),
        Ok(()) => Ok(()),
    }
}

#[test]
fn the_attributes_give_the_retry_advice() {
    let pause = Duration::from_secs(3);
    let cases = [
        (CardError::Stolen, RetryAdvice::Never),
        (CardError::Busy { pause, queue: 1 }, RetryAdvice::After(pause)),
        (CardError::Limited(1, Some(pause)), RetryAdvice::After(pause)),
        (CardError::Limited(1, None), RetryAdvice::Policy),
        (CardError::Away(String::new()), RetryAdvice::Policy),
    ];
    for (error, advice) in cases {
        assert_eq!(error.retry_advice(), advice);
        let text = error.to_string();
        let taken = Error::from(error);
        assert_eq!(taken.message(), text);
        assert_eq!(taken.is_fatal(), advice == RetryAdvice::Never);
        assert_eq!(taken.downcast::<CardError>().unwrap().to_string(), text);
        assert!(taken.downcast::<SoldOut>().is_none());
    }
    assert_eq!(Plain.retry_advice(), RetryAdvice::Policy);
    assert_eq!(<CardError as StepError>::NAME, concat!(module_path!(), "::CardError"));
    assert_eq!(SoldOut::NAME, "sold out");
    let _ = (pay, |error: &StoredError| error.downcast::<Never>());
}
