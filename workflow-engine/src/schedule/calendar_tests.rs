use std::time::{Duration, Instant};

use super::*;
use crate::model::{Lane, Timestamp};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn at(text: &str) -> Timestamp {
    Timestamp::from_micros(text.parse::<jiff::Timestamp>().unwrap().as_microsecond())
}

fn cron(expression: &str, zone: &str) -> Timing {
    Timing { cron: vec![expression.into()], zone: zone.into(), ..Timing::default() }
}

fn every(every: Duration) -> Timing {
    Timing { every: Some(every), zone: "UTC".into(), ..Timing::default() }
}

fn declaration(timing: Timing) -> Declaration {
    Declaration {
        timing,
        lane: Lane { queue: "default".into(), workflow: "report".into(), version: "1".into() },
        gate: None,
        tags: [].into(),
        priority: None,
        deadline: None,
        overlap: Overlap::default(),
        catch_up: CatchUp::default(),
        limit: None,
        pause_on_failure: false,
    }
}

/// The local times of the first occurrences after this local time.
fn local(timing: &Timing, after: &str, count: usize) -> Vec<String> {
    let calendar = Calendar::of("s", timing).unwrap();
    let after: jiff::Zoned = format!("{after}[{}]", timing.zone).parse().unwrap();
    let after = Timestamp::from_micros(after.timestamp().as_microsecond());
    let times = calendar.between(after, Timestamp::FAR_FUTURE, count);
    let shown = |at| calendar.occurrence("s", at, 0).local;
    times
        .map(|at| shown(at).split('[').next().unwrap().replace("2027-", "").replace(":00+", "+").replace(":00-", "-"))
        .collect()
}

/// The table of the guide. The clocks of Berlin go forward at 02:00 on 28 March 2027 and back at
/// 03:00 on 31 October.
#[test]
fn the_summer_time_table_holds() {
    let forward = "2027-03-28T00:59:00";
    let back = "2027-10-31T01:59:00";
    for (expression, zone, after, expected) in [
        ("30 2 * * *", "Europe/Berlin", forward, &["03-28T03:00+02:00", "03-29T02:30+02:00"][..]),
        ("30 2 * * *", "Europe/Berlin", back, &["10-31T02:30+02:00", "11-01T02:30+01:00"]),
        ("*/30 * * * *", "Europe/Berlin", forward, &["03-28T01:00+01:00", "03-28T01:30+01:00", "03-28T03:00+02:00"]),
        (
            "*/30 * * * *",
            "Europe/Berlin",
            back,
            &["10-31T02:00+02:00", "10-31T02:30+02:00", "10-31T02:00+01:00", "10-31T02:30+01:00", "10-31T03:00+01:00"],
        ),
        ("0 */2 * * *", "Europe/Berlin", forward, &["03-28T04:00+02:00", "03-28T06:00+02:00"]),
        ("0 */2 * * *", "Europe/Berlin", back, &["10-31T02:00+02:00", "10-31T02:00+01:00", "10-31T04:00+01:00"]),
        ("0 2,14 * * *", "Europe/Berlin", forward, &["03-28T03:00+02:00", "03-28T14:00+02:00", "03-29T02:00+02:00"]),
        ("0 2,14 * * *", "Europe/Berlin", back, &["10-31T02:00+02:00", "10-31T14:00+01:00", "11-01T02:00+01:00"]),
        ("0,30 1-3 * * *", "Europe/Berlin", forward, &["03-28T01:00+01:00", "03-28T01:30+01:00", "03-28T03:00+02:00"]),
        ("0,30 2-3 * * *", "Europe/Berlin", "2027-03-28T02:00:00", &["03-28T03:30+02:00", "03-29T02:00+02:00"]),
        ("0 1-3 * * *", "Europe/Berlin", "2027-10-31T02:00:00", &["10-31T03:00+01:00", "11-01T01:00+01:00"]),
        ("0 0 2,3 * * *", "Europe/Berlin", forward, &["03-28T03:00+02:00", "03-29T02:00+02:00"]),
        ("0 0,12 * * *", "America/Santiago", "2027-09-04T12:00:00", &["09-05T01:00-03:00", "09-05T12:00-03:00"]),
        ("0 0 * * *", "America/Santiago", "2027-09-04T12:00:00", &["09-05T01:00-03:00", "09-06T00:00-03:00"]),
        ("0 0 * * *", "America/Santiago", "2027-04-03T12:00:00", &["04-04T00:00-04:00", "04-05T00:00-04:00"]),
    ] {
        assert_eq!(local(&cron(expression, zone), after, expected.len()), expected, "{expression} in {zone}");
    }
    let quarter = Timing { zone: "Europe/Berlin".into(), ..every(Duration::from_secs(900)) };
    assert_eq!(local(&quarter, "2027-03-28T01:40:00", 2), ["03-28T01:45+01:00", "03-28T03:00+02:00"]);
    assert_eq!(local(&quarter, "2027-10-31T02:40:00", 2), ["10-31T02:45+02:00", "10-31T02:00+01:00"]);
}

