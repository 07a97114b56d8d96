//! F020: each step that is named as a target exists in its block.

use super::{Code, Edit, Fix};
use crate::expression::nearest;
use crate::lower::Lowering;
use crate::lower::outline::Named;

pub(super) fn check(lowering: &mut Lowering<'_>) {
    for index in 0..lowering.outline.steps.len() {
        let step = &lowering.outline.steps[index];
        let (id, block) = (step.id.clone(), step.block);
        let needs: Vec<_> = step.needs.iter().cloned().map(|named| ("needs", named)).collect();
        let targets: Vec<_> = step.targets().cloned().map(|named| ("goes to", named)).collect();
        for (verb, named) in needs.into_iter().chain(targets) {
            if lowering.outline.find_in(block, &named.id).is_none() {
                report(lowering, &id, block, verb, &named);
            }
        }
    }
}

fn report(lowering: &mut Lowering<'_>, id: &str, block: usize, verb: &str, named: &Named) {
    if lowering.leaves_out() {
        return;
    }
    let message = format!("step \"{id}\" {verb} \"{}\"", named.id);
    if lowering.outline.find(&named.id).is_some() {
        let message = format!("{message}, which stands in another block");
        lowering.error(Code::F020, named.span, message).help("steps name only steps beside them");
        return;
    }
    let outline = &lowering.outline;
    let ids: Vec<String> = outline.blocks[block].steps.iter().map(|step| outline.steps[*step].id.clone()).collect();
    let near = nearest(&named.id, ids.iter().map(String::as_str).filter(|other| *other != id));
    let message = format!("{message}, which does not exist");
    match near {
        Some(near) => {
            let path = lowering.pointer(named.span);
            let fix = Fix::new(format!("write \"{near}\""), Edit::Replace { path, value: near.into() });
            let message = format!("{message}; did you mean \"{near}\"?");
            lowering.error(Code::F020, named.span, message).fix(fix);
        }
        None => {
            let shown: Vec<&str> = ids.iter().map(String::as_str).take(20).collect();
            lowering.error(Code::F020, named.span, message).help(format!("its block has: {}", shown.join(", ")));
        }
    }
}
