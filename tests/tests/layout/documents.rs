//! The documents: their size, their links, and the tests that they name.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use crate::sources::{SHIPPED, files, root, shown};

/// The text of every Rust file that can hold a test.
fn rust_sources() -> String {
    let folders = SHIPPED.iter().chain(&["tests", "torture"]).map(|folder| root().join(folder));
    let paths = folders.filter(|folder| folder.exists()).flat_map(|folder| files(&folder, "rs"));
    paths.map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// The words in backquotes that can be names of tests.
fn named_tests(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).filter(|word| !word.contains(['/', '.', ' ', '(', '<', ':', '-'])).collect()
}

#[test]
fn invariants_name_tests_that_exist() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let section = architecture.split("## Invariants").nth(1).unwrap().split("\n## ").next().unwrap();
    let tests = rust_sources();
    let named = named_tests(section);
    assert!(named.len() >= 8, "each invariant names a test, found {named:?}");
    for name in named {
        assert!(tests.contains(&format!("fn {name}")), "ARCHITECTURE.md names the test {name}, which does not exist");
    }
}

#[test]
fn architecture_is_short_and_narrow() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(architecture.len() <= 14 * 1024, "ARCHITECTURE.md has {} bytes, at most 14 KiB", architecture.len());
    for (line, number) in architecture.lines().zip(1..) {
        assert!(line.chars().count() <= 110, "ARCHITECTURE.md:{number} is wider than 110 columns");
    }
}

#[test]
fn decisions_have_their_sections_and_name_tests_that_exist() {
    let tests = rust_sources();
    let folder = root().join("docs/decisions");
    let index = fs::read_to_string(folder.join("README.md")).unwrap();
    let decisions: Vec<PathBuf> =
        files(&folder, "md").into_iter().filter(|path| !path.ends_with("README.md")).collect();
    for (path, number) in decisions.iter().zip(1..) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name.starts_with(&format!("{number:04}-")), "{name} leaves a gap in the numbers");
        assert!(index.contains(&format!("({name})")), "docs/decisions/README.md does not list {name}");
        let text = fs::read_to_string(path).unwrap();
        for section in ["Status: ", "## Context", "## Decision", "## Consequences", "## Guarded by"] {
            assert!(text.contains(section), "{name} lacks {section:?}");
        }
        let lines = text.lines().count();
        assert!((15..=40).contains(&lines), "{name} has {lines} lines");
        let guards = text.split("## Guarded by").nth(1).unwrap();
        for test in named_tests(guards) {
            assert!(tests.contains(&format!("fn {test}")), "{name} names the test {test}, which does not exist");
        }
    }
}

/// The targets of links between files of the repository.
fn local_links(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .map(|target| target.split('#').next().unwrap_or_default())
        .filter(|t| !t.is_empty() && !t.contains("://"))
        .collect()
}

#[test]
fn links_between_documents_lead_somewhere() {
    for document in files(&root(), "md") {
        let text = fs::read_to_string(&document).unwrap();
        for target in local_links(&text) {
            assert!(document.with_file_name(target).exists(), "{} links to {target}", shown(&document));
        }
    }
}

#[test]
fn the_guide_lists_every_page() {
    let guide = root().join("docs/guide");
    let summary = fs::read_to_string(guide.join("SUMMARY.md")).unwrap();
    let listed = local_links(&summary);
    for page in files(&guide, "md") {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        assert!(name == "SUMMARY.md" || listed.contains(&name.as_str()), "docs/guide/SUMMARY.md does not list {name}");
    }
}

/// Examples, programs and settings stand there too. They have shorter names than tests.
#[test]
fn the_criteria_of_flows_name_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/guide/flows-acceptance.md")).unwrap();
    let tests = rust_sources();
    let named: Vec<&str> = named_tests(&page).into_iter().filter(|word| word.matches('_').count() >= 3).collect();
    assert!(named.len() >= 30, "found {named:?}");
    for name in named {
        assert!(tests.contains(&format!("fn {name}")), "flows-acceptance.md names {name}, which does not exist");
    }
}

/// The summary for language models stands at the top and in the book, where pages are HTML.
#[test]
fn the_summary_for_models_is_that_of_the_book_and_leads_somewhere() {
    let summary = fs::read_to_string(root().join("llms.txt")).unwrap();
    for target in local_links(&summary) {
        assert!(root().join(target).exists(), "llms.txt links to {target}");
    }
    let book = fs::read_to_string(root().join("docs/guide/llms.txt")).unwrap();
    assert_eq!(book, summary.replace("docs/guide/", "").replace(".md)", ".html)"), "docs/guide/llms.txt is another");
}

/// Words of file names that are plain English and need no entry.
const PLAIN: [&str; 24] = [
    "lib", "mod", "main", "tests", "test", "and", "of", "in", "by", "as", "to", "new", "many", "error", "options",
    "read", "write", "open", "next", "find", "rust", "sql", "bin", "connect",
];

/// The words that the glossary explains: those in bold, in the singular as they stand there.
fn glossary() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("docs/glossary.md")).unwrap();
    let bold = text.split("**").skip(1).step_by(2);
    bold.flat_map(|term| term.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase).collect::<Vec<_>>())
        .collect()
}

/// Whether the glossary has the word, in the singular or the plural.
fn is_known(word: &str, glossary: &BTreeSet<String>) -> bool {
    let singular = word.strip_suffix('s').unwrap_or(word);
    let from_ies = word.strip_suffix("ies").map(|stem| format!("{stem}y"));
    let from_es = word.strip_suffix("es").unwrap_or(word);
    let known = |word: &str| PLAIN.contains(&word) || glossary.contains(word) || glossary.contains(&format!("{word}s"));
    known(word) || known(singular) || known(from_es) || from_ies.is_some_and(|word| known(&word))
}

#[test]
fn every_noun_of_a_file_name_stands_in_the_glossary() {
    let glossary = glossary();
    let mut unknown = BTreeSet::new();
    for package in SHIPPED {
        for path in files(&root().join(package).join("src"), "rs") {
            let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
            let words = stem.split('_').filter(|word| !is_known(word, &glossary));
            unknown.extend(words.map(|word| format!("{word} ({})", shown(&path))));
        }
    }
    let unknown = unknown.into_iter().collect::<Vec<_>>();
    assert!(unknown.is_empty(), "docs/glossary.md lacks:\n{}", unknown.join("\n"));
}

#[test]
fn the_glossary_check_finds_a_word_that_is_missing() {
    let glossary: BTreeSet<String> = ["claim", "history", "batch"].map(str::to_owned).into();
    for known in ["claim", "claims", "histories", "batches", "tests"] {
        assert!(is_known(known, &glossary), "{known}");
    }
    for unknown in ["bell", "herald", "clai"] {
        assert!(!is_known(unknown, &glossary), "{unknown}");
    }
}
