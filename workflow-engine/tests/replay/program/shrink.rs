//! The search for the smallest program that fails a check.

use super::{Node, Plan};

impl Node {
    /// Returns programs that are a little smaller than this one.
    fn smaller(&self) -> Vec<Self> {
        let mut smaller = self.children().to_vec();
        if let Self::Step(plan) = self
            && plan.fails > 0
        {
            smaller.push(Self::Step(Plan { fails: 0, ..plan.clone() }));
        }
        if let Self::Step(plan) = self
            && plan.guarded
        {
            smaller.push(Self::Step(Plan { guarded: false, ..plan.clone() }));
        }
        for (index, child) in self.children().iter().enumerate() {
            let replaced = |by: Option<Self>| {
                let mut children = self.children().to_vec();
                children.splice(index..=index, by);
                self.with_children(children)
            };
            if self.children().len() > 1 && !matches!(self, Self::Patched { .. }) {
                smaller.push(replaced(None));
            }
            smaller.extend(child.smaller().into_iter().map(|by| replaced(Some(by))));
        }
        smaller
    }
}

/// Returns the smallest program reachable by small steps that still fails, and its failure.
pub(crate) fn minimal(
    mut program: Node,
    mut failure: String,
    check: impl Fn(&Node) -> Result<usize, String>,
) -> (Node, String) {
    loop {
        let failing = program.smaller().into_iter().find_map(|smaller| {
            let failure = check(&smaller).err()?;
            Some((smaller, failure))
        });
        match failing {
            Some(found) => (program, failure) = found,
            None => return (program, failure),
        }
    }
}
