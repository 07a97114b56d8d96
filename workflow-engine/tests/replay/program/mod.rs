//! Programs: trees of sequence, join, race, unordered sets, maps, scopes and timeouts, whose leaves
//! are steps, sleeps, signals and children.

mod evaluate;
mod random;
mod shrink;

use fastrand::Rng;

pub(crate) use self::evaluate::undo;
pub(crate) use self::random::{Leaves, random};
pub(crate) use self::shrink::minimal;

/// The names of signals.
pub(crate) const SIGNALS: [&str; 2] = ["paid", "a"];

/// The maximum number of attempts of a step.
const ATTEMPTS: u32 = 3;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Node {
    Step(Plan),
    Sleep {
        leaf: usize,
        millis: u64,
    },
    Signal {
        leaf: usize,
        name: &'static str,
        timeout: Option<u64>,
    },
    Child {
        leaf: usize,
        detached: bool,
        /// Its key belongs to another run.
        key_taken: bool,
    },
    Seq(Vec<Node>),
    Join(Vec<Node>),
    Race(Vec<Node>),
    Unordered(Vec<Node>),
    Map(MapPlan, Vec<Node>),
    /// `ctx.race`.
    FirstOf(Vec<Node>),
    Scope(Vec<Node>),
    /// A scope that no other node has.
    Own {
        leaf: usize,
        within: Vec<Node>,
    },
    Timeout {
        leaf: usize,
        millis: u64,
        within: Vec<Node>,
    },
    /// Its one branch is shielded from an interruption.
    Shield(Vec<Node>),
    /// Arms a compensation after its one branch.
    Saga {
        leaf: usize,
        undo_fails: bool,
        branch: Vec<Node>,
    },
    /// The workflow fails in the end, if it has this node.
    Fail(Vec<Node>),
    /// The branch of runs that are older than the patch, and the branch of the others.
    Patched {
        name: usize,
        ways: Vec<Node>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MapPlan {
    limit: usize,
    policy: Policy,
    /// An item fails if its value is a multiple of this number.
    fails: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Policy {
    FirstFailure,
    FinishAll,
    CollectResults,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    leaf: usize,
    name: &'static str,
    /// The number of attempts that fail. With `ATTEMPTS` or more, the step fails.
    fails: u32,
    fatal: bool,
    /// Whether the body ends in the poll in which it begins.
    at_once: bool,
    /// Whether the step is transactional.
    transaction: bool,
    back_off_millis: u64,
    guarded: bool,
}

impl Node {
    /// Returns the program with another name for each call. A key then does not depend on the way
    /// that the run takes.
    pub(crate) fn with_own_names(self) -> Self {
        let all = |children: Vec<Self>| children.into_iter().map(Self::with_own_names).collect();
        match self {
            Self::Step(plan) => Self::Step(Plan { name: format!("step {}", plan.leaf).leak(), ..plan }),
            Self::Sleep { leaf, .. } | Self::Signal { leaf, .. } | Self::Child { leaf, .. } => {
                Self::Own { leaf, within: vec![self] }
            }
            Self::Timeout { leaf, millis, within } => {
                Self::Own { leaf, within: vec![Self::Timeout { leaf, millis, within: all(within) }] }
            }
            node => {
                let children = all(node.children().to_vec());
                node.with_children(children)
            }
        }
    }
}

/// Returns a step with a name that no program has.
pub(crate) fn inserted_step() -> Node {
    Node::Step(Plan {
        leaf: usize::MAX,
        name: "new",
        fails: 0,
        fatal: false,
        at_once: false,
        transaction: false,
        back_off_millis: 0,
        guarded: false,
    })
}

impl Node {
    fn number(&mut self, next: &mut usize) {
        if let Self::Step(Plan { leaf, .. })
        | Self::Sleep { leaf, .. }
        | Self::Signal { leaf, .. }
        | Self::Child { leaf, .. }
        | Self::Saga { leaf, .. }
        | Self::Timeout { leaf, .. } = self
        {
            *leaf = *next;
            *next += 1;
        }
        if !self.children().is_empty() {
            self.children_mut().iter_mut().for_each(|child| child.number(next));
        }
    }

    pub(crate) fn children(&self) -> &[Self] {
        match self {
            Self::Step(_) | Self::Sleep { .. } | Self::Signal { .. } | Self::Child { .. } => &[],
            Self::Seq(children)
            | Self::Join(children)
            | Self::Race(children)
            | Self::Unordered(children)
            | Self::Map(_, children)
            | Self::FirstOf(children)
            | Self::Scope(children)
            | Self::Own { within: children, .. }
            | Self::Timeout { within: children, .. }
            | Self::Shield(children)
            | Self::Saga { branch: children, .. }
            | Self::Fail(children)
            | Self::Patched { ways: children, .. } => children,
        }
    }

    fn children_mut(&mut self) -> &mut Vec<Self> {
        match self {
            Self::Step(_) | Self::Sleep { .. } | Self::Signal { .. } | Self::Child { .. } => {
                panic!("a leaf has no children")
            }
            Self::Seq(children)
            | Self::Join(children)
            | Self::Race(children)
            | Self::Unordered(children)
            | Self::Map(_, children)
            | Self::FirstOf(children)
            | Self::Scope(children)
            | Self::Own { within: children, .. }
            | Self::Timeout { within: children, .. }
            | Self::Shield(children)
            | Self::Saga { branch: children, .. }
            | Self::Fail(children)
            | Self::Patched { ways: children, .. } => children,
        }
    }

    pub(crate) fn with_children(&self, children: Vec<Self>) -> Self {
        let mut node = self.clone();
        if !node.children().is_empty() {
            *node.children_mut() = children;
        }
        node
    }

    /// Returns the program with one random node changed.
    pub(crate) fn change_one(&self, rng: &mut Rng, change: &dyn Fn(&mut Rng, &Self) -> Self) -> Self {
        if self.children().is_empty() || rng.u8(..4) == 0 {
            return change(rng, self);
        }
        let mut children = self.children().to_vec();
        let index = rng.usize(..children.len());
        children[index] = children[index].change_one(rng, change);
        self.with_children(children)
    }

    /// Returns whether the workflow fails in the end.
    fn fails(&self) -> bool {
        matches!(self, Self::Fail(_)) || self.children().iter().any(Self::fails)
    }
}
