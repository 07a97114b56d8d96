use std::time::Duration;

use croner::parser::CronParser;
use croner::{Cron, JobType};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp as Instant, Zoned};
use uuid::Uuid;

use crate::model::Timestamp;

use super::{InvalidSchedule, Occurrence, Timing};

/// The most times in a row that exceptions may leave out, within [`Calendar::LONGEST_WAIT`]. It is
/// more than the seconds of three days.
const MOST_EXCEPTIONS: u32 = 300_000;

/// The times of one schedule, ready to be computed.
#[derive(Clone, Debug)]
pub struct Calendar {
    /// Expressions, and whether each lists fixed times of the day.
    cron: Vec<(Cron, bool)>,
    /// Exceptions, and whether each has seconds.
    except: Vec<(Cron, bool)>,
    zone: TimeZone,
    timing: Timing,
}

impl Calendar {
    /// The longest time without an occurrence after a schedule was declared: five years.
    pub const LONGEST_WAIT: Duration = Duration::from_secs(5 * 366 * 24 * 3600);

    /// Prepares the times of this schedule.
    ///
    /// # Errors
    /// [`InvalidSchedule::Cron`], [`InvalidSchedule::Zone`].
    pub fn of(name: &str, timing: &Timing) -> Result<Self, InvalidSchedule> {
        let cron = |expression: &String| {
            let cron = parse(name, expression)?;
            let lists_times = lists_times(expression, &cron);
            Ok((cron, lists_times))
        };
        let except = |expression: &String| Ok((parse(name, expression)?, expression.split_whitespace().count() > 5));
        Ok(Self {
            cron: timing.cron.iter().map(cron).collect::<Result<_, InvalidSchedule>>()?,
            except: timing.except.iter().map(except).collect::<Result<_, InvalidSchedule>>()?,
            zone: zone(name, &timing.zone)?,
            timing: timing.clone(),
        })
    }

    /// Returns the first occurrence after this time; `None` if there is none any more.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let before_first = |from: Timestamp| from - Duration::from_micros(1);
        let mut after = self.timing.from.map_or(after, |from| after.max(before_first(from)));
        let first = self.next_match(after)?;
        for _ in 0..MOST_EXCEPTIONS {
            let next = self.next_match(after)?;
            if next.since(first) > Self::LONGEST_WAIT {
                return None;
            }
            if self.timing.until.is_some_and(|until| next > until) {
                return None;
            }
            if !self.is_exception(next) {
                return Some(next);
            }
            after = next;
        }
        None
    }

    /// Returns the occurrences after `after` and up to `until`, at most `limit`.
    pub fn between(&self, after: Timestamp, until: Timestamp, limit: usize) -> impl Iterator<Item = Timestamp> {
        let next = move |at: Timestamp| self.next_after(at).filter(|next| *next <= until);
        std::iter::successors(next(after), move |at| next(*at)).take(limit)
    }

    /// Returns the time at which an occurrence is due: later by its jitter.
    #[must_use]
    pub fn due_at(&self, name: &str, occurrence: Timestamp) -> Timestamp {
        let jitter = u64::try_from(self.timing.jitter.as_micros()).unwrap_or(u64::MAX);
        if jitter == 0 {
            return occurrence;
        }
        let (high, low) = derived(name, occurrence).as_u64_pair();
        occurrence + Duration::from_micros((high.rotate_left(32) ^ low) % jitter)
    }

    /// Describes an occurrence for its run.
    #[must_use]
    pub fn occurrence(&self, schedule: &str, at: Timestamp, missed: u64) -> Occurrence {
        let local = zoned(at, &self.zone).map_or_else(|| at.to_string(), |local| local.to_string());
        Occurrence { schedule: schedule.to_owned(), at, missed, local }
    }

    /// Returns the first time after this one that an expression or the interval has.
    fn next_match(&self, after: Timestamp) -> Option<Timestamp> {
        let mut next = self.timing.every.and_then(|every| next_multiple(every, self.timing.offset, after));
        // Expressions have whole seconds, so the search may begin at the second before.
        let start = (!self.cron.is_empty()).then(|| zoned(after, &self.zone)).flatten();
        for (cron, lists_times) in &self.cron {
            let find = if *lists_times { next_listed } else { next_occurrence };
            let found = start.as_ref().and_then(|start| find(cron, start));
            let found = found.map(|found| Timestamp::from_micros(found.timestamp().as_microsecond()));
            next = [next, found.filter(|found| *found > after)].into_iter().flatten().min();
        }
        next.filter(|next| *next < Timestamp::FAR_FUTURE)
    }

    fn is_exception(&self, at: Timestamp) -> bool {
        if self.except.is_empty() {
            return false;
        }
        let Some(local) = zoned(at, &self.zone) else { return false };
        let minute = local.with().second(0).build().unwrap_or_else(|_| local.clone());
        let matches = |(cron, has_seconds): &(Cron, bool)| {
            cron.is_time_matching(if *has_seconds { &local } else { &minute }).unwrap_or(false)
        };
        self.except.iter().any(matches)
    }
}

/// Returns a UUID that is the same for this occurrence on every worker.
pub(super) fn derived(schedule: &str, occurrence: Timestamp) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{schedule}@{}", occurrence.as_micros()).as_bytes())
}

