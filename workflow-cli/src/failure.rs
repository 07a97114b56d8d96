use std::io;

use workflow_sdk::ConnectError;
use workflow_sdk::operate::{OperateError, OperateErrorCode, QueryError};
use workflow_testing::TestError;

use crate::Exit;

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
        Self::new(exit_of(error.code), error.message).help(error.help)
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
            ConnectError::InvalidSchema { .. } => Exit::Usage,
            _ => Exit::Unavailable,
        };
        let failure = Self::new(exit, error.to_string());
        if matches!(error, ConnectError::NewerSchema { .. }) {
            return failure.help("use the release of this program that made the tables, or a later one");
        }
        failure
    }
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
