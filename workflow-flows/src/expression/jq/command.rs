use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::ExpressionError;
use super::serve;

/// The first argument of a helper process.
const ARGUMENT: &str = "--workflow-flows-jq-helper";

/// Whether `main` of this program has called [`jq_helper`], so that it may be started as a helper.
static IS_PREPARED: AtomicBool = AtomicBool::new(false);

/// Serves jq programs and does not return, if this process was started as a helper.
///
/// It is the first line of the `main` of a program that runs flows with jq. In any other process
/// it returns at once.
///
/// ```
/// fn main() {
///     workflow_flows::expression::jq_helper();
///     // The program itself.
/// }
/// ```
pub fn jq_helper() {
    IS_PREPARED.store(true, Ordering::Relaxed);
    if std::env::args_os().nth(1).is_some_and(|argument| argument == ARGUMENT) {
        serve::serve();
    }
}

/// The program that a helper process executes.
#[derive(Debug, Clone)]
pub(in super::super) enum HelperSource {
    /// This program, if its `main` calls [`jq_helper`].
    ThisProgram,
    Program(PathBuf),
}

impl HelperSource {
    /// Returns the command that starts a helper: no environment, no folder, pipes.
    pub(in super::super) fn command(&self) -> Result<Command, ExpressionError> {
        if !cfg!(target_os = "linux") {
            let message = "jq needs Linux, because only there a helper process can be limited";
            return Err(ExpressionError::Failed(message.to_owned()));
        }
        let program = match self {
            Self::Program(program) => program.clone(),
            // This link leads to the running program even if its file has been replaced.
            Self::ThisProgram if IS_PREPARED.load(Ordering::Relaxed) => PathBuf::from("/proc/self/exe"),
            Self::ThisProgram => {
                let message = "jq needs a helper process, which this program cannot start: begin its main with \
                               workflow_flows::expression::jq_helper(), or give the evaluator another program";
                return Err(ExpressionError::Failed(message.to_owned()));
            }
        };
        let mut command = Command::new(program);
        command.arg(ARGUMENT).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(command)
    }
}
