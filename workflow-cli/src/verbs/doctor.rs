//! Looks for faults that an operator can mend.

use std::collections::BTreeSet;
use std::time::Duration;

use comfy_table::{Cell, Color};
use serde::Serialize;
use workflow_sdk::Timestamp;
use workflow_sdk::operate::{
    Counts, LimitView, ListSchedules, Operate, QueueView, SchedulePage, SystemView, WorkerView, WorkflowView,
};

use crate::arguments::{Author, Examine};
use crate::clock::span;
use crate::kit::blocking;
use crate::output::{Output, Rows};
use crate::target::Place;
use crate::{Exit, Failure};

use super::counts::shown;

mod database;
mod hold;
mod record;
mod restore;
mod schedules;
mod statistics;
mod target;

/// How long a run may be due before that is a fault, although a worker serves its queue.
const LATE: Duration = Duration::from_secs(300);

/// The largest limit that costs little: each claim below a limit counts the places that are taken.
const LARGE_LIMIT: u32 = 5_000;

/// The size in bytes of a database that is large if it is never cleaned up.
const LARGE_DATABASE: u64 = 10 << 30;

/// The schedules that are looked at.
const SCHEDULES: u32 = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    Warn,
    Bad,
}

/// One fact, and what to do about it.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    level: Level,
    fact: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Finding {
    fn ok(fact: impl Into<String>) -> Self {
        Self { level: Level::Ok, fact: fact.into(), fix: None }
    }

    fn warn(fact: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Warn, fact: fact.into(), fix: Some(fix.into()) }
    }

    fn bad(fact: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { level: Level::Bad, fact: fact.into(), fix: Some(fix.into()) }
    }
}

/// The answers of the database.
struct Facts {
    system: SystemView,
    counts: Counts,
    workers: Vec<WorkerView>,
    workflows: Vec<WorkflowView>,
    queues: Vec<QueueView>,
    limits: Vec<LimitView>,
    schedules: SchedulePage,
}

pub(super) async fn run(
    operate: &dyn Operate,
    output: &Output,
    place: &Place,
    arguments: Examine,
) -> Result<Exit, Failure> {
    let Examine { after_restore, hold: is_held, release, recount, actor } = arguments;
    let author = Author { reason: Some(hold::REASON.to_owned()), actor };
    if release {
        return hold::release(operate, output, &author).await;
    }
    let Some(source) = after_restore else { return examine(operate, output, place, recount).await };
    // A file that is refused changes nothing, so it is read first.
    let known = match source {
        Some(source) => blocking(move || record::read(&source)).await?,
        None => record::Known::new(),
    };
    if is_held {
        hold::hold(operate, output, &author).await?;
    }
    restore::examine(operate, output, known).await
}

async fn examine(operate: &dyn Operate, output: &Output, place: &Place, recount: bool) -> Result<Exit, Failure> {
    let facts = Facts {
        system: operate.system().await?,
        counts: operate.counts().await?,
        workers: operate.workers().await?,
        workflows: operate.workflows().await?,
        queues: operate.queues().await?,
        limits: operate.limits().await?,
        schedules: operate.schedules(ListSchedules::new().limit(SCHEDULES)).await?,
    };
    let now = output.clock().now();
    let mut findings = Vec::new();
    target::examine(place, &mut findings);
    findings.extend(diagnose(&facts, now));
    if recount {
        findings.push(statistics::recount(operate, now).await?);
    }
    output.list(&findings, &findings, |finding| finding.fact.clone(), |_| table(&findings))?;
    let is_bad = findings.iter().any(|finding| finding.level == Level::Bad);
    Ok(if is_bad { Exit::Error } else { Exit::Ok })
}

fn table<'f>(findings: impl IntoIterator<Item = &'f Finding>) -> Rows {
    let mut rows = Rows::new(&["", "FOUND", "WHAT TO DO"]);
    for finding in findings {
        let level = match finding.level {
            Level::Ok => Cell::new("ok").fg(Color::Green),
            Level::Warn => Cell::new("warn").fg(Color::Yellow),
            Level::Bad => Cell::new("bad").fg(Color::Red),
        };
        rows.push(vec![level, Cell::new(&finding.fact), Cell::new(finding.fix.as_deref().unwrap_or_default())]);
    }
    rows.whole()
}

fn diagnose(facts: &Facts, now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    database::examine(&facts.system, now, &mut findings);
    workers(facts, &mut findings);
    unserved(facts, &mut findings);
    stuck(facts, &mut findings);
    queues(facts, now, &mut findings);
    limits(facts, &mut findings);
    schedules::examine(facts, now, &mut findings);
    findings
}

