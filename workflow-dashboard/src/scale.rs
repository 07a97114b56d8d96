//! Where a time stands in a drawing.

use std::time::Duration;

use workflow_sdk::Timestamp;

use crate::clock;

/// A range of time, drawn from left to right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Where the labels of the axis count from.
    origin: Timestamp,
    from: Timestamp,
    total: Duration,
}

/// A part of the time of a run, in milliseconds since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl Window {
    /// Reads the parameter of an address: `2000-9000`. `None` for another text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-')?;
        let window = Self { from: from.parse().ok()?, to: to.parse().ok()? };
        (window.from < window.to).then_some(window)
    }

    /// Returns the window of a whole run.
    pub(crate) fn whole(from: Timestamp, to: Timestamp) -> Self {
        Self { from: 0, to: u64::try_from(to.since(from).as_millis()).unwrap_or(u64::MAX).max(1) }
    }

    /// Returns the parameter of an address.
    pub(crate) fn text(self) -> String {
        format!("{}-{}", self.from, self.to)
    }

    /// Returns the window of this length around a time, within the run.
    fn around(middle: u64, length: u64, whole: Self) -> Self {
        let length = length.clamp(1, whole.to);
        let from = middle.saturating_sub(length / 2).min(whole.to - length);
        Self { from, to: from + length }
    }

    /// Returns half of the window, around a time.
    pub(crate) fn closer(self, middle: u64, whole: Self) -> Self {
        Self::around(middle, self.length() / 2, whole)
    }

    /// Returns twice the window.
    pub(crate) fn wider(self, whole: Self) -> Self {
        Self::around(self.middle(), self.length().saturating_mul(2), whole)
    }

    /// Returns the window half of its length before, or behind.
    pub(crate) fn beside(self, is_later: bool, whole: Self) -> Self {
        let half = self.length() / 2;
        let middle = if is_later { self.middle().saturating_add(half) } else { self.middle().saturating_sub(half) };
        Self::around(middle, self.length(), whole)
    }

    const fn length(self) -> u64 {
        self.to.saturating_sub(self.from)
    }

    pub(crate) const fn middle(self) -> u64 {
        self.from + self.length() / 2
    }
}

/// The part of the width that stays free at the right, so that a bar at the end is seen.
const MARGIN: f64 = 0.02;
/// The most ticks of an axis.
const MOST_TICKS: u128 = 8;

impl Scale {
    pub(crate) fn new(from: Timestamp, to: Timestamp) -> Self {
        let total = to.since(from).max(Duration::from_millis(1));
        Self { origin: from, from, total: total.mul_f64(1.0 + MARGIN) }
    }

    /// Shows a part of the time since `origin`.
    pub(crate) fn part(origin: Timestamp, window: Window) -> Self {
        let from = origin + Duration::from_millis(window.from);
        Self { origin, ..Self::new(from, origin + Duration::from_millis(window.to)) }
    }

    /// Returns `true` if a part of this time is shown.
    pub(crate) fn shows(&self, from: Timestamp, to: Timestamp) -> bool {
        to >= self.from && from.since(self.from) <= self.total
    }

    /// Returns the place of a time, in per cent of the width.
    pub(crate) fn place(&self, time: Timestamp) -> f64 {
        let passed = time.since(self.from).as_secs_f64();
        (passed / self.total.as_secs_f64() * 100.0).clamp(0.0, 100.0)
    }

    /// Returns the width between two times, in per cent; a short one can still be seen.
    pub(crate) fn width(&self, from: Timestamp, to: Timestamp) -> f64 {
        (self.place(to) - self.place(from)).max(0.6)
    }

    /// Returns the ticks of the axis: their places and labels.
    pub(crate) fn ticks(&self) -> Vec<(f64, String)> {
        let step = step(self.total);
        let skipped = self.from.since(self.origin);
        let first = skipped.as_micros().div_ceil(step.as_micros().max(1));
        let number = self.total.as_micros() / step.as_micros().max(1);
        let first = u32::try_from(first).unwrap_or(u32::MAX);
        let ticks = (0..=u32::try_from(number).unwrap_or(0)).map(|tick| {
            let passed = step.saturating_mul(first.saturating_add(tick));
            let place = passed.saturating_sub(skipped).as_secs_f64() / self.total.as_secs_f64() * 100.0;
            (place, label(passed))
        });
        ticks.filter(|(place, _)| *place < 97.0).collect()
    }
}

