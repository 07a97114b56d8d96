use serde_json::Value;

use super::super::ExpressionError;
use super::command::HelperSource;
#[cfg(target_os = "linux")]
use super::process::Process;
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
        let fresh = self.process.take().and_then(|mut process| process.is_fresh().then_some(process));
        let mut process = match fresh {
            Some(process) => process,
            None => Process::start(source.command()?)?,
        };
        let answer = process.ask(request)?;
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
