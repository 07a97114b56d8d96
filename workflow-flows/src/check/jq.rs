//! F040: the worker can run jq, where a flow needs it.

use super::Code;
use crate::graph::{Flow, Kind, Loop, Until};
use crate::lower::Lowering;
use crate::lower::outline::Syntax;

/// Reports the first jq program of a flow if the worker can run none. One finding is enough.
pub(super) fn check(lowering: &mut Lowering<'_>, flow: Option<&Flow>) {
    let Some(reason) = lowering.options.catalog.and_then(|catalog| catalog.lacks_jq()) else { return };
    let written = lowering.outline.uses.iter().find(|it| it.syntax == Syntax::Jq).map(|it| it.span);
    let mut needs_jq = written.is_some();
    // A dialect may become jq where its document has no program.
    if let Some(flow) = flow {
        flow.for_each_step(|step| needs_jq |= is_jq(&step.kind));
    }
    if needs_jq {
        let span = written.unwrap_or(lowering.root.span);
        let message = format!("this worker cannot run jq: {reason}");
        lowering.error(Code::F040, span, message).help("or compute the value with a template, CEL or a tool");
    }
}

fn is_jq(kind: &Kind) -> bool {
    matches!(kind, Kind::Jq(_) | Kind::Loop(Loop { until: Until::Jq(_), .. }))
}
