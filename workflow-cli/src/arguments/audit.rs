use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// Only changes whose verb begins so, as run. or queue.pause
    #[arg(long, default_value = "", value_name = "PREFIX")]
    pub(crate) verb: String,
    /// Only changes of this target, as queue:mail
    #[arg(long, value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Only changes by this actor
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
    /// The largest number of changes
    #[arg(long, default_value_t = 50, value_name = "NUMBER")]
    pub(crate) limit: u32,
    /// Where to go on: the cursor that the page before ended with
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
}
