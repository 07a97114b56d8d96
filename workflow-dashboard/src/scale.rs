//! Where a time stands in a drawing.

use std::time::Duration;

use workflow_sdk::Timestamp;

use crate::clock;

/// A range of time, drawn from left to right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    from: Timestamp,
    total: Duration,
}

/// The part of the width that stays free at the right, so that a bar at the end is seen.
const MARGIN: f64 = 0.02;
/// The most ticks of an axis.
const MOST_TICKS: u128 = 8;

impl Scale {
    pub(crate) fn new(from: Timestamp, to: Timestamp) -> Self {
        let total = to.since(from).max(Duration::from_millis(1));
        Self { from, total: total.mul_f64(1.0 + MARGIN) }
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
        let number = self.total.as_micros() / step.as_micros().max(1);
        let ticks = (0..=u32::try_from(number).unwrap_or(0)).map(|tick| {
            let passed = step * tick;
            (passed.as_secs_f64() / self.total.as_secs_f64() * 100.0, label(passed))
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
    fn places_stay_inside_the_drawing() {
        let at = Timestamp::from_micros;
        let scale = Scale::new(at(100), at(10_100));
        assert!(scale.place(at(0)) == 0.0 && scale.place(at(1_000_000)) == 100.0);
        assert!((scale.place(at(5_100)) - 50.0 / 1.02).abs() < 0.1);
        assert!(scale.width(at(200), at(200)) > 0.0);
    }
}
