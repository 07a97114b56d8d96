//! F013: a `set` in a loop whose items run at once is refused, because all items share the
//! variables.

use std::collections::BTreeSet;

use super::expressions::each;
use crate::document::{Data, Node};
use crate::lower::outline::{Part, Use};
use crate::lower::{Dialect, Lowering};

pub(super) fn check(lowering: &mut Lowering<'_>) {
    if lowering.dialect != Dialect::Native {
        return;
    }
    let mut told = BTreeSet::new();
    each(lowering, |lowering, it| {
        let Some(name) = it.key.strip_prefix("set.") else { return };
        // Such a value is equal for all items.
        if it.reads.iter().all(|read| matches!(read.path.root(), "input" | "run")) {
            return;
        }
        let Some((step, concurrency)) = loop_at_once(lowering, it) else { return };
        if !told.insert(step) {
            return;
        }
        let id = &lowering.outline.steps[step].id;
        let count = concurrency.to_json();
        let message =
            format!("loop.concurrency is {count}, and the items of \"{id}\" share vars.{name}, which they set");
        let help = format!("write 1, or compute it after the loop, from the results in steps.{id}");
        lowering.replace(concurrency, message, 1).help(help);
    });
}

/// Returns the loop around an expression whose items run at once, and its `concurrency`.
fn loop_at_once<'s>(lowering: &Lowering<'s>, it: &Use) -> Option<(usize, &'s Node)> {
    let outline = &lowering.outline;
    let parents = outline.chain(it.step?).into_iter().rev();
    let parents = parents.filter_map(|step| outline.blocks[outline.steps[step].block].parent.as_ref());
    let mut loops = parents.filter(|(_, part)| *part == Part::Body).map(|(step, _)| *step);
    loops.find_map(|step| {
        let node = lowering.node_at(&lowering.pointer(outline.steps[step].span))?;
        let concurrency = node.get("loop")?.get("concurrency")?;
        let is_more = matches!(&concurrency.data, Data::Number(number) if number.as_u64() > Some(1));
        is_more.then_some((step, concurrency))
    })
}
