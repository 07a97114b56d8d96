#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use futures::FutureExt;

use super::{
    AskedSeat, AttemptRow, AttemptWrite, AuditedWrite, BatchTarget, Bounds, BulkChunk, BulkClaim, BulkTarget,
    BulkWrite, CancelOutcome, ClaimRequest, Claimed, ConsumedSignal, ContinueWrite, CrashesWrite, DeleteWrite,
    DeletedRun, DueRuns, Emitted, EndWrite, EndedInLane, EndedTurn, Fence, ForkWrite, FoundRun, FoundSingle, GateTurn,
    InsertedAudit, LimitWrite, LockedEvents, LockedGate, LockedQueue, Locks, MissingOutcome, Outcome, ParkWrite,
    PlaceChange, PlaceTarget, PlaceWrite, PlacedRun, Placement, QueueWrite, ReadRates, RetryWrite, ReviveWrite, RunEnd,
    RunState, ScheduleWrite, SeatRow, SingleRun, SortedBatch, StartOutcome, StatisticsScan, StatisticsTarget,
    StatisticsWrite, StepOf, Target, WaitingPlace, Write, apply, apply_within,
};
use crate::model::{
    AcceptedSignal, AttemptStatus, AuditId, BulkCounts, BulkId, BulkProgress, BulkRecord, BulkStatus, Claim, Effect,
    ErrorKind, EventName, EventWait, FailureRow, KeyReuse, Lane, LeftWait, LimitChange, LimitRecord, LimitRule,
    MovedRun, NewAudit, NewBulk, NewEmission, NewRun, NewSignal, NewSingle, Parent, Priority, QueueChange, QueueLimits,
    Rank, Rate, RunId, RunStatistics, RunStatus, SeatLine, SignalKey, SingleKey, SingleUntil, SourceLine, StartTime,
    StatisticsRow, StatisticsSpan, StepAttempt, StepKind, StoredError, StoredSchedule, Timestamp, WhenTaken, WorkerId,
};

/// A target that stores nothing: it notes each call, and answers that claims hold and that runs are
/// new.
#[derive(Default)]
struct Recorder {
    calls: Vec<String>,
    /// A bug: it answers one run less than it was asked to insert.
    forgets_a_run: bool,
    /// The bound of each queue.
    max_waiting: Option<u32>,
    /// Another transaction folds statistics.
    folds_elsewhere: bool,
    /// The runs whose claims do not hold.
    ended: Vec<RunId>,
    /// The runs that the database does not have.
    unknown: Vec<RunId>,
    /// The bulk operations.
    bulks: BTreeMap<BulkId, BulkRecord>,
}

impl Recorder {
    fn note<T>(&mut self, call: impl Into<String>, answer: T) -> Result<T, MissingOutcome> {
        self.calls.push(call.into());
        Ok(answer)
    }
}

impl Target for Recorder {
    type Error = MissingOutcome;
}

impl StatisticsTarget for Recorder {
    async fn find_ended(&mut self, runs: &BTreeSet<RunId>) -> Result<Vec<EndedInLane>, MissingOutcome> {
        let ended = |version: &str, failed, canceled| EndedInLane {
            lane: Lane { version: version.into(), ..run("checkout").lane },
            failed,
            canceled,
            last_run: RunId::generate(),
            ended_at: Timestamp::from_micros(1),
        };
        let found = vec![ended("2", 1, 0), ended("1", 2, 3), ended("0", 0, 1)];
        self.note(format!("find lanes of {} ended runs", runs.len()), found)
    }

    async fn add_ended(&mut self, ended: &[EndedInLane]) -> Result<(), MissingOutcome> {
        let versions: Vec<&str> = ended.iter().map(|ended| ended.lane.version.as_str()).collect();
        self.note(format!("add ends of versions {}", versions.join(", ")), ())
    }

    async fn put_statistics(&mut self, rows: &[StatisticsRow]) -> Result<(), MissingOutcome> {
        let rows: Vec<String> =
            rows.iter().map(|row| format!("{:?} {} {}", row.span, row.begins_at, row.counts.started)).collect();
        self.note(format!("put {}", rows.join(", ")), ())
    }

    async fn add_failures(&mut self, rows: &[FailureRow]) -> Result<(), MissingOutcome> {
        let rows: Vec<String> = rows.iter().map(|row| format!("{} {}", row.count, row.group.workflow)).collect();
        self.note(format!("add failures: {}", rows.join(", ")), ())
    }

    async fn put_source_lines(&mut self, lines: &[SourceLine]) -> Result<(), MissingOutcome> {
        let lines: Vec<String> = lines.iter().map(|it| format!("{} {}", it.step, it.lines)).collect();
        self.note(format!("put source lines: {}", lines.join(", ")), ())
    }

    async fn lock_statistics(&mut self) -> Result<bool, MissingOutcome> {
        let is_free = !self.folds_elsewhere;
        self.note("lock statistics", is_free)
    }

    async fn take_statistics(
        &mut self,
        span: StatisticsSpan,
        age: Duration,
        limit: u32,
    ) -> Result<Vec<StatisticsRow>, MissingOutcome> {
        let minutes = if span == StatisticsSpan::Minute { vec![1, 59, 61] } else { Vec::new() };
        let rows = minutes.into_iter().map(|minute| counted(StatisticsSpan::Minute, minute)).collect();
        self.note(format!("take {limit} of {span:?} after {} h", age.as_secs() / 3600), rows)
    }

    async fn read_statistics(&mut self, scan: &StatisticsScan) -> Result<Vec<StatisticsRow>, MissingOutcome> {
        let rows = [0, 60].map(|minute| counted(scan.span, minute)).to_vec();
        self.note(format!("read {:?} from {} to {}", scan.span, scan.from, scan.before), rows)
    }
}

/// A row with one start, of the span that begins at this minute.
fn counted(span: StatisticsSpan, minute: i64) -> StatisticsRow {
    StatisticsRow {
        span,
        begins_at: Timestamp::from_micros(minute * 60_000_000),
        process: StatisticsRow::ALL_PROCESSES,
        lane: run("checkout").lane,
        counts: RunStatistics { started: 1, ..RunStatistics::default() },
    }
}

impl BulkTarget for Recorder {
    async fn lock_bulks(
        &mut self,
        ids: &BTreeSet<BulkId>,
    ) -> Result<(Timestamp, HashMap<BulkId, BulkRecord>), MissingOutcome> {
        let rows = ids.iter().filter_map(|id| Some((*id, self.bulks.get(id)?.clone()))).collect();
        self.note(format!("lock {} bulk operations", ids.len()), (Timestamp::from_micros(5), rows))
    }