fn workers(Facts { workers, counts, system, .. }: &Facts, findings: &mut Vec<Finding>) {
    let live = workers.iter().filter(|worker| worker.live).count();
    let due = counts.due.runs;
    findings.push(match (live, due) {
        (0, 0) => Finding::warn("no worker lives", "start one before runs are due"),
        (0, _) => Finding::bad(format!("no worker lives, and {} runs are due", shown(counts.due)), "start a worker"),
        (1, _) => Finding::ok(format!("1 worker lives and serves {}", served(workers))),
        (live, _) => Finding::ok(format!("{live} workers live and serve {}", served(workers))),
    });
    let dead = workers.len() - live;
    let fix = if live > 0 { "a living worker takes over its runs within seconds" } else { "start a worker" };
    match dead {
        0 => {}
        1 => findings.push(Finding::warn("1 worker has died, and no other one has noticed", fix)),
        _ => findings.push(Finding::warn(format!("{dead} workers have died, and no other one has noticed"), fix)),
    }
    let kept = workers
        .iter()
        .filter(|worker| worker.live && worker.retention.as_ref().is_some_and(|all| all.is_empty()))
        .count();
    if live > 0 && kept == live {
        let large = system.database.bytes.filter(|bytes| *bytes > LARGE_DATABASE);
        let now = large.map(|bytes| format!("; they have {} now", database::size(bytes))).unwrap_or_default();
        findings.push(Finding::warn(
            format!("no worker deletes ended runs, so the tables grow for ever{now}"),
            "declare a retention: Worker::retain",
        ));
    }
}

/// Returns how many workflows the live workers serve, and in how many versions.
fn served(workers: &[WorkerView]) -> String {
    let lanes = || workers.iter().filter(|worker| worker.live).flat_map(|worker| &worker.lanes);
    let workflows: BTreeSet<&str> = lanes().map(|lane| lane.workflow.as_str()).collect();
    let versions: BTreeSet<_> = lanes().map(|lane| (&lane.workflow, &lane.version)).collect();
    format!("{} in {}", hold::counted(workflows.len(), "workflow"), hold::counted(versions.len(), "version"))
}

fn unserved(Facts { workflows, .. }: &Facts, findings: &mut Vec<Finding>) {
    const MOST: usize = 10;
    let lanes = workflows.iter().flat_map(|workflow| workflow.versions.iter().map(move |version| (workflow, version)));
    let unserved: Vec<_> = lanes.filter(|(_, version)| version.unserved).collect();
    for (workflow, version) in unserved.iter().take(MOST) {
        let (name, version, queue) = (&workflow.name, &version.version, &version.queue);
        findings.push(Finding::bad(
            format!("runs of {name} version {version} in queue {queue} are due, and no worker serves them"),
            "deploy a worker that registers this version and serves the queue",
        ));
    }
    if unserved.len() > MOST {
        let more = unserved.len() - MOST;
        findings.push(Finding::bad(format!("{more} more versions have due runs and no worker"), "workflow workflows"));
    }
    if unserved.is_empty() {
        findings.push(Finding::ok("every due run has a worker that serves it"));
    }
}

fn stuck(Facts { counts, .. }: &Facts, findings: &mut Vec<Finding>) {
    if counts.stuck.runs > 0 {
        findings.push(Finding::bad(
            format!("{} runs are stuck: their histories do not fit the code", shown(counts.stuck)),
            "workflow runs list is:stuck; deploy code that fits, or fork the runs",
        ));
    }
    if counts.paused.runs > 0 {
        let fact = format!("{} runs are paused", shown(counts.paused));
        findings.push(Finding::warn(fact, "workflow runs list is:paused; resume those that should go on"));
    }
}

fn queues(Facts { queues, .. }: &Facts, now: Timestamp, findings: &mut Vec<Finding>) {
    for queue in queues {
        let name = &queue.name;
        if let Some(limit) = queue.limits.concurrency.filter(|limit| *limit > LARGE_LIMIT) {
            findings.push(Finding::warn(
                format!("the limit of queue {name} is {limit}: each claim counts the running runs below it"),
                format!(
                    "workflow queues limit {name} --concurrency {LARGE_LIMIT}, with the other limits of the queue, \
                     because it replaces all of them"
                ),
            ));
        }
        if let Some(pause) = &queue.pause {
            if queue.waiting.runs > 0 {
                let fact = format!("queue {name} is paused ({}), and {} runs wait", pause.reason, shown(queue.waiting));
                findings.push(Finding::warn(fact, format!("workflow queues resume {name}")));
            }
            continue;
        }
        if queue.limits.concurrency == Some(0) {
            let fact = format!("the limit of queue {name} is 0, so none of its runs go on");
            findings.push(Finding::warn(
                fact,
                format!("workflow queues limit {name} --concurrency NUMBER, with its other limits"),
            ));
            continue;
        }
        let late = queue.oldest_due.map(|due| now.since(due)).filter(|late| *late > LATE && queue.workers > 0);
        if let Some(late) = late {
            findings.push(Finding::bad(
                format!("the oldest due run of queue {name} waits for {}", span(late)),
                "add workers or raise their concurrency; workflow runs explain says what holds a run back",
            ));
        }
    }
}

