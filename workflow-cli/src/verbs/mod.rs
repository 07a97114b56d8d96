//! The verbs of the command line, each by the interface for operators.

mod approvals;
mod audit;
mod bulk;
mod counts;
mod dashboard;
mod doctor;
mod events;
mod failures;
mod limits;
mod mcp;
mod migrate;
pub(crate) mod order;
pub(crate) mod payload;
mod queues;
mod rate;
pub(crate) mod run_changes;
mod run_list;
mod run_result;
pub(crate) mod run_start;
mod run_view;
mod schedule_orders;
mod schedules;
mod statistics;
mod timeline;
mod transfer;
mod watch;
mod workers;
mod workflows;

use std::sync::Arc;

use clap::Command;
use serde::Serialize;
use workflow_sdk::operate::Operate;

use crate::arguments::{NextTimes, RunsVerb, SchedulesVerb, Verb};
use crate::completion::script;
use crate::output::Output;
use crate::standby;
use crate::target::{Place, Target, open_flows};
use crate::{Exit, Failure};

/// The program and its version.
#[derive(Debug, Serialize)]
struct Version<'a> {
    program: &'a str,
    version: &'a str,
}

/// Runs a command.
pub(crate) async fn run(target: Target, verb: Verb, mut command: Command, output: &Output) -> Result<Exit, Failure> {
    if let Verb::Completions { shell: Some(shell), .. } = verb {
        output.line(script(shell, &mut command).trim_end())?;
        return Ok(Exit::Ok);
    }
    if matches!(verb, Verb::Version) {
        let version = Version { program: command.get_name(), version: command.get_version().unwrap_or_default() };
        output.one(&version, || version.version.to_owned(), |_| format!("{} {}", version.program, version.version))?;
        return Ok(Exit::Ok);
    }
    if let Verb::Migrate(arguments) = verb {
        return migrate::run(target, arguments, output).await;
    }
    if let Verb::Move(arguments) = verb {
        return transfer::run(target, arguments, output).await;
    }
    if let Verb::Dashboard(dashboard) = verb {
        return match target.server()? {
            Some(remote) => dashboard::serve(Arc::new(remote), None, output, dashboard).await,
            None => {
                let url = target.url()?;
                let client = target.on_standby_too().connect().await?;
                standby::tell(&client, output).await?;
                // An account that may not create their table sees all other pages.
                let flows = match open_flows(&url, &client).await {
                    Ok(flows) => Some(flows),
                    Err(failure) => {
                        output.note(format!("without the pages of flows: {}", failure.message));
                        None
                    }
                };
                dashboard::serve(Arc::new(client), flows, output, dashboard).await
            }
        };
    }
    if let Verb::Mcp(mcp) = verb {
        return mcp::serve(target, output, mcp).await;
    }
    if let Verb::Schedules(SchedulesVerb::Next(NextTimes { cron: Some(expression), zone, count, .. })) = &verb {
        return schedule_orders::next_of_expression(output, expression, zone, *count);
    }
    let place = target.place();
    let (operate, client) = target.operate().await?;
    if let Some(client) = &client {
        standby::tell(client, output).await?;
    }
    let exit = operate_with(&*operate, verb, output, &place).await;
    if let Some(client) = client {
        // This process ends before it would write what it has counted.
        client.executor().write_statistics().await;
    }
    exit
}

async fn operate_with(operate: &dyn Operate, verb: Verb, output: &Output, place: &Place) -> Result<Exit, Failure> {
    match verb {
        Verb::Runs(RunsVerb::Start(start)) => run_start::start(operate, output, *start).await,
        Verb::Runs(RunsVerb::List(list)) => run_list::list(operate, output, list).await,
        Verb::Runs(RunsVerb::Show { run, watch }) => run_view::show(operate, output, &run, watch).await,
        Verb::Runs(RunsVerb::History { run, limit, cursor }) => {
            run_view::history(operate, output, &run, limit, cursor).await
        }
        Verb::Runs(RunsVerb::Explain { run }) => run_view::explain(operate, output, &run).await,
        Verb::Runs(RunsVerb::Result { run, wait }) => {
            let run = crate::selection::find(operate, &run).await?;
            run_result::print(operate, output, run, wait).await
        }
        Verb::Runs(RunsVerb::Fork(fork)) => run_start::fork(operate, output, fork).await,
        Verb::Runs(change) => run_changes::change(operate, output, change).await,
        Verb::Counts => counts::show(operate, output).await,
        Verb::Approvals(verb) => approvals::run(operate, output, verb).await,
        Verb::Queues(verb) => queues::run(operate, output, verb).await,
        Verb::Limits(verb) => limits::run(operate, output, verb).await,
        Verb::Schedules(verb) => schedules::run(operate, output, verb).await,
        Verb::Events(verb) => events::run(operate, output, verb).await,
        Verb::Workers => workers::list(operate, output).await,
        Verb::Workflows => workflows::list(operate, output).await,
        Verb::Bulk(verb) => bulk::run(operate, output, verb).await,
        Verb::Audit(audit) => audit::list(operate, output, audit).await,
        Verb::Stats(stats) => statistics::show(operate, output, stats).await,
        Verb::Failures(failures) => failures::list(operate, output, failures).await,
        Verb::Doctor(examine) => doctor::run(operate, output, place, examine).await,
        Verb::Completions { .. } | Verb::Demo(_) | Verb::Flow(_) | Verb::New(_) | Verb::Run(_) => Ok(Exit::Ok),
        Verb::Migrate(_) | Verb::Version => Ok(Exit::Ok),
        Verb::Dashboard(_) | Verb::Mcp(_) | Verb::Serve(_) => Ok(Exit::Ok),
        Verb::Preflight { .. } | Verb::Replay { .. } | Verb::Prune(_) => Ok(Exit::Ok),
        Verb::Inbox(_) | Verb::Kb(_) | Verb::Move(_) => Ok(Exit::Ok),
    }
}
