//! The checks on `#[retry(...)]`.

use std::fmt::Write;

use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprLit, Fields, Ident, Lit, Member, Meta, Token, Type};

use crate::model::Errors;

/// How a step goes on after an error.
#[derive(Clone)]
pub(super) enum Advice {
    Policy,
    Never,
    /// After the delay in this field.
    After(Member, Box<Type>),
}

/// What an attribute stands on.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// An enum: a default for its variants.
    Type,
    /// A variant or a struct, with its name and its fields.
    Fields(&'a Ident, &'a Fields),
}

impl Place<'_> {
    const fn options(self) -> &'static str {
        match self {
            Place::Type => "`never` and `policy`",
            Place::Fields(..) => "`never`, `policy` and `after = field`",
        }
    }
}

impl Advice {
    /// What the attributes say. `None` if there is none of ours, or if what it says was refused.
    pub(super) fn check(attrs: &[Attribute], place: Place<'_>, errors: &mut Errors) -> Option<Advice> {
        let mut ours = attrs.iter().filter(|attr| attr.path().is_ident("retry"));
        let first = ours.next();
        for repeated in ours {
            errors.refuse(repeated, "`#[retry(..)]` stands once in a place: remove this one");
        }
        one(first?, place, errors)
    }
}

fn one(attr: &Attribute, place: Place<'_>, errors: &mut Errors) -> Option<Advice> {
    let list = match &attr.meta {
        Meta::List(list) if !list.tokens.is_empty() => list,
        other => {
            errors.refuse(other, format!("`#[retry(..)]` says how: its options are {}", place.options()));
            return None;
        }
    };
    let options = match list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) {
        Ok(options) => options,
        Err(error) => {
            errors.push(Error::new(error.span(), format!("{error}: the options are {}", place.options())));
            return None;
        }
    };
    let mut options = options.iter();
    let advice = options.next().and_then(|option| option_of(option, place, errors));
    for further in options {
        let message =
            "`#[retry(..)]` takes one option: no attempt follows, or one after a delay, or the policy decides";
        errors.refuse(further, message);
    }
    advice
}

fn option_of(option: &Meta, place: Place<'_>, errors: &mut Errors) -> Option<Advice> {
    let word = option.path().get_ident().map(ToString::to_string).unwrap_or_default();
    match (word.as_str(), option, place) {
        ("never", Meta::Path(_), _) => return Some(Advice::Never),
        ("policy", Meta::Path(_), _) => return Some(Advice::Policy),
        ("never" | "policy", ..) => errors.refuse(option, format!("`{word}` takes no value: write `#[retry({word})]`")),
        ("after", _, Place::Type) => {
            errors.refuse(option, "`after` names a field, so it stands on the variant that has the field");
        }
        ("after", Meta::NameValue(pair), Place::Fields(owner, fields)) => {
            return after(&pair.value, owner, fields, errors);
        }
        ("after", ..) => errors.refuse(option, "`after` takes a field that holds the delay: write `after = field`"),
        _ => {
            let path = option.path();
            let found = path.get_ident().map_or_else(String::new, |word| format!(" `{word}`"));
            errors.refuse(path, format!("unknown option{found}: the options are {}", place.options()));
        }
    }
    None
}

fn after(value: &Expr, owner: &Ident, fields: &Fields, errors: &mut Errors) -> Option<Advice> {
    let Some(member) = member(value) else {
        errors.refuse(value, "`after` takes the name or the index of a field, as in `after = pause` or `after = 0`");
        return None;
    };
    let found = fields.members().zip(fields).find(|(candidate, _)| *candidate == member);
    if found.is_none() {
        errors.refuse_at(value.span(), no_field(owner, fields, &member));
    }
    found.map(|(member, field)| Advice::After(member, Box::new(field.ty.clone())))
}

/// A name or an index that went through a `macro_rules!` fragment arrives in an invisible group.
fn member(value: &Expr) -> Option<Member> {
    match value {
        Expr::Group(group) => member(&group.expr),
        Expr::Path(path) => path.path.get_ident().cloned().map(Member::Named),
        Expr::Lit(ExprLit { lit: Lit::Int(index), .. }) => {
            index.base10_parse().ok().map(|index| Member::Unnamed(syn::Index { index, span: Span::call_site() }))
        }
        _ => None,
    }
}

fn no_field(owner: &Ident, fields: &Fields, member: &Member) -> String {
    let mut names = String::new();
    let count = fields.len();
    for (at, field) in fields.members().enumerate() {
        let separator = match at {
            0 => "",
            _ if at + 1 == count => " and ",
            _ => ", ",
        };
        // Writing to a string cannot fail.
        _ = write!(names, "{separator}`{}`", text(&field));
    }
    let has = match count {
        0 => "it has none".to_owned(),
        1 => format!("its field is {names}"),
        _ => format!("its fields are {names}"),
    };
    format!("`{owner}` has no field `{}`: {has}", text(member))
}

fn text(member: &Member) -> String {
    match member {
        Member::Named(name) => name.to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}
