//! Checks the options of `#[workflow(...)]`.

use proc_macro2::TokenStream;
use std::fmt::Display;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprClosure, ExprLit, Ident, Lit, LitStr, Path, Token};

use super::Errors;
use crate::lint::{Allowed, Rule};
use crate::parse::Arg;

/// The longest name, version or queue in bytes. All are part of index keys, whose size databases
/// limit.
pub(crate) const MAX_BYTES: usize = 255;

const DEFAULT_VERSION: &str = "1";

/// The options after their checks. A refused option has its default value.
pub(super) struct Options {
    pub(super) krate: Path,
    pub(super) name: LitStr,
    pub(super) version: LitStr,
    pub(super) retry: Option<Expr>,
    pub(super) queue: Option<LitStr>,
    pub(super) gate: Option<ExprClosure>,
    pub(super) allowed: Allowed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Name,
    Version,
    Allow,
    Crate,
    Retry,
    Queue,
    Gate,
}

impl Key {
    pub(super) const ALL: [Key; 7] =
        [Key::Name, Key::Version, Key::Allow, Key::Crate, Key::Retry, Key::Queue, Key::Gate];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Key::Name => "name",
            Key::Version => "version",
            Key::Allow => "allow",
            Key::Crate => "crate",
            Key::Retry => "retry",
            Key::Queue => "queue",
            Key::Gate => "gate",
        }
    }

    const fn example(self) -> &'static str {
        match self {
            Key::Name => r#"name = "checkout""#,
            Key::Version => r#"version = "2""#,
            Key::Allow => "allow(wall_clock)",
            Key::Crate => r#"crate = "my_app::workflow_sdk""#,
            Key::Retry => "retry = Retry::exponential().max_attempts(3)",
            Key::Queue => r#"queue = "accounts""#,
            Key::Gate => "gate = |input: &Order| &input.account",
        }
    }

    fn find(word: &Ident) -> Option<Key> {
        Key::ALL.into_iter().find(|key| word == key.as_str())
    }
}

impl Options {
    pub(super) fn check(args: Vec<Arg>, function: &Ident, errors: &mut Errors) -> Options {
        let mut options = Options {
            krate: syn::parse_quote!(::workflow_sdk),
            name: LitStr::new(&function.unraw().to_string(), function.span()),
            version: LitStr::new(DEFAULT_VERSION, function.span()),
            retry: None,
            queue: None,
            gate: None,
            allowed: Allowed::default(),
        };
        let mut given = Vec::new();
        for arg in args {
            let (key, word, value, list) = match arg {
                Arg::Positional(value) => {
                    errors.refuse(&value, missing_key(&value));
                    continue;
                }
                Arg::Named { key: word, value, list } => match Key::find(&word) {
                    Some(key) => (key, word, value, list),
                    None => {
                        errors.refuse(&word, unknown_option(&word));
                        continue;
                    }
                },
            };
            if given.contains(&key) {
                errors.refuse(&word, given_twice(&word));
                if key == Key::Allow {
                    options.allowed = Allowed::all();
                }
                continue;
            }
            given.push(key);
            if key == Key::Allow {
                options.allowed = allowed_rules(&word, value, list, errors);
                continue;
            }
            options.set(key, &word, value, errors);
        }
        if !given.contains(&Key::Name) && options.name.value().len() > MAX_BYTES {
            errors.refuse(function, too_long(Key::Name, &options.name.value()));
        }
        options
    }

    fn set(&mut self, key: Key, word: &Ident, value: Option<Expr>, errors: &mut Errors) {
        if key == Key::Retry {
            // The compiler checks the type of the value.
            match value {
                Some(value) => self.retry = Some(value),
                None => errors.refuse(word, format!("`retry` takes a retry policy, such as `{}`", key.example())),
            }
            return;
        }
        if key == Key::Gate {
            self.gate = gate_closure(word, value, errors);
            return;
        }
        let Some(literal) = value.as_ref().and_then(string_literal) else {
            let message = format!("`{word}` takes a string literal, such as `{}`", key.example());
            match value {
                Some(value) => errors.refuse(value, message),
                None => errors.refuse(word, message),
            }
            return;
        };
        match key {
            Key::Name | Key::Version | Key::Queue => match out_of_range(key, &literal.value()) {
                Some(message) => errors.refuse(literal, message),
                None if key == Key::Name => self.name = literal.clone(),
                None if key == Key::Queue => self.queue = Some(literal.clone()),
                None => self.version = literal.clone(),
            },
            Key::Crate => match literal.parse_with(Path::parse_mod_style) {
                Ok(path) => self.krate = path,
                Err(_) => {
                    errors.refuse(literal, format!("`crate` takes the path of the SDK, such as `{}`", key.example()))
                }
            },
            Key::Retry | Key::Gate => {}
            // Handled by `allowed_rules`, because its value is a list.
            Key::Allow => {}
        }
    }
}

/// Returns the closure of `gate`. The compiler checks the types of its parameter and its result.
fn gate_closure(word: &Ident, value: Option<Expr>, errors: &mut Errors) -> Option<ExprClosure> {
    let example = Key::Gate.example();
    let Some(value) = value else {
        errors.refuse(word, format!("`gate` takes a closure over the input, such as `{example}`"));
        return None;
    };
    let closure = match into_closure(value) {
        Ok(closure) => closure,
        Err(value) => {
            errors.refuse(value, format!("`gate` takes a closure over the input, such as `{example}`"));
            return None;
        }
    };
    if closure.inputs.len() != 1 {
        let count = closure.inputs.len();
        let message =
            format!("the closure of `gate` takes the input as its one parameter, not {count}: write `{example}`");
        errors.refuse(closure, message);
        return None;
    }
    if let Some(token) = closure.asyncness {
        errors.refuse(token, "the closure of `gate` cannot be async, because it only reads the input: remove `async`");
        return None;
    }
    Some(closure)
}

