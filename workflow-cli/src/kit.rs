//! A program of the application's own: its worker, and every verb of the command line.

use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use futures::future::LocalBoxFuture;
use workflow_flows::FlowRuntime;
use workflow_sdk::metrics::Metrics;
#[cfg(feature = "otlp")]
use workflow_sdk::otel::OpenTelemetry;
use workflow_sdk::{BoxError, Client, Connect};
use workflow_worker::Worker;

use crate::arguments::{Arguments, RunWorker, Serve, Verb};
use crate::environment::with_environment;
use crate::flow_worker::flow_worker;
use crate::output::Output;
use crate::preflight::preflight;
use crate::replay::replay;
use crate::server::{Port, Readiness, install_recorder};
#[cfg(feature = "otlp")]
use crate::serving::begin_log_with;
use crate::serving::{Served, WorkOptions, begin_log, serve, serve_interface};
use crate::target::{NamedBy, Naming, SetOptions, Target, open_flows};
#[cfg(feature = "otlp")]
use crate::traces::TraceExport;
use crate::{Exit, Failure, completion, demo, flows, inbox, knowledge, prune, template, verbs, versions};

/// Makes the worker of the application.
pub(crate) type MakeWorker = Box<dyn FnOnce(Client) -> LocalBoxFuture<'static, Result<Made, BoxError>>>;

/// The worker of the application, and the runtime of its flows if it has flows.
pub(crate) struct Made {
    pub(crate) worker: Box<dyn Served>,
    pub(crate) flows: Option<FlowRuntime>,
}

/// Makes one program of a worker and the command line. See [`kit`].
#[must_use = "nothing happens before `main` or `run`"]
pub struct Kit {
    name: String,
    database: Option<String>,
    options: SetOptions,
    worker: Option<MakeWorker>,
}

/// Begins a program of this name that has all verbs of the command line. With [`Kit::worker`], it
/// also has the verbs that need the application's code: `run`, which is the default, `preflight`
/// and `replay`.
///
/// ```no_run
/// // no_run: it reads the arguments of the process.
/// use workflow_sdk::prelude::*;
/// use workflow_worker::Worker;
///
/// #[workflow]
/// async fn checkout(ctx: &Ctx, order: u64) -> Result<u64> {
///     ok(order)
/// }
///
/// fn main() -> std::process::ExitCode {
///     workflow_cli::kit("orders")
///         .database("sqlite://orders.db")
///         .worker(async |client| Ok(Worker::new(client, ()).register(checkout)))
///         .main()
/// }
/// ```
pub fn kit(name: impl Into<String>) -> Kit {
    Kit { name: name.into(), database: None, options: Box::new(|connect| connect), worker: None }
}

impl Kit {
    /// Sets the database that is used if neither `--to` nor `WORKFLOW_DATABASE_URL` names one, nor
    /// the variable with the name of the program, which is `ORDERS_DATABASE_URL` for `orders`.
    /// Default: none.
    pub fn database(mut self, url: impl Into<String>) -> Self {
        self.database = Some(url.into());
        self
    }

    /// Sets options of the connection, such as the codec of an application that encrypts its
    /// payloads. The worker and every other verb use them. Default: none but those of the command
    /// line.
    ///
    /// ```no_run
    /// // no_run: it reads the arguments of the process.
    /// let kit = workflow_cli::kit("orders").connect(|connect| connect.payload_limit(64 * 1024));
    /// let exit = kit.main();
    /// ```
    pub fn connect(mut self, options: impl FnOnce(Connect) -> Connect + 'static) -> Self {
        self.options = Box::new(options);
        self
    }

    /// Sets the function that makes the worker. `run`, `preflight` and `replay` call it with a
    /// connected client; the other verbs do not call it.
    ///
    /// # Errors
    /// An error of the function is shown, and the program exits with code 1.
    pub fn worker<S, F>(mut self, make: F) -> Self
    where
        S: Send + Sync + 'static,
        F: AsyncFnOnce(Client) -> Result<Worker<S>, BoxError> + 'static,
    {
        self.worker = Some(Box::new(move |client| {
            Box::pin(async move { Ok(Made { worker: Box::new(make(client).await?), flows: None }) })
        }));
        self
    }

    /// Sets the function that makes a worker that runs flows. Such a program serves flows over HTTP
    /// and MCP with `run --http`, and `flow check --connect` asks the tools of its runtime.
    ///
    /// ```no_run
    /// // no_run: it reads the arguments of the process.
    /// use serde_json::Value;
    /// use workflow_flows::{FlowRuntime, ToolCall, flow};
    /// use workflow_worker::Worker;
    ///
    /// fn main() -> std::process::ExitCode {
    ///     workflow_cli::kit("orders")
    ///         .database("sqlite://orders.db")
    ///         .worker_with_flows(async |client| {
    ///             let reserve = |_args: Value, _call: ToolCall| async move { Ok("reserved") };
    ///             let runtime = FlowRuntime::builder().tool("reserve", reserve);
    ///             let runtime = runtime.client(client.clone()).build();
    ///             Ok(Worker::new(client, runtime).register(flow))
    ///         })
    ///         .main()
    /// }
    /// ```
    ///
    /// # Errors
    /// An error of the function is shown, and the program exits with code 1.
    pub fn worker_with_flows<S, F>(mut self, make: F) -> Self
    where
        S: AsRef<FlowRuntime> + Send + Sync + 'static,
        F: AsyncFnOnce(Client) -> Result<Worker<S>, BoxError> + 'static,
    {
        self.worker = Some(Box::new(move |client| {
            Box::pin(async move {
                let worker = make(client).await?;
                let flows = Some(worker.state().as_ref().clone());
                Ok(Made { worker: Box::new(worker), flows })
            })
        }));
        self
    }

