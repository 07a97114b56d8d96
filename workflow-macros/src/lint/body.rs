//! Visits a body and applies the rules to the workflow's own code, not to the code of its steps.

use quote::ToTokens;
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{
    Arm, Block, Error, Expr, ExprAssign, ExprAsync, ExprCall, ExprClosure, ExprForLoop, ExprIf, ExprLet,
    ExprMethodCall, ExprPath, ExprWhile, FnArg, Item, ItemStatic, Local, Macro, Path, Signature, StaticMutability,
    Stmt,
};

use super::closures::StepClosures;
use super::hash_types::is_hash_type;
use super::macro_input;
use super::map_order::{self, is_hash};
use super::rule::{Allowed, Rule};
use super::scope::Scopes;
use super::syntax::{inner_expression, inner_pattern};

/// Checks the body of the function with this signature.
pub(super) fn check(sig: &Signature, block: &Block, allowed: &Allowed) -> Vec<Error> {
    let mut body = Body {
        allowed,
        step_closures: StepClosures::find(sig, block),
        scopes: Scopes::default(),
        in_step: false,
        in_item: false,
        order_is_irrelevant: false,
        errors: Vec::new(),
    };
    body.scoped(|body| {
        for argument in &sig.inputs {
            if let FnArg::Typed(argument) = argument {
                body.scopes.bind(&argument.pat, is_hash_type(&argument.ty));
            }
        }
        body.visit_block(block);
    });
    body.errors
}

struct Body<'a> {
    allowed: &'a Allowed,
    step_closures: StepClosures,
    scopes: Scopes,
    /// Set inside the arguments of a step. No rule applies to closures there, which run as effects.
    in_step: bool,
    /// Set inside an item that the body declares. Its code is not part of the workflow.
    in_item: bool,
    /// Set if the order of the next iteration does not affect the result.
    order_is_irrelevant: bool,
    errors: Vec<Error>,
}

impl Body<'_> {
    fn refuse(&mut self, rule: Rule, tokens: impl ToTokens, subject: &str) {
        self.refuse_with(rule, tokens, subject, rule.fix());
    }

    fn refuse_with(&mut self, rule: Rule, tokens: impl ToTokens, subject: &str, fix: &str) {
        if !self.allowed.contains(rule) && (!self.in_item || rule == Rule::StaticMut) {
            self.errors.push(Error::new_spanned(tokens, rule.message(subject, fix)));
        }
    }

    fn scoped(&mut self, visit: impl FnOnce(&mut Self)) {
        self.scopes.enter();
        visit(self);
        self.scopes.leave();
    }

    fn visit_arguments<'e>(&mut self, arguments: impl IntoIterator<Item = &'e Expr>, in_step: bool) {
        let before = self.in_step;
        self.in_step |= in_step;
        arguments.into_iter().for_each(|argument| self.visit_expr(argument));
        self.in_step = before;
    }

    /// Refuses hash maps among the arguments of a call that iterates over them.
    fn refuse_arguments<'a>(&mut self, arguments: impl IntoIterator<Item = &'a Expr>) {
        for argument in arguments {
            if is_hash(&self.scopes, argument) {
                self.refuse_iteration(argument, argument);
            }
        }
    }

    fn refuse_iteration(&mut self, tokens: impl ToTokens, map: &Expr) {
        let subject = match inner_expression(map) {
            Expr::Path(path) => format!("`{}`", path_text(&path.path)),
            _ => "a hash map or hash set".to_owned(),
        };
        self.refuse(Rule::MapOrder, tokens, &subject);
    }
}

