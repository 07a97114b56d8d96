//! The files of the repository, as the layout tests read them.

use std::fs;
use std::path::{Path, PathBuf};

/// The crates whose source is shipped to users.
pub(crate) const SHIPPED: [&str; 14] = [
    "workflow-engine",
    "workflow-sqlite",
    "workflow-postgres",
    "workflow-sdk",
    "workflow-macros",
    "workflow-worker",
    "workflow-testing",
    "workflow-http",
    "workflow-remote",
    "workflow-dashboard",
    "workflow-flows",
    "workflow-tools",
    "workflow-mcp",
    "workflow-cli",
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// The files below a directory that have this extension, in the order of their paths. Leaves out
/// build output and installed packages.
pub(crate) fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", "node_modules"].contains(&name.as_str()) && !name.starts_with('.') {
                found.extend(files(&path, extension));
            }
        } else if path.extension().is_some_and(|it| it == extension) {
            found.push(path);
        }
    }
    found
}

/// A file's path below the repository's root.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).to_string_lossy().into_owned()
}

/// One shipped source file.
pub(crate) struct Source {
    /// The crate.
    pub(crate) package: &'static str,
    /// The path below the crate's `src`.
    pub(crate) path: String,
    /// The text, without the test module at its end.
    pub(crate) text: String,
}

impl Source {
    /// The path below the repository's root, without `src/`.
    pub(crate) fn shown(&self) -> String {
        format!("{}/{}", self.package, self.path)
    }

    /// The text without lines that hold only a comment.
    pub(crate) fn code(&self) -> String {
        let code = self.text.lines().filter(|line| !line.trim_start().starts_with("//"));
        code.collect::<Vec<_>>().join("\n")
    }
}

/// The shipped source files of a crate, without files that hold only tests.
pub(crate) fn shipped(package: &'static str) -> Vec<Source> {
    let src = root().join(package).join("src");
    let paths = files(&src, "rs").into_iter().filter(|path| !is_test(path));
    paths
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            let path = path.strip_prefix(&src).unwrap().to_string_lossy().into_owned();
            Source { package, path, text }
        })
        .collect()
}

/// The shipped source files of all crates.
pub(crate) fn all_shipped() -> Vec<Source> {
    SHIPPED.into_iter().flat_map(shipped).collect()
}

fn is_test(path: &Path) -> bool {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    name == "tests" || name.ends_with("_tests")
}
