use std::fmt::Write as _;

use comfy_table::Cell;
use futures::future::join_all;
use serde::Serialize;
use serde_json::Value;
use workflow_flows::{Answer, OpenQuestion, answer_step, is_flow, read_question};
use workflow_sdk::operate::{Action, ListApprovals, Operate, OperateErrorCode};
use workflow_sdk::{ApprovalKind, PendingApproval};

use crate::arguments::{ApprovalsVerb, Choose, Decide};
use crate::clock::Clock;
use crate::output::{Output, Rows, maybe};
use crate::{Exit, Failure, selection};

use super::order::{actor, perform};
use super::run_list::{cursor_of, one_line, text_of, title};

/// How many questions are read at once.
const AT_ONCE: usize = 8;

pub(super) async fn run(operate: &dyn Operate, output: &Output, verb: ApprovalsVerb) -> Result<Exit, Failure> {
    match verb {
        ApprovalsVerb::List { limit, cursor } => list(operate, output, limit, cursor.as_deref()).await,
        ApprovalsVerb::Show { run, approval } => show(operate, output, &run, approval.as_deref()).await,
        ApprovalsVerb::Approve(decide) => decide_as(operate, output, decide, true).await,
        ApprovalsVerb::Reject(decide) => decide_as(operate, output, decide, false).await,
        ApprovalsVerb::Choose(choose) => answer(operate, output, choose).await,
    }
}

async fn decide_as(operate: &dyn Operate, output: &Output, decide: Decide, approve: bool) -> Result<Exit, Failure> {
    let Decide { run, approval, note, author } = decide;
    let run = selection::find(operate, &run).await?;
    let action = Action::DecideApproval { run, step: approval, approve, note };
    perform(operate, output, action, &author).await
}

async fn answer(operate: &dyn Operate, output: &Output, choose: Choose) -> Result<Exit, Failure> {
    let Choose { run, decision, choice, as_json, note, author } = choose;
    let choice = if as_json {
        let refused = |error: serde_json::Error| {
            Failure::new(Exit::Usage, format!("the choice is not JSON: {error}")).help("a text stands in quotes")
        };
        serde_json::from_str(&choice).map_err(refused)?
    } else {
        Value::String(choice)
    };
    let run = selection::find(operate, &run).await?;
    let mut answer = Answer::default();
    (answer.choice, answer.note) = (Some(choice), note);
    let by = actor(&author).unwrap_or_default();
    let action = answer_step(operate, run, &decision, answer, &by).await?;
    perform(operate, output, action, &author).await
}

async fn list(operate: &dyn Operate, output: &Output, limit: u32, cursor: Option<&str>) -> Result<Exit, Failure> {
    let mut list = ListApprovals::new().limit(limit);
    list.cursor = cursor.map(cursor_of).transpose()?;
    let page = list.first_page(operate).await?;
    let questions = if output.is_for_people() { questions(operate, &page.items).await } else { Vec::new() };
    output.list(
        &page,
        &page.items,
        |approval| approval.run_id.to_string(),
        |clock| table(&page.items, &questions, clock),
    )?;
    let more = page.next.as_ref().map(|next| format!("later approvals: --cursor {}", text_of(next)));
    output.page_end(page.items.is_empty().then_some("no run waits for an approval or a decision"), more);
    Ok(Exit::Ok)
}

/// Reads the questions of flows. One that cannot be read is left out: the list is of use without
/// it.
async fn questions(operate: &dyn Operate, asked: &[PendingApproval]) -> Vec<Option<OpenQuestion>> {
    let read = async |approval: &PendingApproval| {
        if !is_flow(&approval.lane.workflow) {
            return None;
        }
        read_question(operate, approval.run_id, &approval.key).await.ok().flatten()
    };
    let mut questions = Vec::with_capacity(asked.len());
    for part in asked.chunks(AT_ONCE) {
        questions.extend(join_all(part.iter().map(read)).await);
    }
    questions
}

