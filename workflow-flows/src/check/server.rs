//! F070, F071 and F072: the servers of tools have them, and the account may call them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::tools::check_arguments;
use super::{Code, Edit, Fix, Presence, ToolCatalog};
use crate::expression::nearest;
use crate::lower::Lowering;
use crate::lower::outline::Call;

/// The largest schema of a server that arguments are checked against, in bytes. A larger one
/// would slow the check, and another party has written it.
const LARGEST_SCHEMA: usize = 64 * 1024;

/// The servers that are away and were reported. One finding per server is enough.
#[derive(Default)]
pub(super) struct Servers(BTreeSet<String>);

impl Servers {
    /// Checks a call against the answer of its server. `known` is the schema that the worker has
    /// of the tool, and whether the arguments fit it.
    pub(super) fn check(
        &mut self,
        lowering: &mut Lowering<'_>,
        catalog: &dyn ToolCatalog,
        call: &Call,
        known: (&Value, bool),
    ) {
        match catalog.presence(&call.name) {
            Presence::NotAsked => {}
            Presence::Away { server, reason } => {
                if self.0.insert(server.clone()) {
                    let message = format!("tool \"{}\": {reason}", call.name);
                    let help = format!("start the server \"{server}\", or correct its options; then check again");
                    lowering.error(Code::F070, call.span, message).help(help);
                }
            }
            Presence::Gone { server, tools } => gone(lowering, call, &server, &tools),
            Presence::Present { schema } => check_changed(lowering, call, known, &schema),
        }
    }
}

fn gone(lowering: &mut Lowering<'_>, call: &Call, server: &str, tools: &[String]) {
    if lowering.leaves_out() {
        return;
    }
    let message = format!("the server \"{server}\" has no tool \"{}\" now", call.name);
    match nearest(&call.name, tools.iter().map(String::as_str)) {
        Some(near) => {
            let path = lowering.pointer(call.span);
            let fix = Fix::new(format!("write \"{near}\""), Edit::Replace { path, value: near.into() });
            lowering.error(Code::F071, call.span, format!("{message}; did you mean \"{near}\"?")).fix(fix);
        }
        None => {
            lowering.error(Code::F071, call.span, message).help("name another tool, or restore it on the server");
        }
    }
}

/// Checks the arguments against the schema that the server has now, unless they fail already.
fn check_changed(lowering: &mut Lowering<'_>, call: &Call, (known, fits): (&Value, bool), now: &Value) {
    if !fits || known == now || now.to_string().len() > LARGEST_SCHEMA {
        return;
    }
    // A worker that has not asked the server knows no schema, so none has changed.
    let code = if *known == Value::Bool(true) { Code::F041 } else { Code::F071 };
    check_arguments(lowering, call, now, code);
}

/// Reports a call that the account may not make.
pub(super) fn check_policy(lowering: &mut Lowering<'_>, catalog: &dyn ToolCatalog, call: &Call) {
    let args = call.args.as_ref().map_or(&Value::Null, |(_, args)| args);
    if let Some(actor) = catalog.refused(&call.name, args) {
        let message = format!("\"{actor}\" may not call \"{}\"", call.name);
        let help = "ask for the permission, or start as another account";
        lowering.error(Code::F072, call.span, message).help(help);
    }
}
