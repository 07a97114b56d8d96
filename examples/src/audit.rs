//! Checks the ledger against the guarantees of the database: a recorded step never runs again, and
//! a step that was cut off runs once more.

use std::collections::{BTreeMap, BTreeSet};

use crate::ledger::{Entry, Mark};

/// An order's id and the name of one of its steps.
pub type StepOf = (String, String);

/// How often the body of one step ran, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Its body ran once, to its end.
    Once,
    /// The kill cut its body off, and the second worker ran it again.
    Cut,
    /// Its body had ended before the kill, but its outcome was not recorded yet. The second worker
    /// ran it again.
    Unrecorded,
    /// Any other history, which violates the guarantees.
    Wrong,
}

/// The fate of every step.
#[derive(Debug, Default)]
pub struct Audit {
    /// The fates, by order and then by step.
    pub fates: BTreeMap<StepOf, Fate>,
    /// The violations, one line each.
    pub wrong: Vec<String>,
}

impl Audit {
    /// Checks the entries of the ledger against the steps that must be in it.
    ///
    /// `killed` is the process id of the first worker. `recorded` are the steps whose outcome that
    /// worker has committed.
    #[must_use]
    pub fn new(entries: &[Entry], steps: &BTreeSet<StepOf>, killed: u32, recorded: &BTreeSet<StepOf>) -> Self {
        let mut bodies: BTreeMap<StepOf, Bodies> = steps.iter().map(|step| (step.clone(), Bodies::default())).collect();
        for entry in entries {
            bodies.entry((entry.order.clone(), entry.step.clone())).or_default().count(entry, killed);
        }
        let mut audit = Self::default();
        for (step, bodies) in bodies {
            let fate = match (steps.contains(&step), recorded.contains(&step), bodies) {
                (true, true, Bodies { started: [1, 0], ended: [1, 0] }) => Fate::Once,
                (true, false, Bodies { started: [0, 1], ended: [0, 1] }) => Fate::Once,
                (true, false, Bodies { started: [1, 1], ended: [0, 1] }) => Fate::Cut,
                (true, false, Bodies { started: [1, 1], ended: [1, 1] }) => Fate::Unrecorded,
                _ => Fate::Wrong,
            };
            if fate == Fate::Wrong {
                let (order, name) = &step;
                let note = if recorded.contains(&step) { "recorded" } else { "not recorded" };
                let Bodies { started: [first, second], ended: [first_ended, second_ended] } = bodies;
                audit.wrong.push(format!(
                    "{name} of {order}: started {first}+{second} times, ended {first_ended}+{second_ended} times, \
                     {note} by the first worker"
                ));
            }
            audit.fates.insert(step, fate);
        }
        audit
    }

    /// Returns how many steps had this fate.
    #[must_use]
    pub fn count(&self, fate: Fate) -> usize {
        self.fates.values().filter(|other| **other == fate).count()
    }
}

/// How often the body of a step started and ended, in the first and in the second worker.
#[derive(Clone, Copy, Default)]
struct Bodies {
    started: [u32; 2],
    ended: [u32; 2],
}

impl Bodies {
    fn count(&mut self, entry: &Entry, killed: u32) {
        let worker = usize::from(entry.pid != killed);
        match entry.mark {
            Mark::Begin => self.started[worker] += 1,
            Mark::End => self.ended[worker] += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Audit, BTreeSet, Entry, Fate, Mark};

    /// Returns the fate of a step with these bodies. `1` and `2` are the workers; `+` marks the
    /// start of a body, `-` its end.
    fn fate(bodies: &[&str], recorded: bool) -> Option<Fate> {
        let step = ("A-1".to_owned(), "ship".to_owned());
        let entry = |body: &&str| Entry {
            mark: if body.ends_with('+') { Mark::Begin } else { Mark::End },
            order: step.0.clone(),
            step: step.1.clone(),
            pid: if body.starts_with('1') { 1 } else { 2 },
        };
        let entries: Vec<_> = bodies.iter().map(entry).collect();
        let steps = BTreeSet::from([step.clone()]);
        let recorded = if recorded { steps.clone() } else { BTreeSet::new() };
        let audit = Audit::new(&entries, &steps, 1, &recorded);
        let fate = audit.fates.get(&step).copied();
        assert_eq!(audit.wrong.len(), usize::from(fate == Some(Fate::Wrong)));
        fate
    }

    #[test]
    fn every_history_has_its_fate() {
        for (bodies, recorded, expected) in [
            (&["1+", "1-"][..], true, Fate::Once),
            (&["2+", "2-"], false, Fate::Once),
            (&["1+", "2+", "2-"], false, Fate::Cut),
            (&["1+", "1-", "2+", "2-"], false, Fate::Unrecorded),
            // It ran again although it was recorded.
            (&["1+", "1-", "2+", "2-"], true, Fate::Wrong),
            // It was recorded, but it never ended.
            (&["1+", "2+", "2-"], true, Fate::Wrong),
            // It ran three times, or twice in one worker.
            (&["1+", "2+", "2-", "2+", "2-"], false, Fate::Wrong),
            (&["1+", "1-", "1+", "1-"], true, Fate::Wrong),
            // It never ran, or it was not run again.
            (&[], false, Fate::Wrong),
            (&["1+"], false, Fate::Wrong),
            (&["1+", "1-"], false, Fate::Wrong),
        ] {
            assert_eq!(fate(bodies, recorded), Some(expected), "{bodies:?}, recorded: {recorded}");
        }
    }

    #[test]
    fn a_step_that_no_order_has_is_wrong() {
        let entry = Entry { mark: Mark::Begin, order: "A-9".into(), step: "ship".into(), pid: 1 };
        assert_eq!(Audit::new(&[entry], &BTreeSet::new(), 1, &BTreeSet::new()).wrong.len(), 1);
    }
}
