//! The signals, events and decisions that a run has received, or waits for, and the signals that no
//! step has read.

use std::collections::BTreeMap;

use futures::FutureExt;
use futures::future::try_join_all;
use maud::{Markup, html};
use workflow_sdk::operate::{
    AuditEntry, HistoryItem, HistoryPage, ListAudit, ListHistory, Operate, OperateError, Role, RunDetail, RunSummary,
};
use workflow_sdk::{Awaited, Explanation, RunId, StepKind};

use crate::clock;
use crate::facets::escaped;
use crate::icons::Icon;
use crate::payload;
use crate::visit::Visit;

/// The attempts of a run among which its messages are looked for.
const ATTEMPTS: u32 = 200;
/// The most open waits that are read behind these attempts.
const OPEN_WAITS: usize = 20;
/// The most attempts that are read for each of them. A wait has one, and one more per retry.
const WAIT_ATTEMPTS: u32 = 10;
/// The orders that are compared with them.
const ORDERS: u32 = 200;

/// The messages of a run, as far as its history and the audit rows have them.
pub(super) struct Messages {
    history: HistoryPage,
    /// The orders that sent a signal, the newest first.
    orders: Vec<AuditEntry>,
}

impl Messages {
    pub(super) async fn read(operate: &dyn Operate, detail: &RunDetail) -> Result<Self, OperateError> {
        let run = detail.summary.id;
        let orders = ListAudit::new().verb("run.signal").target(format!("run:{run}")).limit(ORDERS);
        // A signal that is read meanwhile stands in the history, because that is read last.
        let orders = operate.audit(orders).await?.items;
        let mut history = operate.history(ListHistory::new(run).limit(ATTEMPTS)).await?;
        if history.next.is_some() {
            let open = open_waits(operate, detail, &history.items).await?;
            history.items.extend(open);
        }
        Ok(Self { history, orders })
    }

    /// Returns the orders whose signals certainly no step has read, the oldest first, with the
    /// names of these signals.
    ///
    /// A run reads the signals of one name in their order. If it has read three of them, those of
    /// the fourth order and the later ones are unread, whatever programs have sent besides.
    fn unread(&self, run: &RunSummary) -> Vec<(&str, &AuditEntry)> {
        if self.history.next.is_some() {
            return Vec::new();
        }
        // The signals that an earlier generation has read are gone from the history.
        let is_recent = |order: &&AuditEntry| match run.generation {
            0 => true,
            _ => run.started_at.is_some_and(|start| order.at >= start),
        };
        let mut unread = Vec::new();
        let mut left: BTreeMap<&str, usize> = BTreeMap::new();
        for order in self.orders.iter().rev().filter(is_recent) {
            let Some(name) = order.arguments.get("name").and_then(|name| name.as_str()) else { continue };
            let of_name = left.entry(name).or_insert_with(|| self.read_signals(name));
            match of_name.checked_sub(1) {
                Some(fewer) => *of_name = fewer,
                None => unread.push((name, order)),
            }
        }
        unread
    }

    /// Returns how many signals of this name steps have read, or more.
    fn read_signals(&self, name: &str) -> usize {
        // The record of a wait that timed out is an empty list.
        const EMPTY: u64 = 2;
        let has_read = |item: &&HistoryItem| {
            let is_full = item.output.as_ref().is_some_and(|output| output.bytes > EMPTY);
            item.kind == StepKind::Signal && item.completed_at.is_some() && is_full && waits_for(&item.step, name)
        };
        self.history.items.iter().filter(has_read).count()
    }
}

const fn is_message(kind: StepKind) -> bool {
    matches!(kind, StepKind::Signal | StepKind::Event | StepKind::Approval)
}

