use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::StartOptions;

#[derive(Debug, Subcommand)]
pub(crate) enum FlowVerb {
    /// Check flows, and tell every fault with its place and repair
    Check(CheckFlows),
    /// Write flows in the usual way; comments and order stay
    Fmt(FormatFlows),
    /// Draw a flow
    Diagram(DrawFlow),
    /// Check flows and make each a version that is started by its name; nothing is deployed if one
    /// has errors
    Deploy(DeployFlows),
    /// List the deployed flows, or the versions of one
    List(ListFlows),
    /// Check a flow and start a run of it; a worker with the flow's tools runs it
    Run(Box<RunFlow>),
    /// Run the cases that stand beside flows, with stubs and in virtual time
    Test(TestFlows),
    /// Print the JSON Schema of flows, for editors and agents
    Schema,
}

/// The documents and how they are read.
#[derive(Debug, Args)]
pub(crate) struct FlowFiles {
    /// The documents, in YAML or JSON; - reads the standard input
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The dialect; default: found out from the document
    #[arg(long, value_enum, value_name = "DIALECT")]
    pub(crate) dialect: Option<FlowDialect>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FlowDialect {
    /// Documents that begin with `flow: 1`
    Native,
    /// The map of steps of the engine with two tables
    TwoTable,
    /// The definitions of the DAG engine
    Opcode,
    /// The Serverless Workflow language of the CNCF, version 1.0
    Cncf,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 no errors (warnings are told), 1 errors, 2 a document cannot be read.")]
pub(crate) struct CheckFlows {
    #[command(flatten)]
    pub(crate) files: FlowFiles,
    /// Let warnings count, too
    #[arg(long)]
    pub(crate) strict: bool,
    /// Also print the levels and a Mermaid diagram of each valid flow
    #[arg(long)]
    pub(crate) plan: bool,
    /// The input of a run, as JSON, which is checked against the flow's schema
    #[arg(long, value_name = "JSON")]
    pub(crate) input: Option<String>,
    #[command(flatten)]
    pub(crate) connection: ToolConnection,
}

/// Whether and for which account the tools of a flow are asked.
#[derive(Debug, Args)]
pub(crate) struct ToolConnection {
    /// Also ask the worker of this program, or of the server in --to, for the tools of each flow,
    /// their servers whether they have them, and the policy whether the account may call them.
    /// Calls no tool, and needs a database or a server
    #[arg(long)]
    pub(crate) connect: bool,
    /// The account that deploys or checks; runs that a trigger starts act for the one that deploys;
    /// default: the user of this process. A server takes the account of the token
    #[arg(long, env = "WORKFLOW_ACTOR", value_name = "NAME")]
    pub(crate) actor: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 done, or nothing to do, 1 errors, or with --check a document that would \
                        change, 2 a document cannot be read or written.")]
pub(crate) struct FormatFlows {
    #[command(flatten)]
    pub(crate) files: FlowFiles,
    /// Change nothing, and tell which documents would change
    #[arg(long)]
    pub(crate) check: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DrawFlow {
    /// The document, in YAML or JSON; - reads the standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The dialect; default: found out from the document
    #[arg(long, value_enum, value_name = "DIALECT")]
    pub(crate) dialect: Option<FlowDialect>,
    /// Print the levels in which the steps can begin, in place of a Mermaid flowchart
    #[arg(long)]
    pub(crate) levels: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 all are deployed, 1 a flow has errors and nothing was deployed, or a version \
                        has another body, 2 a document cannot be read, 3 the server does not allow it.")]
pub(crate) struct DeployFlows {
    #[command(flatten)]
    pub(crate) files: FlowFiles,
    /// The name of the flow, for documents that have no place for one; default: that of the file
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// The name of the version, as 1.4.0; default: its number
    #[arg(long, value_name = "VERSION", id = "flow_version")]
    pub(crate) version: Option<String>,
    #[command(flatten)]
    pub(crate) connection: ToolConnection,
}

#[derive(Debug, Args)]
pub(crate) struct ListFlows {
    /// The flow whose versions are listed; default: the newest version of each
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 started (with --wait: succeeded), 1 the flow or its input has errors and \
                        nothing was started, 2 the document cannot be read, 3 the server does not allow it, 4 no \
                        such flow is deployed, 9 no database or server. With --wait also 5 the run failed, 6 it was \
                        canceled, 7 waited too long. With --dry-run: 0 the run would succeed, 1 it would not.\n\
                        A key belongs to its flow: the run has the key NAME/KEY.")]
pub(crate) struct RunFlow {
    /// The document, in YAML or JSON, or the name of a deployed flow; - reads the standard input
    #[arg(value_name = "FILE|NAME")]
    pub(crate) file: PathBuf,
    /// The version of a deployed flow; default: the newest
    #[arg(long, value_name = "VERSION", id = "flow_version")]
    pub(crate) version: Option<String>,
    /// The dialect; default: found out from the document
    #[arg(long, value_enum, value_name = "DIALECT")]
    pub(crate) dialect: Option<FlowDialect>,
    /// Start nothing: run the flow here, in virtual time, with stubs in the place of all that it
    /// calls, and print what each step does. A document needs no database; a deployed flow needs
    /// one, and not a server
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// With --dry-run: a document with the answers of stubs; examples answer for all others
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    pub(crate) stub: Option<PathBuf>,
    // The run acts on behalf of the author: tools and policies see the name.
    #[command(flatten)]
    pub(crate) options: StartOptions,
}

#[derive(Debug, Args)]
#[command(after_help = "A case has a name, an input, stubs, and what is expected: output, error, calls, took. Exit \
                        codes: 0 every case passed, 1 one did not, 2 a document cannot be read.")]
pub(crate) struct TestFlows {
    /// Documents of cases, as order.test.yaml, or the flows beside which they stand
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Run only the cases whose name contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
}