#[test]
fn leap_days_of_400_years_are_found() {
    let calendar = Calendar::of("leap", &cron("0 0 29 2 *", "UTC")).unwrap();
    let begun = Instant::now();
    let days: Vec<_> = calendar.between(at("2000-01-01T00:00:00Z"), at("2399-12-31T00:00:00Z"), 1000).collect();
    assert_eq!(
        (days.len(), days.first(), days.last()),
        (97, Some(&at("2000-02-29T00:00:00Z")), Some(&at("2396-02-29T00:00:00Z")))
    );
    // Far above what it takes: a search second by second would take hours.
    assert!(begun.elapsed() < 60 * SECOND);
}

#[test]
fn an_interval_counts_from_the_epoch() {
    let timing = Timing { offset: 180 * SECOND, ..every(900 * SECOND) };
    assert_eq!(local(&timing, "2027-01-01T00:00:00", 2), ["01-01T00:03+00:00", "01-01T00:18+00:00"]);
    assert_eq!(local(&timing, "2027-01-01T00:03:00", 1), ["01-01T00:18+00:00"], "an occurrence is after the time");
    let calendar = Calendar::of("s", &every(DAY)).unwrap();
    assert_eq!(calendar.next_after(Timestamp::from_micros(-1)), Some(Timestamp::from_micros(0)));
}

#[test]
fn lists_exceptions_and_bounds_hold() {
    let mut timing = cron("0 7 * * MON-FRI", "Europe/Berlin");
    timing.cron.push("30 9 * * SAT".into());
    assert_eq!(
        local(&timing, "2027-01-01T08:00:00", 3),
        ["01-02T09:30+01:00", "01-04T07:00+01:00", "01-05T07:00+01:00"]
    );
    timing.except = vec!["* * 4 1 *".into()];
    assert_eq!(local(&timing, "2027-01-01T08:00:00", 2), ["01-02T09:30+01:00", "01-05T07:00+01:00"]);
    timing.from = Some(at("2027-01-05T06:00:00Z"));
    timing.until = Some(at("2027-01-06T06:00:00Z"));
    assert_eq!(
        local(&timing, "2027-01-01T08:00:00", 9),
        ["01-05T07:00+01:00", "01-06T07:00+01:00"],
        "both are inclusive"
    );
    // An exception without seconds leaves out its whole minutes.
    let seconds = Timing { except: vec!["0-58 * * * *".into()], ..cron("*/20 * * * * *", "UTC") };
    let times = local(&seconds, "2027-01-01T00:00:00", 4);
    assert_eq!(times, ["01-01T00:59+00:00", "01-01T00:59:20+00:00", "01-01T00:59:40+00:00", "01-01T01:59+00:00"]);
}

#[test]
fn jitter_is_the_same_on_every_worker_and_differs_between_occurrences() {
    let timing = Timing { jitter: 30 * SECOND, ..every(60 * SECOND) };
    let [one, other] = [(), ()].map(|()| Calendar::of("s", &timing).unwrap());
    let times: Vec<_> = one.between(at("2027-01-01T00:00:00Z"), Timestamp::FAR_FUTURE, 50).collect();
    let delays: Vec<_> = times.iter().map(|time| one.due_at("s", *time).since(*time)).collect();
    assert!(delays.iter().all(|delay| *delay < 30 * SECOND));
    assert!(delays.iter().collect::<std::collections::BTreeSet<_>>().len() > 40);
    assert_eq!(times.iter().map(|time| other.due_at("s", *time).since(*time)).collect::<Vec<_>>(), delays);
    assert_ne!(one.due_at("t", times[0]), one.due_at("s", times[0]), "schedules do not start in step");
}

#[test]
fn an_occurrence_has_a_key_and_an_id_of_its_own() {
    let calendar = Calendar::of("daily-report", &cron("0 8 * * *", "Europe/Berlin")).unwrap();
    let occurrence = calendar.occurrence("daily-report", at("2026-11-24T07:00:00Z"), 2);
    assert_eq!(occurrence.key(), "schedule:daily-report@2026-11-24T07:00:00Z");
    assert_eq!(
        (occurrence.local.as_str(), occurrence.date()),
        ("2026-11-24T08:00:00+01:00[Europe/Berlin]", "2026-11-24")
    );
    assert!(occurrence.run_id().is_scheduled());
    let mut tags = [].into();
    occurrence.add_to(&mut tags);
    assert_eq!(Occurrence::of_tags(&tags), Some(occurrence.clone()));
    assert_eq!(Occurrence::of_tags(&[].into()), None);
    let others =
        [calendar.occurrence("other", occurrence.at, 0), calendar.occurrence("daily-report", occurrence.at + DAY, 0)];
    assert!(others.iter().all(|other| other.run_id() != occurrence.run_id() && other.key() != occurrence.key()));
    let first = calendar.occurrence("daily-report", occurrence.at + DAY, 0).run_id();
    assert!(occurrence.run_id() < first && !crate::model::RunId::generate().is_scheduled());
}

