//! Charts of statistics: columns of ended runs, and small lines.

use maud::{Markup, html};
use workflow_sdk::Timestamp;
use workflow_sdk::operate::{ListStats, OperateError, Stats, StatsGroup, StatsPage, VersionView};

use crate::clock::{self, grouped};
use crate::facets;
use crate::timeline::percent;
use crate::visit::Visit;

/// How far back a chart goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Range {
    #[default]
    Hour,
    Day,
    Week,
}

impl Range {
    pub(crate) const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Week];

    /// Reads the parameter of an address. Another text means the default.
    pub(crate) fn of(text: Option<&str>) -> Self {
        Self::ALL.into_iter().find(|range| Some(range.word()) == text).unwrap_or_default()
    }

    /// Returns the text of the parameter.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Week => "7d",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Hour => "1 h",
            Self::Day => "24 h",
            Self::Week => "7 d",
        }
    }

    /// Returns the range as a part of a sentence.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hour => "the last hour",
            Self::Day => "the last 24 hours",
            Self::Week => "the last 7 days",
        }
    }

    /// Returns the request for statistics of this range.
    ///
    /// # Errors
    /// None: the texts are known.
    pub(crate) fn stats(self) -> Result<ListStats, OperateError> {
        Ok(ListStats::new().since(format!("-{}", self.word()).parse()?))
    }

    /// Draws the links to the other ranges of a page.
    pub(crate) fn links(self, visit: &Visit, path: &str) -> Markup {
        html! {
            span.ranges {
                @for range in Self::ALL {
                    a href=(visit.link(&format!("{path}?range={}", range.word())))
                        aria-current=[(range == self).then_some("true")] { (range.label()) }
                }
            }
        }
    }
}

/// The runs that ended in one step of a range.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Column {
    from: Timestamp,
    to: Timestamp,
    /// Runs per step that succeeded or were canceled, and runs that failed.
    well: f64,
    failed: f64,
    stats: Stats,
}

/// A moment that a chart names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deploy {
    pub(crate) at: Timestamp,
    pub(crate) name: String,
}

fn columns(page: &StatsPage, group: &StatsGroup) -> Vec<Column> {
    let step = page.step.seconds() as f64;
    let column = |begin: &workflow_sdk::operate::StatsStep| {
        // Counts that have been folded stand for several steps.
        let part = step / begin.seconds.max(1) as f64;
        let stats = begin.stats;
        Column {
            from: begin.begins_at,
            to: begin.begins_at + std::time::Duration::from_secs(begin.seconds),
            well: (stats.succeeded + stats.canceled) as f64 * part,
            failed: stats.failed as f64 * part,
            stats,
        }
    };
    group.steps.iter().filter(|step| step.stats.ended() > 0).map(column).collect()
}

/// Returns the smallest round number that is at least this one, with two steps to it.
fn round_above(number: f64) -> u64 {
    let mut unit = 1;
    loop {
        if let Some(round) = [2, 4, 10].map(|times| times * unit).into_iter().find(|round| *round as f64 >= number) {
            return round;
        }
        unit *= 10;
    }
}

/// Returns a number in at most five characters.
fn short(number: u64) -> String {
    match number {
        0..10_000 => grouped(number),
        10_000..1_000_000 => format!("{}k", number / 1000),
        _ => format!("{}M", number / 1_000_000),
    }
}

/// Returns when versions of a workflow began that were not there at the beginning of the range.
/// `lanes` are the groups of a page per lane.
pub(crate) fn deploys(page: &StatsPage) -> Vec<Deploy> {
    let first = |group: &StatsGroup| group.steps.iter().find(|step| step.stats.begun > 0).map(|step| step.begins_at);
    let mut found: Vec<Deploy> = Vec::new();
    for group in &page.groups {
        let (Some(workflow), Some(version), Some(at)) = (&group.workflow, &group.version, first(group)) else {
            continue;
        };
        let mut others = page.groups.iter().filter(|other| other.workflow == group.workflow);
        let is_known = others.clone().any(|other| {
            other.version == group.version && other.queue != group.queue && first(other).is_some_and(|it| it < at)
        });
        let replaces = others.any(|other| other.version != group.version && first(other).is_some_and(|it| it < at));
        if replaces && !is_known {
            found.push(Deploy { at, name: format!("{workflow} · version {version}") });
        }
    }
    found.sort_by(|one, other| (one.at, &one.name).cmp(&(other.at, &other.name)));
    found.dedup();
    found
}

