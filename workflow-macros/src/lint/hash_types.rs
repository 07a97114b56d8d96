//! Recognizes types whose iteration order differs between processes, and types that ignore order.

use syn::{GenericArgument, PathArguments, PathSegment, Type};

/// Returns whether the type is `HashMap<_, _>` or `HashSet<_>`, or a reference to one.
///
/// A type with its own hasher does not count, because its order may be fixed.
pub(super) fn is_hash_type(ty: &Type) -> bool {
    named_type(ty).is_some_and(is_hash_segment)
}

pub(super) fn is_hash_segment(segment: &PathSegment) -> bool {
    let types = type_arguments(segment).count();
    segment.ident == "HashMap" && types < 3 || segment.ident == "HashSet" && types < 2
}

/// Returns whether the type is a collection that does not depend on the order of its insertions.
pub(super) fn ignores_insertion_order(ty: &Type) -> bool {
    let names = ["BTreeMap", "BTreeSet", "BinaryHeap", "HashMap", "HashSet"];
    named_type(ty).is_some_and(|segment| names.iter().any(|name| segment.ident == name))
}

pub(super) fn is_float(ty: &Type) -> bool {
    named_type(ty).is_some_and(|segment| segment.ident == "f32" || segment.ident == "f64")
}

/// Returns the last segment of a type's path, or `None` if the path begins in the author's crate.
pub(super) fn named_type(ty: &Type) -> Option<&PathSegment> {
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

pub(super) fn type_arguments(segment: &PathSegment) -> impl Iterator<Item = &Type> {
    let list = match &segment.arguments {
        PathArguments::AngleBracketed(list) => Some(&list.args),
        _ => None,
    };
    list.into_iter().flatten().filter_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}
