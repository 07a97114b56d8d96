//! Checks the options of `#[step_error(...)]`.

use syn::punctuated::Punctuated;
use syn::{Attribute, LitStr, Meta, Path, Token};

use crate::model::{Errors, MAX_BYTES, given_twice, string_literal};

/// The options after their checks. A refused option has its default value.
pub(super) struct Options {
    pub(super) krate: Path,
    /// `None` if the path of the type is the name.
    pub(super) name: Option<LitStr>,
}

impl Options {
    pub(super) fn check(attrs: &[Attribute], errors: &mut Errors) -> Options {
        let mut options = Options { krate: syn::parse_quote!(::workflow_sdk), name: None };
        let mut given: Vec<String> = Vec::new();
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("step_error")) {
            let entries = match attr.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) {
                Ok(entries) => entries,
                Err(error) => {
                    errors.push(error);
                    continue;
                }
            };
            for entry in &entries {
                let word = entry.path().get_ident().map(ToString::to_string).unwrap_or_default();
                if given.contains(&word) {
                    errors.refuse(entry.path(), given_twice(&word));
                    continue;
                }
                options.set(&word, entry, errors);
                given.push(word);
            }
        }
        options
    }

    fn set(&mut self, word: &str, entry: &Meta, errors: &mut Errors) {
        let example = match word {
            "name" => r#"name = "card error""#,
            "crate" => r#"crate = "my_app::workflow_sdk""#,
            _ => {
                let found = if word.is_empty() { String::new() } else { format!(" `{word}`") };
                errors.refuse(entry.path(), format!("unknown option{found}: the options are `name` and `crate`"));
                return;
            }
        };
        let Some(literal) = string_value(entry) else {
            errors.refuse(entry, format!("`{word}` takes a string literal, such as `{example}`"));
            return;
        };
        let refusal = match word {
            "name" => self.set_name(literal),
            _ => self.set_krate(literal),
        };
        if let Err(message) = refusal {
            errors.refuse(literal, message);
        }
    }

    fn set_name(&mut self, literal: &LitStr) -> Result<(), String> {
        let name = literal.value();
        if name.is_empty() || name.len() > MAX_BYTES || name.contains(char::is_control) {
            return Err(format!(
                "the name of an error type must have 1 to {MAX_BYTES} bytes and no control characters: write, for example, `name = \"card error\"`"
            ));
        }
        self.name = Some(literal.clone());
        Ok(())
    }

    fn set_krate(&mut self, literal: &LitStr) -> Result<(), String> {
        self.krate = literal
            .parse_with(Path::parse_mod_style)
            .map_err(|_| r#"`crate` takes the path of the SDK, such as `crate = "my_app::workflow_sdk"`"#.to_owned())?;
        Ok(())
    }
}

fn string_value(entry: &Meta) -> Option<&LitStr> {
    string_literal(&entry.require_name_value().ok()?.value)
}
