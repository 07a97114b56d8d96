//! What tells a hash map or a hash set, and what makes its order irrelevant.

use syn::{
    Block, Expr, ExprCall, ExprMethodCall, GenericArgument, Ident, Local, Pat, PathArguments, PathSegment, Stmt, Type,
};

use super::scope::Scopes;
use super::uses::{pattern, peel};

/// Methods that go through the entries.
const ITERATIONS: [&str; 9] =
    ["iter", "iter_mut", "keys", "values", "values_mut", "into_iter", "into_keys", "into_values", "drain"];

/// Ends of an iterator chain that give the same for every order.
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

/// Functions that make one with the standard hasher, whose seed is another in each process.
const CONSTRUCTORS: [&str; 5] = ["new", "with_capacity", "from", "from_iter", "default"];

/// Whether the type is `HashMap<_, _>` or `HashSet<_>`, or a reference to one. One with a hasher of its own may well have a
/// fixed order.
pub(super) fn is_hash_type(ty: &Type) -> bool {
    named_type(ty).is_some_and(is_hash_segment)
}

fn is_hash_segment(segment: &PathSegment) -> bool {
    let types = type_arguments(segment).count();
    segment.ident == "HashMap" && types < 3 || segment.ident == "HashSet" && types < 2
}

/// A collection that has forgotten in which order it was filled.
fn is_unordered_type(ty: &Type) -> bool {
    let names = ["BTreeMap", "BTreeSet", "BinaryHeap", "HashMap", "HashSet"];
    named_type(ty).is_some_and(|segment| names.iter().any(|name| segment.ident == name))
}

fn is_float(ty: &Type) -> bool {
    named_type(ty).is_some_and(|segment| segment.ident == "f32" || segment.ident == "f64")
}

/// The last word of a type, unless the author says that it is their own.
fn named_type(ty: &Type) -> Option<&PathSegment> {
    match ty {
        Type::Group(group) => named_type(&group.elem),
        Type::Paren(paren) => named_type(&paren.elem),
        Type::Reference(reference) => named_type(&reference.elem),
        Type::Path(path) => {
            let first = path.path.segments.first()?;
            let own = ["crate", "self", "super", "Self"].iter().any(|root| first.ident == root);
            if own { None } else { path.path.segments.last() }
        }
        _ => None,
    }
}

fn type_arguments(segment: &PathSegment) -> impl Iterator<Item = &Type> {
    let list = match &segment.arguments {
        PathArguments::AngleBracketed(list) => Some(&list.args),
        _ => None,
    };
    list.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// Whether the expression is a hash map or a hash set that this body shows to be one.
pub(super) fn is_hash(scopes: &Scopes, expression: &Expr) -> bool {
    match peel(expression) {
        Expr::Path(path) => path.path.get_ident().is_some_and(|name| scopes.is_hash(name)),
        Expr::Call(call) => is_constructor(scopes, call),
        Expr::MethodCall(call) if call.method == "clone" => is_hash(scopes, &call.receiver),
        Expr::MethodCall(call) => collected(call).is_some_and(is_hash_type),
        Expr::Try(tried) => match peel(&tried.expr) {
            Expr::MethodCall(call) => collected(call)
                .and_then(named_type)
                .and_then(|result| type_arguments(result).next())
                .is_some_and(is_hash_type),
            _ => false,
        },
        _ => false,
    }
}

fn is_constructor(scopes: &Scopes, call: &ExprCall) -> bool {
    let Expr::Path(path) = peel(&call.func) else { return false };
    let segments = &path.path.segments;
    let Some(ty) = segments.len().checked_sub(2).and_then(|index| segments.get(index)) else { return false };
    let constructs = segments.last().is_some_and(|last| CONSTRUCTORS.iter().any(|name| last.ident == name));
    constructs && is_hash_segment(ty) && scopes.resolve(&path.path).is_some()
}

/// The `T` of `.collect::<T>()`.
fn collected(call: &ExprMethodCall) -> Option<&Type> {
    turbofish(call).filter(|_| call.method == "collect")
}

fn turbofish(call: &ExprMethodCall) -> Option<&Type> {
    match call.turbofish.as_ref()?.args.first()? {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    }
}

/// Whether the method goes through the entries of its receiver.
pub(super) fn iterates(method: &Ident) -> bool {
    ITERATIONS.iter().any(|name| method == name)
}

/// Whether the call gives the same for every order of what it is called on.
pub(super) fn ends_unordered(call: &ExprMethodCall) -> bool {
    let sums = call.method == "sum" || call.method == "product";
    UNORDERED_ENDS.iter().any(|name| call.method == name)
        // Floats do not add up to the same in every order.
        || sums && !turbofish(call).is_some_and(is_float)
        || collected(call).is_some_and(is_unordered_type)
}

/// Whether what the binding collects is in an order of its own afterwards: by its type, or because a later statement of the
/// same block sorts it.
pub(super) fn is_ordered_later(local: &Local, block: &Block, index: usize) -> bool {
    let by_type = match &local.pat {
        Pat::Type(typed) => is_unordered_type(&typed.ty),
        _ => false,
    };
    let Pat::Ident(name) = pattern(&local.pat) else { return false };
    by_type || block.stmts.iter().skip(index + 1).any(|statement| sorts(statement, &name.ident))
}

fn sorts(statement: &Stmt, name: &Ident) -> bool {
    let Stmt::Expr(Expr::MethodCall(call), _) = statement else { return false };
    let Expr::Path(path) = peel(&call.receiver) else { return false };
    path.path.is_ident(name) && call.method.to_string().starts_with("sort")
}