    async fn find_due_bulk(&mut self) -> Result<Option<BulkRecord>, MissingOutcome> {
        let due = self.bulks.values().next().cloned();
        self.note("find a due bulk operation", due)
    }

    async fn insert_bulk(&mut self, row: &BulkRecord) -> Result<(), MissingOutcome> {
        self.bulks.insert(row.order.id, row.clone());
        self.note("insert a bulk operation", ())
    }

    async fn update_bulk(&mut self, id: BulkId, progress: &BulkProgress) -> Result<(), MissingOutcome> {
        self.bulks.get_mut(&id).into_iter().for_each(|row| row.progress = progress.clone());
        self.note("move a bulk operation", ())
    }
}

impl PlaceTarget for Recorder {
    async fn read_placements(&mut self, runs: &BTreeSet<RunId>) -> Result<HashMap<RunId, PlacedRun>, MissingOutcome> {
        let placement = Placement { lane: run("checkout").lane, gate: None, rank: Rank::New(Priority::Normal) };
        let placed = PlacedRun { status: RunStatus::Pending, epoch: 0, placement };
        let known = runs.iter().filter(|run| !self.unknown.contains(run)).map(|run| (*run, placed.clone())).collect();
        self.note(format!("read the places of {} runs", runs.len()), known)
    }

    async fn place_runs(&mut self, runs: &BTreeMap<RunId, Placement>) -> Result<(), MissingOutcome> {
        let places: Vec<String> =
            runs.values().map(|place| format!("{} {}", place.lane.queue, place.rank.number())).collect();
        self.note(format!("place runs: {}", places.join(", ")), ())
    }
}

impl BatchTarget for Recorder {
    async fn write_limits(&mut self, writes: &[&LimitWrite]) -> Result<(), MissingOutcome> {
        self.note(format!("write {} limits", writes.len()), ())
    }

    async fn lock_lines(&mut self, lines: &BTreeSet<&SeatLine>) -> Result<(), MissingOutcome> {
        self.note(format!("lock {} lines", lines.len()), ())
    }

    async fn read_limits(&mut self, names: &BTreeSet<&str>) -> Result<Vec<LimitRecord>, MissingOutcome> {
        let records = names.iter().filter(|name| **name != "undeclared").map(|name| {
            let mut record = LimitRecord::new((*name).to_owned());
            record.declared = Some(match *name {
                "rated" => LimitRule::none().rate(Rate::per_second(1)),
                _ => LimitRule::none().concurrency(1),
            });
            record
        });
        self.note(format!("read {} limits", names.len()), records.collect())
    }

    async fn read_lines(
        &mut self,
        lines: &[(&SeatLine, u32)],
        asking: &[(RunId, &str)],
    ) -> Result<Vec<Vec<SeatRow>>, MissingOutcome> {
        let row = |(run_id, step_key): (RunId, &str), asked_at: i64| SeatRow {
            run_id,
            step_key: step_key.into(),
            asked_at: Timestamp::from_micros(asked_at),
            called: false,
            asks_at: None,
            epoch: None,
            run_epoch: 1,
            run_status: RunStatus::Running,
        };
        let other = row((uuid::Uuid::from_u128(77).into(), "ask"), 1);
        let late = asking.iter().map(|step| row(*step, 0));
        let rows = lines.iter().map(|(line, _)| match line.key.as_str() {
            "waited for" => vec![other.clone()],
            "called long ago" => late.clone().chain([other.clone()]).collect(),
            _ => Vec::new(),
        });
        let most: Vec<u32> = lines.iter().map(|(_, most)| *most).collect();
        self.note(format!("read lines with {most:?} waiting"), rows.collect())
    }

    async fn read_line_rates(&mut self, lines: &[&SeatLine]) -> Result<ReadRates, MissingOutcome> {
        let now = Timestamp::from_micros(5_000_000);
        self.note(format!("read {} rates", lines.len()), ReadRates { now, used_until: vec![now; lines.len()] })
    }

    async fn use_line_rates(&mut self, lines: &[(&SeatLine, Timestamp)]) -> Result<(), MissingOutcome> {
        let until: Vec<i64> = lines.iter().map(|(_, until)| until.as_micros()).collect();
        self.note(format!("use rates until {until:?}"), ())
    }

    async fn forget_line_rates(&mut self, at_most: u32) -> Result<(), MissingOutcome> {
        self.note(format!("forget {at_most} rates"), ())
    }

