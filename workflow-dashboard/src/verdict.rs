//! Whether all is well, as a sentence, from numbers alone.

use workflow_sdk::Timestamp;
use workflow_sdk::operate::{Counts, QueueView, StatsGroup, WorkerView, WorkflowView};

use crate::clock;
use crate::status::count;

/// The numbers from which the verdict is made.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) counts: &'a Counts,
    pub(crate) queues: &'a [QueueView],
    pub(crate) workers: &'a [WorkerView],
    pub(crate) workflows: &'a [WorkflowView],
    /// The statistics per workflow, of the range that `range` names.
    pub(crate) ended: &'a [StatsGroup],
    pub(crate) range: &'static str,
    pub(crate) now: Timestamp,
}

/// A verdict: a sentence, the details, and whether a person has to do something.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) headline: String,
    pub(crate) details: Vec<Finding>,
}

/// Something that needs attention, with the search or page that shows it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) text: String,
    /// A path of the dashboard.
    pub(crate) place: String,
}

/// How long a run may be due until it counts as late, in seconds.
const LATE: u64 = 60;

/// Returns the verdict about these facts, the most urgent first.
pub(crate) fn judge(facts: &Facts<'_>) -> Verdict {
    let Facts { counts, queues, workers, workflows, ended, range, now } = facts;
    let mut details = Vec::new();
    let mut find = |text: String, place: &str| details.push(Finding { text, place: place.to_owned() });
    let live = workers.iter().filter(|worker| worker.live).count();
    let unserved: Vec<&str> = workflows
        .iter()
        .filter(|workflow| workflow.versions.iter().any(|version| version.unserved))
        .map(|workflow| workflow.name.as_str())
        .collect();
    if live == 0 && counts.due.runs > 0 {
        find(format!("No worker lives, and {} wait for one.", runs(counts.due.runs, counts.due.at_least)), "/workers");
    } else if !unserved.is_empty() {
        find(format!("Runs of {} are due, and no worker serves them.", list(&unserved)), "/workflows");
    }
    if counts.stuck.runs > 0 {
        find(
            format!("{} stuck: code and history do not fit.", are(counts.stuck.runs, counts.stuck.at_least)),
            "/runs?q=is:stuck",
        );
    }
    for queue in queues.iter().filter(|queue| queue.pause.is_none()) {
        if let Some(due) = queue.oldest_due.filter(|due| now.since(*due).as_secs() > LATE) {
            let text = format!("Queue {} has been behind for {}.", queue.name, clock::between(due, *now));
            find(text, &format!("/queues/{}", crate::facets::escaped(&queue.name)));
        }
    }
    for group in ended.iter().filter(|group| fails_often(group)).take(3) {
        let (name, total) = (group.workflow.as_deref().unwrap_or_default(), group.total);
        let numbers = format!("{} of {}", clock::grouped(total.failed), clock::grouped(total.ended()));
        let place = format!("/failures?workflow={}", crate::facets::escaped(name));
        find(format!("{numbers} runs of {name} failed in {range}."), &place);
    }
    let dead = workers.len() - live;
    if dead > 0 {
        let text = match (dead, live) {
            (1, 0) => "A worker died, and none lives to take its runs over.".to_owned(),
            (_, 0) => format!("{dead} workers died, and none lives to take their runs over."),
            (1, _) => "A worker died; another one takes its runs over.".to_owned(),
            _ => format!("{dead} workers died; others take their runs over."),
        };
        find(text, "/workers");
    }
    for queue in queues.iter().filter(|queue| queue.pause.is_some()) {
        find(format!("Queue {} is paused.", queue.name), "/queues");
    }
    let headline = match (details.len(), counts.running.runs + counts.pending.runs + counts.parked.runs) {
        (0, 0) if live == 0 => "Nothing runs, and no worker lives.",
        (0, 0) => "All is well. Nothing runs at the moment.",
        (0, _) => "All is well. Everything moves.",
        (1, _) => "One thing needs a look.",
        _ => "Several things need a look.",
    };
    Verdict { headline: headline.to_owned(), details }
}