impl<'ast> Visit<'ast> for Body<'_> {
    fn visit_block(&mut self, block: &'ast Block) {
        self.scoped(|body| {
            body.scopes.declare(block);
            for (index, statement) in block.stmts.iter().enumerate() {
                body.order_is_irrelevant =
                    matches!(statement, Stmt::Local(local) if map_order::is_ordered_later(local, block, index));
                body.visit_stmt(statement);
                body.order_is_irrelevant = false;
            }
        });
    }

    fn visit_local(&mut self, local: &'ast Local) {
        let is_hash = local.init.as_ref().is_some_and(|init| is_hash(&self.scopes, &init.expr));
        if let Some(init) = &local.init {
            let in_step = self.step_closures.contains(local);
            self.visit_arguments([&*init.expr], in_step);
            if let Some((_, otherwise)) = &init.diverge {
                self.visit_expr(otherwise);
            }
        }
        self.scopes.bind(&local.pat, is_hash);
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        // Only these expressions pass an iterator on, and with it the knowledge about its order.
        if !matches!(expression, Expr::MethodCall(_) | Expr::Try(_) | Expr::Await(_) | Expr::Paren(_) | Expr::Group(_))
        {
            self.order_is_irrelevant = false;
        }
        visit::visit_expr(self, expression);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let order_is_irrelevant = std::mem::take(&mut self.order_is_irrelevant) || map_order::ignores_order(call);
        if map_order::iterates_arguments(&call.method) {
            self.refuse_arguments(&call.args);
        }
        if map_order::iterates(&call.method) && is_hash(&self.scopes, &call.receiver) && !order_is_irrelevant {
            self.refuse_iteration(call, &call.receiver);
        }
        if reads_clock(&self.scopes, call) {
            self.refuse(Rule::WallClock, call, "`UNIX_EPOCH.elapsed()`");
        }
        self.order_is_irrelevant = order_is_irrelevant;
        self.visit_expr(&call.receiver);
        self.order_is_irrelevant = false;
        let bodies = self.step_closures.takes_step_bodies(Some(&call.method), &call.args);
        self.visit_arguments(&call.args, bodies);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        self.visit_expr(&call.func);
        if map_order::is_iterating_function(&call.func) {
            self.refuse_arguments(&call.args);
        }
        let bodies = self.step_closures.takes_step_bodies(None, &call.args);
        self.visit_arguments(&call.args, bodies);
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        if self.in_step {
            return;
        }
        self.scoped(|body| {
            closure.inputs.iter().for_each(|input| body.scopes.bind(input, false));
            body.visit_expr(&closure.body);
        });
    }

    fn visit_expr_async(&mut self, block: &'ast ExprAsync) {
        if !self.in_step {
            visit::visit_expr_async(self, block);
        }
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        if path.qself.is_none()
            && let Some(segments) = self.scopes.resolve(&path.path)
            && let Some(rule) = Rule::for_path(&segments)
        {
            self.refuse(rule, path, &format!("`{}`", path_text(&path.path)));
        }
    }

    fn visit_expr_for_loop(&mut self, each: &'ast ExprForLoop) {
        if is_hash(&self.scopes, &each.expr) {
            self.refuse_iteration(&each.expr, &each.expr);
        }
        self.visit_expr(&each.expr);
        self.scoped(|body| {
            body.scopes.bind(&each.pat, false);
            body.visit_block(&each.body);
        });
    }

    fn visit_expr_assign(&mut self, assign: &'ast ExprAssign) {
        if let Expr::Path(path) = &*assign.left
            && let Some(name) = path.path.get_ident()
            && is_hash(&self.scopes, &assign.right)
        {
            self.scopes.assign_hash(name);
        }
        visit::visit_expr_assign(self, assign);
    }

    fn visit_expr_if(&mut self, choice: &'ast ExprIf) {
        self.scoped(|body| visit::visit_expr_if(body, choice));
    }

    fn visit_expr_while(&mut self, repeated: &'ast ExprWhile) {
        self.scoped(|body| visit::visit_expr_while(body, repeated));
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        self.scoped(|body| {
            body.scopes.bind(&arm.pat, false);
            visit::visit_arm(body, arm);
        });
    }

    fn visit_expr_let(&mut self, condition: &'ast ExprLet) {
        self.visit_expr(&condition.expr);
        self.scopes.bind(inner_pattern(&condition.pat), false);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        if let Some(fix) = unbiased_select(&self.scopes, call) {
            self.refuse_with(Rule::UnbiasedSelect, &call.path, &format!("`{}!`", path_text(&call.path)), fix);
        }
        for branch in macro_input::branches(call) {
            self.scoped(|body| {
                if let Some(pat) = &branch.pat {
                    body.scopes.bind(pat, false);
                }
                branch.expressions.iter().for_each(|expression| body.visit_expr(expression));
            });
        }
    }

    fn visit_item(&mut self, item: &'ast Item) {
        let before = std::mem::replace(&mut self.in_item, true);
        visit::visit_item(self, item);
        self.in_item = before;
    }

    fn visit_item_static(&mut self, item: &'ast ItemStatic) {
        if matches!(item.mutability, StaticMutability::Mut(_)) {
            self.refuse(Rule::StaticMut, &item.ident, &format!("`static mut {}`", item.ident));
        }
    }
}

/// Returns whether the call is `UNIX_EPOCH.elapsed()`, which reads the clock without naming it.
fn reads_clock(scopes: &Scopes, call: &ExprMethodCall) -> bool {
    let Expr::Path(path) = inner_expression(&call.receiver) else { return false };
    let epoch = path.path.segments.last().is_some_and(|last| last.ident == "UNIX_EPOCH");
    epoch && call.method == "elapsed" && scopes.resolve(&path.path).is_some()
}

/// Returns what to do about a `select!` or `join!` that polls its branches in changing order, or
/// `None`.
///
/// The `select!` of `tokio` polls in random order, and its `join!` begins each poll with another
/// branch, unless they begin with `biased;`. The `select!` of `futures` is always random.
fn unbiased_select(scopes: &Scopes, call: &Macro) -> Option<&'static str> {
    let segments = scopes.resolve(&call.path)?;
    let fix = match segments.split_first()? {
        (krate, [.., name]) if krate == "tokio" && (name == "join" || name == "try_join") => {
            "use `futures::join!` or `futures::try_join!`"
        }
        (name, []) if name == "select" => Rule::UnbiasedSelect.fix(),
        (krate, [.., name]) if name == "select" => match krate.as_str() {
            "tokio" => "write `biased;` before its first branch",
            "futures" | "futures_util" => "use `futures::select_biased!`",
            _ => return None,
        },
        _ => return None,
    };
    (!macro_input::is_biased(call)).then_some(fix)
}

/// Returns a path as the author wrote it, without generic arguments.
fn path_text(path: &Path) -> String {
    let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.unraw().to_string()).collect();
    words.join("::")
}
