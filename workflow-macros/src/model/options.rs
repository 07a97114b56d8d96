//! The checks on `#[workflow(...)]`.

use syn::ext::IdentExt;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Path};

use super::Errors;
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
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Name,
    Version,
    Crate,
    Retry,
}

impl Key {
    pub(super) const ALL: [Key; 4] = [Key::Name, Key::Version, Key::Crate, Key::Retry];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Key::Name => "name",
            Key::Version => "version",
            Key::Crate => "crate",
            Key::Retry => "retry",
        }
    }

    const fn example(self) -> &'static str {
        match self {
            Key::Name => r#"name = "checkout""#,
            Key::Version => r#"version = "2""#,
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
        };
        let mut given = Vec::new();
        for arg in args {
            let (key, word, value) = match arg {
                Arg::Positional(value) => {
                    errors.refuse(&value, positional(&value));
                    continue;
                }
                Arg::Named { key: word, value } => match Key::find(&word) {
                    Some(key) => (key, word, value),
                    None => {
                        errors.refuse(&word, unknown(&word));
                        continue;
                    }
                },
            };
            if given.contains(&key) {
                errors.refuse(&word, format!("option `{word}` is given twice"));
                continue;
            }
            given.push(key);
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
        }
    }
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
            Key::Version | Key::Crate | Key::Retry => "the default",
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
    let meant = match nearest(&word.to_string()) {
        Some(key) => format!(", did you mean `{}`?", key.as_str()),
        None => ":".to_owned(),
    };
    format!("unknown option `{word}`{meant} the options are `name`, `version`, `crate` and `retry`")
}

/// The option that `word` is probably a slip of: one letter too many, missing or wrong, or two swapped.
pub(super) fn nearest(word: &str) -> Option<Key> {
    let word = word.to_lowercase();
    Key::ALL.into_iter().find(|key| match edits(&word, key.as_str()) {
        0 | 1 => true,
        2 => letters(&word) == letters(key.as_str()),
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
