//! Limits for steps in a batch: the seats that attempts ask for and give back, and the calls to
//! those that wait.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::model::{Effect, LimitRule, RunId, SeatLine, Timestamp};

use super::OpenBatch;
use crate::store::batch_target::BatchTarget;
use crate::store::line_rate::LineRate;
use crate::store::locks::Locks;
use crate::store::seat_line::{AskedSeat, OpenLine, SeatAnswer};
use crate::store::{AttemptWrite, Outcome};

/// The lines that a batch has locked.
#[derive(Debug, Default)]
pub(super) struct Lines<'w> {
    declared: BTreeMap<&'w SeatLine, OpenLine>,
    /// The called lines whose limit is not declared any more. Their steps are called so that each
    /// asks and is refused.
    undeclared: BTreeMap<&'w SeatLine, OpenLine>,
}

impl<'b, T: BatchTarget> OpenBatch<'b, T> {
    /// Locks the lines in which the batch gives seats out, before any run is locked, and adds the
    /// runs that it may call to the locks: all runs of a batch are locked at once, in one order.
    pub(super) async fn lock_lines(&mut self, locks: &mut Locks) -> Result<Lines<'b>, T::Error> {
        // How many writes of the batch may move each line.
        let mut moves: BTreeMap<&SeatLine, u32> = BTreeMap::new();
        let mut asking: Vec<(RunId, &str)> = Vec::new();
        let attempts = self.writes.attempts.writes();
        for write in attempts {
            if let Effect::TakeSeat(line) = &write.effect {
                *moves.entry(line).or_default() += 1;
                asking.push((write.claim.run_id, &write.row.step_key));
            }
        }
        for line in self.writes.calls.writes() {
            moves.entry(line).or_default();
        }
        if moves.is_empty() {
            return Ok(Lines::default());
        }
        for write in attempts {
            if let Effect::LeaveSeat(line) = &write.effect
                && let Some(moves) = moves.get_mut(&**line)
            {
                *moves += 1;
            }
        }
        let lines: BTreeSet<&SeatLine> = moves.keys().copied().collect();
        self.target.lock_lines(&lines).await?;
        let names: BTreeSet<&str> = lines.iter().map(|line| line.limit.as_str()).collect();
        let records = self.target.read_limits(&names).await?;
        let rules: HashMap<&str, LimitRule> =
            records.iter().filter_map(|record| Some((record.name.as_str(), record.rule()?))).collect();
        let called: BTreeSet<&SeatLine> = self.writes.calls.writes().iter().copied().collect();
        let rule_of = |line: &SeatLine| rules.get(line.limit.as_str()).copied();
        let read: Vec<(&SeatLine, LimitRule, u32)> = moves
            .into_iter()
            .filter(|(line, _)| rule_of(line).is_some() || called.contains(line))
            .map(|(line, moves)| (line, rule_of(line).unwrap_or_default(), moves))
            .collect();
        if read.is_empty() {
            return Ok(Lines::default());
        }
        let asked: Vec<(&SeatLine, u32)> =
            read.iter().map(|(line, rule, moves)| (*line, OpenLine::known(*rule).saturating_add(*moves))).collect();
        let rows = self.target.read_lines(&asked, &asking).await?;
        let mut rates = self.read_rates(&read).await?;
        let mut lines = Lines::default();
        for ((line, rule, moves), rows) in read.into_iter().zip(rows) {
            let state = OpenLine::of(rule, rates.remove(line), rows);
            if called.contains(line) {
                locks.add_changed(state.candidates(moves as usize));
            }
            let kind = if rule_of(line).is_some() { &mut lines.declared } else { &mut lines.undeclared };
            kind.insert(line, state);
        }
        Ok(lines)
    }

    /// Returns the states of the rates of the lines that have a rate.
    async fn read_rates(
        &mut self,
        lines: &[(&'b SeatLine, LimitRule, u32)],
    ) -> Result<HashMap<&'b SeatLine, LineRate>, T::Error> {
        let rated = lines.iter().filter_map(|(line, rule, _)| Some((*line, rule.rate?)));
        let (lines, rates): (Vec<_>, Vec<_>) = rated.unzip();
        if lines.is_empty() {
            return Ok(HashMap::new());
        }
        let read = self.target.read_line_rates(&lines).await?;
        let states = rates.into_iter().zip(read.used_until).map(|(rate, until)| LineRate::new(rate, until, read.now));
        Ok(lines.into_iter().zip(states).collect())
    }

    /// Gives seats to the attempts that ask for one, and takes back those of attempts that have
    /// ended, in the order of the batch. Returns the indexes of those that must not be recorded,
    /// because their limit is not declared; the outcomes of these and of those that wait are set.
    pub(super) async fn change_seats(
        &mut self,
        passed: &[(usize, &'b AttemptWrite)],
        lines: &mut Lines<'b>,
    ) -> Result<Seated, T::Error> {
        let mut seated = Seated::default();
        let (mut left, mut asked) = (BTreeSet::new(), BTreeMap::new());
        for (index, write) in passed {
            let (run_id, step_key) = (write.claim.run_id, write.row.step_key.as_str());
            match &write.effect {
                Effect::TakeSeat(line) => {
                    let Some(open) = lines.declared.get_mut(&**line) else {
                        self.outcomes.set(*index, Outcome::LimitUndeclared);
                        seated.refused.insert(*index);
                        // The step may have waited when the limit was cleared.
                        if let Some(undeclared) = lines.undeclared.get_mut(&**line) {
                            undeclared.leave(run_id, step_key);
                        }
                        left.insert((run_id, step_key));
                        continue;
                    };
                    let answer = open.ask(run_id, step_key, write.claim.epoch);
                    let (asks_at, is_taken) = (answer.asks_at(), answer == SeatAnswer::Taken);
                    if !is_taken {
                        seated.waiting.insert(*index, asks_at);
                    }
                    let epoch = is_taken.then_some(write.claim.epoch);
                    asked.insert((run_id, step_key), (*index, AskedSeat { run_id, step_key, line, epoch, asks_at }));
                }
                Effect::LeaveSeat(line) => {
                    if let Some(open) = lines.get_mut(line) {
                        open.leave(run_id, step_key);
                    }
                    asked.remove(&(run_id, step_key));
                    left.insert((run_id, step_key));
                }
                _ => {}
            }
        }
        if !left.is_empty() {
            self.target.delete_seats(&left.into_iter().collect::<Vec<_>>()).await?;
        }
        if !asked.is_empty() {
            // The order of the batch is the order in which they asked.
            let asked: BTreeMap<usize, AskedSeat<'_>> = asked.into_values().collect();
            self.target.write_seats(&asked.into_values().collect::<Vec<_>>()).await?;
        }
        let used = lines.used();
        if !used.is_empty() {
            self.target.use_line_rates(&used).await?;
        }
        Ok(seated)
    }

    /// Calls the steps that may take free seats of these lines, or are to be refused, and wakes
    /// their runs.
    pub(super) async fn call_seats(&mut self, lines: &mut Lines<'b>) -> Result<(), T::Error> {
        let mut called = Vec::new();
        for (index, line) in self.writes.calls.iter() {
            let next = lines.get_mut(line).map(OpenLine::call).unwrap_or_default();
            let runs: BTreeSet<RunId> = next.iter().map(|(run, _)| *run).collect();
            self.outcomes.set(index, Outcome::Called(runs.into_iter().collect()));
            called.extend(next);
        }
        if called.is_empty() {
            return Ok(());
        }
        self.target.mark_called(&called).await?;
        self.target.wake_runs(&called.iter().map(|(run, _)| *run).collect()).await
    }

    /// Forgets twice as many rates as the batch has used, and a few more, so that they do not add
    /// up. This comes last, because from then on the batch waits for no transaction that may wait
    /// for it.
    pub(super) async fn forget_rates(&mut self, lines: &Lines<'b>) -> Result<(), T::Error> {
        match u32::try_from(lines.used().len()).unwrap_or(u32::MAX) {
            0 => Ok(()),
            used => self.target.forget_line_rates(used.saturating_mul(2).saturating_add(8)).await,
        }
    }
}

impl<'w> Lines<'w> {
    fn get_mut(&mut self, line: &SeatLine) -> Option<&mut OpenLine> {
        self.declared.get_mut(line).or_else(|| self.undeclared.get_mut(line))
    }

    /// Returns the lines whose rates have to be stored, with the time until which each is used up.
    fn used(&self) -> Vec<(&'w SeatLine, Timestamp)> {
        self.declared.iter().filter_map(|(line, open)| Some((*line, open.used()?))).collect()
    }
}

/// The attempts of a batch that do not get the seats that they ask for, by index.
#[derive(Debug, Default)]
pub(super) struct Seated {
    /// Those whose limit is not declared.
    pub(super) refused: HashSet<usize>,
    /// Those that wait for a seat, and when each asks again by itself.
    pub(super) waiting: HashMap<usize, Option<Timestamp>>,
}
