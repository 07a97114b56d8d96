//! F035: secrets stand where they are not recorded.

use super::Code;
use super::expressions::place;
use crate::lower::Lowering;
use crate::lower::outline::Role;

pub(super) fn check(lowering: &mut Lowering<'_>) {
    for index in 0..lowering.outline.uses.len() {
        let it = lowering.outline.uses[index].clone();
        if it.role == Role::ToolArgs || (it.role == Role::Trigger && it.key == "webhook.secret") {
            continue;
        }
        let references = lowering.scans.get(index).map(|scan| scan.references.clone()).unwrap_or_default();
        for reference in references.iter().filter(|reference| reference.root == "secrets") {
            let byte = place(lowering, &it, reference.range.start);
            let path = lowering.pointer(it.span);
            let message = format!("{}: secrets may stand in args of a tool only; here they would be recorded", it.key);
            let finding = lowering.error_at(Code::F035, byte, path, message);
            finding.help("give the secret to the tool that needs it, as args: { token: \"{{secrets.token}}\" }");
        }
    }
}
