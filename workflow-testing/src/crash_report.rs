use std::fmt;

use super::commit_log::Boundary;
use super::effects::Effect;
use super::trial::Ending;

/// The most problems that are shown in full. The report gives the number of the others.
const SHOWN: usize = 5;

/// The problems that crashes cause in a workflow. Its `Display` form is the report.
#[derive(Clone, Debug, PartialEq)]
pub struct CrashReport {
    pub(super) workflow: String,
    pub(super) commits: usize,
    pub(super) crashes: usize,
    pub(super) findings: Vec<Finding>,
}

/// A problem at one boundary.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    /// Where the worker died. `None` if the problem shows without a crash.
    pub(super) boundary: Option<Boundary>,
    pub(super) problem: Problem,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Problem {
    Ending { expected: Ending, found: Ending },
    RanAgain { step: String, attempt: u32 },
    Twice { first: Effect, second: Effect },
    OtherKey { first: Effect, second: Effect },
}

impl Problem {
    /// Returns what the problem is about. Problems with one subject are shown once.
    fn subject(&self) -> String {
        match self {
            Self::Ending { found, .. } => format!("ending {found}"),
            Self::RanAgain { step, .. } => format!("step {step}"),
            Self::Twice { first, .. } | Self::OtherKey { first, .. } => {
                format!("effect {} {:?}", first.name, first.step)
            }
        }
    }
}

impl CrashReport {
    /// Returns where a worker's death showed a problem, in the order of the commits.
    #[must_use]
    pub fn boundaries(&self) -> Vec<Boundary> {
        let mut boundaries: Vec<Boundary> = self.findings.iter().filter_map(|it| it.boundary.clone()).collect();
        boundaries.dedup();
        boundaries
    }

    /// Returns the keys of the steps whose effects were doubled or whose bodies ran again, each
    /// once.
    #[must_use]
    pub fn steps(&self) -> Vec<String> {
        let step = |finding: &Finding| match &finding.problem {
            Problem::Ending { .. } => finding.boundary.as_ref()?.step.clone(),
            Problem::RanAgain { step, .. } => Some(step.clone()),
            Problem::Twice { second, .. } | Problem::OtherKey { second, .. } => Some(second.step.clone()?.0),
        };
        let mut steps: Vec<String> = self.findings.iter().filter_map(step).collect();
        steps.sort_unstable();
        steps.dedup();
        steps
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut subjects: Vec<String> = Vec::new();
        for finding in &self.findings {
            let subject = finding.problem.subject();
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
        writeln!(
            f,
            "workflow {:?} is not safe to crash: {} of {} crashes show it",
            self.workflow,
            self.findings.len(),
            self.crashes
        )?;
        for subject in subjects.iter().take(SHOWN) {
            let mut of_subject = self.findings.iter().filter(|finding| finding.problem.subject() == *subject);
            let Some(first) = of_subject.next() else { continue };
            writeln!(f)?;
            write_finding(f, first)?;
            match of_subject.count() {
                0 => {}
                1 => writeln!(f, "  also:       at 1 other boundary")?,
                others => writeln!(f, "  also:       at {others} other boundaries")?,
            }
        }
        if subjects.len() > SHOWN {
            writeln!(f, "\nand {} more", subjects.len() - SHOWN)?;
        }
        Ok(())
    }
}

fn write_finding(f: &mut fmt::Formatter<'_>, finding: &Finding) -> fmt::Result {
    match &finding.problem {
        Problem::Ending { .. } => writeln!(f, "the run ended in another way")?,
        Problem::RanAgain { step, .. } => writeln!(f, "step {step:?} ran again though its outcome was recorded")?,
        Problem::Twice { first, .. } => {
            writeln!(f, "the effect {:?} happened twice for the key {:?}{}", first.name, first.key, in_step(first))?;
        }
        Problem::OtherKey { first, .. } => {
            writeln!(f, "the effect {:?} happened again with another key{}", first.name, in_step(first))?;
        }
    }
    match &finding.boundary {
        Some(boundary) => writeln!(f, "  died:       {boundary}")?,
        None => writeln!(f, "  died:       no worker: the problem shows without a crash")?,
    }
    match &finding.problem {
        Problem::Ending { expected, found } => {
            writeln!(f, "  without:    {expected}")?;
            writeln!(f, "  with it:    {found}")?;
            writeln!(f, "  what to do: {ENDING}")
        }
        Problem::RanAgain { attempt, .. } => {
            writeln!(f, "  again:      attempt {attempt}")?;
            writeln!(f, "  what to do: please report it; no workflow can cause this")
        }
        Problem::Twice { first, second } => {
            writeln!(f, "  1st time:   {first}")?;
            writeln!(f, "  2nd time:   {second}")?;
            writeln!(f, "  why:        {TWICE}")?;
            writeln!(f, "  what to do: {KEY}")
        }
        Problem::OtherKey { first, second } => {
            writeln!(f, "  1st time:   {first}")?;
            writeln!(f, "  2nd time:   {second}")?;
            writeln!(f, "  what to do: {OTHER_KEY}")
        }
    }
}

fn in_step(effect: &Effect) -> String {
    effect.step.as_ref().map(|(step, _)| format!(", in step {step:?}")).unwrap_or_default()
}

const ENDING: &str = "outside of steps a workflow may depend only on its input and the outcomes of its calls; and two runs\n              \
     of a body must give the same value where the service says that it has done its work already";

const TWICE: &str = "the body had its effect, and its worker died before the outcome was committed; so the next worker ran\n              \
     the body again";

const KEY: &str = "hand the service an idempotency key that is the same both times, such as ctx.idempotency_key(), and mark\n              \
     the effect with idempotent_effect; or ask the service whether it has happened before doing it; or, if the\n              \
     effect is rows in the run's own database, use ctx.transaction";

const OTHER_KEY: &str = "a body must not make up its idempotency key, because it may run again: use ctx.idempotency_key(), or\n              \
     make the key in an earlier step";
