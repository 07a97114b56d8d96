use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum KbVerb {
    /// Find documents by their words
    Search(SearchKb),
    /// Show a document with its whole text
    Show {
        /// The base
        base: String,
        /// The key of the document
        key: String,
    },
    /// List documents by base and key
    List(ListKb),
}

#[derive(Debug, Args)]
#[command(after_help = "A query has words, \"phrases\", beginnings (print*) and exclusions (-ink). \
                        Exit codes: 0 done, 2 the query is refused, 9 the database has no knowledge base.")]
pub(crate) struct SearchKb {
    /// The query; documents have all its words
    #[arg(value_name = "QUERY", allow_hyphen_values = true)]
    pub(crate) query: String,
    /// Search this base alone
    #[arg(long, value_name = "NAME")]
    pub(crate) base: Option<String>,
    /// Find only documents with this tag; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    /// Let one of the words be enough
    #[arg(long)]
    pub(crate) any: bool,
    /// The most documents, at most 50
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=50), value_name = "NUMBER")]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ListKb {
    /// List this base alone
    #[arg(long, value_name = "NAME")]
    pub(crate) base: Option<String>,
    /// The most documents, at most 1000
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "NUMBER")]
    pub(crate) limit: u32,
    /// Continue a list behind this document
    #[arg(long, num_args = 2, value_names = ["BASE", "KEY"])]
    pub(crate) after: Option<Vec<String>>,
}
