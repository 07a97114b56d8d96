//! A load beside what a benchmark measures: the runs of the benchmark `throughput`.

use std::time::Duration;

use futures::future::try_join_all;
use tokio::sync::watch;
use workflow_sdk::{Client, RunHandle};
use workflow_worker::{Queue, Worker};

use crate::database::Database;
use crate::report::Report;
use crate::samples::Samples;
use crate::tables::Tables;
use crate::worker::LocalWorker;
use crate::workflows::five_steps;
use crate::{BoxResult, clock};

/// The size of a load. Each of its rounds starts runs of five small steps, and then executes them
/// with one worker.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Load {
    /// Number of runs per round of the load.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    load: u32,
    /// Number of concurrent runs of the load's worker.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: u32,
    /// Number of rounds of the load each time it is measured alone; the medians are reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// The queue of the load, which no other worker serves.
const QUEUE: &str = "load";

/// The state of the work beside which the load is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// No round may begin now.
    Paused,
    Running,
    Done,
}

/// The times of rounds of the load, alone and beside the work.
#[derive(Debug, Default)]
pub(crate) struct Times {
    alone: Vec<Duration>,
    beside: Vec<Duration>,
}

impl Load {
    /// Measures the load alone.
    pub(crate) async fn alone(self, database: &Database, client: &Client, times: &mut Times) -> BoxResult<()> {
        for _ in 0..self.rounds {
            times.alone.push(self.round(database, client).await?);
        }
        Ok(())
    }

    /// Measures the load until the work is done. A round during which the state of the work changed
    /// counts only if there was no other.
    pub(crate) async fn beside(
        self,
        database: &Database,
        client: &Client,
        mut work: watch::Receiver<Work>,
        times: &mut Times,
    ) -> BoxResult<()> {
        let (mut whole, mut partial) = (Vec::new(), Vec::new());
        loop {
            let state = *work.borrow_and_update();
            match state {
                Work::Done => break,
                Work::Paused => work.changed().await?,
                Work::Running => {
                    let took = self.round(database, client).await?;
                    if work.has_changed()? {
                        partial.push(took);
                    } else {
                        whole.push(took);
                    }
                }
            }
        }
        times.beside.extend(if whole.is_empty() { partial } else { whole });
        Ok(())
    }

    /// Adds the size of the load to the report.
    pub(crate) fn describe(self, report: Report) -> Report {
        let Self { load, concurrency, rounds } = self;
        report.setting("load", load).setting("concurrency", concurrency).setting("rounds", rounds)
    }

    /// Adds the throughputs to the report. Returns the one beside the work as a share of the one
    /// alone.
    pub(crate) fn report(self, report: &mut Report, times: Times) -> BoxResult<f64> {
        report.figure("rounds of the load beside", times.beside.len() as f64, "");
        let per_second =
            |times| -> BoxResult<f64> { Ok(f64::from(self.load) / Samples::new(times)?.median().as_secs_f64()) };
        let (alone, beside) = (per_second(times.alone)?, per_second(times.beside)?);
        report.figure("load alone", alone, "runs/s");
        report.figure("load beside", beside, "runs/s");
        Ok(beside / alone)
    }

    /// Starts the runs of a round, and measures the time from the start of the worker to the end of
    /// the last run.
    async fn round(self, database: &Database, client: &Client) -> BoxResult<Duration> {
        let start = |seed: u64| client.start(five_steps, seed).queue(QUEUE).into_future();
        let handles = try_join_all((0..u64::from(self.load)).map(start)).await?;
        let first = handles.iter().map(RunHandle::id).min().ok_or("a load has at least one run")?;
        let mut tables = Tables::open(database).await?;
        let lane = format!("SELECT CAST(id AS bigint) FROM {{lanes}} WHERE queue = '{QUEUE}'");
        let lane = tables.number(&lane).await?;
        let started = clock::now_micros();
        let worker = Worker::new(client.clone(), ()).register(five_steps).queue(Queue::new(QUEUE));
        let worker = LocalWorker::start(worker.concurrency(self.concurrency));
        // The runs of other lanes stay as they are, so `until_all_ended` would wait for ever.
        let ended = format!(
            "SELECT CAST(CASE
                 WHEN EXISTS (SELECT 1 FROM {{runs}} WHERE lane_id = {lane} AND status IN ('pending', 'parked')
                                                           AND paused_at IS NULL) THEN 0
                 WHEN EXISTS (SELECT 1 FROM {{runs}} WHERE lane_id = {lane} AND status = 'running') THEN 0
                 ELSE 1 END AS bigint)"
        );
        tables.until(&ended, 1).await?;
        worker.stop().await?;
        // Ids rise with the time, so these are the runs of this round.
        let of_round = format!("FROM {{runs}} WHERE id >= '{first}' AND lane_id = {lane} AND status = 'succeeded'");
        let succeeded = tables.number(&format!("SELECT count(*) {of_round}")).await?;
        if succeeded != i64::from(self.load) {
            return Err(format!("{succeeded} of {} runs of the load have succeeded", self.load).into());
        }
        let last_end = tables.number(&format!("SELECT max(completed_at) {of_round}")).await?;
        Ok(Duration::from_micros(u64::try_from(last_end - started)?))
    }
}