/// Returns the numbers of a page that is in one group.
pub(crate) fn total(page: &StatsPage) -> Stats {
    page.groups.first().map(|group| group.total).unwrap_or_default()
}

/// Returns `true` if a group of a page per lane is of this version of a workflow.
pub(crate) fn is_of(group: &StatsGroup, workflow: &str, version: &VersionView) -> bool {
    group.workflow.as_deref() == Some(workflow)
        && group.version.as_ref() == Some(&version.version)
        && group.queue.as_ref() == Some(&version.queue)
}

/// Draws the runs that ended, a column per step. A column leads to its runs among those of `words`.
pub(crate) fn ended(visit: &Visit, page: &StatsPage, group: &StatsGroup, deploys: &[Deploy], words: &str) -> Markup {
    let columns = columns(page, group);
    let (from, to) = (page.since, page.step.begin(page.until) + page.step.length());
    let total = to.since(from).as_secs_f64().max(1.0);
    let place = |time: Timestamp| (time.since(from).as_secs_f64() / total * 100.0).clamp(0.0, 100.0);
    let top = round_above(columns.iter().map(|column| column.well + column.failed).fold(1.0, f64::max));
    // The columns take the lower nine tenths: names of deploys stand above them.
    let height = |number: f64| number / top as f64 * 90.0;
    html! {
        div.chart {
            svg.plot role="group" aria-label=(told(&group.total)) {
                g.grid { @for share in [10.0, 55.0] {
                    line x1="0" x2="100%" y1=(percent(share)) y2=(percent(share)) {}
                } }
                line.base x1="0" x2="100%" y1="100%" y2="100%" {}
                @for column in &columns {
                    @let (left, right) = (place(column.from), place(column.to));
                    @let width = (right - left) * 0.78;
                    @let (well, failed) = (height(column.well), height(column.failed));
                    @let title = told_at(column);
                    a href=(runs(visit, column, words)) aria-label=(title) tabindex="-1" {
                        title { (title) }
                        rect.t-none x=(percent(left)) width=(percent(right - left)) y="10%" height="90%" {}
                        @if well > 0.0 {
                            rect.t-calm x=(percent(left)) width=(percent(width)) y=(percent(100.0 - well))
                                height=(percent(well)) rx="1.5" {}
                        }
                        @if failed > 0.0 {
                            // A single failure among thousands of runs is still seen.
                            @let failed = failed.max(1.2);
                            rect.t-bad x=(percent(left)) width=(percent(width))
                                y=(percent((100.0 - well - failed).max(0.0))) height=(percent(failed)) rx="1.5" {}
                        }
                    }
                }
                @for deploy in deploys.iter().filter(|deploy| deploy.at >= from).take(4) {
                    @let at = percent(place(deploy.at));
                    line.deploy x1=(at) x2=(at) y1="7%" y2="100%" {}
                    @let anchor = match place(deploy.at) { 0.0..20.0 => "start", 80.0.. => "end", _ => "middle" };
                    text x=(at) y="9" text-anchor=(anchor) { (deploy.name) }
                }
            }
            svg.numbers aria-hidden="true" {
                @for (share, number) in [(10.0, top), (55.0, top / 2), (100.0, 0)] {
                    text x="100%" y=(percent(share)) dy=(if number == 0 { "0" } else { "4" }) text-anchor="end" {
                        (short(number))
                    }
                }
            }
            div.axis { @for part in 0..5u32 { (clock::minute(from + to.since(from) * part / 4, visit.now)) } }
        }
    }
}

/// Draws the meaning of the colors of [`ended`].
pub(crate) fn meaning() -> Markup {
    html! {
        span.mean { svg { rect.t-calm width="9" height="9" rx="1.5" {} } "well" }
        span.mean { svg { rect.t-bad width="9" height="9" rx="1.5" {} } "failed" }
    }
}

fn told(total: &Stats) -> String {
    let (well, failed) = (total.succeeded + total.canceled, total.failed);
    format!("{} ended, {} of them failed", clock::counted(well + failed, "run"), grouped(failed))
}

fn told_at(column: &Column) -> String {
    let (from, stats) = (column.from.to_string(), column.stats);
    let at = from.get(11..16).unwrap_or(&from);
    let canceled = match stats.canceled {
        0 => String::new(),
        number => format!(", {} canceled", grouped(number)),
    };
    format!("{at} UTC: {} succeeded, {} failed{canceled}", grouped(stats.succeeded), grouped(stats.failed))
}

