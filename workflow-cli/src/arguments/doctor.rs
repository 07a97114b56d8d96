use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Examine {
    /// Say what a database that was restored from a backup lacks, and which steps may run again.
    /// FILE, or - for the standard input, names runs that are known outside, one a line: a run id
    /// or a key, and after a tab a status or the key of a step that has ended; or a line of the
    /// JSON log of a worker
    #[arg(long, value_name = "FILE")]
    pub(crate) after_restore: Option<Option<String>>,
    /// First pause every queue and every schedule, so that no run of theirs begins until --release.
    /// Occurrences that wait for the end of a run are skipped and counted. Bulk operations go on:
    /// stop them by workflow bulk stop
    #[arg(long, requires = "after_restore")]
    pub(crate) hold: bool,
    /// Resume the queues and the schedules that --hold has paused, and look for nothing
    #[arg(long, conflicts_with_all = ["after_restore", "hold"])]
    pub(crate) release: bool,
    /// Also count the runs of the last hour again, and compare the statistics with them
    #[arg(long, conflicts_with_all = ["after_restore", "release"])]
    pub(crate) recount: bool,
    /// The author of --hold and --release, for the audit log; default: the user of this process
    #[arg(long, env = "WORKFLOW_ACTOR", value_name = "NAME")]
    pub(crate) actor: Option<String>,
}
