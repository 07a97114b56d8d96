//! Closures with a name: whether only steps use them.

use std::collections::HashSet;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprCall, ExprMethodCall, ExprPath, FnArg, Ident, Local, Macro, Pat, Signature};

use super::invocation;

/// The closures of a body whose bodies belong to its steps.
#[derive(Default)]
pub(super) struct Uses {
    /// The name of the context.
    ctx: Option<String>,
    place: Place,
    closures: HashSet<String>,
    names: Vec<(String, Place)>,
}

/// Where a name is used.
#[derive(Clone, Default, PartialEq)]
enum Place {
    #[default]
    Workflow,
    Step,
    Closure(String),
}

impl Uses {
    pub(super) fn of(sig: &Signature, block: &Block) -> Self {
        let mut uses = Self { ctx: ctx(sig), ..Self::default() };
        uses.visit_block(block);
        uses.settle();
        uses
    }

    /// Whether the binding is a closure or a future that is used in steps and nowhere else.
    pub(super) fn only_in_steps(&self, local: &Local) -> bool {
        closure(local).is_some_and(|name| self.closures.contains(&name))
    }

    /// Whether closures among the arguments are, or may be, the bodies of steps. Of a function that takes the context nobody
    /// knows here; it probably makes steps of them.
    pub(super) fn are_bodies<'e>(&self, method: Option<&Ident>, arguments: impl IntoIterator<Item = &'e Expr>) -> bool {
        let is_ctx = |argument: &Expr| match (peel(argument), &self.ctx) {
            (Expr::Path(path), Some(ctx)) => path.path.is_ident(ctx),
            _ => false,
        };
        method.is_some_and(runs_effects) || arguments.into_iter().any(is_ctx)
    }

    /// Takes out what the workflow itself uses, and then what is used by that, until nothing changes.
    fn settle(&mut self) {
        self.closures.retain(|closure| self.names.iter().any(|(name, _)| name == closure));
        loop {
            let lost = self.names.iter().find(|(name, place)| {
                let by_workflow = match place {
                    Place::Workflow => true,
                    Place::Step => false,
                    Place::Closure(user) => !self.closures.contains(user),
                };
                by_workflow && self.closures.contains(name)
            });
            match lost {
                Some((name, _)) => self.closures.remove(name),
                None => return,
            };
        }
    }

    fn at(&mut self, place: Place, visit: impl FnOnce(&mut Self)) {
        // What a closure does within a step, the step does.
        let place = if self.place == Place::Step { Place::Step } else { place };
        let before = std::mem::replace(&mut self.place, place);
        visit(self);
        self.place = before;
    }
}

/// The name of the closure or future that the binding makes.
fn closure(local: &Local) -> Option<String> {
    let init = local.init.as_ref()?;
    match (peel(&init.expr), pattern(&local.pat)) {
        (Expr::Closure(_) | Expr::Async(_), Pat::Ident(name)) => Some(name.ident.to_string()),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_local(&mut self, local: &'ast Local) {
        match closure(local) {
            Some(name) => {
                self.closures.insert(name.clone());
                self.at(Place::Closure(name), |uses| visit::visit_local(uses, local));
            }
            None => visit::visit_local(self, local),
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        self.visit_expr(&call.receiver);
        let bodies = self.are_bodies(Some(&call.method), &call.args);
        let place = if bodies { Place::Step } else { self.place.clone() };
        self.at(place, |uses| call.args.iter().for_each(|arg| uses.visit_expr(arg)));
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        self.visit_expr(&call.func);
        let bodies = self.are_bodies(None, &call.args);
        let place = if bodies { Place::Step } else { self.place.clone() };
        self.at(place, |uses| call.args.iter().for_each(|arg| uses.visit_expr(arg)));
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        if let Some(name) = path.path.get_ident() {
            self.names.push((name.to_string(), self.place.clone()));
        }
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        for branch in invocation::branches(call) {
            branch.expressions.iter().for_each(|expression| self.visit_expr(expression));
        }
    }
}

fn ctx(sig: &Signature) -> Option<String> {
    match sig.inputs.first()? {
        FnArg::Typed(first) => match pattern(&first.pat) {
            Pat::Ident(name) => Some(name.ident.to_string()),
            _ => None,
        },
        FnArg::Receiver(_) => None,
    }
}

/// Method calls that run what they are given as an effect: once, recorded, not again in a replay.
fn runs_effects(method: &Ident) -> bool {
    ["step", "transaction", "compensate"].iter().any(|name| method == name)
}

/// An expression without what changes nothing about it.
pub(super) fn peel(expression: &Expr) -> &Expr {
    match expression {
        Expr::Paren(paren) => peel(&paren.expr),
        Expr::Group(group) => peel(&group.expr),
        Expr::Reference(reference) => peel(&reference.expr),
        other => other,
    }
}

/// A pattern without its type.
pub(super) fn pattern(pat: &Pat) -> &Pat {
    match pat {
        Pat::Type(typed) => pattern(&typed.pat),
        Pat::Paren(paren) => pattern(&paren.pat),
        other => other,
    }
}
