//! F035: secrets stand where they are not recorded.

use super::Code;
use super::expressions::{each, place};
use crate::lower::Lowering;
use crate::lower::outline::Role;

pub(super) fn check(lowering: &mut Lowering<'_>) {
    each(lowering, |lowering, it| {
        if matches!(it.role, Role::ToolArgs | Role::Undo) || (it.role == Role::Trigger && it.key == "webhook.secret") {
            return;
        }
        for read in it.reads.iter().filter(|read| read.path.root() == "secrets") {
            let byte = place(lowering, it, read.range.start);
            let path = lowering.pointer(it.span);
            let message = format!("{}: secrets may stand in args of a tool only; here they would be recorded", it.key);
            let finding = lowering.error_at(Code::F035, byte, path, message);
            finding.help("give the secret to the tool that needs it, as args: { token: \"{{secrets.token}}\" }");
        }
    });
}
