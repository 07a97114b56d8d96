use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::{Part, Plan};
use crate::checker::{Evidence, Violation};

/// What a campaign did and found.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Of the kind.
    pub kind: &'static str,
    /// Which database.
    pub database: &'static str,
    /// Of the campaign.
    pub seed: u64,
    /// What was asked for: faults, programs or races.
    pub asked: usize,
    /// Of the asked ones, those that were done.
    pub done: usize,
    /// Faults that were tried.
    pub faults: usize,
    /// Faults that hit work.
    pub delivered: usize,
    /// Runs, children included.
    pub runs: usize,
    /// Runs that ended.
    pub ended: usize,
    /// Outcomes that were recorded.
    pub steps: usize,
    /// Starts, signals, cancels and answers that clients were told of.
    pub acknowledged: usize,
    /// Claims that found their run's worker dead.
    pub crashes: usize,
    /// What the kind counted.
    pub notes: BTreeMap<String, usize>,
    /// How long it took.
    pub wall: Duration,
    /// What was found.
    pub violations: Vec<RoundViolation>,
}

/// A violation, and how to see it again.
#[derive(Clone, Debug, Serialize)]
pub struct RoundViolation {
    /// What is wrong.
    #[serde(flatten)]
    pub violation: Violation,
    /// The seed of the round.
    pub seed: u64,
    /// What a round of that seed was to do.
    pub count: usize,
}

impl Report {
    /// One that has done nothing yet.
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
            notes: BTreeMap::new(),
            wall: Duration::ZERO,
            violations: Vec::new(),
        }
    }

    /// Of a round that fell over.
    #[must_use]
    pub fn broken(kind: &'static str, plan: &Plan, why: &str) -> Self {
        let mut report = Self::new(kind, plan);
        let violation =
            Violation { invariant: "I-Live", run: String::new(), what: format!("a round broke off: {why}") };
        report.violations.push(RoundViolation { violation, seed: plan.seed, count: plan.count });
        report
    }

    /// Of sessions that are left on the server when everybody who had one is gone.
    pub fn sessions(&mut self, plan: &Plan, sessions: Vec<String>) {
        for session in sessions {
            let what = format!("a session is left: {session}");
            let violation = Violation { invariant: "I-Clean", run: String::new(), what };
            self.violations.push(RoundViolation { violation, seed: plan.seed, count: plan.count });
        }
    }

    /// Counts what there is, and takes what was found in it.
    pub fn take(&mut self, evidence: &Evidence, found: Vec<Violation>, part: &Part) {
        self.runs += evidence.runs.len();
        self.ended += evidence.runs.values().filter(|run| run.has_ended()).count();
        self.steps += evidence.outcomes.iter().filter(|outcome| outcome.position.is_some()).count();
        self.acknowledged += evidence.lines.iter().filter(|line| line.fact.is_acknowledgement()).count();
        self.crashes += evidence.noted.iter().filter(|(kind, ..)| kind == "crash").count();
        let of_round = |violation| RoundViolation { violation, seed: part.seed, count: part.count };
        self.violations.extend(found.into_iter().map(of_round));
    }

    /// Adds what a round did.
    pub fn add(&mut self, round: Self) {
        self.done += round.done;
        self.faults += round.faults;
        self.delivered += round.delivered;
        self.runs += round.runs;
        self.ended += round.ended;
        self.steps += round.steps;
        self.acknowledged += round.acknowledged;
        self.crashes += round.crashes;
        for (what, count) in round.notes {
            *self.notes.entry(what).or_default() += count;
        }
        self.violations.extend(round.violations);
    }

    /// Why the campaign fails, if it does: a violation, or that it proves too little.
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

    /// How far it is, in one line.
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