#[test]
fn what_is_refused_is_named_with_the_way_out() {
    let berlin = |expression: &str| declaration(cron(expression, "Europe/Berlin"));
    let minutely = || declaration(every(60 * SECOND));
    let timed = |timing| declaration(timing);
    let long = "n".repeat(201);
    let cases: Vec<(&str, Declaration, &str)> = vec![
        ("", minutely(), "schedule name \"\" is empty"),
        (&long, minutely(), "has 201 bytes; use at most 200"),
        ("a\nb", minutely(), "has the control character"),
        (
            "s",
            Declaration { lane: Lane { workflow: String::new(), ..minutely().lane }, ..minutely() },
            "starts nothing; add .start(",
        ),
        (
            "s",
            Declaration { lane: Lane { queue: String::new(), ..minutely().lane }, ..minutely() },
            "queue name \"\" is empty",
        ),
        ("s", timed(Timing { zone: "UTC".into(), ..Timing::default() }), "has no times; begin with Schedule::cron"),
        ("s", berlin("0 7 * *"), "\"0 7 * *\" is not a cron expression"),
        ("s", berlin("0 25 * * *"), "\"0 25 * * *\" is not a cron expression"),
        ("s", berlin("0 25 * * *"), ", in the field \"25\" of the hour at column 3; use five fields"),
        ("s", berlin("  0 7  *  MARZ *"), ", in the field \"MARZ\" of the month at column 11"),
        ("s", berlin("99 0 7 * * *"), ", in the field \"99\" of the second at column 1"),
        ("s", berlin("0 0 31 2 *"), "no occurrence within five years after 2026-11-25T00:00:00.000Z: \"0 0 31 2 *\""),
        (
            "s",
            timed(Timing { cron: vec!["0 7 * * *".into(), "0 0 31 2 *".into()], ..cron("", "UTC") }),
            "\"0 0 31 2 *\"",
        ),
        (
            "s",
            timed(Timing { except: vec!["* * * * *".into()], ..cron("0 7 * * *", "UTC") }),
            "no occurrence within five",
        ),
        ("s", berlin("0 0 0 1 1 * 2040"), "no occurrence within five years"),
        ("s", timed(cron("0 7 * * *", "Europe/Berlim")), "no time zone \"Europe/Berlim\"; did you mean Europe/Berlin"),
        ("s", timed(cron("0 7 * * *", "")), "no time zone \"\""),
        ("s", timed(every(Duration::ZERO)), "the interval 0ns is refused; use whole seconds"),
        ("s", timed(every(SECOND / 2)), "the interval 500ms is refused"),
        ("s", timed(every(SECOND * 3 / 2)), "the interval 1.5s is refused"),
        (
            "s",
            timed(Timing { offset: 60 * SECOND, ..every(60 * SECOND) }),
            "the offset 60s is refused; use whole seconds, less",
        ),
        (
            "s",
            timed(Timing { jitter: 2 * DAY, ..every(60 * SECOND) }),
            "the jitter 172800s is refused; use at most a day",
        ),
        (
            "s",
            Declaration { limit: Some(0), ..minutely() },
            "the limit 0 is refused; use 1 or more; to start nothing, pause",
        ),
        ("s", Declaration { overlap: Overlap::BufferAll { max: 0 }, ..minutely() }, "the most occurrences that wait 0"),
        (
            "s",
            Declaration { catch_up: CatchUp::All { window: DAY, max: 1001 }, ..minutely() },
            "catch-up 1001 is refused",
        ),
        (
            "s",
            Declaration { catch_up: CatchUp::Latest { window: Duration::ZERO }, ..minutely() },
            "the window of the catch-up 0ns",
        ),
        ("s", Declaration { deadline: Some(Duration::ZERO), ..minutely() }, "the deadline 0ns is refused"),
        (
            "s",
            timed(Timing {
                from: Some(at("2028-01-01T00:00:00Z")),
                until: Some(at("2027-01-01T00:00:00Z")),
                ..every(SECOND)
            }),
            "it ends at 2027-01-01T00:00:00.000Z, before it begins",
        ),
    ];
    for (name, declaration, expected) in cases {
        let refused = declaration.check(name, at("2026-11-25T00:00:00Z")).unwrap_err().to_string();
        assert!(refused.contains(expected), "{refused}\n lacks\n{expected}");
    }
    minutely().check("s", at("2026-11-25T00:00:00Z")).unwrap();
    let over = Timing { until: Some(at("2020-01-01T00:00:00Z")), ..every(SECOND) };
    timed(over).check("s", at("2026-11-25T00:00:00Z")).unwrap();
}
