//! Edge cases of the checks. `ui/fail` shows the messages in full.

use super::options::{Key, MAX_BYTES, nearest, out_of_range};
use super::*;
use crate::parse;
use quote::quote;

#[test]
fn a_name_may_have_255_bytes() {
    assert_eq!(out_of_range(Key::Name, "x"), None);
    assert_eq!(out_of_range(Key::Name, &"x".repeat(255)), None);
    assert!(out_of_range(Key::Name, &"x".repeat(256)).is_some());
    // The limit counts bytes, not characters. Each `é` has two bytes.
    assert!(out_of_range(Key::Version, &"é".repeat(128)).is_some());
    assert!(out_of_range(Key::Version, "").is_some());
    assert!(out_of_range(Key::Version, "a\u{0}b").is_some());
}

#[test]
fn a_misspelled_option_finds_the_nearest_name() {
    for (misspelled, meant) in [
        ("nam", "name"),
        ("nmae", "name"),
        ("Name", "name"),
        ("verison", "version"),
        ("versoin", "version"),
        ("versions", "version"),
        ("krate", "crate"),
        ("retyr", "retry"),
        ("alow", "allow"),
        ("qeue", "queue"),
        ("gates", "gate"),
    ] {
        assert_eq!(nearest(misspelled, &Key::ALL.map(Key::as_str)), Some(meant), "{misspelled}");
    }
    for other in ["id", "a", "_", "retries", "timeout", "state", "größe"] {
        assert_eq!(nearest(other, &Key::ALL.map(Key::as_str)), None, "{other}");
    }
}

#[test]
fn all_mistakes_are_reported_in_the_order_of_the_code() -> syn::Result<()> {
    let args = parse::args(quote!("checkout", vresion = "2", name = 7, name = "twice"));
    let function = parse::function(quote! {
        unsafe fn checkout<T>(Ctx { .. }: &mut Ctx, order: &str, count: T) {}
    })?;
    let Err(refused) = check(args, function) else {
        return Err(Error::new(Span::call_site(), "the workflow should have been refused"));
    };
    let messages: Vec<String> = refused.error.into_iter().map(|e| e.to_string()).collect();
    let starts = [
        "an option needs a key",
        "unknown option `vresion` (did you mean `version`?)",
        "`name` takes a string literal",
        "option `name` is given twice",
        "a workflow must be async",
        "a workflow cannot be `unsafe`",
        "a workflow cannot be generic",
        "a workflow shares its context",
        "the context of a workflow cannot be a pattern",
        "the input of a workflow is stored",
        "a workflow takes one input",
        "a workflow must return a `Result`",
    ];
    assert_eq!(messages.len(), starts.len(), "{messages:#?}");
    for (message, start) in messages.iter().zip(starts) {
        assert!(message.starts_with(start), "{message}\ndoes not start with\n{start}");
        assert!(!message.ends_with('.'), "{message}");
    }
    assert!(refused.repaired.is_none());
    Ok(())
}

/// Keeps the documentation of the options in step with the checks.
#[test]
fn the_documentation_lists_each_option() {
    let docs = include_str!("../lib.rs");
    for key in Key::ALL {
        let (value, list) = (format!("/// * `{} = ", key.as_str()), format!("/// * `{}(", key.as_str()));
        assert!(docs.contains(&value) || docs.contains(&list), "{}", key.as_str());
    }
    assert!(docs.contains(&format!("1 to {MAX_BYTES} bytes")));
}
