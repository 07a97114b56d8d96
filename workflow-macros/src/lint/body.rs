//! The way through a body: what belongs to the workflow itself is judged, what belongs to its steps is not.

use quote::ToTokens;
use syn::ext::IdentExt;
use syn::visit::{self, Visit};
use syn::{
    Arm, Block, Error, Expr, ExprAssign, ExprAsync, ExprCall, ExprClosure, ExprForLoop, ExprIf, ExprLet,
    ExprMethodCall, ExprPath, ExprWhile, FnArg, Item, ItemStatic, Local, Macro, Path, Signature, StaticMutability,
    Stmt,
};

use super::invocation;
use super::map_order::{self, is_hash};
use super::rule::{Allowed, Rule};
use super::scope::Scopes;
use super::uses::{Uses, pattern, peel};

/// Judges the body of the function with this signature.
pub(super) fn check(sig: &Signature, block: &Block, allowed: &Allowed) -> Vec<Error> {
    let mut body = Body {
        allowed,
        uses: Uses::of(sig, block),
        scopes: Scopes::default(),
        handed_over: false,
        in_item: false,
        order_is_lost: false,
        errors: Vec::new(),
    };
    body.scoped(|body| {
        for argument in &sig.inputs {
            if let FnArg::Typed(argument) = argument {
                body.scopes.bind(&argument.pat, map_order::is_hash_type(&argument.ty));
            }
        }
        body.visit_block(block);
    });
    body.errors
}

struct Body<'a> {
    allowed: &'a Allowed,
    uses: Uses,
    scopes: Scopes,
    /// In an argument of a step: the closures in it are run as effects.
    handed_over: bool,
    /// In an item within the body, which is not the workflow.
    in_item: bool,
    /// What is iterated next ends where its order does not matter.
    order_is_lost: bool,
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

    fn arguments<'e>(&mut self, arguments: impl IntoIterator<Item = &'e Expr>, handed_over: bool) {
        let before = self.handed_over;
        self.handed_over |= handed_over;
        arguments.into_iter().for_each(|argument| self.visit_expr(argument));
        self.handed_over = before;
    }

    fn iteration(&mut self, tokens: impl ToTokens, map: &Expr) {
        let subject = match peel(map) {
            Expr::Path(path) => format!("`{}`", written(&path.path)),
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
                body.order_is_lost =
                    matches!(statement, Stmt::Local(local) if map_order::is_ordered_later(local, block, index));
                body.visit_stmt(statement);
                body.order_is_lost = false;
            }
        });
    }

    fn visit_local(&mut self, local: &'ast Local) {
        let is_hash = local.init.as_ref().is_some_and(|init| is_hash(&self.scopes, &init.expr));
        if let Some(init) = &local.init {
            let handed_over = self.uses.only_in_steps(local);
            self.arguments([&*init.expr], handed_over);
            if let Some((_, otherwise)) = &init.diverge {
                self.visit_expr(otherwise);
            }
        }
        self.scopes.bind(&local.pat, is_hash);
    }

    fn visit_expr(&mut self, expression: &'ast Expr) {
        // Only what passes an iterator on keeps the word about its order.
        if !matches!(expression, Expr::MethodCall(_) | Expr::Try(_) | Expr::Await(_) | Expr::Paren(_) | Expr::Group(_))
        {
            self.order_is_lost = false;
        }
        visit::visit_expr(self, expression);
    }

    fn visit_expr_method_call(&mut self, call: &'ast ExprMethodCall) {
        let order_is_lost = std::mem::take(&mut self.order_is_lost) || map_order::ends_unordered(call);
        if map_order::iterates(&call.method) && is_hash(&self.scopes, &call.receiver) && !order_is_lost {
            self.iteration(call, &call.receiver);
        }
        self.order_is_lost = order_is_lost;
        self.visit_expr(&call.receiver);
        self.order_is_lost = false;
        let bodies = self.uses.are_bodies(Some(&call.method), &call.args);
        self.arguments(&call.args, bodies);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        self.visit_expr(&call.func);
        let bodies = self.uses.are_bodies(None, &call.args);
        self.arguments(&call.args, bodies);
    }

    fn visit_expr_closure(&mut self, closure: &'ast ExprClosure) {
        if self.handed_over {
            return;
        }
        self.scoped(|body| {
            closure.inputs.iter().for_each(|input| body.scopes.bind(input, false));
            body.visit_expr(&closure.body);
        });
    }

    fn visit_expr_async(&mut self, block: &'ast ExprAsync) {
        if !self.handed_over {
            visit::visit_expr_async(self, block);
        }
    }

    fn visit_expr_path(&mut self, path: &'ast ExprPath) {
        if path.qself.is_none()
            && let Some(segments) = self.scopes.resolve(&path.path)
            && let Some(rule) = Rule::of_path(&segments)
        {
            self.refuse(rule, path, &format!("`{}`", written(&path.path)));
        }
    }

    fn visit_expr_for_loop(&mut self, each: &'ast ExprForLoop) {
        if is_hash(&self.scopes, &each.expr) {
            self.iteration(&each.expr, &each.expr);
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
        self.scopes.bind(pattern(&condition.pat), false);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        if let Some(fix) = unbiased_select(&self.scopes, call) {
            self.refuse_with(Rule::UnbiasedSelect, &call.path, &format!("`{}!`", written(&call.path)), fix);
        }
        for branch in invocation::branches(call) {
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
            self.refuse(Rule::StaticMut, &item.ident, &format!("the `static mut {}`", item.ident));
        }
    }
}

/// What to do about tokio's `select!` without `biased;`, or about that of futures, which is always in random order.
fn unbiased_select(scopes: &Scopes, call: &Macro) -> Option<&'static str> {
    let segments = scopes.resolve(&call.path)?;
    let fix = match segments.split_first()? {
        (name, []) if name == "select" => Rule::UnbiasedSelect.fix(),
        (krate, [.., name]) if name == "select" => match krate.as_str() {
            "tokio" => "write `biased;` first",
            "futures" | "futures_util" => "use `futures::select_biased!`",
            _ => return None,
        },
        _ => return None,
    };
    (!invocation::is_biased(call)).then_some(fix)
}

/// A path as the author wrote it, without generic arguments.
fn written(path: &Path) -> String {
    let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.unraw().to_string()).collect();
    words.join("::")
}
