//! The project that `workflow new` creates. The workspace builds and tests the same files as the
//! package `tests/new-app`.

use std::path::Path;
use std::process::{Command, Output};

fn workflow(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_workflow")).args(arguments).current_dir(directory).output().unwrap()
}

fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_new_project_is_complete_and_formatted() {
    let directory = tempfile::tempdir().unwrap();
    let created = workflow(directory.path(), &["new", "orders", "--database", "postgres://app@db/orders"]);
    assert!(created.status.success(), "{created:?}");
    assert!(String::from_utf8(created.stdout).unwrap().contains("cargo test"));

    let project = directory.path().join("orders");
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let read = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let metadata = succeeds(Command::new(&cargo).args(read).current_dir(&project));
    for name in ["orders", "crashes", "workflow-sdk", "workflow-testing"] {
        assert!(metadata.contains(&format!("\"name\":\"{name}\"")), "{name}: {metadata}");
    }
    succeeds(Command::new(&cargo).args(["fmt", "--check"]).current_dir(&project));

    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("template/src/lib.rs");
    let read = |path| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(project.join("src/lib.rs")), read(template), "what the workspace tests");
    assert!(read(project.join("src/main.rs")).contains("postgres://app@db/orders"));
}

/// The member has the dependencies of the manifest, so what builds here builds there.
#[test]
fn the_workspace_builds_the_template_with_its_dependencies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = |path: &str| -> Vec<String> {
        let manifest = std::fs::read_to_string(root.join(path)).unwrap();
        let dependencies = manifest.lines().skip_while(|line| *line != "[dependencies]");
        let names = dependencies.filter(|line| line.contains('='));
        names.map(|line| line.split(['.', ' ']).next().unwrap().to_owned()).collect()
    };
    let mut member = names("../tests/new-app/Cargo.toml");
    // Only for a test that runs the program.
    member.retain(|name| name != "tempfile");
    assert_eq!(names("template/manifest.toml"), member);
}

#[test]
fn nothing_is_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("orders")).unwrap();
    std::fs::write(directory.path().join("orders/notes.txt"), "keep").unwrap();
    let refused = workflow(directory.path(), &["new", "orders"]);
    assert_eq!(refused.status.code(), Some(1));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("orders exists and is not empty; nothing was written"), "{message}");
    assert_eq!(std::fs::read_dir(directory.path().join("orders")).unwrap().count(), 1);
    assert_eq!(workflow(directory.path(), &["new", "My App"]).status.code(), Some(2));
}
