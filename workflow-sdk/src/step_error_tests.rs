use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{BoxError, Error, StepError};
use workflow_engine::model::{ErrorKind, StoredError, TypedPayload};

const PAUSE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize, StepError)]
enum CardError {
    #[error("stolen")]
    #[retry(never)]
    Stolen,
    #[error("busy")]
    #[retry(after = pause)]
    Busy { pause: Option<Duration> },
    #[error("declined: {text}")]
    Declined { text: String, share: f64 },
}

fn declined(text: &str) -> CardError {
    CardError::Declined { text: text.into(), share: 0.1 }
}

fn stored(error: impl Into<Error>) -> StoredError {
    error.into().into_stored()
}

#[test]
fn the_error_type_decides_about_retries() {
    let policy = stored(declined("no money"));
    assert_eq!((policy.fatal, policy.retry_after()), (false, None));
    let never = stored(CardError::Stolen);
    assert_eq!((never.fatal, never.retry_after()), (true, None));
    let after = stored(CardError::Busy { pause: Some(PAUSE) });
    assert_eq!((after.fatal, after.retry_after()), (false, Some(PAUSE)));
    let unknown = stored(CardError::Busy { pause: None });
    assert_eq!((unknown.fatal, unknown.retry_after()), (false, None));
}

#[test]
fn a_decision_at_the_call_overrules_the_type() {
    let fatal = stored(Error::fatal(CardError::Busy { pause: Some(PAUSE) }));
    assert_eq!((fatal.fatal, fatal.retry_after()), (true, None));
    let after = stored(Error::retry_after(PAUSE, CardError::Stolen));
    assert_eq!((after.fatal, after.retry_after()), (false, Some(PAUSE)));
    for error in [fatal, after] {
        assert!(error.downcast::<CardError>().is_some(), "the value is stored nevertheless");
    }
}

#[test]
fn a_value_comes_back_from_its_stored_form() {
    let error = declined("no \u{0} money");
    let text = serde_json::to_string(&stored(error.clone())).unwrap();
    let read: StoredError = serde_json::from_str(&text).unwrap();
    assert_eq!(read.downcast(), Some(error.clone()));
    assert_eq!(Error::from(read).downcast(), Some(error.clone()));
    let boxed: BoxError = Error::fatal(error.clone()).into();
    assert_eq!(Error::from_boxed(boxed).downcast(), Some(error), "inside a boxed error");
}

#[test]
fn another_type_does_not_downcast() {
    #[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
    #[error("other")]
    enum Other {
        Stolen,
    }
    let error = stored(CardError::Stolen);
    assert!(error.downcast::<Other>().is_none(), "types of equal shape are different types");
    assert!(stored(Error::msg("stolen")).downcast::<CardError>().is_none());
    assert!(stored(Other::Stolen).downcast::<Other>().is_some());
}

#[test]
fn a_value_of_a_changed_type_does_not_downcast() {
    let payload = TypedPayload::new(CardError::NAME, r#""Lost""#);
    let error = StoredError::new(ErrorKind::Application, "lost").with_payload(payload);
    assert_eq!(error.downcast::<CardError>(), None);
}

#[test]
fn a_value_that_cannot_be_stored_leaves_its_error_whole() {
    let large = stored(declined(&"x".repeat(TypedPayload::MAX_BYTES)));
    assert_eq!((large.payload, large.fatal), (None, false));
    let name = CardError::NAME;
    let why = format!("its value as {name:?} is not kept: it is 65572 bytes, the limit is 65536");
    assert_eq!(large.causes, [why]);

    let not_a_number = stored(CardError::Declined { text: "no money".into(), share: f64::NAN });
    assert_eq!((not_a_number.message.as_str(), not_a_number.payload), ("declined: no money", None));
    assert!(not_a_number.causes[0].contains("can be written but not read back"), "{:?}", not_a_number.causes);
}

#[test]
fn two_types_with_one_name_store_no_values() {
    #[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
    #[step_error(name = "twin")]
    #[error("first")]
    #[retry(never)]
    struct First;

    #[derive(Debug, thiserror::Error, Serialize, Deserialize, StepError)]
    #[step_error(name = "twin")]
    #[error("second")]
    struct Second;

    let first = stored(First);
    assert_eq!((first.fatal, first.payload), (true, None));
    assert!(first.causes[0].contains("2 types have this name"), "{:?}", first.causes);
    assert_eq!(stored(Second).payload, None);
}

#[test]
fn an_error_without_a_value_has_no_field_for_it() {
    let error = stored(Error::fatal("no")).of_step("charge");
    let text = r#"{"kind":"application","message":"no","fatal":true,"step_key":"charge"}"#;
    assert_eq!(serde_json::to_string(&error).unwrap(), text);
    assert_eq!(serde_json::from_str::<StoredError>(text).unwrap(), error);
}
