//! Compares a database that was restored from a backup with what is known outside of it.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;
use workflow_sdk::operate::{
    BulkId, BulkPage, BulkView, HistoryPage, ListApprovals, ListBulks, ListHistory, ListRuns, Operate,
    OperateErrorCode, Pattern, RunPage, RunSummary, ScheduleView,
};
use workflow_sdk::{AttemptStatus, RunId, RunStatus, StepKind, Timestamp};

use crate::output::Output;
use crate::verbs::counts::shown;
use crate::{Exit, Failure};

use super::hold::{all_schedules, is_held};
use super::record::{Facts, Known, Reference};
use super::statistics::SLACK;
use super::{Finding, Level, table};

/// The runs in flight that are named one by one.
const MOST_IN_FLIGHT: usize = 200;

/// The subject of a finding, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Subject {
    /// The age of the backup.
    Age,
    /// Workers that live on the restored database.
    Workers,
    /// A run that is known outside and not in the backup, and that may have been lost.
    Missing,
    /// A run that is known outside and had been deleted before the backup.
    Deleted,
    /// A run that had come further than the backup knows.
    Behind,
    /// A run that a worker drove at the time of the backup.
    InFlight,
    /// Further runs that had not ended.
    Open,
    /// A bulk operation that was under way at the time of the backup.
    Bulk,
    /// An occurrence that was due since the backup.
    Schedule,
    /// Approvals that wait.
    Approvals,
}

/// A finding about a restored database.
#[derive(Debug, Serialize)]
struct Restored {
    subject: Subject,
    #[serde(flatten)]
    finding: Finding,
    /// The run that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    /// The key of that run.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The steps that run again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<String>,
    /// The bulk operation that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    bulk: Option<BulkId>,
}

impl Restored {
    fn new(subject: Subject, finding: Finding) -> Self {
        Self { subject, finding, run: None, key: None, steps: Vec::new(), bulk: None }
    }

    fn of_run(subject: Subject, finding: Finding, run: &RunSummary, steps: Vec<String>) -> Self {
        Self { run: Some(run.id), key: run.key.clone(), steps, ..Self::new(subject, finding) }
    }

    /// Returns the run or its key, the bulk operation, or the fact if it is about none of these.
    fn id(&self) -> String {
        let run = self.run.map(|run| run.to_string()).or_else(|| self.key.clone());
        run.or_else(|| self.bulk.map(|bulk| bulk.to_string())).unwrap_or_else(|| self.finding.fact.clone())
    }
}

/// The part of a history that says how far its run has come.
#[derive(Debug, Default)]
struct Progress {
    /// The steps with an outcome, each with the number of the attempt if that has failed.
    ended: HashMap<String, Option<i64>>,
    /// The bodies that had begun and have no outcome.
    begun: Vec<String>,
    /// The last body with an outcome.
    last: Option<String>,
    /// `true` if compensations have undone steps. A retry of the run is then refused.
    is_undone: bool,
}

impl Progress {
    /// Returns whether a step that is known outside runs again once the run goes on.
    fn repeats(&self, run: &RunSummary, step: &str, attempt: i64) -> bool {
        let is_failed = run.status == RunStatus::Failed;
        // A run that continues as new begins an empty history, so its earlier steps are in none.
        if run.generation > 0 || (is_failed && self.is_undone) {
            return false;
        }
        match self.ended.get(step) {
            None => true,
            // A retry attempts the step again. A later attempt is one of a retry since the backup.
            Some(Some(failed)) => is_failed && attempt > *failed,
            Some(None) => false,
        }
    }
}

pub(super) async fn examine(operate: &dyn Operate, output: &Output, known: Known) -> Result<Exit, Failure> {
    let mut found = Vec::new();
    let newest = operate.runs(ListRuns::default().limit(1)).await?.items.first().map(|run| run.id.time());
    found.push(Restored::new(Subject::Age, age(newest, output)));
    let live = operate.workers().await?.iter().filter(|worker| worker.live).count();
    if live > 0 {
        let fact = format!("{} on this database, and may have repeated steps already", living(live));
        let finding = Finding::bad(fact, "stop every worker, restore again, and look before one is started");
        found.push(Restored::new(Subject::Workers, finding));
    }
    let mut behind = HashSet::new();
    for (run, facts) in locate(operate, known, newest, &mut found).await?.into_values() {
        if let Some(restored) = compare(operate, &run, &facts).await? {
            behind.insert(run.id);
            found.push(restored);
        }
    }
    in_flight(operate, &behind, &mut found).await?;
    open(operate, &mut found).await?;
    bulks(operate, &mut found).await?;
    let now = output.clock().now();
    let schedules = all_schedules(operate, output).await?;
    found.extend(schedules.iter().filter_map(|schedule| due(schedule, now, output)));
    approvals(operate, &mut found).await?;
    output.list(&found, &found, Restored::id, |_| table(found.iter().map(|restored| &restored.finding)))?;
    let is_bad = found.iter().any(|restored| restored.finding.level == Level::Bad);
    Ok(if is_bad { Exit::Error } else { Exit::Ok })
}

