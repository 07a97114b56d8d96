//! The answers that runs wait for: approvals and decisions, with their questions.

use futures::future::join_all;
use maud::{Markup, html};
use serde_json::Value;
use workflow_flows::{OpenQuestion, is_flow, read_question};
use workflow_sdk::operate::{Operate, Role};
use workflow_sdk::{ApprovalKind, PendingApproval};

use crate::forms::{self, Offer};
use crate::icons::Icon;
use crate::visit::Visit;
use crate::{clock, status};

/// How many questions are read at once.
const AT_ONCE: usize = 8;
/// The most characters of a prompt in a row of a list, and of what an option means.
pub(super) const SHORT: usize = 300;
/// The most characters of a prompt where it is answered.
const LONG: usize = 2_000;
/// The most values beside a question that are drawn.
pub(super) const MOST_SHOWN: usize = 20;
/// The most options that are drawn. The others are chosen by their names.
const MOST_OPTIONS: usize = 50;

/// An approval or a decision that a run waits for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) wait: PendingApproval,
    /// The question of a flow. `None`: it is hidden from the visitor, or there is none.
    pub(super) question: Option<OpenQuestion>,
}

/// Reads the questions of flows, if the visitor may see payloads. A question that cannot be
/// read is left out, because it must not hide the others.
pub(super) async fn asked(operate: &dyn Operate, visit: &Visit, waits: Vec<PendingApproval>) -> Vec<Asked> {
    let mut questions = Vec::with_capacity(waits.len());
    for part in waits.chunks(AT_ONCE) {
        questions.extend(join_all(part.iter().map(|wait| question(operate, visit, wait))).await);
    }
    waits.into_iter().zip(questions).map(|(wait, question)| Asked { wait, question }).collect()
}

async fn question(operate: &dyn Operate, visit: &Visit, wait: &PendingApproval) -> Option<OpenQuestion> {
    let may_have_one = wait.kind == ApprovalKind::Decision || is_flow(&wait.lane.workflow);
    if !may_have_one || !visit.actor.payloads {
        return None;
    }
    let mut question = read_question(operate, wait.run_id, &wait.key).await.ok().flatten()?;
    // A flow may render a prompt as large as a payload, and a page has many questions.
    question.prompt = cut(&question.prompt, LONG);
    for (_, meaning) in &mut question.options {
        *meaning = cut(meaning, SHORT);
    }
    question.show = bounded(question.show);
    Some(question)
}

/// Returns the first of the values that are shown beside a question, as texts that are not too
/// long.
fn bounded(show: Value) -> Value {
    let text = |value: Value| match value {
        Value::Null => Value::Null,
        Value::String(text) => Value::from(cut(&text, LONG)),
        value => Value::from(cut(&value.to_string(), LONG)),
    };
    match show {
        // One more than is drawn says that there are more.
        Value::Object(values) => {
            values.into_iter().take(MOST_SHOWN + 1).map(|(name, value)| (name, text(value))).collect()
        }
        value => text(value),
    }
}

/// Draws the first of the values beside a question, each with its name.
pub(super) fn shown(question: &OpenQuestion, most: usize, longest: usize) -> Markup {
    let text = |value: &Value| cut(value.as_str().unwrap_or("—"), longest);
    html! {
        @match &question.show {
            Value::Null => {},
            Value::Object(values) => dl.kv.shown {
                @for (name, value) in values.iter().take(most) {
                    dt.cut-off title=(cut(name, SHORT)) { (cut(name, SHORT)) }
                    dd dir="auto" { (text(value)) }
                }
                @if values.len() > most { dt { "…" } dd.faint { "more than is shown here" } }
            },
            value => p.shown.wrap dir="auto" { (text(value)) },
        }
    }
}

/// Returns the beginning of a text that is longer than this many characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.chars().nth(most) {
        Some(_) => text.chars().take(most).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

