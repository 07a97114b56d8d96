//! Starts of runs, in a batch or in a transaction of the application.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Serialize;
use sqlx::{Row, SqliteConnection};

use workflow_engine::model::{Lane, NewRun, RunId, Timestamp, TraceContext};
use workflow_engine::store::{DatabaseError, DatabaseErrorKind, Outcome, Outcomes, StartOutcome, Write};

use super::error::During;
use super::{gate, room, row, sql};

const OPERATION: &str = "start runs";

/// The columns of a new run, in the order of `insert_runs.sql`.
#[derive(Serialize)]
struct NewRow<'a>(
    RunId,
    &'a str,
    &'a str,
    &'a str,
    Option<&'a str>,
    Timestamp,
    Option<Timestamp>,
    i64,
    Option<RunId>,
    Option<&'a str>,
    Option<&'static str>,
    String,
    &'a str,
    i16,
    &'a str,
    bool,
    Option<TraceContext>,
);

/// The starts of a batch.
pub(super) struct Starts<'a> {
    places: Vec<usize>,
    runs: Vec<&'a NewRun>,
}

impl<'a> Starts<'a> {
    /// Returns the starts among these writes.
    pub(super) fn of(writes: &'a [Write]) -> Self {
        let starts = writes.iter().enumerate().filter_map(|(place, write)| match write {
            Write::Start(run) => Some((place, run)),
            _ => None,
        });
        let (places, runs) = starts.unzip();
        Self { places, runs }
    }

    /// Returns the rows as `insert_runs.sql` takes them; `None`, which SQLite takes for no rows,
    /// without any.
    pub(super) fn rows(&self, now: Timestamp) -> Result<Option<String>, DatabaseError> {
        let first = first_of_each(&self.runs);
        if first.is_empty() { Ok(None) } else { rows_of(&first, now, true).map(Some) }
    }

    /// Sets the outcome of each start after this number of rows was inserted. Returns `false` if
    /// the lane of a run has no row, or its queue has bounds.
    pub(super) async fn tell(
        self,
        connection: &mut SqliteConnection,
        inserted: u64,
        outcomes: &mut Outcomes,
    ) -> Result<bool, DatabaseError> {
        let Some(started) = outcomes_of(connection, &self.runs, inserted).await? else { return Ok(false) };
        for (place, outcome) in self.places.into_iter().zip(started) {
            outcomes.set(place, Outcome::Started(outcome));
        }
        Ok(true)
    }
}

/// Takes the keys of these starts away from failed and canceled runs, unless one of these queues
/// has bounds.
pub(super) async fn free_keys(
    connection: &mut SqliteConnection,
    runs: &[&NewRun],
    unless_bounded: &BTreeSet<&str>,
) -> Result<(), DatabaseError> {
    const OPERATION: &str = "free the keys of failed runs";
    let row = |run: &&NewRun| {
        let parent = run.parent.as_ref().map(|parent| (parent.run_id, parent.step_key.clone())).unzip();
        (run.lane.workflow.clone(), run.key.clone(), run.id, parent.0, parent.1)
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    let query = sqlx::query(sql::FREE_KEYS).bind(serde_json::to_string(&rows).during(OPERATION)?);
    let query = query.bind(serde_json::to_string(unless_bounded).during(OPERATION)?);
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// Starts runs and returns the outcome of each, in their order. Of several with one key or one id,
/// the first is started. Inserts the lanes that have no row: the transaction excludes every other
/// writer, so no other one waits for them longer than for its turn.
pub(super) async fn start(
    connection: &mut SqliteConnection,
    runs: &[&NewRun],
    now: Timestamp,
) -> Result<Vec<StartOutcome>, DatabaseError> {
    start_asking(connection, (runs, false), now).await?.ok_or_else(vanished)
}

/// Starts runs as [`start`] does, unless a queue of theirs has bounds: may start some then, and
/// returns `None`.
pub(super) async fn start_unbounded(
    connection: &mut SqliteConnection,
    runs: &[&NewRun],
    now: Timestamp,
) -> Result<Option<Vec<StartOutcome>>, DatabaseError> {
    start_asking(connection, (runs, true), now).await
}

async fn start_asking(
    connection: &mut SqliteConnection,
    (runs, asks): (&[&NewRun], bool),
    now: Timestamp,
) -> Result<Option<Vec<StartOutcome>>, DatabaseError> {
    let rows = rows_of(&first_of_each(runs), now, asks)?;
    let inserted = insert(&mut *connection, &rows, now).await?;
    let outcomes = outcomes_of(&mut *connection, runs, inserted).await?;
    // A run that keeps its key only because the queue has bounds is not the answer.
    let is_answer = !asks || inserted == runs.len() as u64 || !runs.iter().any(|run| run.may_take_key());
    if outcomes.is_some() && is_answer {
        return Ok(outcomes);
    }
    let queues = runs.iter().map(|run| run.lane.queue.as_str()).collect();
    if asks && !room::read_bounds(&mut *connection, &queues).await?.limits.is_empty() {
        return Ok(None);
    }
    if outcomes.is_some() {
        return Ok(outcomes);
    }
    insert_lanes(&mut *connection, runs.iter().map(|run| &run.lane)).await?;
    gate::insert(&mut *connection, runs.iter().map(|run| run.place())).await?;
    let inserted = inserted + insert(&mut *connection, &rows, now).await?;
    outcomes_of(connection, runs, inserted).await?.ok_or_else(vanished).map(Some)
}

/// Inserts those of these lanes that have no row.
pub(super) async fn insert_lanes(
    connection: &mut SqliteConnection,
    lanes: impl IntoIterator<Item = &Lane>,
) -> Result<(), DatabaseError> {
    const OPERATION: &str = "record lanes";
    let lanes: BTreeSet<_> = lanes.into_iter().map(|lane| (&lane.queue, &lane.workflow, &lane.version)).collect();
    let query = sqlx::query(sql::INSERT_LANES).bind(serde_json::to_string(&lanes).during(OPERATION)?);
    query.execute(connection).await.during(OPERATION)?;
    Ok(())
}

/// Returns the outcome of each start, in their order, after this number of rows was inserted;
/// `None` if a run was neither inserted nor found, because its lane has no row or its queue has
/// bounds.
async fn outcomes_of(
    connection: &mut SqliteConnection,
    runs: &[&NewRun],
    inserted: u64,
) -> Result<Option<Vec<StartOutcome>>, DatabaseError> {
    if inserted == runs.len() as u64 {
        return Ok(Some(runs.iter().map(|_| StartOutcome::Created).collect()));
    }
    Ok(find(connection, runs).await?.into_iter().collect())
}

/// Selects the first of several starts with one key or one id. Only that one goes to the database,
/// because the order there is the order of the ids.
fn first_of_each<'a>(runs: &[&'a NewRun]) -> Vec<&'a NewRun> {
    let mut keys = HashSet::new();
    let mut ids = HashSet::new();
    let is_first = |run: &&NewRun| {
        let first_of_key = run.key.as_ref().is_none_or(|key| keys.insert((run.lane.workflow.clone(), key.clone())));
        ids.insert(run.id) && first_of_key
    };
    let mut first: Vec<&NewRun> = runs.iter().copied().filter(is_first).collect();
    first.sort_unstable_by_key(|run| run.id);
    first
}

