//! The tool `shell.run`: programs that the operator lists. It needs Linux.
//!
//! A flow names a program of the list and gives it words, which no shell reads. The program has an
//! empty environment with the variables that the operator names, and beside them
//! `IDEMPOTENCY_KEY`, the key of the step, and `WORKFLOW_TOOL_CALL`, by which its processes are
//! found. It runs below one directory, has the [`Limits`] of the kernel, and gains no rights.
//! Landlock lets it read the folders of the system, write below the directory alone, and use no
//! TCP. At its end, at the timeout, and when the call is dropped, its process group is killed, and
//! so are processes that left the group with their environment.
//!
//! The limits are set before the program begins: this program is started again as a helper, which
//! limits itself and then becomes the program. So `main` begins with [`shell_helper`].
//!
//! A result looks like this. Output that is not text stands in `stdout_base64` and
//! `stderr_base64`.
//!
//! ```json
//! { "exit_code": 0, "stdout": "42\n", "stdout_cut": false, "stderr": "", "stderr_cut": false }
//! ```

mod action;
mod command;
mod confinement;
mod helper;
mod limits;
mod options;
mod output;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use rustix::io::Errno;
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use workflow_flows::{ErrorClass, Tool, ToolCall, ToolError};

pub use helper::shell_helper;
pub use limits::Limits;
pub use options::{ShellBuilder, ShellError};

use crate::arguments::{Span, failed, invalid, parse, shortest};
use crate::excerpt::excerpt;
use crate::files::root::Root;
use command::Ended;
use helper::{Preparation, Refusal};

/// The tool `shell.run`. See the [module](self).
///
/// ```no_run
/// use workflow_flows::Tool;
/// use workflow_tools::shell::{Shell, shell_helper};
///
/// shell_helper();
/// let shell = Shell::builder("/srv/flows").program("sort", "/usr/bin/sort").build().unwrap();
/// assert_eq!(shell.name(), "shell.run");
/// ```
#[derive(Clone)]
pub struct Shell {
    options: Arc<ShellBuilder>,
    root: Arc<Root>,
}

impl fmt::Debug for Shell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shell").field(&self.options).finish()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    program: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    stdin: Value,
    folder: Option<String>,
    timeout: Option<Span>,
    #[serde(default)]
    accept: Vec<i32>,
}

impl Shell {
    /// Returns a builder that allows no program. The folders of calls stand below `root`, which
    /// programs may read and change.
    #[must_use]
    pub fn builder(root: impl Into<PathBuf>) -> ShellBuilder {
        ShellBuilder::new(root.into())
    }

    /// Runs one program to its end.
    async fn run(&self, arguments: &Arguments, call: &ToolCall) -> Result<Ended, ToolError> {
        let options = &self.options;
        let preparation = Preparation {
            nonce: uuid::Uuid::new_v4().to_string(),
            parent: std::process::id(),
            confinement: options.confinement.clone(),
            limits: options.limits.clone(),
        };
        let folder = self.root.folder(arguments.folder.as_deref().unwrap_or(".")).map_err(in_folder)?;
        let command = self.command(arguments, call, &preparation, &folder)?;
        let limits = (options.output_limit, options.output_limit.saturating_add(preparation.ready().len()));
        let timeout = shortest(options.timeout, [arguments.timeout.map(|span| span.0), call.timeout]);
        let late = |_| {
            let message = format!("the program of shell.run did not end within {timeout:?}");
            ToolError::new(ErrorClass::Timeout, message)
        };
        let input = input(&arguments.stdin);
        let ended = tokio::time::timeout(timeout, command::run(command, folder, input.as_bytes(), limits)).await;
        let mut ended = ended.map_err(late)?.map_err(|error| unstarted(&error))?;
        ended.stderr.bytes = match preparation.read(&ended.stderr.bytes) {
            Some(Ok(written)) => written.to_vec(),
            Some(Err(refusal)) => return Err(refused(&refusal)),
            None => return Err(unavailable("its helper has ended, or is not one: see `ShellBuilder::helper`")),
        };
        Ok(ended)
    }

