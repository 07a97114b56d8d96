//! The settings of the operator for programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Shell;
use super::confinement::Confinement;
use super::helper;
use super::limits::Limits;
use crate::files::root::Root;

/// Variables of one actor.
type OwnVariables = dyn Fn(&str) -> Vec<(String, String)> + Send + Sync;

/// A [`Shell`] cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShellError {
    /// A path is relative, or leads to no file.
    #[error("the program {name:?} has the path {path:?}, which is not the absolute path of a file")]
    NotAProgram {
        /// The name.
        name: String,
        /// The path.
        path: PathBuf,
    },
    /// The root cannot be opened, or the kernel cannot keep paths below it.
    #[error("the root {path:?} of programs cannot be opened: {source}")]
    Root {
        /// The path.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// This process is root, and programs would be.
    #[error(
        "this process is root, so programs would be root, too: name an account of theirs by `ShellBuilder::user`, \
         start this process as another account, or set `ShellBuilder::allow_root`"
    )]
    RunsAsRoot,
    /// The `main` of this program does not call [`shell_helper`](super::shell_helper).
    #[error(
        "programs need a helper process, which this program cannot start: begin its main with \
         workflow_tools::shell::shell_helper(), or name another program by `helper`"
    )]
    NoHelper,
    /// The kernel has no landlock, or one before Linux 6.7.
    #[error(
        "the kernel cannot confine programs to their files: use Linux 6.7 or later with landlock, or set \
         `allow_without_landlock` (the kernel says: {0})"
    )]
    NoLandlock(String),
}

/// Makes a [`Shell`].
#[derive(Clone)]
pub struct ShellBuilder {
    pub(super) programs: BTreeMap<String, PathBuf>,
    pub(super) variables: BTreeMap<String, String>,
    variables_of: Option<Arc<OwnVariables>>,
    pub(super) settable: BTreeSet<String>,
    pub(super) confinement: Confinement,
    pub(super) limits: Limits,
    pub(super) user: Option<(u32, u32)>,
    allows_root: bool,
    pub(super) helper: Option<PathBuf>,
    pub(super) timeout: Duration,
    pub(super) output_limit: usize,
}

/// Leaves the variables out, because they may be secrets.
impl fmt::Debug for ShellBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShellBuilder").field("programs", &self.programs).finish_non_exhaustive()
    }
}

impl ShellBuilder {
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            programs: BTreeMap::new(),
            variables: BTreeMap::new(),
            variables_of: None,
            settable: BTreeSet::new(),
            confinement: Confinement { root, readable: Vec::new(), network: false, required: true },
            limits: Limits::default(),
            user: None,
            allows_root: false,
            helper: None,
            timeout: Duration::from_secs(30),
            output_limit: 1024 * 1024,
        }
    }

    /// Allows the program at this absolute path under this name. A program may start others that it
    /// can read: with a shell on the list, a flow can run what the shell can.
    #[must_use]
    pub fn program(mut self, name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        self.programs.insert(name.into(), path.into());
        self
    }

    /// Sets a variable of the environment of every program.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Adds variables for the actor of the call, such as its token. They win over
    /// [`variable`](Self::variable).
    #[must_use]
    pub fn variables_of(mut self, variables: impl Fn(&str) -> Vec<(String, String)> + Send + Sync + 'static) -> Self {
        self.variables_of = Some(Arc::new(variables));
        self
    }

    /// Lets flows set this variable (`env`), unless it is one of the actor. Variables such as
    /// `LD_PRELOAD` load code into programs.
    #[must_use]
    pub fn settable_variable(mut self, name: impl Into<String>) -> Self {
        self.settable.insert(name.into());
        self
    }

    /// Lets programs read this path and all below it. Without landlock, they read what their
    /// account can read.
    #[must_use]
    pub fn readable(mut self, path: impl Into<PathBuf>) -> Self {
        self.confinement.readable.push(path.into());
        self
    }

    /// Lets programs use TCP. Landlock confines neither UDP nor sockets with a path. Default:
    /// `false`.
    #[must_use]
    pub fn allow_network(mut self, allowed: bool) -> Self {
        self.confinement.network = allowed;
        self
    }

    /// Runs programs also where the kernel has no landlock or an old one, then with the files and
    /// networks of their account. Default: `false`.
    #[must_use]
    pub fn allow_without_landlock(mut self, allowed: bool) -> Self {
        self.confinement.required = !allowed;
        self
    }

    /// Sets what the kernel allows programs. Default: [`Limits::default`].
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Runs programs as this user and group, without further groups. Needs a worker that runs as
    /// root. Default: the account of the worker.
    #[must_use]
    pub fn user(mut self, user: u32, group: u32) -> Self {
        self.user = Some((user, group));
        self
    }

    /// Lets programs run as root, if the worker does. The kernel does not limit the number of
    /// root's processes. Default: `false`.
    #[must_use]
    pub fn allow_root(mut self, allowed: bool) -> Self {
        self.allows_root = allowed;
        self
    }

    /// Names the program that is started as the helper; its `main` calls
    /// [`shell_helper`](super::shell_helper). Default: this program.
    #[must_use]
    pub fn helper(mut self, program: impl Into<PathBuf>) -> Self {
        self.helper = Some(program.into());
        self
    }

    /// Sets the longest time of a call. A call may ask for less. Default: 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how many bytes are kept of the output and of the errors each, at least 1 KiB. The rest
    /// is read, left out of the result, and the result says so. Default: 1 MiB.
    #[must_use]
    pub fn output_limit(mut self, bytes: usize) -> Self {
        self.output_limit = bytes.max(1024);
        self
    }

    /// Makes the tool.
    ///
    /// # Errors
    /// A [`ShellError`] if a path does not fit, programs would run as root, or neither the kernel
    /// nor this program can bound them.
    pub fn build(mut self) -> Result<Shell, ShellError> {
        let unopened = |path: &Path, source| ShellError::Root { path: path.to_owned(), source };
        let path = self.confinement.root.canonicalize().map_err(|error| unopened(&self.confinement.root, error))?;
        let root = Root::open(&path).map_err(|error| unopened(&path, error))?;
        self.confinement.root = path;
        if let Some((name, path)) = self.programs.iter().find(|(_, path)| !path.is_absolute() || !path.is_file()) {
            return Err(ShellError::NotAProgram { name: name.clone(), path: path.clone() });
        }
        let user = self.user.map_or_else(|| rustix::process::getuid().as_raw(), |(user, _)| user);
        if user == 0 && !self.allows_root {
            return Err(ShellError::RunsAsRoot);
        }
        if self.helper.is_none() && !helper::is_prepared() {
            return Err(ShellError::NoHelper);
        }
        self.confinement.check().map_err(|error| ShellError::NoLandlock(error.to_string()))?;
        self.confinement.readable.extend(self.programs.values().cloned());
        Ok(Shell { options: Arc::new(self), root: Arc::new(root) })
    }

    /// The variables of a call for this actor, without those of the call itself.
    pub(super) fn own(&self, actor: &str) -> Vec<(String, String)> {
        self.variables_of.as_ref().map(|variables| variables(actor)).unwrap_or_default()
    }
}