fn next_multiple(every: Duration, offset: Duration, after: Timestamp) -> Option<Timestamp> {
    let micros = |duration: Duration| i64::try_from(duration.as_micros()).ok();
    let (every, offset) = (micros(every).filter(|every| *every > 0)?, micros(offset)?);
    let passed = after.as_micros().checked_sub(offset)?.div_euclid(every);
    let next = passed.checked_add(1)?.checked_mul(every)?.checked_add(offset)?;
    Some(Timestamp::from_micros(next))
}

fn next_occurrence(cron: &Cron, start: &Zoned) -> Option<Zoned> {
    cron.find_next_occurrence(start, false).ok()
}

/// Returns the first time after `start` of an expression that lists fixed times of the day. croner
/// would leave out a time that the clock skips, and repeat one that it shows twice. Here each comes
/// once per day: a skipped one at the end of the gap, a repeated one at its first instant.
fn next_listed(cron: &Cron, start: &Zoned) -> Option<Zoned> {
    let is_second = |at: &Zoned| {
        let offset = at.time_zone().to_ambiguous_timestamp(at.datetime()).offset();
        matches!(offset, AmbiguousOffset::Fold { after, .. } if after == at.offset())
    };
    let mut next = next_occurrence(cron, start)?;
    while is_second(&next) {
        next = next_occurrence(cron, &next)?;
    }
    let ends_of_gaps = start.time_zone().following(start.timestamp()).map(|change| change.timestamp());
    let mut until_next = ends_of_gaps.take_while(|end| *end < next.timestamp());
    let skips_one = until_next.find(|end| skips(cron, *end, start.time_zone()));
    Some(skips_one.map_or(next, |end| end.to_zoned(start.time_zone().clone())))
}

/// Returns whether the clock on the wall skips a time of this expression at this instant.
fn skips(cron: &Cron, end: Instant, zone: &TimeZone) -> bool {
    let second = jiff::SignedDuration::from_secs(1);
    let Ok(before) = end.checked_sub(second) else { return false };
    // The clock on the wall is taken for that of UTC, which has no gaps.
    let on_wall = |at: Instant| zone.to_datetime(at).to_zoned(TimeZone::UTC).ok();
    let (Some(last), Some(end)) = (on_wall(before), on_wall(end)) else { return false };
    next_occurrence(cron, &last).is_some_and(|skipped| skipped < end)
}

/// Returns whether an expression lists fixed times of the day: its seconds, minutes and hours are
/// numbers, lists and ranges. A single time is left to croner.
fn lists_times(expression: &str, cron: &Cron) -> bool {
    let fields: Vec<&str> = expression.split_whitespace().collect();
    let of_day = match fields.len() {
        5 => 2,
        6 | 7 => 3,
        _ => return false,
    };
    let is_listed = |field: &&str| !field.contains(['*', '/', '?']);
    fields[..of_day].iter().all(is_listed) && cron.determine_job_type() == JobType::IntervalWildcard
}

fn zoned(at: Timestamp, zone: &TimeZone) -> Option<Zoned> {
    Some(Instant::from_microsecond(at.as_micros()).ok()?.to_zoned(zone.clone()))
}

fn parse(name: &str, expression: &str) -> Result<Cron, InvalidSchedule> {
    CronParser::new().parse(expression).map_err(|error| {
        let reason = error.to_string().trim_end_matches('.').to_owned();
        InvalidSchedule::Cron {
            name: name.to_owned(),
            expression: expression.to_owned(),
            reason: match wrong_field(expression) {
                Some(place) => format!("{reason}, in {place}"),
                None => reason,
            },
        }
    })
}

/// Returns the first field that is wrong even if all others are `*`, with its column from 1.
fn wrong_field(expression: &str) -> Option<String> {
    const NAMES: [&str; 6] = ["second", "minute", "hour", "day of the month", "month", "day of the week"];
    let fields: Vec<&str> = expression.split_whitespace().collect();
    let names = match fields.len() {
        5 => &NAMES[1..],
        6 => &NAMES[..],
        _ => return None,
    };
    let mut end = 0;
    for (index, (field, name)) in fields.iter().zip(names).enumerate() {
        let begin = end + expression[end..].find(field)?;
        end = begin + field.len();
        let mut alone = vec!["*"; fields.len()];
        alone[index] = field;
        if CronParser::new().parse(&alone.join(" ")).is_err() {
            let column = expression[..begin].chars().count() + 1;
            return Some(format!("the field {field:?} of the {name} at column {column}"));
        }
    }
    None
}

fn zone(name: &str, zone: &str) -> Result<TimeZone, InvalidSchedule> {
    // "local" and a POSIX rule would mean something else on each host.
    TimeZone::get(zone).map_err(|_| InvalidSchedule::Zone {
        name: name.to_owned(),
        zone: zone.to_owned(),
        near: similar_zones(zone),
    })
}

fn similar_zones(zone: &str) -> Vec<String> {
    const LEAST_SIMILARITY: f64 = 0.85;
    let wanted = zone.to_lowercase();
    let mut near: Vec<(f64, String)> = jiff::tz::db()
        .available()
        .map(|known| known.to_string())
        .map(|known| (strsim::jaro_winkler(&wanted, &known.to_lowercase()), known))
        .filter(|(similarity, _)| *similarity >= LEAST_SIMILARITY)
        .collect();
    near.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    near.into_iter().take(3).map(|(_, known)| known).collect()
}
