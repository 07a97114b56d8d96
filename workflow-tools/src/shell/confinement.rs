//! Which files and networks a program reaches.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, Scope, path_beneath_rules,
};
use serde::{Deserialize, Serialize};

/// Programs, their libraries and harmless devices. Secrets of the machine are elsewhere.
const READABLE: [&str; 9] =
    ["/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/alternatives", "/dev/urandom", "/dev/zero"];

/// Files and TCP are confined from here on: Linux 6.7.
const REQUIRED: ABI = ABI::V4;
/// Signals and abstract sockets are confined, too, from here on: Linux 6.12.
const WANTED: ABI = ABI::V6;

/// The files and networks that a program reaches.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Confinement {
    /// The directory below which the program reads and writes.
    pub(super) root: PathBuf,
    /// Further paths to read, with everything below them.
    pub(super) readable: Vec<PathBuf>,
    /// Whether the program may use TCP.
    pub(super) network: bool,
    /// Whether a kernel that cannot confine programs is an error.
    pub(super) required: bool,
}

impl Confinement {
    /// Confines this thread, and the program that it becomes, for good. No program gains rights by
    /// the owner of its file from here on.
    pub(super) fn enter(&self) -> Result<(), RulesetError> {
        let readable = READABLE.iter().map(Path::new).chain(self.readable.iter().map(PathBuf::as_path));
        let writable = [self.root.as_path(), Path::new("/dev/null")];
        self.ruleset(REQUIRED)?
            .add_rules(path_beneath_rules(readable, AccessFs::from_read(WANTED)))?
            .add_rules(path_beneath_rules(writable, AccessFs::from_all(WANTED)))?
            .restrict_self()?;
        Ok(())
    }

    /// Fails if confinement is required and the kernel does not support it.
    pub(super) fn check(&self) -> Result<(), RulesetError> {
        self.ruleset(REQUIRED).map(drop)
    }

    fn ruleset(&self, required: ABI) -> Result<RulesetCreated, RulesetError> {
        let level = if self.required { CompatLevel::HardRequirement } else { CompatLevel::BestEffort };
        let mut ruleset = Ruleset::default().set_compatibility(level).handle_access(AccessFs::from_all(required))?;
        if !self.network {
            ruleset = ruleset.handle_access(AccessNet::from_all(required))?;
        }
        ruleset = ruleset.set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::from_all(WANTED))?;
        ruleset.scope(Scope::from_all(WANTED))?.create()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_cannot_confine_is_refused_unless_that_is_allowed() {
        let confinement = |required| Confinement { root: "/".into(), readable: vec![], network: false, required };
        // A later interface than that of any kernel on which this has run.
        assert!(confinement(true).ruleset(ABI::V10).is_err());
        assert!(confinement(false).ruleset(ABI::V10).is_ok());
    }
}
