use serde_json::Value;

use super::super::ExpressionError;
#[cfg(target_os = "linux")]
use super::answer::Answer;
use super::command::HelperSource;
#[cfg(target_os = "linux")]
use super::process::{Broken, Process};
use super::request::Request;

/// The helper process of one thread, started when it is needed.
#[derive(Debug, Default)]
pub(in super::super) struct Place {
    #[cfg(target_os = "linux")]
    process: Option<Process>,
}

#[cfg(target_os = "linux")]
impl Place {
    /// Evaluates a request. A process that breaks its limits is killed; the next request starts
    /// another one.
    pub(in super::super) fn ask(
        &mut self,
        source: &HelperSource,
        request: &Request,
    ) -> Result<Vec<Value>, ExpressionError> {
        let used = self.process.take().and_then(|mut process| process.is_fresh().then_some(process));
        if let Some(mut process) = used {
            match process.ask(request) {
                // It may have ended before it saw the program, so a new process decides.
                Err(Broken::Gone) => {}
                asked => return self.keep(process, asked),
            }
        }
        let mut process = Process::start(source.command()?, request.limits)?;
        let asked = process.ask(request);
        self.keep(process, asked)
    }

    /// Keeps a process that has answered for the next request.
    fn keep(&mut self, process: Process, asked: Result<Answer, Broken>) -> Result<Vec<Value>, ExpressionError> {
        let answer = asked?;
        self.process = Some(process);
        answer.into_result()
    }
}

#[cfg(not(target_os = "linux"))]
impl Place {
    /// Fails: only Linux limits another process.
    pub(in super::super) fn ask(
        &mut self,
        source: &HelperSource,
        _request: &Request,
    ) -> Result<Vec<Value>, ExpressionError> {
        source.command().map(|_| Vec::new())
    }
}
