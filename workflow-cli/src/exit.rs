use std::process::ExitCode;

/// The exit code of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// 0: done.
    Ok,
    /// 1: failed or refused.
    Error,
    /// 2: the command line, or a value in it, is wrong.
    Usage,
    /// 3: a server does not let the caller in, or does not let it do this.
    NotAllowed,
    /// 4: there is nothing of this id or name.
    NotFound,
    /// 5: the run has failed.
    RunFailed,
    /// 6: the run was canceled.
    RunCanceled,
    /// 7: not done within the time to wait.
    TimedOut,
    /// 8: done for some of several, not for the others.
    Partly,
    /// 9: the database or the server cannot be reached, or the database is not migrated.
    Unavailable,
    /// 130: interrupted from the keyboard.
    Interrupted,
}

impl Exit {
    /// Returns the number.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::NotAllowed => 3,
            Self::NotFound => 4,
            Self::RunFailed => 5,
            Self::RunCanceled => 6,
            Self::TimedOut => 7,
            Self::Partly => 8,
            Self::Unavailable => 9,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
