//! Creates the project of a new application from the files in `template/`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::arguments::New;
use crate::output::Output;
use crate::{Exit, Failure};

/// Each file of a project, by its path in it.
const FILES: [(&str, &str); 6] = [
    ("Cargo.toml", include_str!("../template/manifest.toml")),
    ("README.md", include_str!("../template/README.md")),
    (".gitignore", include_str!("../template/gitignore")),
    ("src/lib.rs", include_str!("../template/src/lib.rs")),
    ("src/main.rs", include_str!("../template/src/main.rs")),
    ("tests/crashes.rs", include_str!("../template/tests/crashes.rs")),
];

/// The crates of this project that an application uses.
const CRATES: [&str; 4] = ["workflow-cli", "workflow-sdk", "workflow-testing", "workflow-worker"];

/// The words that cargo refuses as the name of a package, beside those of Rust.
const RESERVED: [&str; 7] = ["test", "core", "std", "alloc", "proc-macro", "build", "deps"];

/// Creates the project, and says how to go on.
pub(crate) fn create(new: New, output: &Output) -> Result<Exit, Failure> {
    let name = name_of(&new.path)?;
    refuse_full(&new.path)?;
    let sources = sources();
    for (path, text) in FILES {
        let file = new.path.join(path);
        write(&file, &fill(text, &name, &new, sources.as_deref())).map_err(|error| {
            Failure::new(Exit::Error, format!("cannot write {}: {error}", file.display()))
                .help("make the directory writable, or name another one")
        })?;
    }
    let directory = new.path.display();
    output.line(format!("created {directory}: a workflow, its worker, and tests that kill the worker\n"))?;
    output.line(format!("  cd {directory}"))?;
    output.line("  cargo test        # in virtual time, with a crash after every commit")?;
    output.line("  cargo run         # the worker; README.md says how to start a run")?;
    Ok(Exit::Ok)
}

/// Returns the name of the package, which is that of its directory.
fn name_of(path: &Path) -> Result<String, Failure> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let begins_well = name.starts_with(|first: char| first.is_ascii_lowercase());
    let is_plain =
        name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_".contains(letter));
    if !begins_well || !is_plain {
        return Err(Failure::usage(
            format!("{name:?} cannot be the name of a package"),
            "use lower-case letters, digits, - and _, and begin with a letter",
        ));
    }
    if is_taken(&name) {
        return Err(Failure::usage(
            format!("{name} is a name of Rust, or of a crate that the project needs"),
            format!("choose another one, such as {name}-app"),
        ));
    }
    Ok(name)
}

fn is_taken(name: &str) -> bool {
    let needs = ["async-trait", "serde", "tokio"];
    let crate_name = name.replace('-', "_");
    let is_keyword = KEYWORDS.contains(&crate_name.as_str());
    is_keyword || RESERVED.contains(&name) || CRATES.contains(&name) || needs.contains(&name)
}

/// The keywords of Rust 2024.
const KEYWORDS: [&str; 47] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "unsafe", "use", "where", "while",
];

/// Refuses a directory that has something in it.
fn refuse_full(path: &Path) -> Result<(), Failure> {
    let is_full = match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => {
            return Err(Failure::new(Exit::Error, format!("cannot read {}: {error}", path.display())));
        }
    };
    if is_full {
        return Err(Failure::new(
            Exit::Error,
            format!("{} exists and is not empty; nothing was written", path.display()),
        )
        .help("name another directory"));
    }
    Ok(())
}

/// Returns the directory of the project's sources if this program was built from a checkout of
/// them. Its version may then not be published.
fn sources() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent()?;
    CRATES.iter().all(|name| root.join(name).join("Cargo.toml").is_file()).then(|| root.to_owned())
}

/// Puts the names and sources of a project into one of the files of `template/`, which are those of
/// a project `new-app` that uses the published crates.
fn fill(text: &str, name: &str, new: &New, sources: Option<&Path>) -> String {
    let mut text = text.to_owned();
    if let Some(database) = &new.database {
        text = text.replace("sqlite://new-app.db", database);
    }
    text = text.replace("new-app", name).replace("new_app", &name.replace('-', "_"));
    let version = env!("CARGO_PKG_VERSION");
    for dependency in CRATES {
        let published = format!("{dependency} = {version:?}");
        if let Some(root) = sources {
            let path = root.join(dependency).display().to_string();
            text = text.replace(&published, &format!("{dependency} = {{ path = {path:?} }}"));
        }
    }
    text
}

fn write(file: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(file, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_packages_are_checked() {
        for name in ["orders", "my-app", "a1_b"] {
            assert_eq!(name_of(&Path::new("some/where").join(name)).unwrap(), name);
        }
        for name in ["", "..", "1st", "My-App", "a b", "fn", "async", "serde", "workflow-sdk", "test"] {
            assert_eq!(name_of(Path::new(name)).unwrap_err().exit, Exit::Usage, "{name}");
        }
    }

    #[test]
    fn a_project_has_its_own_name_and_database() {
        let new = New { path: "my-app".into(), database: Some("postgres://app@db/orders".into()) };
        for (path, text) in FILES {
            let text = fill(text, "my-app", &new, None);
            assert!(!text.contains("new-app") && !text.contains("new_app"), "{path}: {text}");
            assert_eq!(path == "src/main.rs", text.contains("postgres://app@db/orders"), "{path}: {text}");
        }
    }

    #[test]
    fn the_manifest_names_these_crates_and_this_version() {
        let (_, manifest) = FILES[0];
        assert!(manifest.contains(&format!("rust-version = {:?}", env!("CARGO_PKG_RUST_VERSION"))));
        let new = New { path: "my-app".into(), database: None };
        for name in CRATES {
            assert!(manifest.contains(&format!("{name} = {:?}", env!("CARGO_PKG_VERSION"))), "{name}");
            let from_checkout = fill(manifest, "my-app", &new, Some(Path::new("/sources")));
            assert!(from_checkout.contains(&format!("{name} = {{ path = \"/sources/{name}\" }}")), "{from_checkout}");
        }
    }
}
