//! The state that workflows and their bodies share with the test.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use workflow_sdk::Result;

/// Gates at which bodies wait, and the notes of bodies.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) gates: Mutex<BTreeMap<String, Gate>>,
    pub(crate) notes: Mutex<Vec<String>>,
    /// The values that a random program saw, in order.
    pub(crate) seen: Mutex<Vec<Seen>>,
    /// The leaves whose compensations were armed, in order.
    pub(crate) armed: Mutex<Vec<usize>>,
    /// The values that bodies return, by label. The value of any other label is computed, and
    /// differs between drives.
    pub(crate) values: BTreeMap<String, u64>,
    /// A number that differs between drives.
    pub(crate) drive: u64,
    /// Whether a random program emits the values that it sees.
    pub(crate) emits: AtomicBool,
}

/// A leaf of a random program, its value, and the time and a random value of the context.
pub(crate) type Seen = (usize, u64, SystemTime, u64);

#[derive(Debug, Default)]
pub(crate) struct Gate {
    waker: Option<Waker>,
    value: Option<u64>,
}

impl World {
    pub(crate) fn note(&self, note: impl Into<String>) {
        self.notes.lock().unwrap().push(note.into());
    }

    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }

    /// Notes that a body begins, and returns its value at once.
    pub(crate) async fn body(&self, label: &str) -> Result<String> {
        self.note(label);
        Ok(format!("<{label}>"))
    }

    /// Notes that a body begins, and waits until the test opens the gate of this label.
    pub(crate) async fn gated(&self, label: &str) -> Result<String> {
        self.note(label);
        self.pass(label).await;
        Ok(format!("<{label}>"))
    }

    /// Returns a future that waits until the gate is open.
    pub(crate) fn pass(&self, label: impl Into<String>) -> Pass<'_> {
        Pass { world: self, label: label.into() }
    }

    pub(crate) fn open(&self, label: &str, value: u64) {
        let mut gates = self.gates.lock().unwrap();
        let gate = gates.get_mut(label).expect("a body waits at this gate");
        gate.value = Some(value);
        let waker = gate.waker.take();
        drop(gates);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Returns the labels of the gates at which a body waits.
    pub(crate) fn closed(&self) -> Vec<String> {
        let gates = self.gates.lock().unwrap();
        gates.iter().filter(|(_, gate)| gate.value.is_none()).map(|(label, _)| label.clone()).collect()
    }
}

pub(crate) struct Pass<'a> {
    world: &'a World,
    label: String,
}

impl Future for Pass<'_> {
    type Output = u64;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<u64> {
        let mut gates = self.world.gates.lock().unwrap();
        let gate = gates.entry(self.label.clone()).or_default();
        gate.waker = Some(cx.waker().clone());
        gate.value.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.world.gates.lock().unwrap().remove(&self.label);
    }
}
