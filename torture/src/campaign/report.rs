use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::{Part, Plan};
use crate::checker::{Evidence, Violation};

/// The report of a campaign: what it did and found.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The name of the kind.
    pub kind: &'static str,
    /// The name of the database.
    pub database: &'static str,
    /// The seed of the campaign.
    pub seed: u64,
    /// The requested number of faults, programs or races.
    pub asked: usize,
    /// How many of the requested ones were done.
    pub done: usize,
    /// The number of attempted faults.
    pub faults: usize,
    /// The number of faults that hit work in progress.
    pub delivered: usize,
    /// The number of runs, including children.
    pub runs: usize,
    /// The number of ended runs.
    pub ended: usize,
    /// The number of recorded outcomes.
    pub steps: usize,
    /// The number of starts, signals, cancels and results that were acknowledged to clients.
    pub acknowledged: usize,
    /// The number of claims that counted a crash.
    pub crashes: usize,
    /// How many claims took a run from another worker.
    pub taken_over: usize,
    /// Further counts of the kind.
    pub notes: BTreeMap<String, usize>,
    /// The largest numbers that any round has seen.
    pub most: BTreeMap<String, usize>,
    /// The duration of the campaign.
    pub wall: Duration,
    /// The violations that were found.
    pub violations: Vec<RoundViolation>,
}

/// A violation, and how to reproduce it.
#[derive(Clone, Debug, Serialize)]
pub struct RoundViolation {
    /// The violation.
    #[serde(flatten)]
    pub violation: Violation,
    /// The seed of the round.
    pub seed: u64,
    /// The count of the round.
    pub count: usize,
}

impl Report {
    /// Returns an empty report.
    #[must_use]
    pub fn new(kind: &'static str, plan: &Plan) -> Self {
        Self {
            kind,
            database: plan.database.name(),
            seed: plan.seed,
            asked: plan.count,
            done: 0,
            faults: 0,
            delivered: 0,
            runs: 0,
            ended: 0,
            steps: 0,
            acknowledged: 0,
            crashes: 0,
            taken_over: 0,
            notes: BTreeMap::new(),
            most: BTreeMap::new(),
            wall: Duration::ZERO,
            violations: Vec::new(),
        }
    }

    /// Returns the report of a round that panicked.
    #[must_use]
    pub fn broken(kind: &'static str, plan: &Plan, why: &str) -> Self {
        let mut report = Self::new(kind, plan);
        let violation = Violation { invariant: "I-Live", run: String::new(), what: format!("a round panicked: {why}") };
        report.violations.push(RoundViolation { violation, seed: plan.seed, count: plan.count });
        report
    }

    /// Adds a violation for each session that is left on the server after all clients are gone.
    pub fn sessions(&mut self, plan: &Plan, sessions: Vec<String>) {
        for session in sessions {
            let what = format!("a session is left on the server: {session}");
            let violation = Violation { invariant: "I-Clean", run: String::new(), what };
            self.violations.push(RoundViolation { violation, seed: plan.seed, count: plan.count });
        }
    }

    /// Adds the counts of the evidence and the violations that were found in it.
    pub fn take(&mut self, evidence: &Evidence, found: Vec<Violation>, part: &Part) {
        self.runs += evidence.runs.len();
        self.ended += evidence.runs.values().filter(|run| run.has_ended()).count();
        self.steps += evidence.outcomes.iter().filter(|outcome| outcome.position.is_some()).count();
        self.acknowledged += evidence.lines.iter().filter(|line| line.fact.is_acknowledgement()).count();
        let noted = |what: &str| evidence.noted.iter().filter(|(kind, ..)| kind == what).count();
        self.crashes += noted("crash");
        self.taken_over += noted("taken");
        let of_round = |violation| RoundViolation { violation, seed: part.seed, count: part.count };
        self.violations.extend(found.into_iter().map(of_round));
    }

    /// Adds the report of a round.
    pub fn add(&mut self, round: Self) {
        self.done += round.done;
        self.faults += round.faults;
        self.delivered += round.delivered;
        self.runs += round.runs;
        self.ended += round.ended;
        self.steps += round.steps;
        self.acknowledged += round.acknowledged;
        self.crashes += round.crashes;
        self.taken_over += round.taken_over;
        for (what, count) in round.notes {
            *self.notes.entry(what).or_default() += count;
        }
        for (what, count) in round.most {
            let most = self.most.entry(what).or_default();
            *most = count.max(*most);
        }
        self.violations.extend(round.violations);
    }

    /// Returns why the campaign failed, if it did: a violation, or too little work to prove
    /// anything.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        if !self.violations.is_empty() {
            return Some(format!("{} violations", self.violations.len()));
        }
        if self.done < self.asked {
            return Some(format!("only {} of {} were done", self.done, self.asked));
        }
        if self.runs == 0 || self.ended * 100 < self.runs * 95 {
            return Some(format!("only {} of {} runs ended: it proves too little", self.ended, self.runs));
        }
        if self.delivered * 2 < self.faults {
            return Some(format!("only {} of {} faults hit work: it proves too little", self.delivered, self.faults));
        }
        None
    }

    /// Returns the progress in one line.
    #[must_use]
    pub fn line(&self) -> String {
        let seconds = self.wall.as_secs_f64();
        format!(
            "{} {} {}/{}: {} of {} faults delivered, {} of {} runs ended, {} steps, {} crashes counted, {} acknowledged, \
             {seconds:.1} s, {} violations",
            self.kind,
            self.database,
            self.done,
            self.asked,
            self.delivered,
            self.faults,
            self.ended,
            self.runs,
            self.steps,
            self.crashes,
            self.acknowledged,
            self.violations.len()
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.wall.as_secs_f64();
        writeln!(f, "kind          {} on {}", self.kind, self.database)?;
        writeln!(f, "seed          {}", self.seed)?;
        writeln!(f, "asked         {}, done {}", self.asked, self.done)?;
        writeln!(f, "faults        {}, delivered {}", self.faults, self.delivered)?;
        writeln!(f, "runs          {}, ended {}", self.runs, self.ended)?;
        writeln!(f, "steps         {}, crashes counted {}", self.steps, self.crashes)?;
        writeln!(f, "acknowledged  {}", self.acknowledged)?;
        for (what, count) in &self.notes {
            writeln!(f, "              {count} {what}")?;
        }
        for (what, count) in &self.most {
            writeln!(f, "              at most {count} {what}")?;
        }
        writeln!(
            f,
            "wall time     {seconds:.1} s, {:.1} faults/s, {:.1} runs/s",
            self.faults as f64 / seconds,
            self.runs as f64 / seconds
        )?;
        write!(f, "violations    {}", self.violations.len())?;
        for RoundViolation { violation, seed, count } in &self.violations {
            write!(
                f,
                "\n  {violation}\n    again: campaign {} --database {} --seed {seed} --count {count}",
                self.kind, self.database
            )?;
        }
        match self.failure() {
            Some(failure) => write!(f, "\nFAILED: {failure}"),
            None => write!(f, "\npassed"),
        }
    }
}
