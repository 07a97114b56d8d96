//! The tools: their names, schemas and hints, and the calls that they make.

use std::future::Future;
use std::sync::LazyLock;

use futures::FutureExt;
use futures::future::BoxFuture;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::answers::object;
use crate::caller::Caller;
use crate::failure::Failure;
use crate::{flows, runs, starts, steps};

/// The hints of a tool for its client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect {
    pub(crate) read_only: bool,
    pub(crate) destructive: bool,
    pub(crate) idempotent: bool,
}

const READS: Effect = Effect { read_only: true, destructive: false, idempotent: true };
const ADDS: Effect = Effect { read_only: false, destructive: false, idempotent: false };
const ADDS_ONCE: Effect = Effect { read_only: false, destructive: false, idempotent: true };
const DECIDES: Effect = Effect { read_only: false, destructive: true, idempotent: true };
const ENDS: Effect = Effect { read_only: false, destructive: true, idempotent: false };

type Answer = BoxFuture<'static, Result<Value, Failure>>;

/// A tool of this server.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) effect: Effect,
    pub(crate) input: Map<String, Value>,
    pub(crate) output: Map<String, Value>,
    call: Box<dyn Fn(Caller, Value) -> Answer + Send + Sync>,
}

impl Tool {
    fn new<I, O, F>(
        name: &'static str,
        effect: Effect,
        description: &'static str,
        call: impl Fn(Caller, I) -> F + Send + Sync + 'static,
    ) -> Self
    where
        I: DeserializeOwned + JsonSchema + 'static,
        O: Serialize + JsonSchema + 'static,
        F: Future<Output = Result<O, Failure>> + Send + 'static,
    {
        let call = move |caller: Caller, arguments: Value| match serde_json::from_value::<I>(arguments) {
            Ok(input) => {
                let answer = call(caller, input);
                async move { Ok(serde_json::to_value(answer.await?).unwrap_or_default()) }.boxed()
            }
            Err(error) => {
                let message = format!("the arguments of {name} are not as expected: {error}");
                let refused = Failure::bad_input(message, "read the input schema of the tool");
                std::future::ready(Err(refused)).boxed()
            }
        };
        let settings = SchemaSettings::draft2020_12();
        let (input, output) = (schema::<I>(settings.clone()), schema::<O>(settings.for_serialize()));
        Self { name, description, effect, input, output, call: Box::new(call) }
    }

    /// Calls the tool. Arguments that it does not know are refused.
    pub(crate) fn call(&self, caller: Caller, arguments: Map<String, Value>) -> Answer {
        (self.call)(caller, Value::Object(arguments))
    }
}

/// Returns the JSON Schema of a type, without references.
fn schema<T: JsonSchema>(settings: SchemaSettings) -> Map<String, Value> {
    let settings = settings.with(|settings| settings.inline_subschemas = true);
    let mut schema = object(settings.into_generator().into_root_schema_for::<T>().to_value());
    schema.remove("title");
    schema.remove("description");
    schema
}

/// All tools, in the order in which an agent needs them.
pub(crate) static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    vec![
        Tool::new(
            "flow_check",
            READS,
            "Checks a flow and tells all its faults at once, each with a code, its place and mostly a fix. \
             Nothing is stored. Check until `valid` is true, then deploy or start the flow.",
            flows::check_flow,
        ),
        Tool::new(
            "flow_deploy",
            ADDS_ONCE,
            "Deploys a valid flow as the newest version of its name. An equal flow makes no new version. Runs \
             that have started keep their version.",
            flows::deploy_flow,
        ),
        Tool::new(
            "flow_list",
            READS,
            "Lists the deployed flows by name, or with `name` the versions of one flow, the newest first.",
            flows::list_flows,
        ),
        Tool::new(
            "run_start",
            ADDS,
            "Starts a run: of a deployed flow (`flow`), of a flow that stands in the call (`document`), or of a \
             workflow in Rust (`workflow`). Name exactly one. With `key`, a repetition starts nothing and \
             returns the run of the first call.",
            starts::start_run,
        ),
        Tool::new(
            "run_status",
            READS,
            "Reads a run: its status, why it waits, its output or error, and in `waits` what it waits for, each \
             with the tool that answers it. With `wait_seconds` the call waits until the run ends or needs an \
             answer.",
            runs::read_run,
        ),
        Tool::new(
            "run_list",
            READS,
            "Lists runs, the newest first. `query` is a line of words such as `status:failed workflow:flow \
             tag.flow:order`, `is:open` or `created:>-1h`.",
            runs::list_runs,
        ),
        Tool::new(
            "run_signal",
            ADDS,
            "Sends a signal to a run. With `key`, a repetition is not received again.",
            runs::signal_run,
        ),
        Tool::new(
            "step_ready",
            DECIDES,
            "Answers an entry of `waits`: approves or rejects an approval, or makes the `choice` of a decision. \
             The first answer counts.",
            steps::decide_step,
        ),
        Tool::new(
            "step_done",
            ADDS_ONCE,
            "Gives a step the value that it waits for: the choice of a decision, the value of a signal, or the \
             result of work that is done outside. The first value counts.",
            steps::end_step,
        ),
        Tool::new(
            "run_cancel",
            ENDS,
            "Asks a run to end; the run then undoes its steps that have an undo. A run that was asked \
             before stays as it is.",
            runs::cancel_run,
        ),
        Tool::new(
            "run_retry",
            ADDS,
            "Lets a failed run go on from the step that failed. Steps that have succeeded are not done again, and \
             answers stand: a rejected run fails again.",
            runs::retry_run,
        ),
        Tool::new(
            "event_emit",
            ADDS,
            "Delivers an event to every run that waits for its name and key at this moment.",
            runs::emit_event,
        ),
    ]
});

/// Returns the tool of this name.
pub(crate) fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}
