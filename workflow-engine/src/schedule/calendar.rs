use std::time::Duration;

use croner::Cron;
use croner::parser::CronParser;
use jiff::tz::TimeZone;
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
    cron: Vec<Cron>,
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
        let parse = |expression: &String| parse(name, expression);
        let except = |expression: &String| Ok((parse(expression)?, expression.split_whitespace().count() > 5));
        Ok(Self {
            cron: timing.cron.iter().map(parse).collect::<Result<_, _>>()?,
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
        for cron in &self.cron {
            let found = start.as_ref().and_then(|start| cron.find_next_occurrence(start, false).ok());
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