    async fn write_seats(&mut self, seats: &[AskedSeat<'_>]) -> Result<(), MissingOutcome> {
        let taken = seats.iter().filter(|seat| seat.epoch.is_some()).count();
        self.note(format!("write {} seats, {taken} taken", seats.len()), ())
    }

    async fn delete_seats(&mut self, steps: &[(RunId, &str)]) -> Result<(), MissingOutcome> {
        self.note(format!("delete {} seats", steps.len()), ())
    }

    async fn mark_called(&mut self, steps: &[(RunId, String)]) -> Result<(), MissingOutcome> {
        self.note(format!("call {} seats", steps.len()), ())
    }

    async fn lock_schedules(&mut self, names: &BTreeSet<&str>) -> Result<HashMap<String, i64>, MissingOutcome> {
        let revisions = names.iter().filter(|name| !name.starts_with("new")).map(|name| ((*name).to_owned(), 1));
        self.note(format!("lock {} schedules", names.len()), revisions.collect())
    }

    async fn update_schedules(&mut self, rows: &[&StoredSchedule]) -> Result<(), MissingOutcome> {
        self.note(format!("update {} schedules", rows.len()), ())
    }

    async fn insert_schedules(&mut self, rows: &[&StoredSchedule]) -> Result<HashSet<String>, MissingOutcome> {
        let inserted = rows.iter().map(|row| row.name.clone()).filter(|name| name != "new but taken");
        self.note(format!("insert {} schedules", rows.len()), inserted.collect())
    }

    async fn delete_schedules(&mut self, names: &[&str]) -> Result<(), MissingOutcome> {
        self.note(format!("delete {} schedules", names.len()), ())
    }

    async fn free_keys(&mut self, runs: &[&NewRun], unless_bounded: &BTreeSet<&str>) -> Result<(), MissingOutcome> {
        let unless = if unless_bounded.is_empty() { "" } else { " without bounds" };
        self.note(format!("free {} keys{unless}", runs.len()), ())
    }

    async fn insert_unbounded_runs(&mut self, runs: &[&NewRun]) -> Result<Option<Vec<StartOutcome>>, MissingOutcome> {
        if self.max_waiting.is_none() {
            return self.insert_runs(runs).await.map(Some);
        }
        self.note("meet a bound", None)
    }

    async fn lock_bounds(&mut self, queues: &BTreeSet<&str>, waits: bool) -> Result<Bounds, MissingOutcome> {
        let limits = QueueLimits { max_waiting: self.max_waiting, ..QueueLimits::none() };
        let limits = queues.iter().map(|queue| ((*queue).to_owned(), limits)).collect();
        let busy = if waits { BTreeSet::new() } else { queues.iter().map(|queue| (*queue).to_owned()).collect() };
        self.note(format!("lock {} bounds, waits: {waits}", queues.len()), Bounds { limits, busy })
    }

    async fn find_started(&mut self, runs: &[&NewRun]) -> Result<HashMap<usize, StartOutcome>, MissingOutcome> {
        self.note(format!("find {} started runs", runs.len()), HashMap::new())
    }

    async fn count_waiting(&mut self, places: &[WaitingPlace<'_>]) -> Result<Vec<u32>, MissingOutcome> {
        self.note(format!("count in {} places", places.len()), vec![0; places.len()])
    }

    async fn insert_runs(&mut self, runs: &[&NewRun]) -> Result<Vec<StartOutcome>, MissingOutcome> {
        let names: Vec<&str> = runs.iter().map(|run| run.lane.workflow.as_str()).collect();
        let answered = runs.len() - usize::from(self.forgets_a_run);
        self.note(format!("insert runs {}", names.join(" ")), vec![StartOutcome::Created; answered])
    }

    async fn lock_singles(&mut self, runs: &[SingleRun<'_>]) -> Result<HashSet<usize>, MissingOutcome> {
        self.note(format!("lock {} single keys", runs.len()), HashSet::new())
    }

    async fn find_singles(&mut self, runs: &[SingleRun<'_>]) -> Result<Vec<FoundSingle>, MissingOutcome> {
        let found = FoundSingle { exists: false, holder: Some(RunId::generate()) };
        self.note(format!("find runs of {} single keys", runs.len()), vec![found; runs.len()])
    }

    async fn set_single_keys(&mut self, runs: &[SingleRun<'_>]) -> Result<(), MissingOutcome> {
        self.note(format!("set {} single keys", runs.len()), ())
    }

    async fn clear_single_keys(&mut self, runs: &[RunId]) -> Result<(), MissingOutcome> {
        self.note(format!("clear {} single keys", runs.len()), ())
    }

    async fn move_runs(&mut self, runs: &[(&MovedRun, &NewRun)]) -> Result<(), MissingOutcome> {
        self.note(format!("move {} runs", runs.len()), ())
    }

    async fn read_lost_single(&mut self, _: RunId, _: i64) -> Result<Option<(String, SingleKey)>, MissingOutcome> {
        self.note("read lost single key", None)
    }

    async fn lock_runs(&mut self, locks: &Locks) -> Result<Fence, MissingOutcome> {
        let call = format!("lock {} claims, {} changed runs", locks.claims.len(), locks.changed.len());
        let ended = self.ended.iter().map(|run| Ok((*run, Some((1, RunStatus::Succeeded)))));
        let unknown = self.unknown.iter().map(|run| Ok((*run, None)));
        let fence = Fence::of::<MissingOutcome>(ended.chain(unknown))?;
        self.note(call, fence)
    }

    async fn mark_fork(&mut self, _: RunId) -> Result<bool, MissingOutcome> {
        self.note("mark fork", true)
    }

    async fn copy_history(&mut self, _: RunId, _: RunId, _: i64) -> Result<(), MissingOutcome> {
        self.note("copy history", ())
    }

    async fn consume_signals(&mut self, consumed: &[ConsumedSignal<'_>]) -> Result<(), MissingOutcome> {
        self.note(format!("consume {} signals", consumed.len()), ())
    }

    async fn find_final(&mut self, attempts: &[&AttemptWrite]) -> Result<HashSet<usize>, MissingOutcome> {
        self.note(format!("find final ones of {} attempts", attempts.len()), HashSet::new())
    }

    async fn record_attempts(&mut self, rows: &[AttemptRow<'_>]) -> Result<(), MissingOutcome> {
        self.note(format!("record {} attempts", rows.len()), ())
    }

    async fn insert_signals(&mut self, signals: &[&NewSignal]) -> Result<HashSet<(RunId, String)>, MissingOutcome> {
        let new = signals.iter().map(|signal| (signal.run_id, signal.key.as_str().to_owned())).collect();
        self.note(format!("insert {} signals", signals.len()), new)
    }

    async fn find_signals(
        &mut self,
        signals: &[&NewSignal],
    ) -> Result<HashMap<(RunId, String), AcceptedSignal>, MissingOutcome> {
        self.note(format!("find {} signals", signals.len()), HashMap::new())
    }

    async fn lock_events(&mut self, emissions: &[&NewEmission]) -> Result<LockedEvents, MissingOutcome> {
        let waiting = BTreeSet::from([RunId::generate()]);
        self.note(format!("lock {} events", emissions.len()), LockedEvents { busy: HashSet::new(), waiting })
    }

    async fn begin_event_waits(&mut self, waits: &[StepOf<'_, EventWait>]) -> Result<HashSet<usize>, MissingOutcome> {
        self.note(format!("begin {} waits", waits.len()), HashSet::new())
    }

    async fn leave_event_waits(&mut self, waits: &[StepOf<'_, LeftWait>]) -> Result<HashSet<usize>, MissingOutcome> {
        self.note(format!("leave {} waits", waits.len()), HashSet::new())
    }

    async fn emit_event(&mut self, emission: &NewEmission) -> Result<Emitted, MissingOutcome> {
        let emitted = Emitted { count: 1, woken: vec![RunId::generate()] };
        self.note(format!("emit {}", emission.event.name), emitted)
    }

    async fn delete_event_waits(&mut self, runs: &BTreeSet<RunId>) -> Result<(), MissingOutcome> {
        self.note(format!("delete waits of {} runs", runs.len()), ())
    }

    async fn wake_runs(&mut self, runs: &BTreeSet<RunId>) -> Result<(), MissingOutcome> {
        self.note(format!("wake {} runs", runs.len()), ())
    }

    async fn finish_claims(&mut self, ends: &[&EndWrite], parks: &[&ParkWrite]) -> Result<(), MissingOutcome> {
        self.note(format!("finish {} ends, {} parks", ends.len(), parks.len()), ())
    }

    async fn continue_runs(&mut self, continues: &[&ContinueWrite]) -> Result<(), MissingOutcome> {
        self.note(format!("continue {} runs", continues.len()), ())
    }

    async fn retry_runs(&mut self, retries: &[&RetryWrite]) -> Result<(), MissingOutcome> {
        self.note(format!("retry {} runs", retries.len()), ())
    }

    async fn reset_outcomes(&mut self, steps: &[(RunId, &str)]) -> Result<(), MissingOutcome> {
        self.note(format!("reset {} outcomes", steps.len()), ())
    }

    async fn revive_run(&mut self, _: &ReviveWrite) -> Result<bool, MissingOutcome> {
        self.note("revive run", true)
    }

    async fn set_crashes(&mut self, writes: &[&CrashesWrite]) -> Result<(), MissingOutcome> {
        self.note(format!("set crashes of {} runs", writes.len()), ())
    }

    async fn pause_run(&mut self, _: RunId) -> Result<Option<RunStatus>, MissingOutcome> {
        self.note("pause run", Some(RunStatus::Pending))
    }

    async fn resume_run(&mut self, _: RunId) -> Result<bool, MissingOutcome> {
        self.note("resume run", true)
    }

    async fn read_state(&mut self, _: RunId) -> Result<Option<RunState>, MissingOutcome> {
        self.note("read state", None)
    }

    async fn release_unknown_claims(&mut self, _: WorkerId, _: &[Claim]) -> Result<u64, MissingOutcome> {
        self.note("release unknown claims", 0)
    }

    async fn cancel_runs(&mut self, runs: &[RunId]) -> Result<HashMap<RunId, CancelOutcome>, MissingOutcome> {
        let canceled = runs.iter().map(|run| (*run, CancelOutcome::Canceled)).collect();
        self.note(format!("cancel {} runs", runs.len()), canceled)
    }

    async fn terminate_runs(&mut self, runs: &[RunId]) -> Result<HashMap<RunId, CancelOutcome>, MissingOutcome> {
        let canceled = runs.iter().map(|run| (*run, CancelOutcome::Canceled)).collect();
        self.note(format!("terminate {} runs", runs.len()), canceled)
    }

    async fn expire_runs(&mut self, _: u32, _: Duration, _: &StoredError) -> Result<Vec<RunId>, MissingOutcome> {
        self.note("expire runs", vec![RunId::generate()])
    }

    async fn find_deleted(&mut self, runs: &BTreeSet<RunId>) -> Result<HashMap<RunId, FoundRun>, MissingOutcome> {
        let found = FoundRun { status: RunStatus::Failed, completed_at: None, awaited_by: None };
        self.note(format!("find {} deleted runs", runs.len()), runs.iter().map(|run| (*run, found)).collect())
    }

    async fn delete_runs(&mut self, runs: &BTreeSet<RunId>) -> Result<HashMap<RunId, DeletedRun>, MissingOutcome> {
        let deleted = runs.iter().map(|run| (*run, DeletedRun::new(2, 1))).collect();
        self.note(format!("delete {} runs", runs.len()), deleted)
    }

    async fn find_parents(&mut self, runs: &BTreeSet<RunId>) -> Result<Vec<RunId>, MissingOutcome> {
        self.note(format!("find parents of {} runs", runs.len()), Vec::new())
    }

    async fn cancel_children(&mut self, parents: &BTreeSet<RunId>) -> Result<Vec<RunId>, MissingOutcome> {
        self.note(format!("cancel children of {} runs", parents.len()), Vec::new())
    }

    async fn write_queues(&mut self, _: &[&QueueWrite]) -> Result<(), MissingOutcome> {
        self.note("change queues", ())
    }

    async fn lock_queues(&mut self, _: &[String]) -> Result<Vec<LockedQueue>, MissingOutcome> {
        self.note("lock queues", Vec::new())
    }

    async fn count_running(&mut self, _: &[(String, u32)]) -> Result<Vec<u32>, MissingOutcome> {
        self.note("count running", Vec::new())
    }

    async fn lock_gates(&mut self, _: &[Lane], _: u32) -> Result<Vec<LockedGate>, MissingOutcome> {
        self.note("lock gates", Vec::new())
    }

    async fn count_behind(&mut self, _: &[&LockedGate]) -> Result<Vec<u32>, MissingOutcome> {
        self.note("count behind gates", Vec::new())
    }

    async fn find_lapsed_gates(&mut self, _: &[Lane], _: u32) -> Result<Vec<(Lane, String)>, MissingOutcome> {
        self.note("find lapsed gates", Vec::new())
    }

    async fn use_rates(
        &mut self,
        _: &[(&LockedQueue, Timestamp)],
        _: &[(&LockedGate, Timestamp)],
    ) -> Result<(), MissingOutcome> {
        self.note("use rates", ())
    }

    async fn end_turns(&mut self, _: &[EndedTurn<'_>]) -> Result<(), MissingOutcome> {
        self.note("end turns", ())
    }

    async fn insert_audits(&mut self, rows: &[InsertedAudit<'_>]) -> Result<(), MissingOutcome> {
        let rows: Vec<String> = rows.iter().map(|row| format!("{} {}", row.order.verb, row.outcome)).collect();
        self.note(format!("insert audit rows: {}", rows.join(", ")), ())
    }

    async fn claim_runs(&mut self, _: &ClaimRequest, _: &[GateTurn], _: DueRuns) -> Result<Claimed, MissingOutcome> {
        self.note(
            "claim runs",
            Claimed {
                runs: Vec::new(),
                held_back: Vec::new(),
                full_gates: Vec::new(),
                next_at: None,
                now: Timestamp::from_micros(0),
            },
        )
    }
}

fn run(workflow: &str) -> NewRun {
    NewRun {
        gate: None,
        id: RunId::generate(),
        lane: Lane { queue: "default".into(), workflow: workflow.into(), version: "1".into() },
        input: "null".into(),
        key: None,
        key_reuse: KeyReuse::Never,
        single: None,
        priority: None,
        start: StartTime::Now,
        deadline: None,
        tags: BTreeMap::new(),
        parent: None::<Parent>,
        depth: 0,
        trace: None,
    }
}

fn single_run(workflow: &str) -> NewRun {
    let key = SingleKey { key: "key".into(), until: SingleUntil::End };
    NewRun { single: Some(NewSingle { key, taken: WhenTaken::Replace }), ..run(workflow) }
}

fn claim() -> Claim {
    Claim { run_id: RunId::generate(), epoch: 1 }
}

fn attempt(claim: Claim, effect: Effect) -> Write {
    let row = StepAttempt {
        step_key: "page".into(),
        attempt: 1,
        kind: StepKind::Step,
        status: AttemptStatus::Succeeded,
        position: Some(1),
        output: Some("1".into()),
        error: None,
        epoch: 1,
        started_at: Timestamp::from_micros(1),
        completed_at: None,
    };
    Write::Attempt(AttemptWrite { claim, row, effect })
}

fn end(claim: Claim) -> Write {
    let end = RunEnd::Succeeded("1".into());
    Write::End(EndWrite {
        claim,
        parent_run_id: Some(RunId::generate()),
        has_children: true,
        has_event_waits: false,
        end,
    })
}

fn park(claim: Claim) -> Write {
    let until = Timestamp::from_micros(1);
    Write::Park(ParkWrite { claim, wakes: 0, until, until_deadline: false, error: None, reset_crashes: false })
}

fn signal(run_id: RunId) -> Write {
    let key = SignalKey::Given("key".into());
    Write::Signal(NewSignal { run_id, name: "paid".into(), payload: "1".into(), key, limit: None })
}

fn event() -> EventName {
    EventName { name: "order.paid".into(), key: "42".into() }
}

/// One write of each kind, the kind that is applied last first.
fn every_kind() -> Vec<Write> {
    let error = StoredError::new(ErrorKind::Deadline, "no luck");
    let lanes = vec![run("checkout").lane];
    let worker = WorkerId::generate();
    let again = vec!["page".to_owned()];
    let until = Timestamp::from_micros(1);
    let fork = ForkWrite { source: RunId::generate(), new: run("fork"), before: 7, kept: None };
    let rows = vec![counted(StatisticsSpan::Minute, 7)];
    let source_line = SourceLine {
        workflow: "checkout".into(),
        version: "1".into(),
        step: "charge".into(),
        lines: "src/orders.rs:42".into(),
    };
    let source_lines = vec![source_line];
    vec![
        Write::Statistics(Box::new(StatisticsWrite::Count { rows, failures: Vec::new(), source_lines })),
        Write::Claim(ClaimRequest {
            worker,
            lanes,
            limited: Vec::new(),
            gated: Vec::new(),
            gates_first: Vec::new(),
            limit: 1,
            lease: Duration::from_secs(30),
        }),
        Write::CallSeats(line("waited for")),
        Write::Delete(DeleteWrite { run_id: RunId::generate(), ended_before: None }),
        Write::Expire { limit: 1, patience: Duration::ZERO },
        Write::Terminate(RunId::generate()),
        Write::Cancel(RunId::generate()),
        Write::ReleaseUnknown { worker, known: Vec::new() },
        Write::Place(PlaceWrite { run_id: RunId::generate(), change: PlaceChange::Priority(Priority::High) }),
        Write::Resume(RunId::generate()),
        Write::Pause(RunId::generate()),
        Write::Revive(ReviveWrite { run_id: RunId::generate(), attempt: 1, again: again.clone(), deadline: None }),
        Write::Retry(RetryWrite { claim: claim(), until, again, error }),
        Write::Continue(ContinueWrite { claim: claim(), input: "1".into() }),
        park(claim()),
        end(claim()),
        Write::Emit(NewEmission { event: event(), payload: "1".into(), by: None }),
        signal(RunId::generate()),
        Write::Crashes(CrashesWrite { claim: claim(), crashes: 1, lone_crashes: 0, is_alone: true }),
        attempt(claim(), Effect::Start(Box::new(run("child")))),
        attempt(claim(), Effect::LeaveEvent(Box::new(LeftWait { signal: "left".into(), unless_delivered: true }))),
        attempt(claim(), Effect::AwaitEvent(Box::new(EventWait { event: event(), signal: "begun".into() }))),
        attempt(claim(), Effect::Consume { seq: 1 }),
        attempt(claim(), Effect::LeaveSeat(Box::new(line("left")))),
        attempt(claim(), Effect::TakeSeat(Box::new(line("asked for")))),
        Write::Fork(Box::new(fork)),
        Write::Start(single_run("single")),
        Write::Start(run("start")),
        schedule("hourly", Some(1), Some(2), vec![run("scheduled")]),
        Write::Limit(LimitWrite { limit: "llm".into(), change: LimitChange::Override(None) }),
        Write::Queue(QueueWrite { queue: "mail".into(), change: QueueChange::Resume }),
    ]
}

fn line(key: &str) -> SeatLine {
    SeatLine { limit: "llm".into(), key: key.into() }
}

fn schedule(name: &str, seen: Option<i64>, next: Option<i64>, starts: Vec<NewRun>) -> Write {
    let until = Timestamp::from_micros(1);
    let row = |revision| StoredSchedule {
        name: name.into(),
        revision,
        available_at: until,
        input: None,
        record: String::new(),
    };
    Write::Schedule(Box::new(ScheduleWrite { name: name.into(), seen, next: next.map(row), starts }))
}

fn apply_to(target: &mut Recorder, writes: &[Write]) -> Result<Vec<Outcome>, MissingOutcome> {
    apply(target, writes).now_or_never().unwrap()
}

#[test]
fn a_batch_of_every_kind_is_applied_in_the_order_of_the_contract() {
    let mut target = Recorder::default();
    let outcomes = apply_to(&mut target, &every_kind()).unwrap();
    let expected = [
        "change queues",
        "write 1 limits",
        "lock 1 schedules",
        "update 1 schedules",
        "insert runs start fork scheduled",
        "lock 1 events",
        "lock 1 single keys",
        "find runs of 1 single keys",
        "lock 2 lines",
        "read 1 limits",
        "read lines with [2, 1] waiting",
        "lock 13 claims, 25 changed runs",
        "mark fork",
        "copy history",
        "find final ones of 1 attempts",
        "insert runs child",
        "begin 1 waits",
        "leave 1 waits",
        "delete 1 seats",
        "write 1 seats, 1 taken",
        "consume 1 signals",
        "record 6 attempts",
        "set crashes of 1 runs",
        "insert 1 signals",
        "wake 1 runs",
        "emit order.paid",
        "wake 1 runs",
        "finish 1 ends, 1 parks",
        "continue 1 runs",
        "retry 1 runs",
        "reset 1 outcomes",
        "read lost single key",
        "revive run",
        "reset 1 outcomes",
        "pause run",
        "resume run",
        "read the places of 1 runs",
        "place runs: default 2",
        "release unknown claims",
        "find runs of 1 single keys",
        "insert runs single",
        "cancel 1 runs",
        "clear 1 single keys",
        "set 1 single keys",
        "cancel 1 runs",
        "terminate 1 runs",
        "expire runs",
        "delete waits of 6 runs",
        "find parents of 4 runs",
        "wake 1 runs",
        "cancel children of 5 runs",
        "find lanes of 4 ended runs",
        "find 1 deleted runs",
        "delete 1 runs",
        "call 1 seats",
        "wake 1 runs",
        "claim runs",
        "add ends of versions 0, 1, 2",
        "add failures: 3 checkout",
        "put Minute 1970-01-01T00:07:00.000Z 1",
        "put source lines: charge src/orders.rs:42",
    ];
    assert_eq!(target.calls, expected);
    let names: Vec<&str> = outcomes.iter().map(Outcome::name).collect();
    let operators = ["applied", "claimed", "called", "deleted", "changed", "canceled", "canceled", "changed"];
    let states = ["placed", "resumed", "paused"];
    let (releases, messages, claims) = (["applied"; 5], ["emitted", "signaled"], ["applied"; 7]);
    let starts = ["started", "started", "started", "applied", "applied", "applied"];
    assert_eq!(names, [&operators[..], &states, &releases, &messages, &claims, &starts].concat());
}

#[test]
fn old_statistics_are_added_to_those_of_longer_spans() {
    let fold = || vec![Write::Statistics(Box::new(StatisticsWrite::Fold { limit: 9 }))];
    let mut target = Recorder::default();
    let outcomes = apply_to(&mut target, &fold()).unwrap();
    let expected = [
        "lock statistics",
        "take 9 of Minute after 2 h",
        "read Hour from 1970-01-01T00:00:00.000Z to 1970-01-01T02:00:00.000Z",
        "put Hour 1970-01-01T00:00:00.000Z 3, Hour 1970-01-01T01:00:00.000Z 2",
        "take 9 of Hour after 1080 h",
    ];
    assert_eq!(target.calls, expected);
    assert!(matches!(outcomes[..], [Outcome::Changed(3)]), "{outcomes:?}");
    let mut target = Recorder { folds_elsewhere: true, ..Recorder::default() };
    let outcomes = apply_to(&mut target, &fold()).unwrap();
    assert_eq!(target.calls, ["lock statistics"]);
    assert!(matches!(outcomes[..], [Outcome::Changed(0)]), "{outcomes:?}");
}

#[test]
fn a_schedule_changes_only_as_it_was_seen() {
    let mut target = Recorder::default();
    let writes = [
        schedule("seen", Some(1), Some(2), vec![run("first")]),
        schedule("seen", Some(2), Some(3), vec![run("second")]),
        schedule("seen", Some(2), Some(4), vec![run("late")]),
        schedule("older", Some(9), Some(8), vec![run("stale")]),
        schedule("again", Some(9), Some(1), vec![run("again")]),
        schedule("gone", Some(1), None, vec![]),
        schedule("gone", Some(1), None, vec![]),
        schedule("gone", Some(1), Some(2), vec![run("after its end")]),
        schedule("new", None, Some(5), vec![run("of none")]),
        schedule("new but taken", None, Some(5), vec![]),
        schedule("new and gone", Some(5), None, vec![]),
        schedule("taken", None, Some(5), vec![]),
    ];
    let outcomes = apply_to(&mut target, &writes).unwrap();
    let names: Vec<&str> = outcomes.iter().map(Outcome::name).collect();
    let (applied, lost, duplicate) = ("applied", "lost", "duplicate");
    let of_seen = [applied, applied, lost, lost, duplicate];
    let of_others = [applied, duplicate, lost, applied, lost, duplicate, lost];
    assert_eq!(names, [&of_seen[..], &of_others].concat());
    let expected = [
        "lock 8 schedules",
        "update 1 schedules",
        "delete 1 schedules",
        "insert 2 schedules",
        "insert runs first second",
    ];
    assert_eq!(target.calls, expected);
}

/// Starts and forks ask for room together, and wait for other batches. What a clock starts does not
/// ask.
#[test]
fn the_starts_of_a_batch_are_counted_once() {
    let mut target = Recorder { max_waiting: Some(3), ..Recorder::default() };
    let reused = NewRun { key: Some("k".into()), key_reuse: KeyReuse::AfterFailure, ..run("reused") };
    let fork = ForkWrite { source: RunId::generate(), new: run("fork"), before: 1, kept: None };
    let mut writes: Vec<Write> = ["a", "b", "c"].map(|name| Write::Start(run(name))).to_vec();
    writes.insert(1, Write::Start(reused));
    writes.push(Write::Fork(Box::new(fork)));
    writes.push(schedule("seen", Some(1), Some(2), vec![run("occurrence")]));
    let outcomes = apply_to(&mut target, &writes).unwrap();
    let names: Vec<&str> = outcomes.iter().map(Outcome::name).collect();
    assert_eq!(names, ["started", "started", "started", "queue full", "queue full", "applied"]);
    let expected = [
        "lock 1 schedules",
        "update 1 schedules",
        "free 1 keys without bounds",
        "meet a bound",
        "lock 1 bounds, waits: true",
        "find 5 started runs",
        "count in 1 places",
        "free 1 keys",
        "insert runs a reused b occurrence",
        "lock 0 claims, 1 changed runs",
    ];
    assert_eq!(target.calls, expected);
}

/// The batch holds runs by then, so it waits for no other one.
#[test]
fn a_single_start_gives_way_to_another_batch_that_starts_runs_in_its_queue() {
    let mut target = Recorder { max_waiting: Some(3), ..Recorder::default() };
    let outcomes = apply_to(&mut target, &[Write::Start(single_run("single"))]).unwrap();
    assert!(matches!(outcomes[..], [Outcome::Busy]), "{outcomes:?}");
    let calls: Vec<&str> = target.calls.iter().map(String::as_str).collect();
    assert_eq!(calls[calls.len() - 2..], ["meet a bound", "lock 1 bounds, waits: false"]);
}

#[test]
fn nothing_is_called_for_kinds_that_a_batch_does_not_have() {
    let mut target = Recorder::default();
    assert!(apply_to(&mut target, &[]).unwrap().is_empty());
    assert!(target.calls.is_empty(), "{:?}", target.calls);
    apply_to(&mut target, &[Write::Start(run("start"))]).unwrap();
    assert_eq!(target.calls, ["insert runs start"]);
}

#[test]
fn a_write_without_an_outcome_is_an_error() {
    let mut target = Recorder { forgets_a_run: true, ..Recorder::default() };
    let writes = [Write::Pause(RunId::generate()), Write::Start(run("first")), Write::Start(run("second"))];
    let error = apply_to(&mut target, &writes).unwrap_err();
    assert_eq!(error.to_string(), "write 2 of 3 has no outcome");
}

#[test]
fn a_claim_is_released_once() {
    let claim = claim();
    let mut target = Recorder::default();
    let outcomes = apply_to(&mut target, &[park(claim), end(claim), park(claim)]).unwrap();
    assert_eq!(outcomes.iter().map(Outcome::name).collect::<Vec<_>>(), ["duplicate", "applied", "duplicate"]);
    assert!(target.calls.contains(&"finish 1 ends, 0 parks".to_owned()), "{:?}", target.calls);
}

#[test]
fn a_write_that_the_fence_refuses_has_no_effect() {
    let claim = claim();
    let mut target = Recorder { ended: vec![claim.run_id], ..Recorder::default() };
    let child = Effect::Start(Box::new(run("child")));
    let writes = [attempt(claim, child), attempt(claim, Effect::Consume { seq: 1 }), end(claim), signal(claim.run_id)];
    let outcomes = apply_to(&mut target, &writes).unwrap();
    let names: Vec<&str> = outcomes.iter().map(Outcome::name).collect();
    assert_eq!(names, ["duplicate", "duplicate", "duplicate", "signaled"]);
    // The look for an earlier signal with the same key changes nothing.
    assert_eq!(target.calls, ["lock 1 claims, 2 changed runs", "find 1 signals"]);
}

#[test]
fn a_second_cancel_of_a_run_finds_it_ended() {
    let run = RunId::generate();
    let mut target = Recorder::default();
    let outcomes = apply_to(&mut target, &[Write::Cancel(run), Write::Cancel(run)]).unwrap();
    let ended = CancelOutcome::Ended(RunStatus::Canceled);
    assert!(matches!(outcomes[0], Outcome::Canceled(CancelOutcome::Canceled)), "{outcomes:?}");
    assert!(matches!(outcomes[1], Outcome::Canceled(outcome) if outcome == ended), "{outcomes:?}");
    assert_eq!(target.calls[1], "cancel 1 runs");
}

#[test]
fn a_fork_of_an_unknown_run_is_taken_back() {
    let fork = ForkWrite { source: RunId::generate(), new: run("fork"), before: 7, kept: None };
    let mut target = Recorder { unknown: vec![fork.source], ..Recorder::default() };
    let outcomes = apply_to(&mut target, &[Write::Fork(Box::new(fork))]).unwrap();
    assert!(matches!(outcomes[0], Outcome::SourceMissing), "{outcomes:?}");
    assert_eq!(target.calls, ["insert runs fork", "lock 1 claims, 2 changed runs", "mark fork", "delete 1 runs"]);
}

#[test]
fn a_write_of_the_application_locks_its_run_and_no_relatives() {
    let cancel = [Write::Cancel(RunId::generate())];
    let locks = Locks::of(&SortedBatch::of(&cancel)).without_families();
    assert!(locks.changed.len() == 1 && locks.parents_unknown.is_empty() && locks.with_children.is_empty());
    let mut target = Recorder::default();
    let outcome = apply_within(&mut target, &signal(RunId::generate())).now_or_never().unwrap();
    assert_eq!(outcome.unwrap().name(), "signaled");
    assert_eq!(target.calls, ["lock 1 claims, 1 changed runs", "insert 1 signals", "wake 1 runs"]);
}

#[test]
fn seats_are_given_out_in_the_order_of_the_batch() {
    let claim = || Claim { run_id: RunId::generate(), epoch: 1 };
    let seat = |claim, key: &str| attempt(claim, Effect::TakeSeat(Box::new(line(key))));
    let (first, second) = (claim(), claim());
    let undeclared = SeatLine { limit: "undeclared".into(), key: "a".into() };
    let writes = [
        seat(first, "a"),
        seat(second, "a"),
        seat(claim(), "waited for"),
        attempt(claim(), Effect::TakeSeat(Box::new(undeclared))),
        attempt(first, Effect::LeaveSeat(Box::new(line("a")))),
        Write::CallSeats(line("a")),
    ];
    let outcomes = apply_to(&mut Recorder::default(), &writes).unwrap();
    let names: Vec<&str> = outcomes.iter().map(Outcome::name).collect();
    assert_eq!(names, ["applied", "seat waits", "seat waits", "limit undeclared", "applied", "called"]);
    assert!(matches!(&outcomes[5], Outcome::Called(runs) if *runs == [second.run_id]));

    let outcomes = apply_to(&mut Recorder::default(), &[seat(claim(), "called long ago")]).unwrap();
    assert!(matches!(outcomes[0], Outcome::Applied), "it has kept its place: {outcomes:?}");
}

#[test]
fn a_rate_is_used_in_the_commit_that_gives_the_seat() {
    let rated = |key: &str| SeatLine { limit: "rated".into(), key: key.into() };
    let ask =
        |key: &str| attempt(Claim { run_id: RunId::generate(), epoch: 1 }, Effect::TakeSeat(Box::new(rated(key))));
    let mut target = Recorder::default();
    let outcomes = apply_to(&mut target, &[ask("a"), ask("a"), ask("b")]).unwrap();
    let next = Timestamp::from_micros(6_000_000);
    assert!(matches!(outcomes[0], Outcome::Applied) && matches!(outcomes[2], Outcome::Applied), "{outcomes:?}");
    assert!(matches!(outcomes[1], Outcome::SeatWaits { asks_at: Some(at) } if at == next), "{outcomes:?}");
    let of_rates: Vec<&String> = target.calls.iter().filter(|call| call.contains("rates")).collect();
    assert_eq!(of_rates, ["read 2 rates", "use rates until [6000000, 6000000]", "forget 12 rates"]);

    let mut target = Recorder::default();
    apply_to(&mut target, &[Write::CallSeats(rated("a"))]).unwrap();
    let of_rates: Vec<&String> = target.calls.iter().filter(|call| call.contains("rates")).collect();
    assert_eq!(of_rates, ["read 1 rates"], "what uses nothing writes nothing");
}

fn audited(verb: &str, write: Write) -> Write {
    let (id, verb, target) = (AuditId::generate(), verb.to_owned(), "target".to_owned());
    let order = NewAudit { id, actor: None, verb, target, reason: None, arguments: "{}".into() };
    Write::Audited(Box::new(AuditedWrite { write, order }))
}

#[test]
fn audit_rows_come_last_and_only_of_writes_that_change_something() {
    let unknown = RunId::generate();
    let mut target = Recorder { unknown: vec![unknown], ..Recorder::default() };
    let new = run("new");
    let started = format!("start started {}", new.id);
    let writes = [
        audited("cancel", Write::Cancel(RunId::generate())),
        audited("start", Write::Start(new)),
        signal(unknown),
        audited("signal", signal(unknown)),
    ];
    let outcomes = apply_to(&mut target, &writes).unwrap();
    assert_eq!(outcomes.len(), writes.len());
    // Only the counts of the runs that ended come later.
    let is_audit = |call: &&String| call.starts_with("insert audit rows: ");
    let last = target.calls.iter().rfind(|call| !call.starts_with("add ")).unwrap();
    assert!(is_audit(&last) && last.contains(&started), "{last}");
    assert!(last.contains("cancel canceled, ") && !last.contains("signal"), "{last}");
    target.calls.clear();
    apply_to(&mut target, &[audited("signal", signal(unknown)), Write::Cancel(RunId::generate())]).unwrap();
    assert!(!target.calls.iter().any(|call| call.contains("audit")), "{:?}", target.calls);
}

/// A target with one bulk operation, which a worker has claimed once.
fn with_bulk() -> (Recorder, BulkRecord) {
    let order = NewBulk {
        id: BulkId::generate(),
        verb: "run.cancel".into(),
        query: String::new(),
        action: "{}".into(),
        payload: None,
        actor: None,
        reason: None,
        upto: RunId::generate(),
        matched: Some(2),
    };
    let mut row = BulkRecord::new(order, Timestamp::from_micros(1));
    row.progress.epoch = 1;
    (Recorder { bulks: BTreeMap::from([(row.order.id, row.clone())]), ..Recorder::default() }, row)
}

fn chunk(row: &BulkRecord, epoch: i64, cursor: RunId, runs: &[RunId]) -> Write {
    let writes = runs.iter().map(|run| (*run, audited("cancel", Write::Cancel(*run)))).collect();
    let (claim, seen) = (BulkClaim { id: row.order.id, epoch }, row.progress.cursor);
    let known = BulkCounts { skipped: 1, ..BulkCounts::default() };
    let lease = Duration::from_micros(10);
    let chunk = BulkChunk { claim, seen, cursor, writes, known, is_last: false, lease };
    Write::Bulk(Box::new(BulkWrite::Advance(chunk)))
}

#[test]
fn the_writes_of_a_chunk_are_applied_with_the_others_and_move_the_operation_once() {
    let (mut target, row) = with_bulk();
    let runs = [RunId::generate(), RunId::generate()];
    let advance = chunk(&row, 1, RunId::FIRST, &runs);
    let outcomes = apply_to(&mut target, &[Write::Cancel(RunId::generate()), advance.clone()]).unwrap();
    assert!(matches!(&outcomes[..], [Outcome::Canceled(_), Outcome::Advanced(of)] if of.len() == 2), "{outcomes:?}");
    assert_eq!(target.calls[0], "lock 1 bulk operations");
    assert_eq!(target.calls.last().unwrap(), "move a bulk operation");
    assert_eq!(target.calls.iter().filter(|call| *call == "cancel 3 runs").count(), 1, "{:?}", target.calls);
    let progress = target.bulks[&row.order.id].progress.clone();
    assert_eq!((progress.done, progress.skipped, progress.failed, progress.cursor), (2, 1, 0, RunId::FIRST));
    assert_eq!(progress.available_at, Timestamp::from_micros(15));
    target.calls.clear();
    let again = apply_to(&mut target, &[advance]).unwrap();
    assert!(matches!(&again[..], [Outcome::Duplicate]), "{again:?}");
    assert!(!target.calls.iter().any(|call| call.starts_with("cancel")), "{:?}", target.calls);
    assert_eq!(target.bulks[&row.order.id].progress, progress);
}

#[test]
fn a_chunk_of_a_lost_claim_or_a_stopped_operation_changes_nothing() {
    let run = [RunId::generate()];
    let (mut target, row) = with_bulk();
    let stop = Write::Bulk(Box::new(BulkWrite::Stop(row.order.id)));
    let stale = chunk(&row, 0, RunId::FIRST, &run);
    let outcomes = apply_to(&mut target, &[stale]).unwrap();
    assert!(matches!(&outcomes[..], [Outcome::Lost]), "{outcomes:?}");
    // The stop comes first, wherever it stands in the batch.
    let outcomes = apply_to(&mut target, &[chunk(&row, 1, RunId::FIRST, &run), stop.clone()]).unwrap();
    assert!(matches!(&outcomes[..], [Outcome::Lost, Outcome::Applied]), "{outcomes:?}");
    assert_eq!(target.bulks[&row.order.id].progress.status, BulkStatus::Stopped);
    let (mut target, row) = with_bulk();
    let worker = WorkerId::generate();
    let claim = Write::Bulk(Box::new(BulkWrite::Claim { worker, lease: Duration::from_micros(7) }));
    let outcomes = apply_to(&mut target, &[chunk(&row, 1, RunId::FIRST, &run), claim]).unwrap();
    assert!(matches!(&outcomes[..], [Outcome::Lost, Outcome::BulkClaimed(Some(_))]), "{outcomes:?}");
    assert_eq!(target.bulks[&row.order.id].progress.epoch, 2);
    assert!(!target.calls.iter().any(|call| call.starts_with("cancel")), "{:?}", target.calls);
    let (mut target, row) = with_bulk();
    let twice = [chunk(&row, 1, RunId::FIRST, &run), chunk(&row, 1, RunId::FIRST, &run)];
    let outcomes = apply_to(&mut target, &twice).unwrap();
    assert!(matches!(&outcomes[..], [Outcome::Advanced(_), Outcome::Duplicate]), "{outcomes:?}");
}
