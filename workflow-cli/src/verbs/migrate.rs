//! Brings the tables up to date, or shows what that would do.

use serde::Serialize;
use workflow_sdk::internal::migration_script;

use crate::arguments::Migrate;
use crate::output::Output;
use crate::target::Target;
use crate::{Exit, Failure};

/// The state of a database before a migration.
#[derive(Debug, Serialize)]
struct State {
    /// `true` if the tables are up to date.
    current: bool,
    /// The version of the tables, if they are not current; 0 if there are none.
    found: Option<i64>,
}

pub(super) async fn run(
    target: Target,
    Migrate { dry_run, print_sql }: Migrate,
    output: &Output,
) -> Result<Exit, Failure> {
    if !dry_run && !print_sql {
        target.migrate().await?;
        output.note("the tables are up to date");
        return Ok(Exit::Ok);
    }
    let (url, schema) = (target.url()?, target.schema().to_owned());
    let found = target.outdated().await?;
    match found {
        Some(found) if print_sql => output.line(migration_script(&url, &schema, found)?.trim_end())?,
        None if print_sql => output.note("the tables are up to date, so there is nothing to execute"),
        _ => {
            let state = State { current: found.is_none(), found };
            output.one(
                &state,
                || found.map_or_else(|| "current".to_owned(), |found| found.to_string()),
                |_| text(found),
            )?;
        }
    }
    Ok(Exit::Ok)
}

fn text(found: Option<i64>) -> String {
    match found {
        None => "the tables are up to date; migrate would change nothing".to_owned(),
        Some(0) => "there are no tables; migrate would create them".to_owned(),
        Some(found) => format!("the tables have version {found}; migrate would bring them up to date"),
    }
}