    /// Runs the program with the arguments of this process, and returns its exit code: see
    /// [`Exit`]. The worker of a flow starts this program again to run jq and other programs, so
    /// nothing may be printed before.
    #[must_use]
    pub fn main(self) -> ExitCode {
        workflow_flows::expression::jq_helper();
        #[cfg(target_os = "linux")]
        workflow_tools::shell::shell_helper();
        self.run(std::env::args_os()).into()
    }

    /// Runs the program with these arguments; the first is the name under which it was called.
    /// Writes to the standard output and the standard error of the process.
    pub fn run(self, arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Exit {
        let command = Arguments::command().name(self.name.clone()).bin_name(self.name.clone());
        let parsed = command.clone().try_get_matches_from(arguments);
        let parsed = parsed.and_then(|mut matches| {
            let naming = Naming::of(&matches);
            let mut arguments = Arguments::from_arg_matches_mut(&mut matches)?;
            arguments.global.naming = naming;
            Ok(arguments)
        });
        let mut arguments = match parsed {
            Ok(arguments) => arguments,
            Err(refused) => {
                // A closed standard error leaves nothing to say.
                let _ = refused.print();
                return if refused.use_stderr() { Exit::Usage } else { Exit::Ok };
            }
        };
        if arguments.global.to.is_none() {
            let variable = database_variable(&self.name);
            let own = std::env::var(&variable).ok().filter(|url| !url.is_empty());
            arguments.global.naming.to = if own.is_some() { NamedBy::Variable(variable) } else { NamedBy::Program };
            arguments.global.to = own.or(self.database);
        }
        let output = Output::new(&arguments.global);
        let verb = arguments.verb.take();
        if let Some(Verb::Completions { line: Some(line), .. }) = &verb {
            return completion::answer(command, line, arguments.global, self.options, &output);
        }
        let target = Target::new(arguments.global, self.options);
        let done = match (verb, self.worker) {
            (Some(Verb::Run(run)), Some(_)) if run.tools.flows => Err(Failure::usage(
                format!("--flows is for programs without a worker, and {} has one", self.name),
                "give its runtime the tools of workflow_tools::actions::Actions",
            )),
            (Some(Verb::Run(run)), Some(make)) => serve_with(&self.name, target, run, make),
            (Some(Verb::Run(mut run)), None) if run.tools.flows => target.url().and_then(|url| {
                let make = flow_worker(url, std::mem::take(&mut run.tools));
                serve_with(&self.name, target, run, make)
            }),
            (None, Some(make)) => serve_with(&self.name, target, RunWorker::default(), make),
            (Some(Verb::Preflight { strict }), Some(make)) => block_on(async {
                let client = target.connect().await?;
                preflight(make(client).await.map_err(refused)?.worker, strict, &output).await
            }),
            (Some(Verb::Replay { run }), Some(make)) => block_on(async {
                let client = target.connect().await?;
                let worker = make(client.clone()).await.map_err(refused)?.worker;
                replay(worker, &client, &run, &output).await
            }),
            (Some(Verb::Prune(arguments)), make) => block_on(interruptible(async {
                let client = target.connect().await?;
                let worker = match make {
                    Some(make) => Some(make(client.clone()).await.map_err(refused)?.worker),
                    None => None,
                };
                prune::run(worker.as_deref(), &client, arguments, &output).await
            })),
            (Some(Verb::Serve(serve)), _) => serve_only(target, serve),
            (Some(Verb::Demo(_)), _) if target.is_named_by_option() => {
                Err(Failure::usage("demo makes a database of its own", "leave out --to"))
            }
            (Some(Verb::Demo(demo)), _) => block_on(demo::run(demo, &output)),
            (Some(Verb::New(new)), _) => template::create(new, &output),
            (Some(Verb::Flow(verb)), make) => flows::run(verb, &output).and_then(|done| match done {
                flows::Done::Ended(exit) => Ok(exit),
                flows::Done::Goes(Verb::Flow(verb)) => {
                    block_on(interruptible(versions::run(target, verb, make, &output)))
                }
                flows::Done::Goes(verb) => block_on(interruptible(verbs::run(target, verb, command, &output))),
            }),
            (Some(Verb::Kb(verb)), _) => block_on(interruptible(knowledge::run(target, verb, &output))),
            (Some(Verb::Inbox(verb)), _) => block_on(interruptible(inbox::run(target, verb, &output))),
            (Some(Verb::Run(_) | Verb::Preflight { .. } | Verb::Replay { .. }), None) => Err(Failure::usage(
                format!("{} has no workflows, so it has no worker", self.name),
                "run flows with --flows; workflow_cli::kit puts the verbs into your own program",
            )),
            (None, None) => {
                output.note(command.clone().render_help().to_string());
                return Exit::Usage;
            }
            (Some(verb), _) => block_on(interruptible(verbs::run(target, verb, command, &output))),
        };
        done.unwrap_or_else(|failure| output.fail(failure))
    }
}

impl fmt::Debug for Kit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kit").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Returns the variable of the environment that names the database of a program of this name.
fn database_variable(name: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    name.chars().map(upper).chain("_DATABASE_URL".chars()).collect()
}

pub(crate) fn refused(error: BoxError) -> Failure {
    Failure::new(Exit::Error, format!("the worker was not made: {error}"))
}

/// Begins the log and, if they are wanted, the traces of the worker, and lets the worker work.
#[cfg_attr(not(feature = "otlp"), allow(unused_variables, reason = "only traces name the program"))]
fn serve_with(name: &str, target: Target, run: RunWorker, make: MakeWorker) -> Result<Exit, Failure> {
    #[cfg(feature = "otlp")]
    if let Some(export) = TraceExport::begin(name, run.traces.as_deref())? {
        if begin_log_with(run.log, export.layer()) {
            let done = work(target.observed(OpenTelemetry), run, make);
            export.stop();
            return done;
        }
        if run.traces.is_some() {
            return Err(Failure::usage(
                "--traces has no effect: the program has a subscriber of its own",
                "add an OpenTelemetry layer to that subscriber; docs/guide/traces.md shows one",
            ));
        }
    }
    begin_log(run.log);
    work(target, run, make)
}

fn work(target: Target, run: RunWorker, make: MakeWorker) -> Result<Exit, Failure> {
    let RunWorker { concurrency, queues, once, http, no_migrate, .. } = run;
    let options = WorkOptions { concurrency, queues, once };
    multi_thread(async {
        let Some(address) = http else {
            let client = open(target, no_migrate).await?;
            return serve(make(client).await.map_err(refused)?.worker, options).await;
        };
        // Prepared before the database is changed, and before the first event.
        let (port, recorder, readiness) = (Port::bind(address).await?, install_recorder(), Readiness::default());
        let target = target.observed(readiness.clone());
        let target = if recorder.is_some() { target.observed(Metrics::new()) } else { target };
        let url = target.url()?;
        let client = open(target, no_migrate).await?;
        let Made { worker, flows } = make(client.clone()).await.map_err(refused)?;
        let flows = match flows {
            Some(runtime) => Some(with_environment(open_flows(&url, &client).await?)?.runtime(runtime)),
            None => None,
        };
        tracing::info!(address = %port.address(), "listening for HTTP");
        let server = port.serve(client, flows, readiness, recorder);
        let done = serve(worker, options).await;
        server.stop().await;
        done
    })
}

/// Serves the interface over HTTP without a worker.
fn serve_only(target: Target, serve: Serve) -> Result<Exit, Failure> {
    begin_log(serve.log);
    multi_thread(async {
        let (port, recorder) = (Port::bind(serve.http).await?, install_recorder());
        let target = if recorder.is_some() { target.observed(Metrics::new()) } else { target };
        let (client, flows) = match serve.flows {
            true => target.flows().await.map(|(client, flows)| (client, Some(flows)))?,
            false => (target.on_standby_too().connect().await?, None),
        };
        if let Some(standby) = client.store().standby() {
            tracing::warn!("{standby}: nothing can be changed here");
        }
        let flows = flows.map(with_environment).transpose()?;
        serve_interface(client, flows, port, recorder).await
    })
}

async fn open(target: Target, no_migrate: bool) -> Result<Client, Failure> {
    if no_migrate { target.connect().await } else { target.migrate().await }
}

/// Runs a command on a runtime with a thread per processor.
fn multi_thread(command: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(cannot_begin)?.block_on(command)
}

/// Runs a command on this thread.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot_begin)?;
    let done = runtime.block_on(command);
    // A read of the standard input that was interrupted may never end.
    runtime.shutdown_background();
    done
}

fn cannot_begin(error: std::io::Error) -> Failure {
    Failure::new(Exit::Error, format!("cannot begin: {error}"))
}

/// Makes a call that waits for a person or another program, on a thread of its own. The runtime
/// goes on meanwhile, so that the keyboard can interrupt the command. The call is then left to
/// itself.
pub(crate) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let failed = |error| Failure::new(Exit::Error, format!("cannot read the standard input: {error}"));
    tokio::task::spawn_blocking(call).await.map_err(failed)?
}

/// Lets the keyboard interrupt a command.
async fn interruptible(command: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    tokio::select! {
        biased;
        done = command => done,
        interrupted = tokio::signal::ctrl_c() => match interrupted {
            Ok(()) => Ok(Exit::Interrupted),
            Err(error) => Err(Failure::new(Exit::Error, format!("cannot listen for signals: {error}"))),
        },
    }
}