impl Asked {
    /// Returns the person or group that is asked.
    pub(super) fn to(&self) -> Option<&str> {
        let of_question = || self.question.as_ref().and_then(|question| question.to.as_deref());
        self.wait.to.as_deref().or_else(of_question)
    }

    /// Draws it with its answers, as a part of the page of its run.
    pub(super) fn draw(&self, visit: &Visit) -> Markup {
        let Self { wait, question } = self;
        let asks = if wait.kind == ApprovalKind::Decision { "for a choice" } else { "for a decision" };
        html! {
            div.asks {
                span.wait { (Icon::APPROVALS.draw()) }
                div {
                    p {
                        b { (wait.key) } " asks " (cut(self.to().unwrap_or(asks), SHORT))
                        span.faint {
                            " · since "
                            (clock::at(wait.since, visit.now))
                            @if let Some(until) = wait.until { ", until " (clock::at(until, visit.now)) }
                        }
                        @if let Some(question) = question { br; span.wrap dir="auto" { (question.prompt) } }
                    }
                    @if let Some(question) = question { (shown(question, MOST_SHOWN, LONG)) }
                }
                div.right.acts { (self.answers(visit)) }
            }
        }
    }

    /// Draws the forms that answer it.
    pub(super) fn answers(&self, visit: &Visit) -> Markup {
        if self.wait.kind == ApprovalKind::Decision { self.choice(visit) } else { self.verdicts(visit) }
    }

    /// Draws the two answers to an approval.
    fn verdicts(&self, visit: &Visit) -> Markup {
        let PendingApproval { run_id, key, .. } = &self.wait;
        let run = status::short_id(*run_id);
        let offer = |action, label, word: &str| {
            let sentence = format!("Run {run} goes on with your name and {word} for {key}. A decision is final.");
            let fields = html! {
                @if let Some(question) = &self.question { p.wrap dir="auto" { b { (question.prompt) } } }
                (note())
            };
            Offer::new(action, label, Role::Operator, sentence).with("run", run_id).with("step", key).fields(fields)
        };
        html! {
            (offer("approve", "Approve", "an approval").draw(visit))
            (offer("reject", "Reject", "a rejection").dangerous().draw(visit))
        }
    }

    /// Draws the options of a decision.
    fn choice(&self, visit: &Visit) -> Markup {
        let PendingApproval { run_id, key, .. } = &self.wait;
        let run = status::short_id(*run_id);
        let sentence = format!("Run {run} goes on with your name and your choice for {key}. The first answer counts.");
        let step = self.question.as_ref().map_or(key.as_str(), |question| question.step.as_str());
        let options = self.question.as_ref().map(|question| &question.options[..]).unwrap_or_default();
        // A form sends a whole name, so one that is too long to be shown is left out.
        let is_short = |(name, _): &&(String, String)| name.chars().nth(SHORT).is_none();
        let offered: Vec<&(String, String)> = options.iter().filter(is_short).take(MOST_OPTIONS).collect();
        let more = options.len() - offered.len();
        let fields = html! {
            @match &self.question {
                Some(question) if !question.options.is_empty() => fieldset {
                    legend.wrap dir="auto" { (question.prompt) }
                    @for (name, meaning) in offered {
                        label.icon-line {
                            input type="radio" name="choice" value=(name) required;
                            span { b { (name) } @if !meaning.is_empty() { " " (meaning) } }
                        }
                    }
                    @if more > 0 {
                        p.faint { (clock::grouped(more as u64)) " more: workflow approvals choose" }
                    }
                },
                Some(_) => (forms::json("Answer, as JSON", "value", "")),
                None => (forms::required("Choice", "choice", "", "one of the options")),
            }
            (note())
        };
        let offer = Offer::new("choose", "Decide", Role::Operator, sentence);
        offer.with("run", run_id).with("step", step).fields(fields).draw(visit)
    }
}

fn note() -> Markup {
    forms::line("Note, which the run receives", "note", "", "none")
}
