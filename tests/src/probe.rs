//! Notes and gates between workflows under test and their test.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;

use crate::until::{changed, until};

/// Notes that workflow code leaves, and gates at which it waits. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Probe(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    notes: Mutex<Vec<String>>,
    gates: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Probe {
    /// Returns a probe without notes, with every gate closed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves a note.
    pub fn note(&self, note: impl Into<String>) {
        self.0.notes.lock().expect("notes").push(note.into());
        changed();
    }

    /// Leaves a note and returns how often it was left, including this time.
    pub fn count(&self, note: &str) -> usize {
        self.note(note);
        self.times(note)
    }

    /// Returns all notes, in order.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.0.notes.lock().expect("notes").clone()
    }

    /// Returns how often this note was left.
    #[must_use]
    pub fn times(&self, note: &str) -> usize {
        self.0.notes.lock().expect("notes").iter().filter(|other| *other == note).count()
    }

    /// Waits until this note was left.
    pub async fn noted(&self, note: &str) {
        until(note, async || (self.times(note) > 0).then_some(())).await;
    }

    /// Waits at this gate until it is opened.
    pub async fn pass(&self, gate: &str) {
        let gate = self.gate(gate);
        let _ = gate.acquire().await;
    }

    /// Opens this gate for good.
    pub fn open(&self, gate: &str) {
        self.gate(gate).close();
    }

    fn gate(&self, gate: &str) -> Arc<Semaphore> {
        let mut gates = self.0.gates.lock().expect("gates");
        Arc::clone(gates.entry(gate.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(0))))
    }

    /// Returns a value that leaves this note when it is dropped.
    #[must_use]
    pub fn on_drop(&self, note: impl Into<String>) -> NoteOnDrop {
        NoteOnDrop { probe: self.clone(), note: note.into() }
    }
}

/// Leaves a note when it is dropped.
#[derive(Debug)]
pub struct NoteOnDrop {
    probe: Probe,
    note: String,
}

impl Drop for NoteOnDrop {
    fn drop(&mut self) {
        self.probe.note(std::mem::take(&mut self.note));
    }
}
