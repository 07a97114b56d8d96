//! The tools `fs.read`, `fs.write`, `fs.append`, `fs.delete`, `fs.list`, `fs.stat`, `fs.copy` and
//! `fs.move`: files below one directory. They need Linux 5.6 or later.
//!
//! A path is relative to that directory. The kernel resolves it, so it cannot leave the directory
//! and follows no link, even while another process changes the tree.
//!
//! ```
//! use serde_json::json;
//! use workflow_flows::ToolCall;
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! # let directory = tempfile::tempdir().unwrap();
//! let tools = workflow_tools::files::tools(directory.path(), 1024 * 1024).unwrap();
//! let write = tools.iter().find(|tool| tool.name() == "fs.write").unwrap();
//! let args = json!({ "path": "a.txt", "content": "hello" });
//! write.call(ToolCall::new(args, "ann", "key")).await.unwrap();
//! assert_eq!(std::fs::read_to_string(directory.path().join("a.txt")).unwrap(), "hello");
//! # }
//! ```

mod limits;
pub(crate) mod root;

use std::io;
use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{FileType, Stat};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use workflow_flows::{Tool, ToolCall, ToolError};

pub use limits::Limits;

use crate::arguments::{failed, invalid, parse};
use crate::function::Function;
use root::{Entry, Root};

/// Returns the tools for the files below `root`. No file that is read, written or copied may be
/// larger than `limit` bytes. A copy of a directory has the bounds of [`Limits::new`].
///
/// # Errors
/// The error of the system if the directory cannot be opened, or the kernel cannot keep paths in
/// it.
pub fn tools(root: impl AsRef<Path>, limit: u64) -> io::Result<Vec<Arc<dyn Tool>>> {
    tools_with(root, Limits::new(limit))
}

/// Returns the tools for the files below `root`, with these bounds.
///
/// # Errors
/// See [`tools`].
pub fn tools_with(root: impl AsRef<Path>, limits: Limits) -> io::Result<Vec<Arc<dyn Tool>>> {
    let place = Arc::new(Place { root: Root::open(root.as_ref())?, limits });
    let text = json!({ "type": "string" });
    let flag = json!({ "type": "boolean", "default": false });
    let schema = |required: &[&str], properties: Value| json!({ "type": "object", "required": required, "additionalProperties": false, "properties": properties });
    let pair = schema(&["src", "dst"], json!({ "src": text, "dst": text, "create_dirs": flag }));
    let encoding = json!({ "enum": ["auto", "text", "base64"], "default": "auto" });
    let mode = json!({ "type": "integer", "default": 0o644, "description": "Permissions as a number: 420 is 0644." });
    let written = json!({ "path": text, "content": text, "create_dirs": flag, "mode": mode });
    let listed = json!({ "path": text, "pattern": { "type": "string", "description": "For names: * and ?." }, "recursive": flag });
    let make = |name, description, schema, body: fn(&Place, &ToolCall) -> Result<Value, ToolError>| {
        let place = Arc::clone(&place);
        Function::new(name, description, schema, move |call| body(&place, call)).blocking().shared()
    };
    Ok(vec![
        make("fs.read", "Reads a file.", schema(&["path"], json!({ "path": text, "encoding": encoding })), Place::read),
        make("fs.write", "Writes a file, in one step.", schema(&["path", "content"], written), Place::write),
        make(
            "fs.append",
            "Appends to a file.",
            schema(&["path", "content"], json!({ "path": text, "content": text })),
            Place::append,
        ),
        make(
            "fs.delete",
            "Deletes a file or a directory.",
            schema(&["path"], json!({ "path": text, "recursive": flag })),
            Place::delete,
        ),
        make("fs.list", "Lists a directory.", schema(&["path"], listed), Place::list),
        make("fs.stat", "Describes a file.", schema(&["path"], json!({ "path": text })), Place::stat),
        make("fs.copy", "Copies a file or a directory.", pair.clone(), Place::copy),
        make("fs.move", "Moves a file or a directory.", pair, Place::rename),
    ])
}

struct Place {
    root: Root,
    limits: Limits,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    path: String,
    #[serde(default)]
    encoding: Encoding,
}