/// Returns `true` if at least three runs failed, and one in twenty.
fn fails_often(group: &StatsGroup) -> bool {
    group.total.failed >= 3 && group.total.failed.saturating_mul(20) >= group.total.ended()
}

fn runs(number: u32, at_least: bool) -> String {
    let runs = clock::counted(number.into(), "run");
    if at_least { format!("more than {runs}") } else { runs }
}

fn are(number: u32, at_least: bool) -> String {
    let verb = if number == 1 && !at_least { "is" } else { "are" };
    crate::problem::sentence(&runs(number, at_least)).trim_end_matches('.').to_owned() + " " + verb
}

fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        [first, second] => format!("{first} and {second}"),
        [first, second, rest @ ..] => format!("{first}, {second} and {} more", rest.len()),
    }
}

/// Returns the number of runs that wait without costing anything.
pub(crate) fn asleep(counts: &Counts) -> String {
    count(counts.parked)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn counts(due: u32, stuck: u32, running: u32) -> Counts {
        let count = |runs: u32| format!(r#"{{"runs":{runs},"at_least":false}}"#);
        let zero = count(0);
        let text = format!(
            r#"{{"pending":{},"due":{},"delayed":{zero},"running":{},"parked":{zero},
                "paused":{zero},"stuck":{},"failed":{zero},"canceled":{zero}}}"#,
            count(due),
            count(due),
            count(running),
            count(stuck)
        );
        serde_json::from_str(&text).unwrap()
    }

    fn judged(counts: &Counts, queues: &str, workers: &str) -> (String, Vec<String>) {
        let queues: Vec<QueueView> = serde_json::from_str(queues).unwrap();
        let workers: Vec<WorkerView> = serde_json::from_str(workers).unwrap();
        let facts = Facts {
            counts,
            queues: &queues,
            workers: &workers,
            workflows: &[],
            ended: &[],
            range: "the last hour",
            now: Timestamp::from_micros(600_000_000),
        };
        let Verdict { headline, details } = judge(&facts);
        (headline, details.into_iter().map(|finding| finding.text).collect())
    }

    const LIVE: &str = r#"[{"id":"01900000-0000-7000-8000-000000000001","started_at":0,"live":true,
        "lanes":[],"retention":null,"runs":{"runs":0,"at_least":false}}]"#;

    #[test]
    fn a_verdict_names_the_most_urgent_first() {
        assert_eq!(judged(&counts(0, 0, 0), "[]", "[]").0, "Nothing runs, and no worker lives.");
        assert_eq!(judged(&counts(0, 0, 3), "[]", LIVE).0, "All is well. Everything moves.");
        let (headline, details) = judged(&counts(2, 1, 0), "[]", "[]");
        assert_eq!(headline, "Several things need a look.");
        assert_eq!(
            details,
            ["No worker lives, and 2 runs wait for one.", "1 run is stuck: code and history do not fit."]
        );
        let late = r#"[{"name":"mail","limits":{},"has_gates":false,"running":{"runs":0,"at_least":false},
            "waiting":{"runs":1,"at_least":false},"oldest_due":300000000,"workers":1}]"#;
        let (headline, details) = judged(&counts(0, 0, 1), late, LIVE);
        assert_eq!(
            (headline.as_str(), details[0].as_str()),
            ("One thing needs a look.", "Queue mail has been behind for 5 m 00 s.")
        );
    }

    #[test]
    fn a_dead_worker_needs_a_living_one() {
        let dead = LIVE.replace("true", "false");
        let both = format!("[{},{}]", LIVE.trim_matches(['[', ']']), dead.trim_matches(['[', ']']));
        let of = |workers: &str| judged(&counts(0, 0, 0), "[]", workers).1;
        assert_eq!(of(&dead), ["A worker died, and none lives to take its runs over."]);
        assert_eq!(of(&both), ["A worker died; another one takes its runs over."]);
        let two = both.replace("true", "false");
        assert_eq!(of(&two), ["2 workers died, and none lives to take their runs over."]);
    }

    #[test]
    fn names_are_listed_in_few_words() {
        assert_eq!(list(&["a"]), "a");
        assert_eq!(list(&["a", "b"]), "a and b");
        assert_eq!(list(&["a", "b", "c", "d"]), "a, b and 2 more");
    }
}
