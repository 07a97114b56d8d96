//! The kind `races`: clients that race with each other and with the end of a run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Part, Report, Round, RoundOptions};
use crate::checker::{Evidence, Violation};
use crate::ledger::Fact;
use crate::program::{Answer, End, Failing, Op, Program, program};
use crate::race_client::{Call, Race, Reply, TASKS, wanted};
use crate::worker_process::WorkerProcess;

/// The number of client processes.
const CLIENTS: usize = 3;

/// The number of concurrent races.
const BATCH: usize = 12;

/// The maximum difference between the time of a reply and the time in the row, in microseconds. The
/// engine reads the clock before the commit.
const SLACK: i64 = 20_000;

pub(super) async fn round(part: Part) -> Report {
    let count = part.count;
    let options = RoundOptions { workers: 2, most: 0, ..RoundOptions::default() };
    let mut round = Round::begin(part, "races", options).await;
    let mut settings = round.settings.clone();
    settings.races = true;
    let mut clients: Vec<WorkerProcess> =
        (0..CLIENTS).map(|n| round.testbed.spawn(&format!("race-client-{n}"), &settings)).collect();
    let mut races = Vec::new();
    for first in (0..count).step_by(BATCH) {
        for number in first..count.min(first + BATCH) {
            let race = begin(&mut round, number).await;
            for client in &mut clients {
                client.tell(&serde_json::to_string(&race).expect("a race is JSON"));
            }
            races.push(race);
        }
        let expected = races.len() * CLIENTS * TASKS;
        if !replies(&mut round, expected).await {
            break;
        }
    }
    round.report.done += races.len();
    round.report.faults += races.len();
    let mut delivered = 0;
    let mut report = round.finish_with(|evidence| judge(evidence, &races, &mut delivered)).await;
    report.delivered += delivered;
    drop(clients);
    report
}

/// Chooses the call of a race, and starts the run that it concerns.
async fn begin(round: &mut Round, number: usize) -> Race {
    let seed = round.random.u64(..);
    let call = match number % 4 {
        0 => Call::Start { key: format!("race-{number}") },
        kind => {
            let ops = vec![Op::Step(1, seed, Failing::Never); 1];
            let short = Program { ops, end: End::Value, start: seed };
            let run = round.testbed.client.start(program, short).await.expect("start a run").id();
            round.testbed.ledger.append(Fact::Started, &run.to_string(), 0);
            let run = run.to_string();
            match kind {
                1 => Call::Signal { run },
                2 => Call::Cancel { run },
                _ => Call::Result { run },
            }
        }
    };
    Race { number, seed, call }
}

