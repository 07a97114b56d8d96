use tokio::sync::watch;

/// Whether the worker has no permit left. Runs that wait in memory then park, so that due ones get their permits.
#[derive(Debug)]
pub(crate) struct Pressure(watch::Sender<bool>);

impl Pressure {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(crate) fn set(&self, under_pressure: bool) {
        self.0.send_if_modified(|current| std::mem::replace(current, under_pressure) != under_pressure);
    }

    pub(crate) fn watch(&self) -> watch::Receiver<bool> {
        self.0.subscribe()
    }
}