fn table(asked: &[PendingApproval], questions: &[Option<OpenQuestion>], clock: &Clock) -> Rows {
    let has_questions = questions.iter().any(Option::is_some);
    let names = ["RUN", "APPROVAL", "KIND", "WORKFLOW", "ASKS", "SINCE", "UNTIL", "QUESTION"];
    let mut rows = Rows::new(if has_questions { &names } else { &names[..7] });
    for (approval, question) in asked.iter().zip(questions) {
        let of_question = || question.as_ref().and_then(|question| question.to.as_deref());
        let mut row = vec![
            Cell::new(approval.run_id),
            Cell::new(&approval.key),
            Cell::new(kind(approval.kind)),
            Cell::new(title(&approval.lane.workflow, &approval.tags)),
            maybe(approval.to.as_deref().or_else(of_question)),
            Cell::new(clock.relative(approval.since)),
            maybe(approval.until.map(|until| clock.relative(until))),
        ];
        if has_questions {
            row.push(maybe(question.as_ref().map(|question| one_line(&question.prompt))));
        }
        rows.push(row);
    }
    rows
}

/// An approval or a decision, with its question.
#[derive(Serialize)]
struct Asked {
    #[serde(flatten)]
    approval: PendingApproval,
    /// `None`: a workflow in Rust asks by the name alone.
    question: Option<OpenQuestion>,
}

async fn show(operate: &dyn Operate, output: &Output, run: &str, name: Option<&str>) -> Result<Exit, Failure> {
    let run = selection::find(operate, run).await?;
    let mut waits = Vec::new();
    let mut list = ListApprovals::new().run(run).limit(ListApprovals::MAX_LIMIT);
    loop {
        let page = operate.approvals(list.clone()).await?;
        waits.extend(page.items);
        match page.next {
            Some(next) => list = list.cursor(next),
            None => break,
        }
    }
    let names: Vec<String> = waits.iter().map(|approval| approval.key.clone()).collect();
    waits.retain(|approval| name.is_none_or(|name| approval.key == name));
    if waits.is_empty() {
        let message = match name {
            Some(name) => format!("run {run} does not wait for an approval or decision {name:?}"),
            None => format!("run {run} waits for no approval or decision"),
        };
        let help = match &names[..] {
            [] => format!("workflow runs show {run} says what the run does"),
            names => format!("it waits for: {}", names.join(", ")),
        };
        return Err(Failure::new(Exit::NotFound, message).help(help));
    }
    let mut asked = Vec::with_capacity(waits.len());
    for approval in waits {
        let question = match read_question(operate, run, &approval.key).await {
            // The account does not see payloads.
            Err(error) if error.code == OperateErrorCode::Forbidden => None,
            read => read?,
        };
        asked.push(Asked { approval, question });
    }
    let text = |clock: &Clock| asked.iter().map(|asked| asked.text(clock)).collect::<Vec<_>>().join("\n\n");
    let ids = || asked.iter().map(|asked| asked.approval.key.as_str()).collect::<Vec<_>>().join("\n");
    output.one(&asked, ids, text)?;
    Ok(Exit::Ok)
}

impl Asked {
    fn text(&self, clock: &Clock) -> String {
        let Self { approval, question } = self;
        let PendingApproval { run_id, lane, tags, key, to, since, until, .. } = approval;
        let mut text = format!("{} {key} of {} {run_id}", kind(approval.kind), title(&lane.workflow, tags));
        let mut fact = |name: &str, value: &str| {
            // Writing to a string does not fail.
            let _ = write!(text, "\n  {name:9} {value}");
        };
        if let Some(to) = to.as_ref().or_else(|| question.as_ref()?.to.as_ref()) {
            fact("asks", to);
        }
        fact("since", &format!("{} ({})", clock.at(*since), clock.relative(*since)));
        if let Some(until) = until {
            fact("until", &format!("{} ({})", clock.at(*until), clock.relative(*until)));
        }
        let Some(question) = question else { return text };
        fact("question", &question.prompt);
        match &question.show {
            Value::Null => {}
            Value::Object(values) => {
                for (name, value) in values {
                    fact("shows", &format!("{name}: {}", plain(value)));
                }
            }
            value => fact("shows", &plain(value)),
        }
        for (name, meaning) in &question.options {
            fact("option", &format!("{name} {meaning}"));
        }
        text
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn kind(kind: ApprovalKind) -> &'static str {
    if kind == ApprovalKind::Decision { "decision" } else { "approval" }
}
