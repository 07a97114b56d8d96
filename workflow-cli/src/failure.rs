use std::error::Error;
use std::io;

use workflow_sdk::ConnectError;
use workflow_sdk::operate::{OperateError, OperateErrorCode, QueryError};
use workflow_testing::TestError;

use crate::Exit;

/// The way out if a server takes no request without a token, or not with this one.
const TOKEN_HELP: &str = "set WORKFLOW_TOKEN to the token of the server; if it is set, it is not the right one";

/// The reason why a command has no answer: one message, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), help: None }
    }

    /// Refuses a value of the command line.
    pub(crate) fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message).help(help)
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Returns `true` if the reader of the output is gone, as `head` is after its lines. This is no
    /// failure of the command.
    pub(crate) fn is_closed_pipe(error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::BrokenPipe
    }
}

impl From<OperateError> for Failure {
    fn from(error: OperateError) -> Self {
        // The server names a header, which this program sends if it has a token.
        let asks_for_token = error.code == OperateErrorCode::Unauthorized && error.help.contains("Bearer");
        let help = if asks_for_token { TOKEN_HELP.to_owned() } else { error.help };
        Self::new(exit_of(error.code), error.message).help(help)
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        OperateError::from(error).into()
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let exit = match &error {
            ConnectError::UnknownScheme { .. } | ConnectError::InvalidUrl { .. } => Exit::Usage,
            ConnectError::InvalidSchema { .. } | ConnectError::InvalidTimeout { .. } => Exit::Usage,
            _ => Exit::Unavailable,
        };
        let failure = Self::new(exit, with_causes(&error));
        match &error {
            ConnectError::NewerSchema { .. } => {
                failure.help("use the release of this program that made the tables, or a later one")
            }
            ConnectError::InvalidTimeout { .. } => failure.help("give --timeout a time in this range"),
            ConnectError::Database { url, .. } if !url.starts_with("sqlite:") => failure.help(
                "check that the server runs, and the host, database, user and rights that --to or \
                 WORKFLOW_DATABASE_URL names",
            ),
            _ => failure,
        }
    }
}

/// Returns the text of an error with its causes. Drivers repeat the text of a cause, which is shown
/// once.
fn with_causes(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.ends_with(&text) {
            message.push_str(&format!(": {text}"));
        }
        cause = error.source();
    }
    message
}

impl From<TestError> for Failure {
    fn from(error: TestError) -> Self {
        Self::new(Exit::Error, format!("the dry run did not end: {error}"))
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if Self::is_closed_pipe(&error) {
            return Self::new(Exit::Ok, String::new());
        }
        Self::new(Exit::Error, format!("cannot write the output: {error}"))
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::new(Exit::Error, format!("cannot write the output as JSON: {error}"))
    }
}

fn exit_of(code: OperateErrorCode) -> Exit {
    match code.exit_code() {
        2 => Exit::Usage,
        3 => Exit::NotAllowed,
        4 => Exit::NotFound,
        7 => Exit::TimedOut,
        9 => Exit::Unavailable,
        _ => Exit::Error,
    }
}
