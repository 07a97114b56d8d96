//! Cuts of the connections of one worker, for kinds that also kill and stop workers.

use std::time::Duration;

use super::wire::until;
use super::{Part, Round};
use crate::proxy::{Fault, Moment, Proxy};
use crate::worker_process::WorkerProcess;

/// How long a cut waits for its moment. The worker may have little to do.
const PATIENCE: Duration = Duration::from_secs(5);

/// The worker whose connections to PostgreSQL a round can cut. On SQLite there is none.
#[derive(Debug)]
pub(super) struct Cuts {
    proxy: Option<Proxy>,
    /// The process behind the proxy.
    pid: Option<u32>,
}

impl Cuts {
    /// Opens a way to the server of this round that can be cut.
    pub(super) fn of(part: &Part) -> Self {
        let proxy = part.server.as_deref().map(|server| Proxy::to(server).expect("create a proxy"));
        Self { proxy, pid: None }
    }

    /// Starts one more worker, on the way that can be cut.
    pub(super) fn spawn(&mut self, round: &mut Round) {
        let Some(proxy) = &self.proxy else { return };
        let direct = std::mem::replace(&mut round.settings.url, proxy.url());
        round.spawn();
        round.settings.url = direct;
        self.pid = round.workers.last().map(WorkerProcess::pid);
        // Without its session the worker looks dead, and it cannot renew its claims.
        round.disturbed.extend(self.pid);
        round.unlocked.extend(self.pid);
    }

    /// Starts a worker in place of a process that has died.
    pub(super) fn replace(&mut self, round: &mut Round, dead: u32) {
        if self.pid == Some(dead) { self.spawn(round) } else { round.spawn() }
    }

    /// Cuts a connection of the worker while the connection is active; half of the cuts wait for a
    /// COMMIT. Returns `false` if there is no such worker, or it did nothing.
    pub(super) async fn cut(&self, round: &mut Round) -> bool {
        let Some(proxy) = &self.proxy else { return false };
        // A process that cannot begin ends, as it should.
        let has_begun = |worker: &WorkerProcess| Some(worker.pid()) == self.pid && worker.id().is_some();
        if !round.workers.iter().any(has_begun) {
            return false;
        }
        let moment = match round.random.u32(0..4) {
            0 => Moment::Commit,
            1 => Moment::CommitReply,
            _ => Moment::Frame(round.random.u32(0..50)),
        };
        let fault = [Fault::Close, Fault::Reset, Fault::Torn][round.random.usize(0..3)];
        let before = proxy.delivered().len();
        proxy.arm(fault, moment);
        let is_cut = until(PATIENCE, || proxy.delivered().len() > before).await;
        proxy.heal();
        // The moment may have come between the last look and the end of the wait.
        let is_cut = is_cut || proxy.delivered().len() > before;
        round.note("cut connections", usize::from(is_cut));
        is_cut
    }
}
