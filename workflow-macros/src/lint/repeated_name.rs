//! The rule `repeated_name`: finds two calls of a body that have the same literal name.
//!
//! Such calls get the keys `name` and `name:1` in the order in which they are made. Calls in loops
//! repeat their names by intention, and of two branches that exclude each other only one is taken.

use std::collections::{HashMap, HashSet};

use quote::ToTokens;
use syn::visit::{self, Visit};
use syn::{
    Arm, Block, Error, Expr, ExprAsync, ExprBlock, ExprBreak, ExprClosure, ExprContinue, ExprForLoop, ExprIf, ExprLet,
    ExprLit, ExprLoop, ExprMatch, ExprMethodCall, ExprReturn, ExprWhile, FnArg, Ident, Item, Lit, LitStr, Local, Macro,
    Pat, PatIdent, Signature,
};

use super::macro_input;
use super::rule::Rule;
use super::syntax::inner_expression;

/// Returns an error for each call whose name an earlier call has.
pub(super) fn check(sig: &Signature, block: &Block) -> Vec<Error> {
    let mut calls = Calls { seen: Some(HashSet::new()), ..Calls::default() };
    for argument in &sig.inputs {
        if let FnArg::Typed(argument) = argument {
            calls.bind(&argument.pat);
        }
    }
    calls.visit_block(block);
    calls.errors
}

/// A call, as far as it decides about the key: the variable and the text of its receiver, its name,
/// and whether it opens a scope.
type Call = (usize, String, String, bool);

/// The calls that may have been made before the code being visited.
#[derive(Default)]
struct Calls {
    /// `None` behind a `return` and the like.
    seen: Option<HashSet<Call>>,
    variables: HashMap<String, Variable>,
    /// The number of the variables so far.
    count: usize,
    /// The number of loops and closures around the code.
    depth: usize,
    errors: Vec<Error>,
}

#[derive(Clone, Copy, Default)]
struct Variable {
    number: usize,
    /// The number of loops and closures around its declaration.
    depth: usize,
}

impl Calls {
    fn bind(&mut self, pat: &Pat) {
        Names(self).visit_pat(pat);
    }

    /// Visits code whose variables end with it.
    fn scoped(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = self.variables.clone();
        visit(self);
        self.variables = before;
    }

    /// Visits code that may run several times, or not at all.
    fn repeated(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = self.seen.clone();
        self.depth += 1;
        self.scoped(visit);
        self.depth -= 1;
        self.seen = before;
    }

    /// Visits code that ends where it is left early.
    fn leavable(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = self.seen.clone();
        visit(self);
        self.seen = self.seen.take().or(before);
    }

    /// Visits branches of which one is taken.
    fn exclusive<'b>(&mut self, branches: impl IntoIterator<Item = Box<dyn FnOnce(&mut Self) + 'b>>) {
        let before = self.seen.take();
        let mut after = None;
        for branch in branches {
            self.seen.clone_from(&before);
            self.scoped(branch);
            after = match (after, self.seen.take()) {
                (Some(mut all), Some(more)) => {
                    HashSet::extend(&mut all, more);
                    Some(all)
                }
                (all, more) => all.or(more),
            };
        }
        self.seen = after;
    }

    fn record(&mut self, call: &ExprMethodCall, name: &LitStr) {
        let Some(root) = root(&call.receiver) else { return };
        let variable = self.variables.get(&root.to_string()).copied().unwrap_or_default();
        // In a loop, only calls of a context that the loop makes for itself are compared.
        if variable.depth < self.depth {
            return;
        }
        let Some(seen) = &mut self.seen else { return };
        let receiver = inner_expression(&call.receiver).to_token_stream().to_string();
        if !seen.insert((variable.number, receiver, name.value(), call.method == "scope")) {
            let subject = format!("a second call named `{}`", name.value());
            let message = Rule::RepeatedName.message(&subject, Rule::RepeatedName.fix());
            self.errors.push(Error::new_spanned(name, message));
        }
    }
}

/// Returns a call of a context that takes its key from the order of the calls, and its name. The
/// expression is that call, or the one that names a child.
fn named_call(expression: &ExprMethodCall) -> Option<(&ExprMethodCall, &LitStr)> {
    let (call, arguments) = match expression.method.to_string().as_str() {
        "step" | "transaction" => (expression, 2..=2),
        "compensate" => (expression, 2..=3),
        "scope" => (expression, 1..=1),
        "name" => (child(&expression.receiver)?, 1..=1),
        _ => return None,
    };
    match inner_expression(expression.args.first()?) {
        Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) if arguments.contains(&expression.args.len()) => {
            Some((call, name))
        }
        _ => None,
    }
}

/// Returns the call whose options a chain of methods sets, if it starts a child.
fn child(receiver: &Expr) -> Option<&ExprMethodCall> {
    match inner_expression(receiver) {
        Expr::MethodCall(call) if call.method == "child" || call.method == "child_by_name" => Some(call),
        Expr::MethodCall(call) => child(&call.receiver),
        _ => None,
    }
}

