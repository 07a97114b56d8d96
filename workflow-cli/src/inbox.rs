//! `workflow inbox`: reads the messages that flows leave for people. It asks the database itself.

use comfy_table::Cell;
use workflow_flows::{InboxEntry, InboxError, InboxStore};

use crate::arguments::{InboxVerb, ListInbox};
use crate::clock::Clock;
use crate::output::{Output, Rows, maybe, number, printable};
use crate::target::Target;
use crate::{Exit, Failure};

pub(crate) async fn run(target: Target, verb: InboxVerb, output: &Output) -> Result<Exit, Failure> {
    let inbox = InboxStore::attach(&target.url()?).await.map_err(failure)?;
    match verb {
        InboxVerb::List(list) => list_messages(&inbox, &list, output).await?,
        InboxVerb::Read { id } => {
            let Some(entry) = inbox.mark_read(id).await.map_err(failure)? else {
                let failure = Failure::new(Exit::NotFound, format!("there is no message {id}"));
                return Err(failure.help("`inbox list --all` shows the ids"));
            };
            output.one(&entry, || id.to_string(), |clock| text_of(clock, &entry))?;
        }
    }
    Ok(Exit::Ok)
}

async fn list_messages(inbox: &InboxStore, list: &ListInbox, output: &Output) -> Result<(), Failure> {
    let found = inbox.list(list.receiver.as_deref(), !list.all, list.before, list.limit).await.map_err(failure)?;
    output.list(&found, &found, |entry| entry.id.to_string(), |clock| table(clock, &found))?;
    let last = found.last().filter(|_| found.len() == list.limit as usize);
    let older = last.map(|last| format!("older messages: --before {}", last.id));
    output.page_end(found.is_empty().then_some("no message matches"), older);
    Ok(())
}

fn table(clock: &Clock, found: &[InboxEntry]) -> Rows {
    let mut rows = Rows::new(&["ID", "TO", "TITLE", "TEXT", "SENT", "READ"]);
    for InboxEntry { id, message, sent_at, read_at, .. } in found {
        rows.push(vec![
            number(id),
            Cell::new(printable(&message.to)),
            Cell::new(printable(&message.title)),
            Cell::new(printable(message.text.lines().next().unwrap_or_default())),
            Cell::new(clock.at(*sent_at)),
            maybe(read_at.map(|read_at| clock.at(read_at))),
        ]);
    }
    rows
}

fn text_of(clock: &Clock, InboxEntry { id, message, sent_at, .. }: &InboxEntry) -> String {
    let facts = [
        format!("message  {id}"),
        format!("to       {}", message.to),
        format!("by       {}", message.actor),
        format!("sent     {}", clock.at(*sent_at)),
        format!("title    {}", message.title),
    ];
    let mut lines: Vec<String> = facts.iter().map(|fact| printable(fact)).collect();
    if !message.data.is_null() {
        lines.push(format!("data     {}", message.data));
    }
    lines.push(String::new());
    lines.extend(message.text.lines().map(printable));
    lines.join("\n")
}

fn failure(error: InboxError) -> Failure {
    match error {
        InboxError::Url { .. } | InboxError::Message { .. } => Failure::new(Exit::Usage, error.to_string()),
        InboxError::NoTable => Failure::new(Exit::Unavailable, "the database has no inbox")
            .help("an application creates it with InboxStore::connect; check --to"),
        _ => Failure::new(Exit::Unavailable, error.to_string()),
    }
}
