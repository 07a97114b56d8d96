//! Checks the type and returns a [`Definition`], which `expand` can turn into code as it is.

use proc_macro2::Span;
use syn::{Attribute, Data, DeriveInput, Error, Fields, Ident, LitStr, Path};

use super::options::Options;
use super::retry::{Advice, Target};
use crate::model::Errors;

const ON_TYPE_ONLY: &str = "`#[step_error(..)]` is for the whole type: move it to the enum or the struct";

/// An error type that has passed all checks.
pub(super) struct Definition {
    /// The path of the SDK.
    pub(super) krate: Path,
    /// `None` if the path of the type is the name.
    pub(super) name: Option<LitStr>,
    pub(super) ident: Ident,
    pub(super) shapes: Vec<Shape>,
}

/// A variant of an enum, or a whole struct.
pub(super) struct Shape {
    pub(super) variant: Option<Ident>,
    pub(super) advice: Advice,
}

/// The errors, and the definition that the author probably meant, if it compiles.
pub(super) type Refused = (Error, Option<Box<Definition>>);

pub(super) fn check(input: &DeriveInput) -> Result<Definition, Refused> {
    let mut errors = Errors::default();
    let options = Options::check(&input.attrs, &mut errors);
    let not_generic = refuse_generics(input, &mut errors);
    let shapes = check_shapes(input, &mut errors);
    let definition = not_generic.and(shapes).map(|shapes| Definition {
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
            Err((
                Error::new(
                    Span::call_site(),
                    "this type cannot be a `StepError`, and the macro does not know why: please report this as a bug",
                ),
                None,
            ))
        }
    }
}

fn refuse_generics(input: &DeriveInput, errors: &mut Errors) -> Option<()> {
    let generics = &input.generics;
    let message = if generics.type_params().next().is_some() || generics.const_params().next().is_some() {
        "an error type of steps cannot be generic, because stored values are read back by the name of their type: write one type for each case"
    } else {
        "an error type of steps is stored, so it must own its data: take `String` instead of `&str`, or `T` instead of `&T`"
    };
    if !generics.params.is_empty() {
        errors.refuse(&generics.params, message);
        return None;
    }
    if let Some(clause) = &generics.where_clause {
        errors.refuse(
            clause,
            "an error type of steps cannot have a `where` clause, because its types are concrete: remove the clause",
        );
        return None;
    }
    Some(())
}

fn check_shapes(input: &DeriveInput, errors: &mut Errors) -> Option<Vec<Shape>> {
    match &input.data {
        Data::Struct(data) => {
            refuse_on_fields(&data.fields, errors);
            let advice = Advice::check(&input.attrs, Target::Fields(&input.ident, &data.fields), errors);
            Some(vec![Shape { variant: None, advice: advice.unwrap_or(Advice::Policy) }])
        }
        Data::Enum(data) => {
            let default = Advice::check(&input.attrs, Target::Enum, errors).unwrap_or(Advice::Policy);
            let mut shapes = Vec::new();
            for variant in &data.variants {
                refuse_all(&variant.attrs, "step_error", ON_TYPE_ONLY, errors);
                refuse_on_fields(&variant.fields, errors);
                let advice = Advice::check(&variant.attrs, Target::Fields(&variant.ident, &variant.fields), errors);
                shapes.push(Shape {
                    variant: Some(variant.ident.clone()),
                    advice: advice.unwrap_or_else(|| default.clone()),
                });
            }
            Some(shapes)
        }
        Data::Union(data) => {
            errors.refuse(
                data.union_token,
                "`StepError` cannot be derived for a union, because a union cannot be stored: use an enum or a struct",
            );
            None
        }
    }
}

/// Refuses our attributes on fields, because the compiler accepts them there and ignores them.
fn refuse_on_fields(fields: &Fields, errors: &mut Errors) {
    for field in fields {
        let message =
            "`#[retry(..)]` cannot be on a field: put it on the variant or the struct, as in `#[retry(after = field)]`";
        refuse_all(&field.attrs, "retry", message, errors);
        refuse_all(&field.attrs, "step_error", ON_TYPE_ONLY, errors);
    }
}

fn refuse_all(attrs: &[Attribute], name: &str, message: &str, errors: &mut Errors) {
    for attr in attrs.iter().filter(|attr| attr.path().is_ident(name)) {
        errors.refuse(attr, message);
    }
}
