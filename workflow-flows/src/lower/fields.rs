use super::context::Lowering;
use crate::check::{Code, Edit, Fix};
use crate::document::{Data, Entry, Node, Span};
use crate::expression::nearest;

/// The entries of a map, of which each is taken once. What is left at the end is unknown.
pub(crate) struct Fields<'n> {
    entries: &'n [Entry],
    is_used: Vec<bool>,
    /// The subject of messages: `step "charge"`, `retry of step "charge"`.
    pub(crate) owner: String,
    pub(crate) span: Span,
}

impl<'n> Fields<'n> {
    /// Reads a map. Reports anything else.
    pub(crate) fn read(lowering: &mut Lowering<'_>, node: &'n Node, owner: impl Into<String>) -> Option<Self> {
        let owner = owner.into();
        match &node.data {
            Data::Map(entries) => Some(Self { entries, is_used: vec![false; entries.len()], owner, span: node.span }),
            _ => {
                lowering.wrong(node, &owner, "a map");
                None
            }
        }
    }

    /// Returns an entry without taking it.
    pub(crate) fn peek(&self, key: &str) -> Option<&'n Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Takes the value of a key.
    pub(crate) fn take(&mut self, key: &str) -> Option<&'n Node> {
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        self.is_used[index] = true;
        Some(&self.entries[index].value)
    }

    /// Takes the value of a key that must be there.
    pub(crate) fn require(&mut self, lowering: &mut Lowering<'_>, key: &str, example: &str) -> Option<&'n Node> {
        let found = self.take(key);
        if found.is_none() {
            // An unknown key that is nearly this one is reported with its repair.
            let is_misspelled = self
                .entries
                .iter()
                .zip(&self.is_used)
                .any(|(entry, is_used)| !is_used && nearest(&entry.key, [key]).is_some());
            if !is_misspelled {
                let message = format!("{} has no \"{key}\"", self.owner);
                lowering.error(Code::F013, self.span, message).help(format!("add {key}: {example}"));
            }
        }
        found
    }

    /// Returns the entries that were not taken.
    pub(crate) fn rest(&self) -> impl Iterator<Item = &'n Entry> {
        self.entries.iter().zip(&self.is_used).filter(|(_, is_used)| !**is_used).map(|(entry, _)| entry)
    }

    /// Reports the keys that were not taken.
    pub(crate) fn finish(mut self, lowering: &mut Lowering<'_>, known: &[&str]) {
        self.finish_in_place(lowering, known);
    }

    /// Reports the keys that were not taken, and takes them.
    pub(crate) fn finish_in_place(&mut self, lowering: &mut Lowering<'_>, known: &[&str]) {
        let given: Vec<&str> = self.entries.iter().map(|entry| entry.key.as_str()).collect();
        for entry in self.rest() {
            if lowering.leaves_out() {
                continue;
            }
            let free = known.iter().copied().filter(|name| !given.contains(name));
            unknown_key(lowering, &self.owner, entry, free, known);
        }
        self.is_used.fill(true);
    }
}

/// Words of other languages for a key of this one.
const SYNONYMS: [(&str, &str); 2] = [("arguments", "args"), ("parameters", "args")];

/// Returns the key that is meant by an unknown one.
fn meant<'k>(wrong: &str, free: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let free: Vec<&str> = free.into_iter().collect();
    let synonym = SYNONYMS.iter().find(|(synonym, key)| *synonym == wrong && free.contains(key));
    synonym.map(|(_, key)| *key).or_else(|| nearest(wrong, free))
}

/// Reports an unknown key, with the known one that is meant.
pub(crate) fn unknown_key<'k>(
    lowering: &mut Lowering<'_>,
    owner: &str,
    entry: &Entry,
    free: impl IntoIterator<Item = &'k str>,
    known: &[&str],
) {
    let path = lowering.pointer(entry.key_span);
    let message = format!("{owner} has no key \"{}\"", entry.key);
    match meant(&entry.key, free) {
        Some(near) => {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            let fix = Edit::Move { from: path.clone(), path: format!("{parent}/{near}") };
            let title = format!("rename \"{}\" to \"{near}\"", entry.key);
            let message = format!("{message}; did you mean \"{near}\"?");
            lowering.error(Code::F010, entry.key_span, message).fix(Fix::new(title, fix));
        }
        None => {
            let fix = Fix::new(format!("remove \"{}\"", entry.key), Edit::Remove { path });
            let help = format!("its keys: {}", known.join(", "));
            lowering.error(Code::F010, entry.key_span, message).help(help).fix(fix);
        }
    }
}