/// Waits until this many replies are in the ledger. Gives up when no more arrive.
async fn replies(round: &mut Round, expected: usize) -> bool {
    let (mut seen, mut since) = (0, Instant::now());
    while since.elapsed() < Duration::from_secs(60) {
        round.ledger.read();
        let now = round.ledger.lines.iter().filter(|line| line.fact == Fact::Raced).count();
        if now >= expected {
            return true;
        }
        if now > seen {
            (seen, since) = (now, Instant::now());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    false
}

/// Compares each reply with the end of its run.
fn judge(evidence: &Evidence, races: &[Race], delivered: &mut usize) -> Vec<Violation> {
    let mut replies_of: BTreeMap<usize, Vec<Reply>> = BTreeMap::new();
    for line in evidence.lines.iter().filter(|line| line.fact == Fact::Raced) {
        let number = line.subject.parse().expect("the number of a race");
        replies_of.entry(number).or_default().push(Reply::parse(&line.value));
    }
    let mut found = Vec::new();
    for race in races {
        let replies = replies_of.remove(&race.number).unwrap_or_default();
        let mut complain = |run: &str, what: String| {
            found.push(Violation {
                invariant: "I-Ack",
                run: run.to_owned(),
                what: format!("race {}: {what}", race.number),
            });
        };
        if replies.len() != CLIENTS * TASKS {
            complain("", format!("{} replies of {}", replies.len(), CLIENTS * TASKS));
            continue;
        }
        let hit = match &race.call {
            Call::Start { key } => start(evidence, race, key, &replies, &mut complain),
            Call::Signal { run } => signal(evidence, run, &replies, &mut complain),
            Call::Cancel { run } => cancel(evidence, run, &replies, &mut complain),
            Call::Result { run } => result(evidence, run, &replies, &mut complain),
        };
        *delivered += usize::from(hit);
    }
    found
}

/// Only one run starts, and every reply contains its id. A client with the other input is refused
/// with that id.
fn start(
    evidence: &Evidence,
    race: &Race,
    key: &str,
    replies: &[Reply],
    complain: &mut impl FnMut(&str, String),
) -> bool {
    let mut winners: Vec<(&str, &str)> = Vec::new();
    let mut refused: Vec<(&str, &str)> = Vec::new();
    for reply in replies {
        let Some((word, run)) = reply.answer.split_once('=') else {
            complain("", format!("a start with key {key} was answered with {}", reply.answer));
            continue;
        };
        match word.split_once('-') {
            Some(("started", input)) => winners.push((input, run)),
            Some(("refused", input)) => refused.push((input, run)),
            _ => complain(run, format!("a start with key {key} was answered with {word}")),
        }
    }
    let Some((input, run)) = winners.first().copied() else {
        complain("", format!("no client started {key}"));
        return false;
    };
    if winners.iter().any(|winner| *winner != (input, run)) {
        complain(run, format!("{key} was started as {winners:?}"));
    }
    if refused.iter().any(|(other, by)| *other == input || *by != run) {
        complain(run, format!("{key} was started with {input}, refused were {refused:?}"));
    }
    let ended = evidence.runs.get(run).map(|row| (row.status.clone(), row.output.clone()));
    let holds = match (wanted(race.seed, input).answer(), &ended) {
        (Answer::Value(value), Some((status, output))) => {
            status == "succeeded" && output.as_deref() == Some(&value.to_string())
        }
        (Answer::Error(_), Some((status, _))) => status == "failed",
        (Answer::Canceled, _) | (_, None) => false,
    };
    if !holds {
        complain(run, format!("{key} was started with {input} and ended as {ended:?}"));
    }
    overlap(replies)
}

/// A reply that the run has ended comes after its end, any other reply begins before it.
fn signal(evidence: &Evidence, run: &str, replies: &[Reply], complain: &mut impl FnMut(&str, String)) -> bool {
    let Some(end) = evidence.ended_at(run) else { return false };
    for reply in replies {
        match reply.answer.as_str() {
            "accepted" if reply.began > end + SLACK => complain(run, "a signal was accepted after the end".into()),
            "finished" if reply.replied + SLACK < end => complain(run, "a signal was refused before the end".into()),
            "accepted" | "finished" => {}
            other => complain(run, format!("a signal was answered with {other}")),
        }
    }
    surrounds(replies, end)
}

fn cancel(evidence: &Evidence, run: &str, replies: &[Reply], complain: &mut impl FnMut(&str, String)) -> bool {
    let (Some(end), Some(row)) = (evidence.ended_at(run), evidence.runs.get(run)) else { return false };
    let asked = replies.iter().filter(|reply| matches!(reply.answer.as_str(), "canceled" | "requested")).count();
    if row.status == "canceled" && asked == 0 {
        complain(run, "the run is canceled, and no cancel was accepted".into());
    }
    if !matches!(row.status.as_str(), "canceled" | "succeeded") {
        complain(run, format!("the run ended as {}", row.status));
    }
    for reply in replies {
        let holds = match reply.answer.as_str() {
            "canceled" => row.status == "canceled",
            "requested" => row.cancel_requested_at.is_some() && reply.began <= end + SLACK,
            status => row.status == status && reply.replied + SLACK >= end,
        };
        if !holds {
            complain(run, format!("a cancel was answered with {}, and the row is {row:?}", reply.answer));
        }
    }
    surrounds(replies, end)
}

fn result(evidence: &Evidence, run: &str, replies: &[Reply], complain: &mut impl FnMut(&str, String)) -> bool {
    let (Some(end), Some(row)) = (evidence.ended_at(run), evidence.runs.get(run)) else { return false };
    for reply in replies {
        if row.output.as_deref() != Some(reply.answer.as_str()) || reply.replied + SLACK < end {
            complain(run, format!("a client received the result {}, and the row is {row:?}", reply.answer));
        }
    }
    surrounds(replies, end)
}

/// Returns `true` if two calls overlapped in time.
fn overlap(replies: &[Reply]) -> bool {
    replies
        .iter()
        .enumerate()
        .any(|(n, one)| replies[n + 1..].iter().any(|other| one.began < other.replied && other.began < one.replied))
}

/// Returns `true` if the end of the run was between the first call and the last reply.
fn surrounds(replies: &[Reply], end: i64) -> bool {
    let first = replies.iter().map(|reply| reply.began).min().unwrap_or(i64::MAX);
    let last = replies.iter().map(|reply| reply.replied).max().unwrap_or(i64::MIN);
    first <= end && end <= last
}
