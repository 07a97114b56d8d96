//! Finds the named closures of a body that only steps use. Their bodies belong to the steps.

use std::collections::HashSet;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprCall, ExprMethodCall, ExprPath, FnArg, Ident, Local, Macro, Pat, Signature};

use super::macro_input;
use super::syntax::{inner_expression, inner_pattern};

/// The closures and futures of a body that have a name and are used only in steps.
#[derive(Default)]
pub(super) struct StepClosures {
    /// The names of the workflow's context, and of its scopes.
    contexts: HashSet<String>,
    /// The code that contains the expression being visited.
    owner: Owner,
    /// The names of all closures at first, and at the end of those that only steps use.
    names: HashSet<String>,
    /// Each use of a name, with the code that contains it.
    uses: Vec<(String, Owner)>,
}

/// The code that uses a name.
#[derive(Clone, Default, PartialEq)]
enum Owner {
    #[default]
    Workflow,
    Step,
    Closure(String),
}

impl StepClosures {
    pub(super) fn find(sig: &Signature, block: &Block) -> Self {
        let mut closures = Self { contexts: context_name(sig).into_iter().collect(), ..Self::default() };
        closures.visit_block(block);
        closures.remove_used_by_workflow();
        closures
    }

    /// Returns whether the binding is a closure or a future that only steps use.
    pub(super) fn contains(&self, local: &Local) -> bool {
        closure_name(local).is_some_and(|name| self.names.contains(&name))
    }

    /// Returns whether closures among the arguments are, or may be, the bodies of steps.
    ///
    /// A function that also takes the context probably makes steps of its closures. Its code is not
    /// visible here, so the answer for it is yes.
    pub(super) fn takes_step_bodies<'e>(
        &self,
        method: Option<&Ident>,
        arguments: impl IntoIterator<Item = &'e Expr>,
    ) -> bool {
        method.is_some_and(runs_effects) || arguments.into_iter().any(|argument| self.is_context(argument))
    }

    /// Returns whether an expression is the context or a scope of it.
    fn is_context(&self, expression: &Expr) -> bool {
        match inner_expression(expression) {
            Expr::Path(path) => path.path.get_ident().is_some_and(|name| self.contexts.contains(&name.to_string())),
            Expr::MethodCall(call) => call.method == "scope" && self.is_context(&call.receiver),
            _ => false,
        }
    }

    /// Removes each closure that the workflow uses, directly or through another removed closure.
    ///
    /// A closure without any use is removed too, because no step runs it.
    fn remove_used_by_workflow(&mut self) {
        self.names.retain(|closure| self.uses.iter().any(|(name, _)| name == closure));
        loop {
            let removed = self.uses.iter().find(|(name, owner)| {
                let by_workflow = match owner {
                    Owner::Workflow => true,
                    Owner::Step => false,
                    Owner::Closure(user) => !self.names.contains(user),
                };
                by_workflow && self.names.contains(name)
            });
            match removed {
                Some((name, _)) => self.names.remove(name),
                None => return,
            };
        }
    }

    fn with_owner(&mut self, owner: Owner, visit: impl FnOnce(&mut Self)) {
        // Everything inside of a step belongs to the step, also its closures.
        let owner = if self.owner == Owner::Step { Owner::Step } else { owner };
        let before = std::mem::replace(&mut self.owner, owner);
        visit(self);
        self.owner = before;
    }
}

/// Returns the name that the binding gives to a closure or a future.
fn closure_name(local: &Local) -> Option<String> {
    let init = local.init.as_ref()?;
    match (inner_expression(&init.expr), inner_pattern(&local.pat)) {
        (Expr::Closure(_) | Expr::Async(_), Pat::Ident(name)) => Some(name.ident.to_string()),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for StepClosures {
    fn visit_local(&mut self, local: &'ast Local) {
        match closure_name(local) {
            Some(name) => {
                self.names.insert(name.clone());
                self.with_owner(Owner::Closure(name), |closures| visit::visit_local(closures, local));
            }
            None => {
                if let (Some(init), Pat::Ident(name)) = (&local.init, inner_pattern(&local.pat))
                    && self.is_context(&init.expr)
                {
                    self.contexts.insert(name.ident.to_string());
                }
                visit::visit_local(self, local);
            }
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.visit_expr(&call.receiver);
        let bodies = self.takes_step_bodies(Some(&call.method), &call.args);
        let owner = if bodies { Owner::Step } else { self.owner.clone() };
        self.with_owner(owner, |closures| call.args.iter().for_each(|arg| closures.visit_expr(arg)));
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        self.visit_expr(&call.func);
        let bodies = self.takes_step_bodies(None, &call.args);
        let owner = if bodies { Owner::Step } else { self.owner.clone() };
        self.with_owner(owner, |closures| call.args.iter().for_each(|arg| closures.visit_expr(arg)));
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        if let Some(name) = path.path.get_ident() {
            self.uses.push((name.to_string(), self.owner.clone()));
        }
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        for branch in macro_input::branches(call) {
            branch.expressions.iter().for_each(|expression| self.visit_expr(expression));
        }
    }
}

fn context_name(sig: &Signature) -> Option<String> {
    match sig.inputs.first()? {
        FnArg::Typed(first) => match inner_pattern(&first.pat) {
            Pat::Ident(name) => Some(name.ident.to_string()),
            _ => None,
        },
        FnArg::Receiver(_) => None,
    }
}

/// Returns whether the method runs its closures as effects. Their outcome is recorded, and a replay
/// does not run them again.
fn runs_effects(method: &Ident) -> bool {
    ["step", "transaction", "compensate"].iter().any(|name| method == name)
}
