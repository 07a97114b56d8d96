use workflow_sdk::prelude::*;

#[derive(Debug, StepError)]
enum NotStored {
    Away,
}

impl std::fmt::Display for NotStored {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}

impl std::error::Error for NotStored {}

#[derive(Debug, serde::Serialize, serde::Deserialize, StepError)]
enum NoError {
    Away,
}

#[derive(Debug)]
struct NotDerived;

fn look(error: &Error) {
    let _ = error.downcast::<NotDerived>();
}

fn main() {
    let _ = (NotStored::Away, NoError::Away, NotDerived, look);
}
