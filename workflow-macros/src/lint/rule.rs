//! The rules by name: what each one says, and which of them a workflow has switched off.

use super::source::{self, Source};

/// One common way in which a replay differs from the first run.
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
}

impl Rule {
    pub(crate) const ALL: [Rule; 11] = [
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
    ];

    /// As in `#[workflow(allow(wall_clock))]`.
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
        }
    }

    /// What is wrong with it; its subject is what the author wrote.
    pub(super) const fn harm(self) -> &'static str {
        match self {
            Rule::WallClock => "gives another time in each replay",
            Rule::Randomness => "gives another value in each replay",
            Rule::Spawn => "runs outside of what the run records, again in each replay",
            Rule::TokioTime => "waits in memory only and begins anew in each replay",
            Rule::UnbiasedSelect => "polls its branches in random order",
            Rule::BlockingSleep => "blocks the worker, again in each replay",
            Rule::Environment => "may answer otherwise where the run is replayed",
            Rule::Files => "goes to the disk of this machine, again in each replay",
            Rule::Network => "goes to the network, again in each replay",
            Rule::MapOrder => "is hashed, so its order is another in each process",
            Rule::StaticMut => "is shared by all runs of this process and lost with it",
        }
    }

    /// What to write instead.
    pub(super) const fn fix(self) -> &'static str {
        match self {
            Rule::WallClock => "use `ctx.now()`, or read the clock in a step",
            Rule::Randomness => "use `ctx.random()` or `ctx.uuid()`, or draw it in a step",
            Rule::Spawn => "run steps side by side with `futures::join!`, or spawn in a step that waits for the end",
            Rule::TokioTime => "use `ctx.sleep(..)`, or the `.timeout(..)` of a step",
            Rule::UnbiasedSelect => {
                "write `biased;` first in that of tokio, use `futures::select_biased!` for that of futures"
            }
            Rule::BlockingSleep => "use `ctx.sleep(..)`",
            Rule::Environment => "read it in a step, or hand it over in the input",
            Rule::Files | Rule::Network => "put it into a step",
            Rule::MapOrder => "collect and sort, or use `BTreeMap` or `BTreeSet`",
            Rule::StaticMut => "keep it in a variable of the workflow",
        }
    }

    /// The functions that it refuses. None for a rule about syntax.
    pub(super) const fn sources(self) -> &'static [Source] {
        match self {
            Rule::WallClock => source::WALL_CLOCK,
            Rule::Randomness => source::RANDOMNESS,
            Rule::Spawn => source::SPAWN,
            Rule::TokioTime => source::TOKIO_TIME,
            Rule::BlockingSleep => source::BLOCKING_SLEEP,
            Rule::Environment => source::ENVIRONMENT,
            Rule::Files => source::FILES,
            Rule::Network => source::NETWORK,
            Rule::UnbiasedSelect | Rule::MapOrder | Rule::StaticMut => &[],
        }
    }

    /// The rule that refuses a path, if any.
    pub(super) fn of_path(segments: &[String]) -> Option<Rule> {
        Rule::ALL.into_iter().find(|rule| rule.sources().iter().any(|source| source.matches(segments)))
    }

    pub(super) fn message(self, subject: &str, fix: &str) -> String {
        let (name, harm) = (self.name(), self.harm());
        format!("{subject} {harm}: {fix}; `#[workflow(allow({name}))]` lets it stand")
    }
}

/// The rules that a workflow has switched off.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowed(Vec<Rule>);

impl Allowed {
    /// After a mistake in the list: what was meant is unknown, and each guess would be a second message.
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