    fn command(
        &self,
        arguments: &Arguments,
        call: &ToolCall,
        preparation: &Preparation,
        folder: &OwnedFd,
    ) -> Result<Command, ToolError> {
        let options = &self.options;
        let unlisted = || {
            let listed: Vec<&str> = options.programs.keys().map(String::as_str).collect();
            invalid(format!("shell.run: the program is not on the list of the operator: [{}]", listed.join(", ")))
        };
        let program = options.programs.get(&arguments.program).ok_or_else(unlisted)?;
        let mut command = preparation
            .command(options.helper.as_deref(), program, &arguments.args)
            .map_err(|error| failed(format!("shell.run: a path of the operator is not text: {error}")))?;
        command.env_clear().envs(self.environment(&arguments.env, call)?);
        // The child follows this link before the descriptor is closed in it.
        command.current_dir(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        if let Some((user, group)) = options.user {
            command.uid(user).gid(group);
        }
        Ok(command)
    }

    fn environment(
        &self,
        given: &BTreeMap<String, String>,
        call: &ToolCall,
    ) -> Result<BTreeMap<String, String>, ToolError> {
        if let Some(name) = given.keys().find(|name| !self.options.settable.contains(*name)) {
            return Err(invalid(format!("shell.run: flows may not set the variable {name:?}; ask the operator")));
        }
        let mut variables = self.options.variables.clone();
        variables.extend(given.clone());
        variables.extend(self.options.own(&call.actor));
        variables.insert("IDEMPOTENCY_KEY".to_owned(), call.idempotency_key.clone());
        Ok(variables)
    }

    /// Fails if the program has ended by a signal, or with an exit code that is not accepted.
    fn judged(&self, ended: Ended, arguments: &Arguments, call: &ToolCall) -> Result<Value, ToolError> {
        let Some(code) = ended.status.code() else {
            return Err(self.killed(ended.status.signal().unwrap_or_default()));
        };
        if code != 0 && !arguments.accept.contains(&code) {
            let actors = self.options.own(&call.actor).into_iter().map(|(_, value)| value);
            let values = self.options.variables.values().cloned().chain(actors);
            let written = excerpt(&ended.stderr.bytes, &[call.args.clone(), values.collect()]);
            let end = if written.is_empty() { String::new() } else { format!(": {written}") };
            return Err(failed(format!("the program of shell.run ended with exit code {code}{end}")));
        }
        let mut result = Map::new();
        result.insert("exit_code".to_owned(), Value::from(code));
        ended.stdout.insert_into(&mut result, "stdout");
        ended.stderr.insert_into(&mut result, "stderr");
        Ok(Value::Object(result))
    }

    fn killed(&self, signal: i32) -> ToolError {
        let limits = &self.options.limits;
        if signal == Signal::XCPU.as_raw() {
            let message = format!("the program of shell.run took {} s of processor time", limits.processor_seconds);
            return ToolError::new(ErrorClass::Timeout, message);
        }
        let why = if signal == Signal::XFSZ.as_raw() {
            format!("it wrote a file of more than {} bytes", limits.file_size)
        } else {
            "by itself, by a limit, or by another program".to_owned()
        };
        failed(format!("the program of shell.run was ended by signal {signal}: {why}"))
    }
}

#[async_trait]
impl Tool for Shell {
    fn name(&self) -> &str {
        "shell.run"
    }

    fn description(&self) -> &str {
        "Runs a listed program and returns exit_code, stdout and stderr."
    }

    fn input_schema(&self) -> Value {
        let names: Vec<&String> = self.options.programs.keys().collect();
        let settable: Map<String, Value> =
            self.options.settable.iter().map(|name| (name.clone(), json!({ "type": "string" }))).collect();
        json!({
            "type": "object", "required": ["program"], "additionalProperties": false,
            "properties": {
                "program": { "enum": names },
                "args": { "type": "array", "items": { "type": "string" }, "description": "No shell reads them." },
                "env": { "type": "object", "additionalProperties": false, "properties": settable },
                "stdin": { "description": "A text, or another value that the program reads as JSON." },
                "folder": { "type": "string", "description": "Where it runs: a relative path. It must exist." },
                "timeout": { "type": ["string", "number"] },
                "accept": {
                    "type": "array", "items": { "type": "integer" },
                    "description": "Further exit codes that do not fail the step.",
                },
            },
        })
    }

    async fn call(&self, call: ToolCall) -> Result<Value, ToolError> {
        let arguments: Arguments = parse("shell.run", &call.args)?;
        let ended = self.run(&arguments, &call).await?;
        self.judged(ended, &arguments, &call)
    }
}

/// The text that a program reads.
fn input(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn in_folder(error: ToolError) -> ToolError {
    ToolError { message: format!("shell.run: the folder: {}", error.message), ..error }
}

/// Returns an error of the class `unavailable`: another worker may be able to start the program.
fn unavailable(why: &str) -> ToolError {
    ToolError::new(ErrorClass::Unavailable, format!("shell.run: the program cannot be started: {why}"))
}

fn unstarted(error: &io::Error) -> ToolError {
    match error.kind() {
        io::ErrorKind::ArgumentListTooLong => invalid("shell.run: the arguments are too long for the system"),
        io::ErrorKind::InvalidInput => invalid("shell.run: an argument or a variable contains a zero byte"),
        _ => unavailable(&format!("the helper, in its folder: {error}")),
    }
}

fn refused(refusal: &Refusal) -> ToolError {
    let shown = |error: &i32| io::Error::from_raw_os_error(*error).to_string();
    match refusal {
        Refusal::Program(error) if *error == Errno::TOOBIG.raw_os_error() => {
            invalid("shell.run: the arguments are too long for the system")
        }
        Refusal::Program(error) => unavailable(&shown(error)),
        Refusal::Limits(error) => unavailable(&format!("the kernel does not limit it: {}", shown(error))),
        Refusal::Confinement(why) => unavailable(&format!("the kernel does not confine it: {why}")),
    }
}
