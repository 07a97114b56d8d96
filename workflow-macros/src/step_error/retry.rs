//! Checks `#[retry(...)]`.

use std::fmt::Write;

use proc_macro2::Span;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprLit, Fields, Ident, Lit, Member, Meta, Token, Type};

use crate::model::Errors;

/// The advice about the next attempt of a step that failed with the error.
#[derive(Clone)]
pub(super) enum Advice {
    /// The policy of the step decides.
    Policy,
    /// No attempt follows.
    Never,
    /// The next attempt starts after the delay in this field.
    After(Member, Box<Type>),
}

/// The item that an attribute is on.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    /// An enum. The attribute is the default for its variants.
    Enum,
    /// A variant or a struct, with its name and its fields.
    Fields(&'a Ident, &'a Fields),
}

impl Target<'_> {
    const fn options(self) -> &'static str {
        match self {
            Target::Enum => "`never` and `policy`",
            Target::Fields(..) => "`never`, `policy` and `after = field`",
        }
    }
}

impl Advice {
    /// Returns the advice in the attributes.
    ///
    /// Returns `None` if no attribute is `#[retry(...)]`, or if its content was refused.
    pub(super) fn check(attrs: &[Attribute], target: Target<'_>, errors: &mut Errors) -> Option<Advice> {
        let mut ours = attrs.iter().filter(|attr| attr.path().is_ident("retry"));
        let first = ours.next();
        for repeated in ours {
            errors.refuse(repeated, "only one `#[retry(..)]` is allowed here: remove this one");
        }
        check_attribute(first?, target, errors)
    }
}

fn check_attribute(attr: &Attribute, target: Target<'_>, errors: &mut Errors) -> Option<Advice> {
    let list = match &attr.meta {
        Meta::List(list) if !list.tokens.is_empty() => list,
        other => {
            errors.refuse(other, format!("`#[retry(..)]` needs an option: the options are {}", target.options()));
            return None;
        }
    };
    let options = match list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) {
        Ok(options) => options,
        Err(error) => {
            errors.push(Error::new(error.span(), format!("{error}: the options are {}", target.options())));
            return None;
        }
    };
    let mut options = options.iter();
    let advice = options.next().and_then(|option| check_option(option, target, errors));
    for further in options {
        let message = format!("`#[retry(..)]` takes one option: keep only one of {}", target.options());
        errors.refuse(further, message);
    }
    advice
}

fn check_option(option: &Meta, target: Target<'_>, errors: &mut Errors) -> Option<Advice> {
    let word = option.path().get_ident().map(ToString::to_string).unwrap_or_default();
    match (word.as_str(), option, target) {
        ("never", Meta::Path(_), _) => return Some(Advice::Never),
        ("policy", Meta::Path(_), _) => return Some(Advice::Policy),
        ("never" | "policy", ..) => errors.refuse(option, format!("`{word}` takes no value: write `#[retry({word})]`")),
        ("after", _, Target::Enum) => {
            errors.refuse(option, "`after` names a field of a variant: move this `#[retry(..)]` to the variant");
        }
        ("after", Meta::NameValue(pair), Target::Fields(owner, fields)) => {
            return check_after(&pair.value, owner, fields, errors);
        }
        ("after", ..) => errors.refuse(option, "`after` needs the field that holds the delay: write `after = field`"),
        _ => {
            let path = option.path();
            let found = path.get_ident().map_or_else(String::new, |word| format!(" `{word}`"));
            errors.refuse(path, format!("unknown option{found}: the options are {}", target.options()));
        }
    }
    None
}

fn check_after(value: &Expr, owner: &Ident, fields: &Fields, errors: &mut Errors) -> Option<Advice> {
    let Some(member) = member(value) else {
        errors.refuse(value, "`after` takes the name or the index of a field, as in `after = pause` or `after = 0`");
        return None;
    };
    let found = fields.members().zip(fields).find(|(candidate, _)| *candidate == member);
    if found.is_none() {
        errors.refuse_at(value.span(), missing_field(owner, fields, &member));
    }
    found.map(|(member, field)| Advice::After(member, Box::new(field.ty.clone())))
}

/// Returns the field that the expression names.
///
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

fn missing_field(owner: &Ident, fields: &Fields, member: &Member) -> String {
    let mut names = String::new();
    let count = fields.len();
    for (index, field) in fields.members().enumerate() {
        let separator = match index {
            0 => "",
            _ if index + 1 == count => " and ",
            _ => ", ",
        };
        // Writing to a string cannot fail.
        _ = write!(names, "{separator}`{}`", member_name(&field));
    }
    let has = match count {
        0 => "it has no fields".to_owned(),
        1 => format!("its field is {names}"),
        _ => format!("its fields are {names}"),
    };
    format!("`{owner}` has no field `{}`: {has}", member_name(member))
}

fn member_name(member: &Member) -> String {
    match member {
        Member::Named(name) => name.to_string(),
        Member::Unnamed(index) => index.index.to_string(),
    }
}
