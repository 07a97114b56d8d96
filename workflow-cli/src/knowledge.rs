//! `workflow kb`: reads the knowledge base that flows write. It asks the database itself.

use comfy_table::Cell;
use workflow_flows::{KbEntry, KbError, KbSearch, KbStore, KbSummary};

use crate::arguments::{KbVerb, ListKb, SearchKb};
use crate::clock::Clock;
use crate::output::{Output, Rows, number, printable};
use crate::target::Target;
use crate::{Exit, Failure};

pub(crate) async fn run(target: Target, verb: KbVerb, output: &Output) -> Result<Exit, Failure> {
    match verb {
        KbVerb::Search(search) => {
            let wanted = read_search(&search)?;
            let found = open(target).await?.search(&wanted).await.map_err(failure)?;
            print(output, &found)?;
        }
        KbVerb::Show { base, key } => {
            let found = open(target).await?.find(&base, &key).await.map_err(failure)?;
            let Some(entry) = found else {
                let message = format!("the base {base:?} has no document {key:?}");
                return Err(Failure::new(Exit::NotFound, message).help("`kb list --base NAME` shows the keys"));
            };
            output.one(&entry, || place(&entry.document.base, &entry.document.key), |clock| text_of(clock, &entry))?;
        }
        KbVerb::List(list) => list_documents(&open(target).await?, &list, output).await?,
    }
    Ok(Exit::Ok)
}

async fn open(target: Target) -> Result<KbStore, Failure> {
    KbStore::attach(&target.url()?).await.map_err(failure)
}

fn read_search(search: &SearchKb) -> Result<KbSearch, Failure> {
    let mut wanted = KbSearch::new(&search.query).map_err(failure)?.limit(search.limit);
    if let Some(base) = &search.base {
        wanted = wanted.base(base);
    }
    if search.any {
        wanted = wanted.any();
    }
    Ok(search.tags.iter().fold(wanted, KbSearch::tag))
}

async fn list_documents(kb: &KbStore, list: &ListKb, output: &Output) -> Result<(), Failure> {
    let after = match list.after.as_deref() {
        Some([base, key]) => Some((base.as_str(), key.as_str())),
        _ => None,
    };
    let found = kb.list(list.base.as_deref(), after, list.limit).await.map_err(failure)?;
    print(output, &found)?;
    if let Some(last) = found.last().filter(|_| output.is_for_people() && found.len() == list.limit as usize) {
        output.note(format!("further documents: --after {:?} {:?}", last.base, last.key));
    }
    Ok(())
}

fn print(output: &Output, found: &[KbSummary]) -> Result<(), Failure> {
    output.list(&found, found, |summary| place(&summary.base, &summary.key), |clock| table(clock, found))?;
    if found.is_empty() && output.is_for_people() {
        output.note("no document matches");
    }
    Ok(())
}

fn place(base: &str, key: &str) -> String {
    format!("{base}\t{key}")
}

fn table(clock: &Clock, found: &[KbSummary]) -> Rows {
    let mut rows = Rows::new(&["BASE", "KEY", "TITLE", "TAGS", "REVISION", "WRITTEN"]);
    for summary in found {
        rows.push(vec![
            Cell::new(printable(&summary.base)),
            Cell::new(printable(&summary.key)),
            Cell::new(printable(&summary.title)),
            Cell::new(printable(&summary.tags.join(", "))),
            number(summary.revision),
            Cell::new(clock.at(summary.written_at)),
        ]);
    }
    rows
}

fn text_of(clock: &Clock, KbEntry { document, revision, .. }: &KbEntry) -> String {
    let mut lines = vec![
        format!("base      {}", document.base),
        format!("key       {}", document.key),
        format!("title     {}", document.title),
        format!("tags      {}", document.tags.join(", ")),
        format!("revision  {revision}"),
        format!("written   {}", clock.at(document.written_at)),
    ];
    lines.extend(document.run.map(|run| format!("run       {run}")));
    let mut lines: Vec<String> = lines.iter().map(|line| printable(line)).collect();
    lines.push(String::new());
    lines.extend(document.text.lines().map(printable));
    lines.join("\n")
}

fn failure(error: KbError) -> Failure {
    match error {
        KbError::Query { .. } | KbError::Document { .. } | KbError::Url { .. } => {
            Failure::new(Exit::Usage, error.to_string())
        }
        KbError::NoTables => Failure::new(Exit::Unavailable, "the database has no knowledge base")
            .help("an application creates it with KbStore::connect; check --to"),
        _ => Failure::new(Exit::Unavailable, error.to_string()),
    }
}