/// Returns the closure that the expression is, or the expression.
///
/// A closure that went through a `macro_rules!` fragment arrives in an invisible group.
fn into_closure(value: Expr) -> Result<ExprClosure, Expr> {
    match value {
        Expr::Closure(closure) => Ok(closure),
        Expr::Group(group) => into_closure(*group.expr),
        Expr::Paren(paren) => into_closure(*paren.expr),
        other => Err(other),
    }
}

/// Returns the rules in `allow(...)`.
fn allowed_rules(word: &Ident, value: Option<Expr>, list: Option<TokenStream>, errors: &mut Errors) -> Allowed {
    let takes = format!("`{word}` takes a list of rule names, such as `{}`", Key::Allow.example());
    let list = match (value, list) {
        (None, Some(list)) if !list.is_empty() => list,
        (Some(value), _) => {
            errors.refuse(value, takes);
            return Allowed::all();
        }
        (None, _) => {
            errors.refuse(word, takes);
            return Allowed::all();
        }
    };
    let names = |input: ParseStream<'_>| Punctuated::<Ident, Token![,]>::parse_terminated_with(input, Ident::parse_any);
    let Ok(names) = names.parse2(list.clone()) else {
        errors.refuse(list, takes);
        return Allowed::all();
    };
    let mut allowed = Allowed::default();
    let mut all_known = true;
    for name in names {
        match Rule::ALL.into_iter().find(|rule| name == rule.name()) {
            Some(rule) => allowed.insert(rule),
            None => {
                errors.refuse(&name, unknown_rule(&name));
                all_known = false;
            }
        }
    }
    if all_known { allowed } else { Allowed::all() }
}

/// Returns the string literal that the expression is, if it is one.
///
/// A literal that went through a `macro_rules!` fragment arrives in an invisible group.
pub(crate) fn string_literal(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Group(group) => string_literal(&group.expr),
        Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) if literal.suffix().is_empty() => Some(literal),
        _ => None,
    }
}

/// Returns the reason why `text` cannot be stored as a name or a version, if there is one.
pub(super) fn out_of_range(key: Key, text: &str) -> Option<String> {
    let noun = key.as_str();
    if text.is_empty() {
        let default = match key {
            Key::Name => "the name of the function",
            Key::Queue => "the queue `default`",
            Key::Version | Key::Allow | Key::Crate | Key::Retry | Key::Gate => "the default version",
        };
        return Some(format!("the {noun} of a workflow cannot be empty: leave out the option to use {default}"));
    }
    if text.len() > MAX_BYTES {
        return Some(too_long(key, text));
    }
    let control = text.chars().find(|c| c.is_control())?;
    Some(format!("the {noun} of a workflow cannot contain control characters: remove `{}`", control.escape_default()))
}

fn too_long(key: Key, text: &str) -> String {
    let noun = key.as_str();
    let length = text.len();
    format!(
        "the {noun} of a workflow has at most {MAX_BYTES} bytes, and this one has {length}: choose a shorter one, such as `{}`",
        key.example()
    )
}

pub(crate) fn given_twice(word: impl Display) -> String {
    format!("option `{word}` is given twice: remove one of the two")
}

fn missing_key(value: &Expr) -> String {
    let example = match string_literal(value) {
        Some(literal) => format!("name = {:?}", literal.value()),
        None => Key::Name.example().to_owned(),
    };
    format!("an option needs a key: write `key = \"value\"`, such as `{example}`")
}

fn unknown_option(word: &Ident) -> String {
    let word = word.to_string();
    let keys = Key::ALL.map(Key::as_str);
    format!("unknown option `{word}`{}: the options are {}", did_you_mean(&word, &keys), join_names(&keys))
}

fn unknown_rule(word: &Ident) -> String {
    let word = word.to_string();
    let names = Rule::ALL.map(Rule::name);
    // A part of a name, such as `random` or `env`, is a good guess too.
    let part = names.into_iter().find(|name| word.len() > 2 && name.contains(&word));
    let meant = did_you_mean(part.unwrap_or(&word), &names);
    format!("unknown rule `{word}`{meant}: the rules are {}", join_names(&names))
}

fn did_you_mean(word: &str, known: &[&'static str]) -> String {
    match nearest(word, known) {
        Some(meant) => format!(" (did you mean `{meant}`?)"),
        None => String::new(),
    }
}

fn join_names(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => quoted.concat(),
    }
}

/// Returns the known name that `word` probably misspells.
///
/// The misspelling may have one letter too many, one missing, one wrong, or two swapped.
pub(super) fn nearest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    let word = word.to_lowercase();
    known.iter().copied().find(|name| match edit_distance(&word, name) {
        0 | 1 => true,
        2 => sorted_letters(&word) == sorted_letters(name),
        _ => false,
    })
}

fn sorted_letters(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
}

/// Returns the Levenshtein distance, computed row by row.
fn edit_distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (cell, b) in row.iter_mut().skip(1).zip(to.chars()) {
            let replaced = diagonal + usize::from(a != b);
            diagonal = *cell;
            left = replaced.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or_default()
}