fn age(newest: Option<Timestamp>, output: &Output) -> Finding {
    let Some(newest) = newest else { return Finding::warn("the backup has no run", "check that it is the right one") };
    let clock = output.clock();
    Finding::ok(format!("the newest run of the backup was started {} ({})", clock.relative(newest), clock.at(newest)))
}

fn living(workers: usize) -> String {
    if workers == 1 { "1 worker lives".to_owned() } else { format!("{workers} workers live") }
}

/// Finds the runs that are known outside, and reports those that do not exist.
async fn locate(
    operate: &dyn Operate,
    known: Known,
    newest: Option<Timestamp>,
    found: &mut Vec<Restored>,
) -> Result<BTreeMap<RunId, (RunSummary, Facts)>, Failure> {
    let mut located: BTreeMap<RunId, (RunSummary, Facts)> = BTreeMap::new();
    for (reference, facts) in known {
        let runs = match &reference {
            Reference::Run(id) => by_id(operate, *id).await?.into_iter().collect(),
            Reference::Key { key, workflow } => by_key(operate, key, workflow.as_deref()).await?,
        };
        if runs.is_empty() {
            found.push(missing(&reference, newest));
        }
        for run in runs {
            located.entry(run.id).or_insert_with(|| (run, Facts::default())).1.add(facts.clone());
        }
    }
    Ok(located)
}

