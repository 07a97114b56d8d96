//! Looks through syntax that does not change what an expression or a pattern stands for.

use syn::{Expr, Pat};

/// Returns the expression inside of parentheses, invisible groups and references.
pub(super) fn inner_expression(expression: &Expr) -> &Expr {
    match expression {
        Expr::Paren(paren) => inner_expression(&paren.expr),
        Expr::Group(group) => inner_expression(&group.expr),
        Expr::Reference(reference) => inner_expression(&reference.expr),
        other => other,
    }
}

/// Returns the pattern without its type and its parentheses.
pub(super) fn inner_pattern(pat: &Pat) -> &Pat {
    match pat {
        Pat::Type(typed) => inner_pattern(&typed.pat),
        Pat::Paren(paren) => inner_pattern(&paren.pat),
        other => other,
    }
}