/// Returns the smallest round step with which the range has at most [`MOST_TICKS`].
fn step(total: Duration) -> Duration {
    const MILLIS: [u64; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 250, 500];
    const SECONDS: [u64; 20] =
        [1, 2, 4, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800];
    let fits = |step: &Duration| total.as_micros() / step.as_micros().max(1) <= MOST_TICKS;
    let round = MILLIS.map(Duration::from_millis).into_iter().chain(SECONDS.map(Duration::from_secs));
    let mut longer = Duration::from_secs(345_600);
    round.into_iter().find(fits).unwrap_or_else(|| {
        while !fits(&longer) {
            longer *= 2;
        }
        longer
    })
}

fn label(passed: Duration) -> String {
    let seconds = passed.as_secs();
    match seconds {
        _ if passed.is_zero() => "0".to_owned(),
        0..60 if passed.subsec_micros() == 0 => format!("{seconds} s"),
        0 => format!("{} ms", passed.as_millis()),
        1..60 => format!("{:.1} s", passed.as_secs_f64()),
        60..3600 if seconds.is_multiple_of(60) => format!("{} m", seconds / 60),
        3600..86_400 if seconds.is_multiple_of(3600) => format!("{} h", seconds / 3600),
        86_400.. if seconds.is_multiple_of(86_400) => format!("{} d", seconds / 86_400),
        _ => clock::span(passed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_round_ticks_and_never_many() {
        let labels = |micros: i64| {
            let scale = Scale::new(Timestamp::from_micros(0), Timestamp::from_micros(micros));
            scale.ticks().into_iter().map(|(_, label)| label).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(labels(28_400_000), "0 4 s 8 s 12 s 16 s 20 s 24 s 28 s");
        assert_eq!(labels(350_000), "0 50 ms 100 ms 150 ms 200 ms 250 ms 300 ms");
        assert_eq!(labels(0), "0");
        assert_eq!(labels(3 * 86_400_000_000), "0 12 h 1 d 1 d 12 h 2 d 2 d 12 h");
        for micros in [1, 1_000, 999_999, 60_000_000, i64::MAX / 2] {
            let scale = Scale::new(Timestamp::from_micros(0), Timestamp::from_micros(micros));
            assert!((1..=9).contains(&scale.ticks().len()), "{micros}: {:?}", scale.ticks());
        }
    }

    #[test]
    fn a_window_stays_within_its_run() {
        let whole = Window::whole(Timestamp::from_micros(0), Timestamp::from_micros(10_000_000));
        assert_eq!(whole.text(), "0-10000");
        let near = whole.closer(9_000, whole);
        assert_eq!(near.text(), "5000-10000");
        assert_eq!(near.beside(false, whole).text(), "2500-7500");
        assert_eq!(near.beside(true, whole), near);
        assert_eq!((near.wider(whole), whole.wider(whole)), (whole, whole));
        for text in ["", "5", "9-2", "2-2", "-1-5", "a-b", "1-99999999999999999999"] {
            assert_eq!(Window::parse(text), None, "{text}");
        }
        let scale = Scale::part(Timestamp::from_micros(0), Window { from: 5_000, to: 7_000 });
        let labels: Vec<String> = scale.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels.first().map(String::as_str), Some("5 s"), "{labels:?}");
        let at = Timestamp::from_micros;
        assert!(scale.shows(at(0), at(5_500_000)) && !scale.shows(at(0), at(4_000_000)));
        assert!(!scale.shows(at(8_000_000), at(9_000_000)));
    }

    #[test]
    fn places_stay_inside_the_drawing() {
        let at = Timestamp::from_micros;
        let scale = Scale::new(at(100), at(10_100));
        assert!(scale.place(at(0)) == 0.0 && scale.place(at(1_000_000)) == 100.0);
        assert!((scale.place(at(5_100)) - 50.0 / 1.02).abs() < 0.1);
        assert!(scale.width(at(200), at(200)) > 0.0);
    }
}
