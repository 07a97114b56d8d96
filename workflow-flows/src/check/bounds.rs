//! F050: the limits that concern the flow as a whole.

use super::Code;
use crate::lower::Lowering;

/// Returns `false` if the flow has too many steps for the other rules.
pub(super) fn check(lowering: &mut Lowering<'_>) -> bool {
    let limits = lowering.options.limits;
    let steps = lowering.outline.steps.len();
    if steps > limits.steps {
        let span = lowering.outline.steps[limits.steps].id_span;
        let message = format!("the flow has {steps} steps; {} is the limit", limits.steps);
        lowering.error(Code::F050, span, message).help("make a part of it a flow of its own");
    }
    let long: Vec<_> = lowering
        .outline
        .uses
        .iter()
        .filter(|it| it.text.len() > limits.expression)
        .map(|it| (it.span, it.text.len()))
        .collect();
    for (span, length) in long {
        let message = format!("the expression has {length} bytes; {} is the limit", limits.expression);
        lowering.error(Code::F050, span, message).help("let a tool or a Rust workflow compute it");
    }
    steps <= limits.steps
}
