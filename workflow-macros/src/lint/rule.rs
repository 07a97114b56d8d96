//! The rules: their names, their messages, and the set that a workflow has switched off.

use super::disallowed_functions::{self as functions, FunctionGroup};

/// A rule of determinism. Each refuses one common reason why a replay differs from the first run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    WallClock,
    Randomness,
    Spawn,
    TokioTime,
    UnbiasedSelect,
    BlockingSleep,
    Environment,
    Files,
    Network,
    MapOrder,
    StaticMut,
    RepeatedName,
}

impl Rule {
    pub(crate) const ALL: [Rule; 12] = [
        Rule::WallClock,
        Rule::Randomness,
        Rule::Spawn,
        Rule::TokioTime,
        Rule::UnbiasedSelect,
        Rule::BlockingSleep,
        Rule::Environment,
        Rule::Files,
        Rule::Network,
        Rule::MapOrder,
        Rule::StaticMut,
        Rule::RepeatedName,
    ];

    /// Returns the name that an author writes, as in `#[workflow(allow(wall_clock))]`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Rule::WallClock => "wall_clock",
            Rule::Randomness => "randomness",
            Rule::Spawn => "spawn",
            Rule::TokioTime => "tokio_time",
            Rule::UnbiasedSelect => "unbiased_select",
            Rule::BlockingSleep => "blocking_sleep",
            Rule::Environment => "environment",
            Rule::Files => "files",
            Rule::Network => "network",
            Rule::MapOrder => "map_order",
            Rule::StaticMut => "static_mut",
            Rule::RepeatedName => "repeated_name",
        }
    }

    /// Returns the harm that the refused code does.
    ///
    /// It continues a sentence whose subject is the author's code.
    pub(super) const fn harm(self) -> &'static str {
        match self {
            Rule::WallClock => "returns a different time in each replay",
            Rule::Randomness => "returns a different value in each replay",
            Rule::Spawn => "starts work that the run does not record, and starts it again in each replay",
            Rule::TokioTime => "waits only in memory and starts over in each replay",
            Rule::UnbiasedSelect => "polls its branches in an order that differs in each replay",
            Rule::BlockingSleep => "blocks a thread of the worker, and does so again in each replay",
            Rule::Environment => "may return a different value on the machine that replays the run",
            Rule::Files => "accesses the disk of this machine, and does so again in each replay",
            Rule::Network => "accesses the network, and does so again in each replay",
            Rule::MapOrder => "is iterated in an order that differs in each process",
            Rule::StaticMut => "is shared by all runs of a process and lost when the process ends",
            Rule::RepeatedName => {
                "is told from the first only by the order of the calls, so a call that is inserted \
                 later takes the recorded value of another"
            }
        }
    }

    /// Returns what the author should do instead.
    pub(super) const fn fix(self) -> &'static str {
        match self {
            Rule::WallClock => "use `ctx.now()`, or read the clock in a step",
            Rule::Randomness => "use `ctx.random()` or `ctx.uuid()`, or generate the value in a step",
            Rule::Spawn => {
                "run steps concurrently with `futures::join!`, or spawn in a step that waits for the task to end"
            }
            Rule::TokioTime => "use `ctx.sleep(..)`, or the `.timeout(..)` of a step",
            Rule::UnbiasedSelect => {
                "begin a `tokio::select!` with `biased;`, or replace a `futures::select!` with `futures::select_biased!`"
            }
            Rule::BlockingSleep => "use `ctx.sleep(..)`",
            Rule::Environment => "read it in a step, or pass it in the input",
            Rule::Files | Rule::Network => "move this call into a step",
            Rule::MapOrder => "collect and sort the entries, or use a `BTreeMap` or `BTreeSet`",
            Rule::StaticMut => "keep the value in a variable of the workflow",
            Rule::RepeatedName => "give each call a name of its own",
        }
    }

    /// Returns the functions that the rule refuses. The list is empty for a rule about syntax.
    pub(super) const fn functions(self) -> &'static [FunctionGroup] {
        match self {
            Rule::WallClock => functions::WALL_CLOCK,
            Rule::Randomness => functions::RANDOMNESS,
            Rule::Spawn => functions::SPAWN,
            Rule::TokioTime => functions::TOKIO_TIME,
            Rule::BlockingSleep => functions::BLOCKING_SLEEP,
            Rule::Environment => functions::ENVIRONMENT,
            Rule::Files => functions::FILES,
            Rule::Network => functions::NETWORK,
            Rule::UnbiasedSelect | Rule::MapOrder | Rule::StaticMut | Rule::RepeatedName => &[],
        }
    }

    /// Returns the rule that refuses a path, if any.
    pub(super) fn for_path(segments: &[String]) -> Option<Rule> {
        Rule::ALL.into_iter().find(|rule| rule.functions().iter().any(|group| group.matches(segments)))
    }

    pub(super) fn message(self, subject: &str, fix: &str) -> String {
        let (name, harm) = (self.name(), self.harm());
        format!("{subject} {harm}: {fix}; to allow it, write `#[workflow(allow({name}))]`")
    }
}

/// The rules that a workflow has switched off.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowed(Vec<Rule>);

impl Allowed {
    /// Returns all rules, for use after a mistake in the list.
    ///
    /// The author's intention is unknown then, and a wrong guess would add a second message.
    pub(crate) fn all() -> Self {
        Allowed(Rule::ALL.to_vec())
    }

    pub(crate) fn insert(&mut self, rule: Rule) {
        self.0.push(rule);
    }

    pub(crate) fn contains(&self, rule: Rule) -> bool {
        self.0.contains(&rule)
    }
}