fn runs(visit: &Visit, column: &Column, words: &str) -> String {
    let time = |time: Timestamp| time.to_string().replace(".000Z", "Z");
    facets::link(visit, format!("{words} ended:{}..{}", time(column.from), time(column.to)).trim_start())
}

/// Draws the runs that ended as a small line.
pub(crate) fn spark(page: &StatsPage, groups: &[&StatsGroup]) -> Markup {
    const POINTS: usize = 24;
    let total = page.until.since(page.since).as_secs_f64().max(1.0);
    let mut sums = [0.0_f64; POINTS];
    for step in groups.iter().flat_map(|group| &group.steps) {
        let passed = step.begins_at.since(page.since).as_secs_f64();
        let index = ((passed / total * POINTS as f64) as usize).min(POINTS - 1);
        if let Some(sum) = sums.get_mut(index) {
            *sum += step.stats.ended() as f64;
        }
    }
    let top = sums.iter().fold(0.0_f64, |top, sum| top.max(*sum));
    if top <= 0.0 {
        return html! { span.faint { "—" } };
    }
    let points: Vec<String> =
        (0..).zip(sums).map(|(index, sum)| format!("{index},{:.1}", 13.0 - sum / top * 12.0)).collect();
    html! {
        svg.spark viewBox="0 0 23 14" preserveAspectRatio="none" aria-hidden="true" {
            polyline points=(points.join(" ")) vector-effect="non-scaling-stroke" {}
        }
    }
}

/// Returns a duration in microseconds as text, if there is one.
pub(crate) fn micros(micros: Option<u64>) -> String {
    micros.map_or_else(|| "—".to_owned(), |micros| clock::span(std::time::Duration::from_micros(micros)))
}

/// Returns which part of the ended runs did not fail.
pub(crate) fn well(stats: &Stats) -> String {
    let ended = stats.ended();
    if ended == 0 {
        return "none ended".to_owned();
    }
    // Rounded down: the whole is said only if nothing failed.
    let tenths = (ended - stats.failed) * 1000 / ended;
    if tenths == 1000 { "100 % well".to_owned() } else { format!("{}.{} % well", tenths / 10, tenths % 10) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number() {
        for (number, round) in [(0.0, 2), (1.0, 2), (3.0, 4), (4.1, 10), (17.0, 20), (4200.0, 10_000)] {
            assert_eq!(round_above(number), round, "{number}");
        }
        assert_eq!(["2,000", "40k", "4M"], [2_000, 40_000, 4_000_000].map(short).as_slice());
    }

    #[test]
    fn all_is_well_only_without_a_failure() {
        let stats = |succeeded: u64, failed: u64| {
            let mut stats = Stats::default();
            (stats.succeeded, stats.failed) = (succeeded, failed);
            stats
        };
        assert_eq!(well(&stats(0, 0)), "none ended");
        assert_eq!(well(&stats(10, 0)), "100 % well");
        assert_eq!(well(&stats(99_999, 1)), "99.9 % well");
    }

    fn page(lanes: &[(&str, &str, &[i64])]) -> StatsPage {
        let zero = r#""begun":1,"started":0,"succeeded":0,"failed":0,"canceled":0,"retries":0,
            "start_rate":0.0,"end_rate":0.0"#;
        let group = |(workflow, version, minutes): &(&str, &str, &[i64])| {
            let steps: Vec<String> = minutes
                .iter()
                .map(|minute| format!(r#"{{"begins_at":{},"seconds":60,{zero}}}"#, minute * 60_000_000))
                .collect();
            format!(
                r#"{{"queue":"default","workflow":"{workflow}","version":"{version}",
                "total":{{{zero}}},"steps":[{}]}}"#,
                steps.join(",")
            )
        };
        let groups: Vec<String> = lanes.iter().map(group).collect();
        let text = format!(
            r#"{{"since":0,"until":3600000000,"step":"minute","groups":[{}],"complete":true}}"#,
            groups.join(",")
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_version_that_follows_another_one_is_a_deploy() {
        let page = page(&[("a", "1", &[0, 1]), ("a", "2", &[30, 31]), ("b", "7", &[40])]);
        let expected = Deploy { at: Timestamp::from_micros(1_800_000_000), name: "a · version 2".to_owned() };
        assert_eq!(deploys(&page), [expected]);
    }
}
