//! The files and programs of the documents.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use workflow_flows::Tool;
use workflow_tools::actions::Actions;
use workflow_tools::http::Http;
use workflow_tools::shell::Shell;

/// The programs that documents call, as scripts. With `-c` they answer for the one document that
/// brings a program of its own; other scripts are those of the list below.
const PROGRAMS: [(&str, &str); 4] = [
    ("bash", r#"case "$1" in -c) printf 'main\nold\n';; *) exec /bin/sh "$@";; esac"#),
    ("python3", r#"case "$1" in -c) cat >/dev/null; echo '["main", "old"]';; *) exec /bin/sh "$@";; esac"#),
    ("git", r#"echo "$*""#),
    ("go", "exit 0"),
];

/// The scripts that documents name, each with what it prints.
const SCRIPTS: [(&str, &str); 8] = [
    ("analyze.py", r#"{"anomaly_count": 3, "severity": "high", "details": []}"#),
    ("check_backup.sh", r#"{"exists": true, "path": "b.tar", "size_mb": 7, "age_hours": 5}"#),
    ("check_version.sh", r#"{"update_available": false, "latest_version": "1.0.0", "tag_ref": "v1.0.0"}"#),
    ("parse_commits.py", r#"{"has_breaking_changes": false, "commits": [], "features": 2, "fixes": 1, "total": 3}"#),
    ("parse_csv.py", r#"{"rows": [], "count": 3}"#),
    ("run-tests.sh", r#"{"passed": 9, "failed": 0}"#),
    ("scan.sh", r#"{"vulnerabilities_found": true, "critical": 1, "high": 0, "medium": 2, "packages": ["p"]}"#),
    ("verify.sh", r#"{"verified": true}"#),
];

/// The files that documents read.
const FILES: [(&str, &str); 4] =
    [("in/a.csv", "1,2"), ("in/b.csv", "3"), ("people.json", r#"[{"email": "e"}]"#), ("photo.png", "12345")];

/// A root for files and programs.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let place = TempDir::new().unwrap();
        let root = place.path();
        // Every account may write here, so that only the tools stand between it and others.
        std::fs::set_permissions(root, PermissionsExt::from_mode(0o777)).unwrap();
        for (name, script) in PROGRAMS {
            write(&root.join("programs").join(name), &format!("#!/bin/sh\n{script}\n"));
        }
        for (name, printed) in SCRIPTS {
            write(&root.join("scripts").join(name), &format!("echo '{printed}'\n"));
        }
        for (name, text) in FILES {
            write(&root.join(name), text);
        }
        Self(place)
    }

    /// Returns the tools of a worker for the documents.
    pub(crate) fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let root = self.0.path();
        let http = Http::builder().allow_network("127.0.0.1".parse().unwrap()).build().unwrap();
        let shell = Shell::builder(root).variable("PATH", "/usr/bin:/bin").timeout(Duration::from_secs(60));
        let programs = PROGRAMS.iter().map(|(name, _)| (*name, root.join("programs").join(name)));
        let shell = programs.fold(shell, |shell, (name, path)| shell.program(name, path));
        // The kernel does not limit root's processes. The account is one that nothing else uses.
        let account = 100_000 + std::process::id();
        let is_root = rustix::process::getuid().is_root();
        let shell = if is_root { shell.user(account, account) } else { shell };
        let actions = Actions::new(&http).files(root, 1024 * 1024).unwrap().shell(&shell.build().unwrap());
        actions.tools()
    }
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}