async fn insert(connection: &mut SqliteConnection, rows: &str, now: Timestamp) -> Result<u64, DatabaseError> {
    let query = sqlx::query(sql::INSERT_RUNS).bind(now.as_micros()).bind(rows);
    Ok(query.execute(connection).await.during(OPERATION)?.rows_affected())
}

/// Returns runs as `insert_runs.sql` takes them, and whether they ask for room.
fn rows_of(runs: &[&NewRun], now: Timestamp, asks: bool) -> Result<String, DatabaseError> {
    let rows: Vec<NewRow<'_>> = runs.iter().map(|run| new_row(run, now, asks)).collect::<Result<_, _>>()?;
    serde_json::to_string(&rows).during(OPERATION)
}

/// Returns the row of a run. The run is due at its start, but also at its deadline, because a
/// worker must fail it then.
fn new_row(run: &NewRun, now: Timestamp, asks: bool) -> Result<NewRow<'_>, DatabaseError> {
    let start = run.start.resolve(now);
    let deadline = run.deadline.map(|deadline| deadline.resolve(now));
    let due = deadline.map_or(start, |deadline| deadline.min(start));
    let tags = serde_json::to_string(&run.tags).during(OPERATION)?;
    let lane = &run.lane;
    let parent = run.parent.as_ref();
    Ok(NewRow(
        run.id,
        &lane.workflow,
        &lane.version,
        &lane.queue,
        run.key.as_deref(),
        due,
        deadline,
        run.depth,
        parent.map(|parent| parent.run_id),
        parent.map(|parent| parent.step_key.as_str()),
        parent.map(|parent| parent.on_end.as_str()),
        tags,
        &run.input,
        run.rank().number(),
        run.gate.as_deref().unwrap_or_default(),
        asks,
        run.trace,
    ))
}

/// Finds the outcome of each start, in their order; `None` for a run that is not found. A run with
/// the id of a start is the started run: this commit inserted it, or an earlier commit whose reply
/// was lost.
pub(super) async fn find(
    connection: &mut SqliteConnection,
    runs: &[&NewRun],
) -> Result<Vec<Option<StartOutcome>>, DatabaseError> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let wanted: Vec<_> = runs.iter().map(|run| (run.id, &run.lane.workflow, &run.key)).collect();
    let query = sqlx::query(sql::FIND_STARTED_RUNS).bind(serde_json::to_string(&wanted).during(OPERATION)?);
    let mut found: HashMap<usize, StartOutcome> = HashMap::new();
    for row in query.fetch_all(connection).await.during(OPERATION)? {
        let place = usize::try_from(row.try_get::<i64, _>("place").during(OPERATION)?).unwrap_or(usize::MAX);
        let id = row::id(&row, "id")?;
        if runs.get(place).is_some_and(|run| run.id == id) {
            found.insert(place, StartOutcome::Created);
        } else {
            let outcome = match row::get::<i64>(&row, "generation")? {
                0 => StartOutcome::Existing { id, input: row::get(&row, "input")? },
                _ => StartOutcome::Continued { id },
            };
            found.entry(place).or_insert(outcome);
        }
    }
    Ok((0..runs.len()).map(|place| found.remove(&place)).collect())
}

fn vanished() -> DatabaseError {
    DatabaseError::new(DatabaseErrorKind::Other, OPERATION, "a run was neither inserted nor found")
}
