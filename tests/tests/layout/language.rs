//! The rules of language that a program can check. CONTRIBUTING.md says what they are for.

use std::fs;
use std::path::Path;

use crate::sources::{files, root, shown};

/// Words for people. A process, task, row or caller is "it".
const PEOPLE: [&str; 6] = ["who", "whoever", "whom", "nobody", "somebody", "he"];

/// A doc comment that begins so has no antecedent: rustdoc shows one item at a time.
const BEGINNINGS: [&str; 4] = ["The same", "As there", "Those of", "What"];

/// After a number these make a measured figure, which belongs to docs/performance-log.md.
const UNITS: [&str; 4] = ["%", "us", "ms", "instructions"];

/// These make a figure a bound, which may stand in a comment.
const BOUNDS: [&str; 3] = ["at most", "at least", "default"];

/// Comment lines are at most this long.
const COMMENT_WIDTH: usize = 100;

/// The kind of text that a file holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rust,
    Sql,
    Markdown,
    Script,
}

impl Kind {
    /// The comment of a line, with the marker that begins it.
    fn comment(self, line: &str) -> Option<(&'static str, &str)> {
        let line = line.trim_start();
        let markers: &[&str] = match self {
            Self::Rust => &["///", "//!", "//"],
            Self::Sql => &["--"],
            Self::Script => &["#"],
            Self::Markdown => return Some(("", line)),
        };
        markers.iter().find_map(|marker| Some((*marker, line.strip_prefix(marker)?)))
    }
}

/// The violations of a text, as `line: rule: text`.
fn violations(text: &str, kind: Kind, is_shipped: bool) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_doc = false;
    let mut in_fence = false;
    for (line, number) in text.lines().zip(1..) {
        let mut report = |rule: &str| found.push(format!("{number}: {rule}: {}", line.trim()));
        if kind == Kind::Markdown && line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        }
        let comment = if in_fence { None } else { kind.comment(line) };
        let Some((marker, comment)) = comment else {
            in_doc = false;
            continue;
        };
        if words(comment).any(|word| PEOPLE.contains(&word.to_lowercase().as_str())) {
            report("a word for people");
        }
        if kind != Kind::Markdown && line.chars().count() > COMMENT_WIDTH {
            report("a comment line over 100 columns");
        }
        let is_doc = matches!(marker, "///" | "//!");
        if is_doc && !in_doc && BEGINNINGS.iter().any(|beginning| begins_with(comment.trim(), beginning)) {
            report("a doc comment without an antecedent");
        }
        in_doc = is_doc;
        let is_bound = BOUNDS.iter().any(|bound| comment.to_lowercase().contains(bound));
        if is_shipped && !is_bound && has_figure(comment) {
            report("a measured figure");
        }
    }
    found
}

/// The words of a text. An underscore does not end a word.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn begins_with(text: &str, beginning: &str) -> bool {
    text.strip_prefix(beginning).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
}

/// Whether a number stands before a unit, with at most one space between them.
fn has_figure(text: &str) -> bool {
    text.char_indices().any(|(at, c)| {
        let rest = &text[at + c.len_utf8()..];
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        c.is_ascii_digit() && UNITS.iter().any(|unit| rest.strip_prefix(unit).is_some_and(ends))
    })
}

/// Each text whose language is checked, with its kind and whether it is shipped source.
fn texts() -> Vec<(std::path::PathBuf, Kind, bool)> {
    let root = root();
    let is_shipped = |path: &Path| {
        let path = shown(path);
        let name = path.trim_end_matches(".rs");
        let in_tests = ["tests/", "torture/", "bench/"].iter().any(|folder| path.contains(folder));
        !in_tests && !name.ends_with("tests") && !name.ends_with("test")
    };
    let mut texts = Vec::new();
    for (extension, kind) in [("rs", Kind::Rust), ("sql", Kind::Sql), ("md", Kind::Markdown)] {
        for path in files(&root, extension) {
            let is_shipped = kind != Kind::Markdown && is_shipped(&path);
            texts.push((path, kind, is_shipped));
        }
    }
    let scripts = fs::read_dir(root.join("scripts")).unwrap().map(|entry| entry.unwrap().path());
    texts.extend(scripts.chain([root.join(".ci/run")]).map(|path| (path, Kind::Script, false)));
    texts
}

#[test]
fn comments_and_documents_keep_the_rules_of_language() {
    let mut found = Vec::new();
    for (path, kind, is_shipped) in texts() {
        let text = fs::read_to_string(&path).unwrap();
        let of_file = violations(&text, kind, is_shipped).into_iter();
        found.extend(of_file.map(|violation| format!("{}:{violation}", shown(&path))));
    }
    assert!(found.is_empty(), "{} violations:\n{}", found.len(), found.join("\n"));
}

#[test]
fn each_rule_of_language_finds_its_violation() {
    let rust = |text: &str| violations(text, Kind::Rust, true);
    for person in ["/// Tells who waits.", "// Nobody reads it.", "//! Whoever comes.", "// He waits."] {
        assert_eq!(rust(person).len(), 1, "{person}");
    }
    for beginning in ["/// The same, later.", "/// As there.", "/// Those of the store.", "//! What it is."] {
        assert_eq!(rust(beginning).len(), 1, "{beginning}");
    }
    for figure in ["// It took 5 ms.", "// 13 % fewer.", "// 40us each.", "// 12,000 instructions"] {
        assert_eq!(rust(figure).len(), 1, "{figure}");
    }
    let wide = format!("// {}", "x".repeat(98));
    assert_eq!(rust(&wide).len(), 1);
    assert_eq!(violations("Somebody waits.", Kind::Markdown, false).len(), 1);
    assert_eq!(violations("-- Who calls it.", Kind::Sql, true).len(), 1);
    assert_eq!(violations("# whom it tells", Kind::Script, false).len(), 1);
}

#[test]
fn the_rules_of_language_let_plain_text_pass() {
    let plain = [
        "/// Waits at most 500 ms.",
        "/// Default: 20 ms.",
        "// The whole header, the lock of whose_row.",
        "/// Returns the same value on every replay.\n/// The same holds for a fork.",
        "let who = 5; // one",
        "/// Somewhat 5 messages.",
    ];
    for text in plain {
        assert_eq!(violations(text, Kind::Rust, true), Vec::<String>::new(), "{text}");
    }
    assert_eq!(violations("```\nwho waits\n```", Kind::Markdown, false), Vec::<String>::new());
    assert_eq!(violations("// It took 5 ms.", Kind::Rust, false), Vec::<String>::new(), "not shipped");
}
