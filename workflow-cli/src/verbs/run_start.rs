//! New runs.

use std::collections::BTreeMap;
use std::time::Duration;

use workflow_sdk::RunId;
use workflow_sdk::operate::{self, Action, Done, Operate, OrderOutcome, StartRun};

use crate::arguments::{self, Author, Rank, StartOptions};
use crate::output::Output;
use crate::{Exit, Failure, selection};

use super::order::order;
use super::{payload, run_result, run_view};

pub(crate) async fn start(
    operate: &dyn Operate,
    output: &Output,
    arguments: arguments::StartRun,
) -> Result<Exit, Failure> {
    let arguments::StartRun { workflow, options, gate, version, priority, deadline, at, single, follow, limits } =
        arguments;
    let StartOptions { input, key, queue, delay, tags, wait, author } = options;
    let mut start = StartRun::new(workflow, payload::load(input).await?);
    (start.key, start.queue, start.gate, start.version) = (key, queue, gate, version);
    start.priority = priority.map(Rank::priority);
    start.delay_ms = delay.map(millis);
    start.deadline_ms = deadline.map(millis);
    start.tags = read_tags(&tags)?;
    (start.at, start.single, start.limits) = (at, single, limits);
    let action = Action::StartRun(Box::new(start));
    if follow {
        return begin_and_follow(operate, output, action, &author).await;
    }
    begin(operate, output, action, &author, wait).await
}

/// Shows the new run, and again after each change, until it has ended. A run that failed or was
/// canceled is a failure with an exit code of its own.
async fn begin_and_follow(
    operate: &dyn Operate,
    output: &Output,
    action: Action,
    author: &Author,
) -> Result<Exit, Failure> {
    let done = operate.perform(order(action, author)).await?;
    let Some(run) = started(&done) else {
        return Err(Failure::new(Exit::Error, done.message));
    };
    if output.is_for_people() {
        output.note(&done.message);
    }
    run_view::show(operate, output, &run.to_string(), true).await?;
    let detail = operate.run(run).await?;
    run_result::refuse_unless_succeeded(&detail)?;
    Ok(Exit::Ok)
}

pub(super) async fn fork(
    operate: &dyn Operate,
    output: &Output,
    arguments: arguments::ForkRun,
) -> Result<Exit, Failure> {
    let arguments::ForkRun { run, from, input, version, queue, key, author } = arguments;
    let mut fork = operate::ForkRun::new(selection::find(operate, &run).await?);
    fork.input = payload::load_given(input).await?;
    (fork.from, fork.version, fork.queue, fork.key) = (from, version, queue, key);
    begin(operate, output, Action::ForkRun(Box::new(fork)), &author, None).await
}

async fn begin(
    operate: &dyn Operate,
    output: &Output,
    action: Action,
    author: &Author,
    wait: Option<Duration>,
) -> Result<Exit, Failure> {
    let done = operate.perform(order(action, author)).await?;
    tell(operate, output, &done, wait).await
}

/// Prints the id of the run that was started, or waits for the run and prints its output.
pub(crate) async fn tell(
    operate: &dyn Operate,
    output: &Output,
    done: &Done,
    wait: Option<Duration>,
) -> Result<Exit, Failure> {
    let Some(run) = started(done) else {
        return Err(Failure::new(Exit::Error, done.message.clone()));
    };
    match wait {
        Some(wait) => {
            if output.is_for_people() {
                output.note(&done.message);
            }
            run_result::print(operate, output, run, wait).await
        }
        None => {
            output.one(done, || run.to_string(), |_| run.to_string())?;
            if output.is_for_people() {
                output.note(&done.message);
            }
            Ok(Exit::Ok)
        }
    }
}

fn started(done: &Done) -> Option<RunId> {
    match &done.outcome {
        OrderOutcome::Started { run } | OrderOutcome::Existed { run } => Some(*run),
        _ => None,
    }
}

/// Reads tags, each as `NAME=VALUE`.
pub(crate) fn read_tags(tags: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let read = |tag: &String| match tag.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(Failure::usage(format!("the tag {tag:?} has no value"), "write --tag NAME=VALUE")),
    };
    tags.iter().map(read).collect()
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
