//! Runs a long fault campaign on real processes: `campaign KIND --seed N --count N --database
//! sqlite|postgres`. It prints what it did and found. It exits with 1 if it found a violation or
//! proves too little. `campaign planted` plants one bug after the other and exits with 1 if one of
//! them is not found.

use std::error::Error;
use std::process::{Command, ExitCode};

use clap::Parser;
use workflow_tests::Database;
use workflow_torture::campaign::{self, KINDS, Plan};

/// The environment variable that names the bug that is planted into the engine.
const PLANTED: &str = "WORKFLOW_PLANTED";

/// The exit code if this machine cannot run the kind: neither success nor failure.
const REFUSED: u8 = 3;

#[derive(Debug, Parser)]
#[command(about = "A fault campaign on real processes", after_help = kinds())]
struct Arguments {
    /// The kind of campaign, or `planted`.
    kind: String,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The number of faults; for programs, equal and races, the number of programs or races.
    #[arg(long, default_value_t = 100)]
    count: usize,
    /// sqlite or postgres.
    #[arg(long, default_value = "sqlite")]
    database: String,
    /// A bug to plant into the engine.
    #[arg(long)]
    planted: Option<String>,
    /// The number of concurrent rounds.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// The directory of the rounds' data. Default: the directory for temporary files.
    #[arg(long)]
    directory: Option<std::path::PathBuf>,
    /// Prints the report as one line of JSON.
    #[arg(long)]
    json: bool,
}

fn kinds() -> String {
    let kinds =
        KINDS.iter().map(|kind| format!("  {:12} {}\n{:14} delivered: {}\n", kind.name, kind.what, "", kind.delivered));
    let planted = format!("  {:12} plants one bug after the other, and checks that a campaign finds it\n", "planted");
    format!("Kinds:\n{}{planted}", kinds.collect::<String>())
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    // The workers of a campaign run this same program, so that no other program is needed beside
    // it.
    if let Some(settings) = std::env::args().nth(1).filter(|argument| argument.starts_with('{')) {
        workflow_torture::ledger_worker::work(&settings)?;
        return Ok(ExitCode::SUCCESS);
    }
    let arguments = Arguments::parse();
    if let Some(planted) = &arguments.planted
        && std::env::var(PLANTED).as_ref() != Ok(planted)
    {
        // Starts this program again with the variable, so that the clients of the campaign have the
        // bug, too.
        let again =
            Command::new(std::env::current_exe()?).args(std::env::args_os().skip(1)).env(PLANTED, planted).status()?;
        return Ok(if again.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(arguments))
}

/// Searches for every planted bug and prints what found it.
fn seek_planted(database: Database, seed: u64) -> ExitCode {
    let mut missed = 0;
    for (bug, kind) in campaign::planted::bugs(database) {
        if let Some(why) = campaign::refusal(kind) {
            println!("{:26} {:10} skipped: {why}", bug.name, kind.name);
            continue;
        }
        let sought = campaign::planted::seek(bug, kind, database, seed);
        missed += usize::from(sought.violation.is_none());
        let found = sought.violation.as_deref().unwrap_or("NOT FOUND");
        println!("{:26} {:10} {:5.1} s  {found}", bug.name, kind.name, sought.took.as_secs_f64());
    }
    if missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

async fn run(arguments: Arguments) -> Result<ExitCode, Box<dyn Error>> {
    let database = match arguments.database.as_str() {
        "sqlite" => Database::Sqlite,
        "postgres" => Database::Postgres,
        other => return Err(format!("there is no database {other:?}; there are sqlite and postgres").into()),
    };
    if arguments.kind == "planted" {
        return Ok(seek_planted(database, arguments.seed));
    }
    let Some(kind) = campaign::kind(&arguments.kind) else {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        return Err(
            format!("there is no kind {:?}; there are {}, and planted", arguments.kind, names.join(", ")).into()
        );
    };
    if !kind.databases.contains(&database) {
        return Err(format!("{} does not run on {}", kind.name, arguments.database).into());
    }
    if let Some(why) = campaign::refusal(kind) {
        eprintln!("skipped: {why}");
        return Ok(ExitCode::from(REFUSED));
    }
    let mut plan = Plan::new(arguments.seed, arguments.count, database);
    plan.jobs = arguments.jobs.max(1);
    plan.program = Some(std::env::current_exe()?);
    plan.directory = arguments.directory;
    plan.prints_progress = true;
    let report = campaign::run(kind, plan).await;
    match arguments.json {
        true => println!("{}", serde_json::to_string(&report)?),
        false => println!("{report}"),
    }
    Ok(if report.failure().is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
