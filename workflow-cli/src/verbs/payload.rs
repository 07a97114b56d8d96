//! JSON of the command line: written out, in a file, or from the standard input.

use std::io::Read;

use workflow_sdk::operate::Payload;

use crate::kit::blocking;
use crate::{Exit, Failure};

/// Reads a payload as [`read`] does, beside the runtime: the keyboard can interrupt it.
pub(super) async fn load(text: String) -> Result<Payload, Failure> {
    blocking(move || read(&text)).await
}

/// Reads a payload as [`load`] does, if one is given.
pub(super) async fn load_given(text: Option<String>) -> Result<Option<Payload>, Failure> {
    match text {
        Some(text) => load(text).await.map(Some),
        None => Ok(None),
    }
}

/// Reads a payload: `@FILE`, `-` for the standard input, or the JSON itself.
pub(crate) fn read(text: &str) -> Result<Payload, Failure> {
    let (text, place) = match text.strip_prefix('@') {
        Some(path) => {
            let read = std::fs::read_to_string(path);
            let failed = |error| Failure::new(Exit::Usage, format!("cannot read {path:?}: {error}"));
            (read.map_err(failed)?, format!("file {path:?}"))
        }
        None if text == "-" => {
            let mut read = String::new();
            let failed = |error| Failure::new(Exit::Error, format!("cannot read the standard input: {error}"));
            std::io::stdin().lock().read_to_string(&mut read).map_err(failed)?;
            (read, "the standard input".to_owned())
        }
        None => (text.to_owned(), "the value".to_owned()),
    };
    Payload::new(text).map_err(|error| {
        let failure = Failure::from(error);
        let message = format!("{place}: {}", failure.message);
        Failure { message, ..failure }
    })
}
