use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

struct Files {
    _outer: TempDir,
    outside: std::path::PathBuf,
    root: std::path::PathBuf,
    tools: Vec<Arc<dyn Tool>>,
}

impl Files {
    fn new() -> Self {
        Self::with(Limits::new(1_000))
    }

    fn with(limits: Limits) -> Self {
        let outer = tempfile::tempdir().unwrap();
        let (root, outside) = (outer.path().join("root"), outer.path().join("outside"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "hunter2").unwrap();
        let tools = tools_with(&root, limits).unwrap();
        Self { _outer: outer, outside, root, tools }
    }

    async fn call(&self, name: &str, args: Value) -> Result<Value, ToolError> {
        let tool = self.tools.iter().find(|tool| tool.name() == name).unwrap();
        tool.call(ToolCall::new(args, "ann", "key")).await
    }
}

#[tokio::test]
async fn files_are_written_read_moved_and_deleted() {
    let files = Files::new();
    files.call("fs.write", json!({ "path": "a/b/c.txt", "content": "1", "create_dirs": true })).await.unwrap();
    let size = files.call("fs.append", json!({ "path": "a/b/c.txt", "content": "23" })).await.unwrap()["size"].clone();
    assert_eq!(size, 3);
    files.call("fs.copy", json!({ "src": "a/b/c.txt", "dst": "d.txt" })).await.unwrap();
    files.call("fs.move", json!({ "src": "d.txt", "dst": "e/f.txt", "create_dirs": true })).await.unwrap();
    let read = files.call("fs.read", json!({ "path": "e/f.txt" })).await.unwrap();
    assert_eq!(read, json!({ "path": "e/f.txt", "content": "123", "encoding": "text", "size": 3 }));
    let listed = files.call("fs.list", json!({ "path": ".", "recursive": true, "pattern": "*.t?t" })).await.unwrap();
    let paths: Vec<&str> = listed["entries"].as_array().unwrap().iter().map(|e| e["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["a/b/c.txt", "e/f.txt"]);
    assert_eq!(files.call("fs.stat", json!({ "path": "a/b" })).await.unwrap()["is_dir"], true);
    assert!(files.call("fs.delete", json!({ "path": "a" })).await.is_err(), "it is not empty");
    files.call("fs.delete", json!({ "path": "a", "recursive": true })).await.unwrap();
    assert!(!files.root.join("a").exists());
    fs::write(files.root.join("raw"), [0xff, 0]).unwrap();
    assert_eq!(files.call("fs.read", json!({ "path": "raw" })).await.unwrap()["content"], "/wA=");
}

#[tokio::test]
async fn a_directory_is_copied_with_all_in_it_unless_it_has_a_link() {
    let files = Files::new();
    files.call("fs.write", json!({ "path": "a/b/c.txt", "content": "12", "create_dirs": true })).await.unwrap();
    files.call("fs.write", json!({ "path": "a/d.txt", "content": "345" })).await.unwrap();
    let copied = files.call("fs.copy", json!({ "src": "a", "dst": "x/y" })).await.unwrap();
    assert_eq!(copied, json!({ "src": "a", "dst": "x/y", "size": 5, "is_dir": true }));
    assert_eq!(fs::read_to_string(files.root.join("x/y/b/c.txt")).unwrap(), "12");
    assert_eq!(fs::read_to_string(files.root.join("x/y/d.txt")).unwrap(), "345");
    let described = files.call("fs.stat", json!({ "path": "a/d.txt" })).await.unwrap();
    let modified_at: jiff::Timestamp = described["modified_at"].as_str().unwrap().parse().unwrap();
    assert_eq!(modified_at.as_second(), described["modified_at_ms"].as_i64().unwrap() / 1_000);
    symlink(&files.outside, files.root.join("a/link")).unwrap();
    let refused = files.call("fs.copy", json!({ "src": "a", "dst": "z" })).await.unwrap_err();
    assert!(refused.message.contains("a/link"), "{refused}");
    assert!(!files.root.join("z").exists());
}

#[tokio::test]
async fn a_copy_of_a_directory_is_bounded_as_a_whole() {
    let files = Files::with(Limits { copy_bytes: 10, copy_entries: 3, ..Limits::new(8) });
    for name in ["b", "c"] {
        let args = json!({ "path": format!("a/{name}"), "content": "12345", "create_dirs": true });
        files.call("fs.write", args).await.unwrap();
    }
    let copied = files.call("fs.copy", json!({ "src": "a", "dst": "x" })).await.unwrap();
    assert_eq!(copied["size"], 10);
    files.call("fs.write", json!({ "path": "a/d", "content": "1" })).await.unwrap();
    for name in ["1", "2", "3", "4"] {
        files
            .call("fs.write", json!({ "path": format!("e/{name}"), "content": "", "create_dirs": true }))
            .await
            .unwrap();
    }
    fs::create_dir(files.root.join("f")).unwrap();
    fs::write(files.root.join("f/a"), "1").unwrap();
    fs::write(files.root.join("f/b"), "123456789").unwrap();
    for (src, words) in [
        ("a", "\"a\" has 11 bytes, and a copy may have 10"),
        ("e", "\"e\" has 4 entries, and a copy may have 3"),
        ("f", "\"f/b\" is larger than 8 bytes"),
    ] {
        let refused = files.call("fs.copy", json!({ "src": src, "dst": "y/z" })).await.unwrap_err();
        assert!(refused.message.contains(words), "{refused}");
        assert!(!files.root.join("y").exists(), "{src}: nothing was copied");
    }
}

#[tokio::test]
async fn a_copy_that_fails_in_its_middle_leaves_no_part() {
    let files = Files::new();
    fs::create_dir_all(files.root.join("a/b")).unwrap();
    fs::write(files.root.join("a/b/c"), "1").unwrap();
    // A name that is not text is listed, and cannot be read by its path.
    fs::write(files.root.join("a").join(OsStr::from_bytes(b"\xff")), "2").unwrap();
    let copy = json!({ "src": "a", "dst": "x" });
    assert!(files.call("fs.copy", copy.clone()).await.is_err());
    assert!(!files.root.join("x").exists());
    // A directory that was there before is kept.
    fs::create_dir(files.root.join("x")).unwrap();
    fs::write(files.root.join("x/old"), "3").unwrap();
    assert!(files.call("fs.copy", copy).await.is_err());
    assert_eq!(fs::read_to_string(files.root.join("x/old")).unwrap(), "3");
}

#[tokio::test]
async fn a_copy_of_the_root_keeps_its_names() {
    let files = Files::new();
    for name in [".env", "env"] {
        files.call("fs.write", json!({ "path": name, "content": name })).await.unwrap();
    }
    files.call("fs.copy", json!({ "src": ".", "dst": "sub/copy" })).await.unwrap();
    for name in [".env", "env"] {
        assert_eq!(fs::read_to_string(files.root.join("sub/copy").join(name)).unwrap(), name);
    }
}

#[tokio::test]
async fn no_path_leaves_the_root() {
    let files = Files::new();
    symlink(&files.outside, files.root.join("link")).unwrap();
    symlink(files.outside.join("secret"), files.root.join("file")).unwrap();
    symlink(&files.root, files.root.join("self")).unwrap();
    fs::write(files.root.join("own"), "x").unwrap();
    let absolute = files.outside.join("secret").to_str().unwrap().to_owned();
    for path in ["../outside/secret", "link/secret", "file", "self/own", "a/../../outside/secret", "", "/", &absolute] {
        let read = files.call("fs.read", json!({ "path": path })).await;
        assert!(read.is_err(), "{path:?} was read");
        assert!(files.call("fs.stat", json!({ "path": path })).await.is_err(), "{path:?} was described");
        assert!(files.call("fs.append", json!({ "path": path, "content": "y" })).await.is_err(), "{path:?}");
        assert!(files.call("fs.copy", json!({ "src": path, "dst": "copy" })).await.is_err(), "{path:?}");
    }
    for path in ["../new", "link/new", "self/new", "/tmp/new-file-of-a-flow"] {
        let args = json!({ "path": path, "content": "y", "create_dirs": true });
        assert!(files.call("fs.write", args).await.is_err(), "{path:?} was written");
        assert!(files.call("fs.move", json!({ "src": "own", "dst": path })).await.is_err(), "{path:?}");
    }
    assert!(files.call("fs.write", json!({ "path": "file", "content": "y" })).await.is_err(), "a link is no target");
    assert!(files.call("fs.delete", json!({ "path": "link/secret" })).await.is_err());
    assert!(files.call("fs.list", json!({ "path": "link" })).await.is_err());
    assert_eq!(fs::read_to_string(files.outside.join("secret")).unwrap(), "hunter2");
    assert_eq!(fs::read_dir(&files.outside).unwrap().count(), 1);
}

#[tokio::test]
async fn a_recursive_deletion_removes_links_and_not_their_targets() {
    let files = Files::new();
    fs::create_dir_all(files.root.join("d/e")).unwrap();
    symlink(&files.outside, files.root.join("d/e/link")).unwrap();
    files.call("fs.delete", json!({ "path": "d", "recursive": true })).await.unwrap();
    assert!(!files.root.join("d").exists());
    assert!(files.outside.join("secret").exists());
}

#[tokio::test]
async fn large_files_and_pipes_are_refused() {
    let files = Files::new();
    fs::write(files.root.join("large"), "x".repeat(1_001)).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, files.root.join("pipe"), rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
    for path in ["large", "pipe"] {
        assert!(files.call("fs.read", json!({ "path": path })).await.is_err(), "{path}");
    }
    assert!(files.call("fs.append", json!({ "path": "pipe", "content": "x" })).await.is_err());
    assert!(files.call("fs.write", json!({ "path": "pipe", "content": "x" })).await.is_err());
    assert!(files.call("fs.write", json!({ "path": "new", "content": "x".repeat(1_001) })).await.is_err());
    assert!(!files.root.join("new").exists());
    let error = files.call("fs.read", json!({ "path": "large/below" })).await.unwrap_err();
    assert_eq!(error.class, workflow_flows::ErrorClass::Invalid, "a file is no directory in the next attempt either");
}

#[test]
fn patterns_match_names() {
    for (pattern, name, fits) in [
        ("*", "", true),
        ("a*c", "abbc", true),
        ("a*c", "abb", false),
        ("?", "", false),
        ("??", "ab", true),
        ("*a*b*", "xxaxxbxx", true),
        ("*a*b", "ba", false),
        ("", "a", false),
    ] {
        assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), fits, "{pattern} {name}");
    }
    assert!(!matches("*a".repeat(500).as_bytes(), "a".repeat(400).as_bytes()), "in bounded time");
}