/// Returns the variable with which a receiver begins, such as the `ctx` of `ctx.scope("a")`.
fn root(receiver: &Expr) -> Option<&Ident> {
    match inner_expression(receiver) {
        Expr::Path(path) => path.path.get_ident(),
        Expr::MethodCall(call) => root(&call.receiver),
        Expr::Field(field) => root(&field.base),
        Expr::Try(tried) => root(&tried.expr),
        Expr::Await(awaited) => root(&awaited.base),
        _ => None,
    }
}

impl<'ast> Visit<'ast> for Calls {
    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        visit::visit_expr_method_call(self, call);
        if let Some((call, name)) = named_call(call) {
            self.record(call, name);
        }
    }

    fn visit_block(&mut self, block: &'ast Block) {
        self.scoped(|calls| visit::visit_block(calls, block));
    }

    fn visit_local(&mut self, local: &'ast Local) {
        if let Some(init) = &local.init {
            self.visit_expr(&init.expr);
            if let Some((_, otherwise)) = &init.diverge {
                let before = self.seen.clone();
                self.visit_expr(otherwise);
                self.seen = before;
            }
        }
        self.bind(&local.pat);
    }

    fn visit_expr_let(&mut self, condition: &'ast ExprLet) {
        self.visit_expr(&condition.expr);
        self.bind(&condition.pat);
    }

    fn visit_expr_if(&mut self, choice: &'ast ExprIf) {
        self.scoped(|calls| {
            calls.visit_expr(&choice.cond);
            calls.exclusive([
                Box::new(|calls: &mut Calls| calls.visit_block(&choice.then_branch)) as Box<dyn FnOnce(&mut Calls)>,
                Box::new(|calls| {
                    if let Some((_, otherwise)) = &choice.else_branch {
                        calls.visit_expr(otherwise);
                    }
                }),
            ]);
        });
    }

    fn visit_expr_match(&mut self, choice: &'ast ExprMatch) {
        self.visit_expr(&choice.expr);
        self.exclusive(
            choice.arms.iter().map(|arm| -> Box<dyn FnOnce(&mut Calls)> { Box::new(|calls| calls.visit_arm(arm)) }),
        );
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        self.bind(&arm.pat);
        visit::visit_arm(self, arm);
    }

    fn visit_expr_return(&mut self, end: &'ast ExprReturn) {
        visit::visit_expr_return(self, end);
        self.seen = None;
    }

    fn visit_expr_break(&mut self, end: &'ast ExprBreak) {
        visit::visit_expr_break(self, end);
        self.seen = None;
    }

    fn visit_expr_continue(&mut self, _: &'ast ExprContinue) {
        self.seen = None;
    }

    fn visit_expr_async(&mut self, block: &'ast ExprAsync) {
        self.leavable(|calls| visit::visit_expr_async(calls, block));
    }

    fn visit_expr_block(&mut self, block: &'ast ExprBlock) {
        match &block.label {
            Some(_) => self.leavable(|calls| visit::visit_expr_block(calls, block)),
            None => visit::visit_expr_block(self, block),
        }
    }

    fn visit_expr_for_loop(&mut self, each: &'ast ExprForLoop) {
        self.visit_expr(&each.expr);
        self.repeated(|calls| {
            calls.bind(&each.pat);
            calls.visit_block(&each.body);
        });
    }

    fn visit_expr_while(&mut self, repeated: &'ast ExprWhile) {
        self.repeated(|calls| visit::visit_expr_while(calls, repeated));
    }

    fn visit_expr_loop(&mut self, repeated: &'ast ExprLoop) {
        self.repeated(|calls| visit::visit_expr_loop(calls, repeated));
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        self.repeated(|calls| {
            closure.inputs.iter().for_each(|input| calls.bind(input));
            calls.visit_expr(&closure.body);
        });
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        let name = call.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
        let mut branches = macro_input::branches(call);
        if name.starts_with("select") {
            // The futures of all branches are made, and one handler is run.
            let handlers: Vec<_> = branches.iter_mut().map(|branch| branch.expressions.pop()).collect();
            let futures = branches.iter().flat_map(|branch| &branch.expressions);
            futures.for_each(|future| Calls::visit_expr(self, future));
            self.exclusive(branches.iter().zip(&handlers).map(|(branch, handler)| -> Box<dyn FnOnce(&mut Calls)> {
                Box::new(|calls| {
                    branch.pat.iter().for_each(|pat| calls.bind(pat));
                    handler.iter().for_each(|handler| Calls::visit_expr(calls, handler));
                })
            }));
            return;
        }
        branches.iter().flat_map(|branch| &branch.expressions).for_each(|input| Calls::visit_expr(self, input));
        if ["panic", "unreachable", "todo", "unimplemented", "bail"].contains(&name.as_str()) {
            self.seen = None;
        }
    }

    /// The code of an item is not part of the workflow.
    fn visit_item(&mut self, _: &'ast Item) {}
}

/// Gives each variable of a pattern a number of its own.
struct Names<'a>(&'a mut Calls);

impl Visit<'_> for Names<'_> {
    fn visit_pat_ident(&mut self, name: &PatIdent) {
        let calls = &mut *self.0;
        calls.count += 1;
        let variable = Variable { number: calls.count, depth: calls.depth };
        calls.variables.insert(name.ident.to_string(), variable);
        if let Some((_, inner)) = &name.subpat {
            self.visit_pat(inner);
        }
    }
}
