//! The checks on `#[workflow(...)]`.

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Path, Token};

use super::Errors;
use crate::lint::{Allowed, Rule};
use crate::parse::Arg;

/// The longest name or version, in bytes. Both are part of index keys, which every database bounds.
pub(crate) const MAX_BYTES: usize = 255;

const DEFAULT_VERSION: &str = "1";

/// The options after their checks; one that was refused has its default.
pub(super) struct Options {
    pub(super) krate: Path,
    pub(super) name: LitStr,
    pub(super) version: LitStr,
    pub(super) retry: Option<Expr>,
    pub(super) allowed: Allowed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Name,
    Version,
    Allow,
    Crate,
    Retry,
}

impl Key {
    pub(super) const ALL: [Key; 5] = [Key::Name, Key::Version, Key::Allow, Key::Crate, Key::Retry];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Key::Name => "name",
            Key::Version => "version",
            Key::Allow => "allow",
            Key::Crate => "crate",
            Key::Retry => "retry",
        }
    }

    const fn example(self) -> &'static str {
        match self {
            Key::Name => r#"name = "checkout""#,
            Key::Version => r#"version = "2""#,
            Key::Allow => "allow(wall_clock)",
            Key::Crate => r#"crate = "my_app::workflow_sdk""#,
            Key::Retry => "retry = Retry::exponential().max_attempts(3)",
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
            allowed: Allowed::default(),
        };
        let mut given = Vec::new();
        for arg in args {
            let (key, word, value, list) = match arg {
                Arg::Positional(value) => {
                    errors.refuse(&value, positional(&value));
                    continue;
                }
                Arg::Named { key: word, value, list } => match Key::find(&word) {
                    Some(key) => (key, word, value, list),
                    None => {
                        errors.refuse(&word, unknown(&word));
                        continue;
                    }
                },
            };
            if given.contains(&key) {
                errors.refuse(&word, format!("option `{word}` is given twice"));
                if key == Key::Allow {
                    options.allowed = Allowed::all();
                }
                continue;
            }
            given.push(key);
            if key == Key::Allow {
                options.allowed = allowed(&word, value, list, errors);
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
            // Which type it has is for the compiler to say.
            match value {
                Some(value) => self.retry = Some(value),
                None => errors.refuse(word, format!("`retry` takes a policy, such as `{}`", key.example())),
            }
            return;
        }
        let Some(literal) = value.as_ref().and_then(string) else {
            let message = format!("`{word}` takes a string literal, such as `{}`", key.example());
            match value {
                Some(value) => errors.refuse(value, message),
                None => errors.refuse(word, message),
            }
            return;
        };
        match key {
            Key::Name | Key::Version => match out_of_range(key, &literal.value()) {
                Some(message) => errors.refuse(literal, message),
                None if key == Key::Name => self.name = literal.clone(),
                None => self.version = literal.clone(),
            },
            Key::Crate => match literal.parse_with(Path::parse_mod_style) {
                Ok(path) => self.krate = path,
                Err(_) => {
                    errors.refuse(literal, format!("`crate` takes the path of the SDK, such as `{}`", key.example()))
                }
            },
            Key::Retry => {}
            // Its value is a list.
            Key::Allow => {}
        }
    }
}

/// The rules in `allow(...)`.
fn allowed(word: &Ident, value: Option<Expr>, list: Option<TokenStream>, errors: &mut Errors) -> Allowed {
    let takes = format!("`{word}` takes names of rules, such as `{}`", Key::Allow.example());
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

/// A literal that went through a `macro_rules!` fragment arrives in an invisible group.
fn string(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Group(group) => string(&group.expr),
        Expr::Lit(ExprLit { lit: Lit::Str(literal), .. }) if literal.suffix().is_empty() => Some(literal),
        _ => None,
    }
}

/// Why `text` cannot be stored as a name or a version.
pub(super) fn out_of_range(key: Key, text: &str) -> Option<String> {
    let noun = key.as_str();
    if text.is_empty() {
        let default = match key {
            Key::Name => "the name of the function",
            Key::Version | Key::Allow | Key::Crate | Key::Retry => "the default",
        };
        return Some(format!("the {noun} of a workflow cannot be empty: leave the option out to use {default}"));
    }
    if text.len() > MAX_BYTES {
        return Some(too_long(key, text));
    }
    let control = text.chars().find(|c| c.is_control())?;
    Some(format!("the {noun} of a workflow cannot contain control characters, found `{}`", control.escape_default()))
}

fn too_long(key: Key, text: &str) -> String {
    let noun = key.as_str();
    let length = text.len();
    format!(
        "the {noun} of a workflow takes at most {MAX_BYTES} bytes, this one has {length}: give a shorter one, such as `{}`",
        key.example()
    )
}

fn positional(value: &Expr) -> String {
    let example = match string(value) {
        Some(literal) => format!("name = {:?}", literal.value()),
        None => Key::Name.example().to_owned(),
    };
    format!("an option is written as `key = \"value\"`, such as `{example}`")
}

fn unknown(word: &Ident) -> String {
    let word = word.to_string();
    let keys = Key::ALL.map(Key::as_str);
    format!("unknown option `{word}`{} the options are {}", did_you_mean(&word, &keys), listed(&keys))
}

fn unknown_rule(word: &Ident) -> String {
    let word = word.to_string();
    let names = Rule::ALL.map(Rule::name);
    // A part of the name is a good guess too: `random`, `env`.
    let part = names.into_iter().find(|name| word.len() > 2 && name.contains(&word));
    let meant = did_you_mean(part.unwrap_or(&word), &names);
    format!("unknown rule `{word}`{meant} the rules are {}", listed(&names))
}

fn did_you_mean(word: &str, known: &[&'static str]) -> String {
    match nearest(word, known) {
        Some(meant) => format!(", did you mean `{meant}`?"),
        None => ":".to_owned(),
    }
}

fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => quoted.concat(),
    }
}

/// What `word` is probably a slip of: one letter too many, missing or wrong, or two swapped.
pub(super) fn nearest(word: &str, known: &[&'static str]) -> Option<&'static str> {
    let word = word.to_lowercase();
    known.iter().copied().find(|name| match edits(&word, name) {
        0 | 1 => true,
        2 => letters(&word) == letters(name),
        _ => false,
    })
}

fn letters(word: &str) -> Vec<char> {
    let mut letters: Vec<char> = word.chars().collect();
    letters.sort_unstable();
    letters
}

/// Levenshtein distance, row by row.
fn edits(from: &str, to: &str) -> usize {
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