async fn by_id(operate: &dyn Operate, id: RunId) -> Result<Option<RunSummary>, Failure> {
    match operate.run(id).await {
        Ok(detail) => Ok(Some(detail.summary)),
        Err(error) if error.code == OperateErrorCode::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the runs with this key: one per workflow at most.
async fn by_key(operate: &dyn Operate, key: &str, workflow: Option<&str>) -> Result<Vec<RunSummary>, Failure> {
    let exactly = |text: &str| Pattern { text: text.to_owned(), is_prefix: false };
    let mut query = format!("key:{}", exactly(key));
    if let Some(workflow) = workflow {
        query.push_str(&format!(" workflow:{}", exactly(workflow)));
    }
    let mut list = ListRuns::new(query.parse()?).limit(ListRuns::MAX_LIMIT);
    let mut runs = Vec::new();
    loop {
        let RunPage { items, next, .. } = operate.runs(list.clone()).await?;
        runs.extend(items);
        let Some(next) = next else { return Ok(runs) };
        list = list.cursor(next);
    }
}

/// Reports a run that the backup does not have. The newest run of the backup tells whether it had
/// been started before.
fn missing(reference: &Reference, newest: Option<Timestamp>) -> Restored {
    let (run, key) = match reference {
        Reference::Run(id) => (Some(*id), None),
        Reference::Key { key, .. } => (None, Some(key.clone())),
    };
    let of_run = "look outside for what its steps have done, then start it again or leave it";
    let (subject, finding) = match reference {
        Reference::Run(id) if newest.is_some_and(|newest| was_started_before(*id, newest)) => {
            let fact =
                format!("run {id} is not in the backup, and older than its newest run: it had been deleted before");
            let fix = "nothing, unless it was to be kept: workflow audit, or the retention of the workers";
            (Subject::Deleted, Finding::warn(fact, fix))
        }
        Reference::Run(id) if newest.is_some_and(|newest| id.time() < newest) => {
            let fact = format!("run {id} is not in the backup: it was started since, or had been deleted");
            (Subject::Missing, Finding::bad(fact, of_run))
        }
        Reference::Run(id) => {
            (Subject::Missing, Finding::bad(format!("run {id} is not in the backup: it was started since"), of_run))
        }
        Reference::Key { key, workflow } => {
            let of = workflow.as_ref().map(|workflow| format!(" of workflow {workflow}")).unwrap_or_default();
            let fact = format!("no run{of} has the key {key} in the backup: it was started since, or had been deleted");
            let fix = "look outside for what its steps have done; a start with this key makes a new run";
            (Subject::Missing, Finding::bad(fact, fix))
        }
    };
    Restored { run, key, ..Restored::new(subject, finding) }
}

/// Returns whether the run was certainly started before the newest run of the backup. The id of a
/// scheduled run has the time of its occurrence, and a backfill starts such a run much later.
fn was_started_before(id: RunId, newest: Timestamp) -> bool {
    !id.is_scheduled() && id.time() + SLACK < newest
}

async fn progress(operate: &dyn Operate, run: RunId) -> Result<Progress, Failure> {
    let mut progress = Progress::default();
    let mut list = ListHistory::new(run).limit(ListHistory::MAX_LIMIT);
    loop {
        let HistoryPage { items, next, .. } = operate.history(list.clone()).await?;
        for item in items {
            let is_body = matches!(item.kind, StepKind::Step | StepKind::Transaction | StepKind::Compensation);
            progress.is_undone |= item.kind == StepKind::Compensation;
            if item.position.is_some() {
                progress.last = Some(item.step.clone()).filter(|_| is_body).or(progress.last);
                let failed = (item.status == AttemptStatus::Failed).then_some(item.attempt);
                progress.ended.insert(item.step, failed);
            } else if is_body && item.status == AttemptStatus::Running {
                progress.begun.push(item.step);
            }
        }
        let Some(next) = next else { return Ok(progress) };
        list = list.cursor(next);
    }
}

/// Compares a run with the facts that are known outside. `None`: the backup knows as much.
async fn compare(operate: &dyn Operate, run: &RunSummary, facts: &Facts) -> Result<Option<Restored>, Failure> {
    let ended = facts.ended.filter(|ended| *ended != run.status);
    let has_ended = run.status.is_terminal();
    // Of the runs that have ended, only a failed one goes on: by a retry.
    let may_repeat = match run.status {
        RunStatus::Failed => !facts.steps.is_empty(),
        _ => !has_ended && (ended.is_some() || !facts.steps.is_empty()),
    };
    let progress = if may_repeat { progress(operate, run.id).await? } else { Progress::default() };
    let repeated = facts.steps.iter().filter(|(step, attempt)| may_repeat && progress.repeats(run, step, **attempt));
    let steps = repeated.map(|(step, _)| step.clone()).collect();
    Ok(if has_ended { differs(run, ended, steps) } else { behind(run, ended, steps, &progress) })
}

/// Reports a run that has ended otherwise outside, or whose retry runs these steps again.
fn differs(run: &RunSummary, ended: Option<RunStatus>, steps: Vec<String>) -> Option<Restored> {
    if ended.is_none() && steps.is_empty() {
        return None;
    }
    let fact = states(run, ended);
    let finding = if steps.is_empty() {
        Finding::warn(fact, "an operator has retried it since, or the record is older than the backup")
    } else {
        let word = if steps.len() == 1 { "step" } else { "steps" };
        let fact = format!("{fact}: a retry runs {word} {} again", steps.join(", "));
        Finding::warn(fact, "make sure that they may run again before it is retried")
    };
    Some(Restored::of_run(Subject::Behind, finding, run, steps))
}

/// Reports a run that goes on although it has ended outside, or although these steps have.
fn behind(run: &RunSummary, ended: Option<RunStatus>, steps: Vec<String>, progress: &Progress) -> Option<Restored> {
    if ended.is_none() && steps.is_empty() {
        return None;
    }
    let fact = states(run, ended);
    let again = match (&steps[..], &progress.last) {
        ([], Some(last)) => format!("every step after {last} runs again"),
        ([], None) => "all its steps run again".to_owned(),
        ([step], _) => format!("step {step} runs again"),
        (several, _) => format!("steps {} run again", several.join(", ")),
    };
    let fix =
        format!("make sure that they may run again, or end it before workers start: workflow runs cancel {}", run.id);
    Some(Restored::of_run(Subject::Behind, Finding::bad(format!("{fact}: {again}"), fix), run, steps))
}

/// Returns the status of a run in the backup and outside.
fn states(run: &RunSummary, ended: Option<RunStatus>) -> String {
    let outside = ended.map(|ended| format!(" and {ended} outside")).unwrap_or_default();
    format!("{} is {} in the backup{outside}", named(run), run.status)
}

fn named(run: &RunSummary) -> String {
    match &run.key {
        Some(key) => format!("run {} (key {key})", run.id),
        None => format!("run {}", run.id),
    }
}

/// Reports the runs that workers drove at the time of the backup, unless more is known of them.
async fn in_flight(operate: &dyn Operate, behind: &HashSet<RunId>, found: &mut Vec<Restored>) -> Result<(), Failure> {
    let (mut named_runs, mut more) = (0, 0);
    let mut list = ListRuns::new("status:running".parse()?).limit(ListRuns::MAX_LIMIT);
    loop {
        let RunPage { items, next, .. } = operate.runs(list.clone()).await?;
        for run in items.iter().filter(|run| !behind.contains(&run.id)) {
            if named_runs == MOST_IN_FLIGHT {
                more += 1;
                continue;
            }
            named_runs += 1;
            found.push(interrupted(run, progress(operate, run.id).await?));
        }
        let Some(next) = next else { break };
        list = list.cursor(next);
    }
    if more > 0 {
        let fact = format!("{more} more runs were in flight at the time of the backup");
        found.push(Restored::new(Subject::InFlight, Finding::warn(fact, "workflow runs list status:running")));
    }
    Ok(())
}

fn interrupted(run: &RunSummary, Progress { begun, last, .. }: Progress) -> Restored {
    let again = match (&begun[..], last) {
        ([], Some(last)) => format!("what ran after step {last} runs again"),
        ([], None) => "what it had begun runs again".to_owned(),
        ([step], _) => format!("step {step} had begun and runs again"),
        (several, _) => format!("steps {} had begun and run again", several.join(", ")),
    };
    let fact = format!("{} was in flight at the time of the backup: {again}", named(run));
    let fix = format!("their effects need keys that the other side still knows: workflow runs history {}", run.id);
    Restored::of_run(Subject::InFlight, Finding::warn(fact, fix), run, begun)
}

/// Counts the runs that waited at the time of the backup.
async fn open(operate: &dyn Operate, found: &mut Vec<Restored>) -> Result<(), Failure> {
    let counts = operate.counts().await?;
    if counts.pending.runs > 0 || counts.parked.runs > 0 {
        let (pending, parked) = (shown(counts.pending), shown(counts.parked));
        let fact = format!("{pending} pending and {parked} parked runs go on from where the backup has them");
        let fix = "what they did since runs again, and what they received since is lost: workflow runs list is:open";
        found.push(Restored::new(Subject::Open, Finding::warn(fact, fix)));
    }
    Ok(())
}

/// Reports the bulk operations that had not ended at the time of the backup.
async fn bulks(operate: &dyn Operate, found: &mut Vec<Restored>) -> Result<(), Failure> {
    let mut list = ListBulks::new().limit(ListBulks::MAX_LIMIT);
    loop {
        let BulkPage { items, next, .. } = operate.bulks(list.clone()).await?;
        found.extend(items.iter().filter(|bulk| !bulk.status.has_ended()).map(under_way));
        let Some(next) = next else { return Ok(()) };
        list = list.cursor(next);
    }
}

fn under_way(BulkView { id, verb, query, .. }: &BulkView) -> Restored {
    let fact = format!(
        "bulk operation {id} ({verb} of {query:?}) was under way at the time of the backup: workers go on from there, \
         and change again what it has changed since"
    );
    let fix = format!("workflow bulk stop {id} before workers start, unless it may go on; --hold does not hold it");
    Restored { bulk: Some(*id), ..Restored::new(Subject::Bulk, Finding::bad(fact, fix)) }
}

/// Reports a schedule with an occurrence since the backup, whose run may have existed.
fn due(schedule: &ScheduleView, now: Timestamp, output: &Output) -> Option<Restored> {
    let name = &schedule.name;
    let at = schedule.state.next_at.filter(|at| *at <= now)?;
    let fact = format!("schedule {name} was due at {} since the backup", output.clock().at(at));
    let finding = if is_held(schedule) {
        let fix =
            format!("after the release nothing is caught up; for missed runs, workflow schedules backfill {name}");
        Finding::warn(format!("{fact}, and is held"), fix)
    } else if schedule.state.paused.is_none() {
        let fix = format!("workflow schedules pause {name} before workers start, unless its runs may repeat");
        Finding::bad(format!("{fact}: workers start its runs again"), fix)
    } else {
        return None;
    };
    Some(Restored::new(Subject::Schedule, finding))
}

/// Reports that approvals wait, whose answers since the backup are lost.
async fn approvals(operate: &dyn Operate, found: &mut Vec<Restored>) -> Result<(), Failure> {
    let page = ListApprovals::new().limit(ListApprovals::MAX_LIMIT).first_page(operate).await?;
    if !page.items.is_empty() {
        let sign = if page.complete { "" } else { "+" };
        let fact = format!("{}{sign} approvals wait in the backup", page.items.len());
        let fix = "answers that were given since are lost: workflow approvals list, and decide again";
        found.push(Restored::new(Subject::Approvals, Finding::warn(fact, fix)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rest: &str) -> RunSummary {
        let text = format!(
            r#"{{"id":"01900000-0000-7000-8000-000000000001","queue":"default","workflow":"checkout","version":"1",
                "status":"running","now":{{"state":"waits"}},"key":"order-1","attempt":1,"generation":0,"crashes":0,
                "depth":0,"available_at":1,"created_at":1{rest}}}"#
        );
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    #[test]
    fn a_run_that_is_behind_names_the_steps_that_run_again() {
        let progress = Progress { last: Some("reserve".into()), ..Progress::default() };
        let said = |ended, steps: &[&str]| {
            let steps = steps.iter().map(|step| (*step).to_owned()).collect();
            behind(&run(""), ended, steps, &progress).map(|restored| restored.finding.fact)
        };
        assert_eq!(said(None, &[]), None);
        let ended = said(Some(RunStatus::Succeeded), &[]).unwrap();
        assert!(ended.ends_with("and succeeded outside: every step after reserve runs again"), "{ended}");
        assert!(said(None, &["charge"]).unwrap().ends_with("in the backup: step charge runs again"));
        assert!(said(None, &["charge", "mail"]).unwrap().ends_with("steps charge, mail run again"));
    }

    #[test]
    fn a_retry_repeats_the_steps_that_were_tried_since_the_backup() {
        let ended = HashMap::from([("reserve".to_owned(), None), ("charge".to_owned(), Some(2))]);
        let mut progress = Progress { ended, ..Progress::default() };
        let mut run = run("");
        for (status, step, attempt, repeats) in [
            (RunStatus::Running, "reserve", i64::MAX, false),
            (RunStatus::Running, "charge", 3, false),
            (RunStatus::Running, "mail", 1, true),
            (RunStatus::Failed, "reserve", i64::MAX, false),
            (RunStatus::Failed, "charge", 2, false),
            (RunStatus::Failed, "charge", 3, true),
            (RunStatus::Failed, "mail", 1, true),
        ] {
            run.status = status;
            assert_eq!(progress.repeats(&run, step, attempt), repeats, "{status} {step} {attempt}");
        }
        progress.is_undone = true;
        assert!(!progress.repeats(&run, "mail", 1), "a retry of a run that was undone is refused");
        run.status = RunStatus::Parked;
        assert!(progress.repeats(&run, "mail", 1));
        run.generation = 1;
        assert!(!progress.repeats(&run, "mail", 1), "its steps are those of a history that is gone");
    }

    #[test]
    fn a_run_that_is_older_than_others_of_the_backup_was_deleted() {
        let id: RunId = "01900000-0000-7000-8000-000000000001".parse().unwrap();
        let scheduled: RunId = "01900000-0000-8000-8000-000000000001".parse().unwrap();
        let of = |id, newest| missing(&Reference::Run(id), newest);
        let much_later = id.time() + 2 * SLACK;
        for (id, newest, level, fact) in [
            (id, None, Level::Bad, "was started since"),
            (id, Some(id.time()), Level::Bad, "was started since"),
            (id, Some(id.time() + SLACK), Level::Bad, "was started since, or had been deleted"),
            (id, Some(much_later), Level::Warn, "had been deleted before"),
            (scheduled, Some(much_later), Level::Bad, "was started since, or had been deleted"),
        ] {
            let restored = of(id, newest);
            let is_lost = level == Level::Bad;
            assert_eq!((restored.finding.level, restored.subject == Subject::Missing), (level, is_lost), "{newest:?}");
            assert!(restored.finding.fact.ends_with(fact), "{newest:?}: {}", restored.finding.fact);
        }
        let by_key = missing(&Reference::Key { key: "order-1".into(), workflow: None }, Some(Timestamp::FAR_FUTURE));
        assert_eq!((by_key.finding.level, by_key.id()), (Level::Bad, "order-1".to_owned()));
    }
}
