//! The rule `map_order`: finds iterations over hash maps whose order can affect the workflow.

use syn::{Block, Expr, ExprCall, ExprMethodCall, GenericArgument, Ident, Local, Pat, Stmt, Type};

use super::hash_types::{ignores_insertion_order, is_float, is_hash_segment, is_hash_type, named_type, type_arguments};
use super::scope::Scopes;
use super::syntax::{inner_expression, inner_pattern};

/// Methods that iterate over the entries.
const ITERATIONS: [&str; 9] =
    ["iter", "iter_mut", "keys", "values", "values_mut", "into_iter", "into_keys", "into_values", "drain"];

/// Methods of a context that iterate over an argument and number its items.
const ITERATIONS_OF_ARGUMENTS: [&str; 2] = ["map", "race"];

/// Functions that keep the items of an argument in their order.
const ITERATING_FUNCTIONS: [&str; 4] = ["join_all", "try_join_all", "select_all", "iter"];

/// Methods at the end of an iterator chain whose result is the same for every order.
const UNORDERED_ENDS: [&str; 13] = [
    "all",
    "any",
    "count",
    "len",
    "max",
    "min",
    "is_empty",
    "sorted",
    "sorted_by",
    "sorted_by_key",
    "sorted_by_cached_key",
    "sorted_unstable",
    "sorted_unstable_by",
];

/// Functions that create a map or set with the standard hasher, whose seed differs per process.
const CONSTRUCTORS: [&str; 5] = ["new", "with_capacity", "from", "from_iter", "default"];

/// Returns whether the body shows that the expression is a hash map or a hash set.
pub(super) fn is_hash(scopes: &Scopes, expression: &Expr) -> bool {
    match inner_expression(expression) {
        Expr::Path(path) => path.path.get_ident().is_some_and(|name| scopes.is_hash(name)),
        Expr::Call(call) => is_constructor(scopes, call),
        Expr::MethodCall(call) if call.method == "clone" => is_hash(scopes, &call.receiver),
        Expr::MethodCall(call) => collected_type(call).is_some_and(is_hash_type),
        Expr::Try(tried) => match inner_expression(&tried.expr) {
            Expr::MethodCall(call) => collected_type(call)
                .and_then(named_type)
                .and_then(|result| type_arguments(result).next())
                .is_some_and(is_hash_type),
            _ => false,
        },
        _ => false,
    }
}

fn is_constructor(scopes: &Scopes, call: &ExprCall) -> bool {
    let Expr::Path(path) = inner_expression(&call.func) else { return false };
    let segments = &path.path.segments;
    let Some(ty) = segments.len().checked_sub(2).and_then(|index| segments.get(index)) else { return false };
    let constructs = segments.last().is_some_and(|last| CONSTRUCTORS.iter().any(|name| last.ident == name));
    constructs && is_hash_segment(ty) && scopes.resolve(&path.path).is_some()
}

/// Returns the `T` of `.collect::<T>()`.
fn collected_type(call: &ExprMethodCall) -> Option<&Type> {
    turbofish(call).filter(|_| call.method == "collect")
}

fn turbofish(call: &ExprMethodCall) -> Option<&Type> {
    match call.turbofish.as_ref()?.args.first()? {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }
}

/// Returns whether the method iterates over the entries of its receiver.
pub(super) fn iterates(method: &Ident) -> bool {
    ITERATIONS.iter().any(|name| method == name)
}

/// Returns whether the method iterates over its first argument.
pub(super) fn iterates_arguments(method: &Ident) -> bool {
    ITERATIONS_OF_ARGUMENTS.iter().any(|name| method == name)
}

/// Returns whether the called function keeps the items of its argument in their order.
pub(super) fn is_iterating_function(function: &Expr) -> bool {
    let Expr::Path(path) = inner_expression(function) else { return false };
    path.path.segments.last().is_some_and(|last| ITERATING_FUNCTIONS.iter().any(|name| last.ident == name))
}

/// Returns whether the call has the same result for every order of its receiver's items.
pub(super) fn ignores_order(call: &ExprMethodCall) -> bool {
    let sums = call.method == "sum" || call.method == "product";
    UNORDERED_ENDS.iter().any(|name| call.method == name)
        // The sum of floats depends on their order, because each addition rounds.
        || sums && !turbofish(call).is_some_and(is_float)
        || collected_type(call).is_some_and(ignores_insertion_order)
}

/// Returns whether the order in which the binding collects its items is lost afterwards.
///
/// The type of the binding may ignore the order, or a later statement of the block may sort the
/// items.
pub(super) fn is_ordered_later(local: &Local, block: &Block, index: usize) -> bool {
    let by_type = match &local.pat {
        Pat::Type(typed) => ignores_insertion_order(&typed.ty),
        _ => false,
    };
    let Pat::Ident(name) = inner_pattern(&local.pat) else { return false };
    by_type || block.stmts.iter().skip(index + 1).any(|statement| sorts(statement, &name.ident))
}

fn sorts(statement: &Stmt, name: &Ident) -> bool {
    let Stmt::Expr(Expr::MethodCall(call), _) = statement else { return false };
    let Expr::Path(path) = inner_expression(&call.receiver) else { return false };
    path.path.is_ident(name) && call.method.to_string().starts_with("sort")
}