fn limits(Facts { limits, .. }: &Facts, findings: &mut Vec<Finding>) {
    for limit in limits {
        let name = &limit.name;
        if let Some(reason) = &limit.not_understood {
            let fact = format!("limit {name} is not understood: {reason}");
            findings.push(Finding::bad(fact, format!("workflow limits set {name} or deploy the later release")));
        } else if limit.rule.is_some_and(|rule| rule.concurrency == Some(0)) && limit.waiting.runs > 0 {
            let fact = format!("limit {name} is 0, and {} steps wait", shown(limit.waiting));
            findings.push(Finding::warn(
                fact,
                format!("workflow limits set {name} --concurrency NUMBER, with its rate if it has one"),
            ));
        } else if let Some(number) = limit.rule.and_then(|rule| rule.concurrency).filter(|most| *most > LARGE_LIMIT) {
            findings.push(Finding::warn(
                format!("limit {name} is {number}: each step that asks for a seat counts the taken ones"),
                format!(
                    "workflow limits set {name} --concurrency {LARGE_LIMIT}, with its rate if it has one, or take the \
                     limit away"
                ),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let nothing = r#"{"runs":0,"at_least":false}"#;
        let states = ["pending", "due", "delayed", "running", "parked", "paused", "stuck", "failed", "canceled"];
        let counts = states.map(|state| format!("\"{state}\":{nothing}")).join(",");
        let system =
            r#"{"release":"0.1.0","database":{"kind":"SQLite","version":"3","schema_level":1,"known_level":1}}"#;
        Facts {
            system: serde_json::from_str(system).unwrap_or_else(|error| panic!("{error}")),
            counts: serde_json::from_str(&format!("{{{counts}}}")).unwrap_or_else(|error| panic!("{error}")),
            workers: Vec::new(),
            workflows: Vec::new(),
            queues: Vec::new(),
            limits: Vec::new(),
            schedules: serde_json::from_str(r#"{"items":[]}"#).unwrap_or_else(|error| panic!("{error}")),
        }
    }

    fn queue(rest: &str) -> QueueView {
        let text = format!(
            r#"{{"name":"mail","limits":{{}},"has_gates":false,"running":{{"runs":0,"at_least":false}},
                "waiting":{{"runs":7,"at_least":true}},"workers":1{rest}}}"#
        );
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    fn found(facts: &Facts, level: Level) -> Vec<String> {
        let findings = diagnose(facts, Timestamp::from_micros(1_000_000_000));
        findings.into_iter().filter(|finding| finding.level == level).map(|finding| finding.fact).collect()
    }

    #[test]
    fn an_empty_database_has_no_fault() {
        assert_eq!(found(&facts(), Level::Bad), Vec::<String>::new());
        assert_eq!(found(&facts(), Level::Warn), ["no worker lives"]);
    }

    #[test]
    fn due_runs_without_a_worker_and_stuck_runs_are_bad() {
        let mut facts = facts();
        (facts.counts.due.runs, facts.counts.stuck.runs) = (3, 2);
        let bad = found(&facts, Level::Bad);
        assert!(bad[0].contains("3 runs are due") && bad[1].contains("2 runs are stuck"), "{bad:?}");
    }

    #[test]
    fn tables_that_grow_for_ever_are_large_at_some_time() {
        let mut facts = facts();
        let worker = r#"{"id":"019a0000-0000-7000-8000-000000000000","started_at":1,"live":true,"lanes":[],
            "retention":{},"runs":{"runs":0,"at_least":false}}"#;
        facts.workers = vec![serde_json::from_str(worker).unwrap_or_else(|error| panic!("{error}"))];
        facts.system.database.bytes = Some(LARGE_DATABASE);
        assert_eq!(found(&facts, Level::Warn), ["no worker deletes ended runs, so the tables grow for ever"]);
        facts.system.database.bytes = Some(3 * LARGE_DATABASE);
        assert!(found(&facts, Level::Warn)[0].ends_with("for ever; they have 30.0 GiB now"));
    }

    #[test]
    fn a_limit_that_costs_much_is_found() {
        let mut facts = facts();
        let limit = |concurrency: u32| {
            let text = format!(
                r#"{{"name":"llm","rule":{{"concurrency":{concurrency}}},"held":{{"runs":0,"at_least":false}},
                    "waiting":{{"runs":0,"at_least":false}}}}"#
            );
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
        };
        facts.limits = vec![limit(LARGE_LIMIT), limit(6_000)];
        facts.queues = vec![queue(""), queue("")];
        facts.queues[0].limits.concurrency = Some(LARGE_LIMIT);
        facts.queues[1].limits.concurrency = Some(6_000);
        let warn = found(&facts, Level::Warn);
        assert_eq!(warn.len(), 3, "{warn:?}");
        assert!(
            warn[1].contains("the limit of queue mail is 6000") && warn[2].contains("limit llm is 6000"),
            "{warn:?}"
        );
    }

    #[test]
    fn a_queue_is_late_paused_or_closed() {
        let mut facts = facts();
        facts.queues = vec![queue(r#","oldest_due":1000000"#)];
        assert!(found(&facts, Level::Bad)[0].contains("waits for 16 min"));
        facts.queues = vec![queue(r#","oldest_due":900000000"#)];
        assert_eq!(found(&facts, Level::Bad), Vec::<String>::new(), "it is due for less than five minutes");
        facts.queues = vec![queue(r#","pause":{"since":1,"reason":"a test"}"#)];
        assert!(found(&facts, Level::Warn)[1].contains("is paused (a test), and 7+ runs wait"));
    }
}