#[derive(Deserialize, Default, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    #[default]
    Auto,
    Text,
    Base64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteArguments {
    path: String,
    content: String,
    #[serde(default)]
    create_dirs: bool,
    mode: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathArguments {
    path: String,
    #[serde(default)]
    recursive: bool,
    pattern: Option<String>,
    content: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PairArguments {
    src: String,
    dst: String,
    #[serde(default)]
    create_dirs: bool,
}

fn arguments<T: DeserializeOwned>(call: &ToolCall) -> Result<T, ToolError> {
    parse("fs", &call.args)
}

impl Place {
    fn read(&self, call: &ToolCall) -> Result<Value, ToolError> {
        let ReadArguments { path, encoding } = arguments(call)?;
        let content = self.root.read(&path, self.limits.file_bytes)?;
        let size = content.len();
        let (encoding, content) = match (encoding, String::from_utf8(content)) {
            (Encoding::Base64, Ok(text)) => ("base64", STANDARD.encode(text)),
            (Encoding::Auto | Encoding::Text, Ok(text)) => ("text", text),
            (Encoding::Text, Err(_)) => return Err(invalid(format!("fs.read: {path:?} is not text in UTF-8"))),
            (_, Err(error)) => ("base64", STANDARD.encode(error.into_bytes())),
        };
        Ok(json!({ "path": path, "content": content, "encoding": encoding, "size": size }))
    }

    fn write(&self, call: &ToolCall) -> Result<Value, ToolError> {
        let WriteArguments { path, content, create_dirs, mode } = arguments(call)?;
        self.check(content.len())?;
        self.root.write(&path, content.as_bytes(), mode.unwrap_or(0o644), create_dirs)?;
        Ok(json!({ "path": path, "size": content.len() }))
    }

    fn append(&self, call: &ToolCall) -> Result<Value, ToolError> {
        let PathArguments { path, content, .. } = arguments(call)?;
        let content = content.ok_or_else(|| invalid("fs.append needs content"))?;
        self.check(content.len())?;
        let size = self.root.append(&path, content.as_bytes())?;
        Ok(json!({ "path": path, "size": size }))
    }

    fn delete(&self, call: &ToolCall) -> Result<Value, ToolError> {
        let PathArguments { path, recursive, .. } = arguments(call)?;
        self.root.delete(&path, recursive)?;
        Ok(json!({ "path": path, "deleted": true }))
    }

    fn list(&self, call: &ToolCall) -> Result<Value, ToolError> {
        let PathArguments { path, recursive, pattern, .. } = arguments(call)?;
        let entries = self.root.list(&path, recursive)?;
        let fits = |name: &str| pattern.as_ref().is_none_or(|pattern| matches(pattern.as_bytes(), name.as_bytes()));
        let entries = entries.iter().filter(|entry| fits(&entry.name)).map(|entry| {
            let mut shown = described(&entry.path, &entry.stat);
            shown["name"] = json!(entry.name);
            shown
        });
        Ok(json!({ "path": path, "entries": entries.collect::<Vec<_>>() }))
    }

    fn stat(&self, call: &ToolCall) -> Result<Value, ToolError> {
        let PathArguments { path, .. } = arguments(call)?;
        Ok(described(&path, &self.root.stat(&path)?))
    }

    fn copy(&self, call: &ToolCall) -> Result<Value, ToolError> {
        let PairArguments { src, dst, create_dirs } = arguments(call)?;
        let stat = self.root.stat(&src)?;
        if is_directory(&stat) {
            let size = self.copy_directory(&src, &dst)?;
            return Ok(json!({ "src": src, "dst": dst, "size": size, "is_dir": true }));
        }
        let content = self.root.read(&src, self.limits.file_bytes)?;
        self.root.write(&dst, &content, stat.st_mode, create_dirs)?;
        Ok(json!({ "src": src, "dst": dst, "size": content.len(), "is_dir": false }))
    }

    /// Copies a directory and all in it. Returns the bytes of the files. A link in it and a
    /// directory over the bounds are refused before anything is copied. A new directory whose copy
    /// fails later is removed.
    fn copy_directory(&self, src: &str, dst: &str) -> Result<u64, ToolError> {
        let entries = self.root.list(src, true)?;
        let is_file = |entry: &Entry| FileType::from_raw_mode(entry.stat.st_mode) == FileType::RegularFile;
        if let Some(other) = entries.iter().find(|entry| !is_file(entry) && !is_directory(&entry.stat)) {
            return Err(invalid(format!("fs.copy: {:?} is neither a file nor a directory", other.path)));
        }
        self.check_copy(src, &entries)?;
        let is_new = self.root.stat(dst).is_err();
        self.root.make_directory(dst)?;
        let copied = self.copy_entries(src, dst, &entries);
        if copied.is_err() && is_new {
            // The error that is returned is the first one.
            let _ = self.root.delete(dst, true);
        }
        copied
    }

    /// Refuses a directory that is over the bounds of one copy.
    fn check_copy(&self, src: &str, entries: &[Entry]) -> Result<(), ToolError> {
        let Limits { file_bytes, copy_bytes, copy_entries } = self.limits;
        if entries.len() > copy_entries {
            let count = entries.len();
            return Err(invalid(format!(
                "fs.copy: {src:?} has {count} entries, and a copy may have {copy_entries}; copy a part of it"
            )));
        }
        let size = |entry: &Entry| u64::try_from(entry.stat.st_size).unwrap_or_default();
        let files = || entries.iter().filter(|entry| !is_directory(&entry.stat));
        if let Some(large) = files().find(|entry| size(entry) > file_bytes) {
            return Err(invalid(format!("fs.copy: {:?} is larger than {file_bytes} bytes, the limit", large.path)));
        }
        let bytes = files().map(size).fold(0, u64::saturating_add);
        if bytes > copy_bytes {
            return Err(invalid(format!(
                "fs.copy: {src:?} has {bytes} bytes, and a copy may have {copy_bytes}; copy a part of it"
            )));
        }
        Ok(())
    }

    /// Copies these entries of a directory into another one, and returns the bytes of the files.
    fn copy_entries(&self, src: &str, dst: &str, entries: &[Entry]) -> Result<u64, ToolError> {
        let mut size = 0;
        // The entries of the root have no prefix.
        let from = match src.trim_end_matches('/') {
            "." => "",
            from => from,
        };
        for entry in entries {
            let below = entry.path.strip_prefix(from).unwrap_or(&entry.path).trim_start_matches('/');
            let to = format!("{}/{below}", dst.trim_end_matches('/'));
            if is_directory(&entry.stat) {
                self.root.make_directory(&to)?;
            } else {
                // A file may have grown since its size was read.
                let room = self.limits.copy_bytes.saturating_sub(size);
                let content = self.root.read(&entry.path, self.limits.file_bytes.min(room))?;
                self.root.write(&to, &content, entry.stat.st_mode, true)?;
                size += content.len() as u64;
            }
        }
        Ok(size)
    }

    fn rename(&self, call: &ToolCall) -> Result<Value, ToolError> {
        let PairArguments { src, dst, create_dirs } = arguments(call)?;
        let stat = self.root.stat(&src)?;
        self.root.rename(&src, &dst, create_dirs)?;
        Ok(json!({ "src": src, "dst": dst, "size": stat.st_size, "is_dir": is_directory(&stat) }))
    }

    fn check(&self, size: usize) -> Result<(), ToolError> {
        let limit = self.limits.file_bytes;
        if size as u64 > limit {
            return Err(failed(format!("fs: the content is larger than {limit} bytes, the limit")));
        }
        Ok(())
    }
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

fn described(path: &str, stat: &Stat) -> Value {
    let modified_at = jiff::Timestamp::from_second(stat.st_mtime);
    json!({
        "path": path,
        "size": stat.st_size,
        "modified_at": modified_at.map(|time| time.to_string()).unwrap_or_default(),
        "modified_at_ms": stat.st_mtime * 1_000 + stat.st_mtime_nsec as i64 / 1_000_000,
        "is_dir": is_directory(stat),
        "is_link": FileType::from_raw_mode(stat.st_mode) == FileType::Symlink,
        "permissions": format!("{:04o}", stat.st_mode & 0o7777),
    })
}

/// Whether a name matches a pattern with `*` and `?`. Takes time in proportion to both lengths.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                // The last star takes one more character.
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    p = at + 1;
                    n = taken + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests;
