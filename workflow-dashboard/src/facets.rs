//! Filters beside the list of runs, each with its number as far as an index has it.

use maud::{Markup, html};
use workflow_sdk::RunStatus;
use workflow_sdk::operate::{Count, Counts, Fact, Query, WorkflowView};

use crate::completion::VIEWS;
use crate::status::{self, Look};
use crate::visit::Visit;

/// The most workflows and queues that are offered.
const MOST: usize = 12;

/// Returns the address of the list of runs for a query.
pub(crate) fn link(visit: &Visit, query: &str) -> String {
    if query.is_empty() { visit.link("/runs") } else { visit.link(&format!("/runs?q={}", escaped(query))) }
}

/// Escapes a text for a part of the path or the query of an address.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b':' | b'*' => {
                escaped.push(char::from(byte));
            }
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// Returns a word of a query, with its value in quotes where it needs them.
pub(crate) fn word(name: &str, value: &str) -> String {
    let quoted = format!("{name}:\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""));
    quoted.parse::<Query>().map(|query| query.to_string()).unwrap_or(quoted)
}

/// Returns the word of a query for a tag.
pub(crate) fn tag(name: &str, value: &str) -> String {
    word(&format!("tag.\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")), value)
}

/// Returns the query with this word, or without it if it has the word. Other words of the same
/// name go if `name` is given.
fn toggled(query: &Query, word: &str, name: &str) -> String {
    let words: Vec<String> = query.terms().iter().map(ToString::to_string).collect();
    let had = words.iter().any(|known| known == word);
    let mut words: Vec<String> =
        words.into_iter().filter(|known| known != word && !known.starts_with(&format!("{name}:"))).collect();
    if !had {
        words.push(word.to_owned());
    }
    words.join(" ")
}

fn has(query: &Query, word: &str) -> bool {
    query.terms().iter().any(|term| term.to_string() == word)
}

fn facet(
    visit: &Visit,
    query: &Query,
    (name, word): (&str, &str),
    look: Option<Look>,
    label: &str,
    count: Option<Count>,
) -> Markup {
    let is_on = has(query, word);
    html! {
        a.facet.on[is_on] href=(link(visit, &toggled(query, word, name))) aria-current=[is_on.then_some("true")] {
            @if let Some(look) = look { span class=(look.color) { (look.icon.draw()) } }
            span.n { (label) }
            @if let Some(count) = count { b { (status::count(count)) } }
        }
    }
}

/// Draws the facets. Numbers are left out if they were not read.
pub(crate) fn draw(visit: &Visit, query: &Query, counts: Option<&Counts>, workflows: &[WorkflowView]) -> Markup {
    let of_status = |status: RunStatus| {
        counts.and_then(|counts| match status {
            RunStatus::Pending => Some(counts.pending),
            RunStatus::Running => Some(counts.running),
            RunStatus::Parked => Some(counts.parked),
            RunStatus::Failed => Some(counts.failed),
            RunStatus::Canceled => Some(counts.canceled),
            _ => None,
        })
    };
    let facts = [
        (Fact::Due, "Due now", counts.map(|counts| counts.due)),
        (Fact::Late, "Due for a minute", None),
        (Fact::Paused, "Paused", counts.map(|counts| counts.paused)),
        (Fact::Stuck, "Stuck", counts.map(|counts| counts.stuck)),
        (Fact::Crashed, "Worker died", None),
    ];
    let mut queues: Vec<&str> =
        workflows.iter().flat_map(|workflow| &workflow.versions).map(|version| version.queue.as_str()).collect();
    queues.sort_unstable();
    queues.dedup();
    html! {
        h2 { "Views" }
        @for (name, words) in VIEWS.iter().take(3) {
            a.facet.on[query.to_string() == *words] href=(link(visit, words)) { span.n { (name) } }
        }
        a.facet.needs-script href=(visit.link(visit.inner())) data-keep=(query) { span.n.faint { "Keep this search" } }
        h2 { "Status" }
        @for status in RunStatus::ALL {
            @let look = Look::of_status(status);
            @let word = format!("status:{status}");
            (facet(visit, query, ("status", &word), Some(look), look.word, of_status(status)))
        }
        h2 { "State" }
        @for (fact, label, count) in facts {
            @let word = format!("is:{fact}");
            (facet(visit, query, (&word, &word), None, label, count))
        }
        @if !workflows.is_empty() { h2 { "Workflow" } }
        @for workflow in workflows.iter().take(MOST) {
            @let word = word("workflow", &workflow.name);
            (facet(visit, query, ("workflow", &word), None, &workflow.name, None))
        }
        @if workflows.len() > MOST {
            a.facet href=(visit.link("/workflows")) { span.n.faint { (workflows.len() - MOST) " more" } }
        }
        @if queues.len() > 1 { h2 { "Queue" } }
        @for queue in queues.iter().take(MOST).filter(|_| queues.len() > 1) {
            @let word = word("queue", queue);
            (facet(visit, query, ("queue", &word), None, queue, None))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_facet_replaces_the_word_of_its_name() {
        let query: Query = "status:failed workflow:check* is:paused".parse().unwrap();
        assert_eq!(toggled(&query, "status:failed", "status"), "workflow:check* is:paused");
        assert_eq!(toggled(&query, "status:running", "status"), "workflow:check* is:paused status:running");
        assert_eq!(toggled(&query, "is:due", "is:due"), "status:failed workflow:check* is:paused is:due");
        assert_eq!(toggled(&query, "is:paused", "is:paused"), "status:failed workflow:check*");
    }

    #[test]
    fn tags_are_quoted() {
        assert_eq!(tag("customer", "42"), "tag.customer:42");
        assert_eq!(tag("my \"tag\"", "a b"), r#"tag."my \"tag\"":"a b""#);
    }

    #[test]
    fn values_are_quoted_and_escaped() {
        assert_eq!(word("workflow", "checkout"), "workflow:checkout");
        assert_eq!(word("workflow", "a b\"c"), r#"workflow:"a b\"c""#);
        assert_eq!(escaped("a b\"&é#"), "a%20b%22%26%C3%A9%23");
    }
}
