//! The checks on the type: what is left of it is a [`Definition`] that `expand` can write down.

use proc_macro2::Span;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Ident, LitStr, Path};

use super::advice::{Advice, Place};
use super::options::Options;
use crate::model::Errors;

/// An error type that expands.
pub(super) struct Definition {
    /// Where the SDK is.
    pub(super) krate: Path,
    /// `None`: the path of the type.
    pub(super) name: Option<LitStr>,
    pub(super) ident: Ident,
    pub(super) shapes: Vec<Shape>,
}

/// A variant, or the whole of a struct.
pub(super) struct Shape {
    pub(super) variant: Option<Ident>,
    pub(super) advice: Advice,
}

/// The messages, and the type as it was probably meant, if that compiles.
pub(super) type Refused = (Error, Option<Box<Definition>>);

pub(super) fn check(input: &DeriveInput) -> Result<Definition, Refused> {
    let mut errors = Errors::default();
    let options = Options::check(&input.attrs, &mut errors);
    let free = not_generic(input, &mut errors);
    let shapes = shapes(input, &mut errors);
    let definition = free.and(shapes).map(|shapes| Definition {
        krate: options.krate,
        name: options.name,
        ident: input.ident.clone(),
        shapes,
    });
    match (errors.into_error(), definition) {
        (None, Some(definition)) => Ok(definition),
        (Some(error), definition) => Err((error, definition.map(Box::new))),
        (None, None) => {
            debug_assert!(false, "a check refused a type without a message");
            Err((Error::new(Span::call_site(), "this type cannot be a `StepError`"), None))
        }
    }
}

fn not_generic(input: &DeriveInput, errors: &mut Errors) -> Option<()> {
    let generics = &input.generics;
    let message = if generics.type_params().next().is_some() || generics.const_params().next().is_some() {
        "an error type of steps cannot be generic: its values are read back by its name, so write one type for each"
    } else {
        "an error type of steps owns its data, for it is stored: take `String` for `&str`, `T` for `&T`"
    };
    if !generics.params.is_empty() {
        errors.refuse(&generics.params, message);
        return None;
    }
    if let Some(clause) = &generics.where_clause {
        errors.refuse(clause, "an error type of steps takes no `where` clause: its types are concrete");
        return None;
    }
    Some(())
}

fn shapes(input: &DeriveInput, errors: &mut Errors) -> Option<Vec<Shape>> {
    match &input.data {
        Data::Struct(data) => {
            plain_fields(&data.fields, errors);
            let advice = Advice::check(&input.attrs, Place::Fields(&input.ident, &data.fields), errors);
            Some(vec![Shape { variant: None, advice: advice.unwrap_or(Advice::Policy) }])
        }
        Data::Enum(data) => {
            let default = Advice::check(&input.attrs, Place::Type, errors).unwrap_or(Advice::Policy);
            let mut shapes = Vec::new();
            for variant in &data.variants {
                refuse_all(&variant.attrs, "step_error", "it names the type: move it there", errors);
                plain_fields(&variant.fields, errors);
                let advice = Advice::check(&variant.attrs, Place::Fields(&variant.ident, &variant.fields), errors);
                shapes.push(Shape {
                    variant: Some(variant.ident.clone()),
                    advice: advice.unwrap_or_else(|| default.clone()),
                });
            }
            Some(shapes)
        }
        Data::Union(data) => {
            errors.refuse(data.union_token, "`StepError` is derived for an enum or a struct: a union cannot be stored");
            None
        }
    }
}

/// The compiler lets our attributes stand on fields too, and would ignore them there.
fn plain_fields(fields: &Fields, errors: &mut Errors) {
    for field in fields {
        let place = "it stands on the variant, or on the struct, and names the field: `#[retry(after = field)]`";
        refuse_all(&field.attrs, "retry", place, errors);
        refuse_all(&field.attrs, "step_error", "it names the type: move it there", errors);
    }
}

fn refuse_all(attrs: &[Attribute], name: &str, message: &str, errors: &mut Errors) {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident(name)) {
        errors.refuse(attr, format!("`#[{name}(..)]` has no meaning here: {message}"));
    }
}