/// Reads the messages that the run waits for and that are not among these attempts. A history has
/// the open waits at its end, behind any number of outcomes.
async fn open_waits(
    operate: &dyn Operate,
    detail: &RunDetail,
    known: &[HistoryItem],
) -> Result<Vec<HistoryItem>, OperateError> {
    let Explanation::Waiting { on, .. } = &detail.explanation else { return Ok(Vec::new()) };
    let is_further = |wait: &&Awaited| is_message(wait.kind) && known.iter().all(|item| item.step != wait.key);
    let waits = on.iter().filter(is_further).take(OPEN_WAITS);
    let reads: Vec<_> = waits.map(|wait| read_wait(operate, detail.summary.id, &wait.key).boxed()).collect();
    Ok(try_join_all(reads).await?.concat())
}

async fn read_wait(operate: &dyn Operate, run: RunId, key: &str) -> Result<Vec<HistoryItem>, OperateError> {
    let list = ListHistory::new(run).step(key).limit(WAIT_ATTEMPTS);
    let mut attempts = operate.history(list).await?.items;
    attempts.retain(|item| item.step == key);
    Ok(attempts)
}

/// Returns `true` if a step with this key may wait for signals of this name: behind the scope and
/// before the number of a repetition, the key is the name.
fn waits_for(key: &str, name: &str) -> bool {
    let is_of = |key: &str| key.strip_suffix(name).is_some_and(|scope| scope.is_empty() || scope.ends_with('/'));
    is_of(key)
        || key
            .rsplit_once(':')
            .is_some_and(|(first, number)| is_of(first) && number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Draws the messages of a run, and the form that sends a signal.
pub(super) fn draw(visit: &Visit, run: &RunSummary, messages: &Messages) -> Markup {
    let page = &messages.history;
    let unread = messages.unread(run);
    let items: Vec<&HistoryItem> = page.items.iter().filter(|item| is_message(item.kind)).collect();
    let is_open = !run.status.is_terminal();
    html! {
        div.data #signals data-key="signals" {
            section.broad {
                @if !unread.is_empty() { (inbox(visit, &unread, is_open)) }
                @if items.is_empty() && unread.is_empty() && page.next.is_some() {
                    p.faint { "The first " (ATTEMPTS) " attempts of the run have received no signal." }
                } @else if items.is_empty() && unread.is_empty() {
                    p.faint { "The run has received no signal, and waits for none." }
                } @else if !items.is_empty() {
                    @if !unread.is_empty() { h2 { "Asked for" } }
                    table aria-label="Signals" {
                        thead { tr {
                            th { "Name" }
                            th.opt { "Kind" }
                            th { "State" }
                            th.r { "Waited" }
                            th.opt { "Value" }
                        } }
                        tbody { @for item in &items { (row(visit, run.id, item)) } }
                    }
                }
                @if page.next.is_some() {
                    p.faint.below { "The run has more steps: later signals stand in its history." }
                }
                p.faint.below { "A signal that a program sent is listed once a step has read it." }
            }
            @if is_open && visit.may(Role::Operator) {
                section { h2 { "Send a signal" } (super::run_actions::signal(run).form(visit)) }
            }
        }
    }
}

/// Draws the signals that no step has read.
fn inbox(visit: &Visit, unread: &[(&str, &AuditEntry)], is_open: bool) -> Markup {
    html! {
        h2 { @if is_open { "Not read yet" } @else { "Never read" } }
        table aria-label="Unread signals" {
            thead { tr {
                th { "Name" }
                th { "Sent" }
                th { "By" }
                th.opt { "Reason" }
            } }
            tbody { @for (name, order) in unread { tr data-row=(order.id) {
                td.cut-off dir="auto" { strong { (name) } }
                td.num.nowrap { (clock::at(order.at, visit.now)) }
                td.cut-off { (order.actor.as_deref().unwrap_or("a program")) }
                td.opt.dim.cut-off { (order.reason.as_deref().unwrap_or_default()) }
            } } }
        }
    }
}

fn row(visit: &Visit, run: RunId, item: &HistoryItem) -> Markup {
    let place = visit.link(&format!("/runs/{run}?step={}", escaped(&item.step)));
    html! {
        tr {
            td.cut-off { a.quiet href=(place) dir="auto" { strong { (item.step) } } }
            td.opt.dim { (item.kind) }
            td { @match item.completed_at {
                Some(at) => span.icon-line { span.ok { (Icon::SUCCEEDED.draw()) } (clock::at(at, visit.now)) },
                None => span.icon-line { span.wait { (Icon::WAITING.draw()) } "waits" }
            } }
            td.r.num.nowrap { (clock::between(item.started_at, item.completed_at.unwrap_or(visit.now))) }
            td.opt.mono.cut-off {
                @if let (Some(output), Some(_)) = (&item.output, item.completed_at) {
                    @match output.json.as_ref().filter(|_| visit.actor.payloads) {
                        Some(json) => (payload::beginning(json.as_str())),
                        None => (clock::bytes(output.bytes))
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const RUN: &str = "01a2179e-6563-77f9-814a-e7a8f1ed3d63";

    fn run(generation: u8) -> RunSummary {
        let text = format!(
            r#"{{"id":"{RUN}","queue":"default","workflow":"w","version":"1","status":"parked",
            "now":{{"state":"waits"}},"attempt":1,"generation":{generation},"crashes":0,"depth":0,"available_at":1,
            "created_at":1,"started_at":50}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    /// Returns the messages of a run to which signals of these names were sent at these times, and
    /// whose steps have these keys and outputs.
    fn messages(sent: &[(&str, i64)], steps: &[(&str, &str)]) -> Messages {
        let order = |(name, at): &(&str, i64)| {
            format!(
                r#"{{"id":"{RUN}","at":{at},"verb":"run.signal","target":"run:{RUN}","arguments":{{"name":"{name}"}},
                "outcome":"accepted"}}"#
            )
        };
        let item = |(step, output): &(&str, &str)| {
            let bytes = output.len();
            format!(
                r#"{{"step":"{step}","attempt":1,"kind":"signal","status":"succeeded","position":1,"epoch":1,
                "started_at":1,"completed_at":2,"output":{{"bytes":{bytes},"json":{output}}}}}"#
            )
        };
        let orders: Vec<String> = sent.iter().rev().map(order).collect();
        let items: Vec<String> = steps.iter().map(item).collect();
        Messages {
            history: serde_json::from_str(&format!(r#"{{"items":[{}]}}"#, items.join(","))).unwrap(),
            orders: serde_json::from_str(&format!("[{}]", orders.join(","))).unwrap(),
        }
    }

    fn unread(messages: &Messages, generation: u8) -> Vec<(String, i64)> {
        let run = run(generation);
        let unread = messages.unread(&run).into_iter();
        unread.map(|(name, order)| (name.to_owned(), order.at.as_micros())).collect()
    }

    #[test]
    fn signals_behind_those_that_were_read_are_unread() {
        let sent = [("go", 10), ("other", 20), ("go", 60), ("go", 70)];
        let named = |all: &[(&str, i64)]| all.iter().map(|(name, at)| ((*name).to_owned(), *at)).collect::<Vec<_>>();
        assert_eq!(unread(&messages(&sent, &[]), 0), named(&sent));
        let read = messages(&sent, &[("go", "[1]"), ("part/go:1", "[2]")]);
        assert_eq!(unread(&read, 0), named(&[("other", 20), ("go", 70)]));
        // A wait that timed out has read nothing.
        assert_eq!(unread(&messages(&sent[..1], &[("go", "[]")]), 0), named(&sent[..1]));
        // The history does not show the signals that an earlier generation has read.
        assert_eq!(unread(&messages(&sent, &[("go", "[1]")]), 1), named(&[("go", 70)]));
    }

    #[test]
    fn a_history_that_goes_on_says_nothing_of_what_is_unread() {
        let mut messages = messages(&[("go", 10)], &[]);
        messages.history.next = Some(workflow_sdk::operate::Cursor::new("1abc"));
        assert!(unread(&messages, 0).is_empty());
    }

    #[test]
    fn a_key_is_that_of_a_wait_for_the_name_at_its_end() {
        for key in ["go", "go:1", "part/go", "part/go:12"] {
            assert!(waits_for(key, "go"), "{key}");
        }
        for key in ["goes", "let-go", "go:x", "go/other", ""] {
            assert!(!waits_for(key, "go"), "{key}");
        }
    }
}
