use std::collections::BTreeMap;

use super::*;

const S: Duration = Duration::from_secs(1);
const START: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

/// Opens after 3 failures within 10 s, for 5 s.
const BANK: Breaker = Breaker::new("bank").failures(3).within(Duration::from_secs(10)).open_for(Duration::from_secs(5));

const FAILS: ServiceReport<'static> = ServiceReport::Fails("no");

fn at(seconds: u32) -> Timestamp {
    START + seconds * S
}

/// Begins an attempt and reports its failure at the same time.
fn fail(circuit: &mut Circuit, now: Timestamp) -> Option<CircuitChange> {
    let admission = circuit.admit(&BANK, now).unwrap();
    circuit.report(&BANK, admission, FAILS, now)
}

/// Returns a circuit that opened at START.
fn opened() -> Circuit {
    let mut circuit = Circuit::default();
    let changes: Vec<_> = (0..3).map(|_| fail(&mut circuit, START)).collect();
    assert_eq!(changes, [None, None, Some(CircuitChange::Opened)]);
    circuit
}

#[test]
fn a_circuit_opens_after_enough_failures_within_the_window() {
    let open = Some(CircuitChange::Opened);
    let table: [(&[u32], _); 5] = [
        (&[0, 0, 0], open),
        (&[0, 5, 10], open),
        (&[0, 5, 11], None),
        (&[0, 5, 11, 15], open),
        (&[0, 6, 12, 18, 24, 30], None),
    ];
    for (failures, expected) in table {
        let mut circuit = Circuit::default();
        let changes: Vec<_> = failures.iter().map(|seconds| fail(&mut circuit, at(*seconds))).collect();
        let (last, before) = changes.split_last().unwrap();
        assert_eq!(*last, expected, "{failures:?}");
        assert!(before.iter().all(Option::is_none), "{failures:?}");
        assert_eq!(circuit.admit(&BANK, at(40)).unwrap().is_probe(), expected.is_some(), "{failures:?}");
    }
}

#[test]
fn reports_other_than_failures_do_not_count() {
    let mut circuit = Circuit::default();
    for report in [FAILS, ServiceReport::Works, ServiceReport::Nothing, FAILS, ServiceReport::Nothing] {
        let admission = circuit.admit(&BANK, START).unwrap();
        assert_eq!(circuit.report(&BANK, admission, report, START), None);
    }
    assert_eq!(fail(&mut circuit, START), Some(CircuitChange::Opened), "successes do not reset the count of failures");
}

#[test]
fn an_open_circuit_admits_nothing() {
    let mut circuit = opened();
    assert_eq!(circuit.admit(&BANK, START), Err(at(5)));
    assert_eq!(circuit.admit(&BANK, at(4)), Err(at(5)));
    assert!(circuit.admit(&BANK, at(5)).unwrap().is_probe());
}

#[test]
fn one_probe_is_admitted_and_its_success_closes_the_circuit() {
    let mut circuit = opened();
    let probe = circuit.admit(&BANK, at(7)).unwrap();
    assert_eq!(circuit.admit(&BANK, at(7)), Err(at(12)), "others wait for the probe");
    assert_eq!(circuit.report(&BANK, probe, ServiceReport::Works, at(8)), Some(CircuitChange::Closed));
    assert!(!circuit.admit(&BANK, at(8)).unwrap().is_probe());
    assert_eq!(fail(&mut circuit, at(8)), None, "it begins without failures");
}

#[test]
fn a_failed_probe_keeps_the_circuit_open_for_the_same_time_again() {
    let mut circuit = opened();
    let probe = circuit.admit(&BANK, at(7)).unwrap();
    assert_eq!(circuit.report(&BANK, probe, FAILS, at(9)), Some(CircuitChange::StaysOpen));
    assert_eq!(circuit.admit(&BANK, at(13)), Err(at(14)));
    assert!(circuit.admit(&BANK, at(14)).unwrap().is_probe());
}

#[test]
fn a_probe_that_says_nothing_admits_another_at_once() {
    let mut circuit = opened();
    let probe = circuit.admit(&BANK, at(5)).unwrap();
    assert_eq!(circuit.report(&BANK, probe, ServiceReport::Nothing, at(6)), None);
    assert!(circuit.admit(&BANK, at(6)).unwrap().is_probe());
}

#[test]
fn a_slow_probe_makes_room_for_another_and_may_still_close_the_circuit() {
    let mut circuit = opened();
    let slow = circuit.admit(&BANK, at(5)).unwrap();
    assert_eq!(circuit.admit(&BANK, at(9)), Err(at(10)));
    let second = circuit.admit(&BANK, at(10)).unwrap();
    assert_eq!(circuit.report(&BANK, slow, ServiceReport::Nothing, at(11)), None);
    assert_eq!(circuit.admit(&BANK, at(11)), Err(at(15)), "the second probe is running");
    assert_eq!(circuit.report(&BANK, slow, ServiceReport::Works, at(11)), Some(CircuitChange::Closed));
    assert_eq!(circuit.report(&BANK, second, FAILS, at(12)), None, "it was admitted before the circuit closed");
    assert!(circuit.admit(&BANK, at(12)).is_ok());
}

#[test]
fn an_attempt_admitted_before_the_last_change_does_not_count() {
    let mut circuit = Circuit::default();
    let old: Vec<_> = (0..10).map(|_| circuit.admit(&BANK, START).unwrap()).collect();
    assert_eq!([(); 3].map(|()| fail(&mut circuit, START))[2], Some(CircuitChange::Opened));
    assert_eq!(
        circuit.report(&BANK, old[0], ServiceReport::Works, at(1)),
        None,
        "it is not a probe, so it does not close the circuit"
    );
    assert_eq!(circuit.report(&BANK, old[1], FAILS, at(4)), None);
    let probe = circuit.admit(&BANK, at(5)).unwrap();
    circuit.report(&BANK, probe, ServiceReport::Works, at(5));
    for admission in &old[2..] {
        assert_eq!(circuit.report(&BANK, *admission, FAILS, at(6)), None, "slow failures of an outage that has ended");
    }
    assert!(circuit.admit(&BANK, at(6)).is_ok());
}

#[test]
fn a_clock_that_is_set_back_does_not_keep_a_circuit_open_for_longer() {
    let mut circuit = opened();
    let before = Timestamp::from_micros(START.as_micros() - 3_600_000_000);
    assert_eq!(circuit.admit(&BANK, before), Err(before + 5 * S));
    assert!(circuit.admit(&BANK, before + 5 * S).unwrap().is_probe());
}

#[test]
fn each_step_applies_the_settings_of_its_own_breaker() {
    let patient = BANK.failures(4).within(100 * S);
    let mut circuit = Circuit::default();
    assert_eq!([0, 50, 90].map(|seconds| fail(&mut circuit, at(seconds))), [None; 3]);
    let admission = circuit.admit(&patient, at(100)).unwrap();
    assert_eq!(circuit.report(&patient, admission, FAILS, at(100)), Some(CircuitChange::Opened), "4 within 100 s");
}

#[test]
fn a_circuit_is_forgettable_when_it_is_closed_and_no_failure_counts() {
    let mut circuit = Circuit::default();
    assert!(circuit.is_forgettable(START));
    fail(&mut circuit, START);
    assert!(!circuit.is_forgettable(at(10)));
    assert!(circuit.is_forgettable(at(11)));
    assert!(!opened().is_forgettable(at(1000)));
}

#[test]
fn waiting_attempts_ask_again_spread_over_half_of_the_open_time() {
    assert_eq!(BANK.asks_again_at(at(5), 0.0), at(5));
    assert_eq!(BANK.asks_again_at(at(5), 1.0), at(5) + 5 * S / 2);
    assert_eq!(BANK.open_for(Duration::MAX).asks_again_at(START, 1.0), Timestamp::FAR_FUTURE);
}

/// A second implementation of the rules: as plain as possible, over the whole past.
#[derive(Default)]
struct Plain {
    /// Failures since the circuit last closed, of attempts that began after that.
    failures: Vec<Timestamp>,
    open: bool,
    /// The time at which the next probe may begin.
    next_probe: Option<Timestamp>,
    /// How often the circuit has opened or closed.
    changes: u64,
    current_probe: Option<usize>,
}

/// The running attempts by number: each with its admission and the value of `changes` at that time.
type OnItsWay = BTreeMap<usize, (Admission, u64)>;

impl Plain {
    fn report(
        &mut self,
        number: usize,
        since: u64,
        report: ServiceReport<'_>,
        now: Timestamp,
    ) -> Option<CircuitChange> {
        if since != self.changes {
            return None;
        }
        match (self.open, report) {
            (false, ServiceReport::Fails(_)) => {
                self.failures.push(now);
                if self.failures.iter().filter(|failure| now.since(**failure) <= 10 * S).count() < 3 {
                    return None;
                }
                self.change(true, Some(now + 5 * S));
                Some(CircuitChange::Opened)
            }
            (true, ServiceReport::Fails(_)) => {
                (self.next_probe, self.current_probe) = (Some(now + 5 * S), None);
                Some(CircuitChange::StaysOpen)
            }
            (true, ServiceReport::Works) => {
                self.change(false, None);
                Some(CircuitChange::Closed)
            }
            (true, ServiceReport::Nothing) if self.current_probe == Some(number) => {
                (self.next_probe, self.current_probe) = (Some(now), None);
                None
            }
            _ => None,
        }
    }

    fn change(&mut self, open: bool, next_probe: Option<Timestamp>) {
        *self = Self { open, next_probe, changes: self.changes + 1, ..Self::default() };
    }
}

#[test]
fn a_circuit_agrees_with_the_plain_rules_over_random_attempts() {
    let (mut openings, mut closings, mut probes) = (0, 0, 0);
    for seed in 0..3000 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut circuit, mut plain, mut on_its_way) = (Circuit::default(), Plain::default(), OnItsWay::new());
        let mut now = START;
        // Some services mostly work and some mostly fail.
        let health = rng.u8(1..=9);
        for number in 0..100 {
            now = now + Duration::from_millis(rng.u64(..2500));
            if on_its_way.is_empty() || rng.bool() {
                let admitted = circuit.admit(&BANK, now);
                let may_begin = plain.next_probe.is_none_or(|next| now >= next);
                assert_eq!(admitted.is_ok(), may_begin, "seed {seed}, attempt {number}");
                let Ok(admission) = admitted else {
                    assert_eq!(admitted.unwrap_err(), plain.next_probe.unwrap());
                    continue;
                };
                assert_eq!(admission.is_probe(), plain.open, "seed {seed}, attempt {number}");
                if plain.open {
                    probes += 1;
                    (plain.next_probe, plain.current_probe) = (Some(now + 5 * S), Some(number));
                }
                on_its_way.insert(number, (admission, plain.changes));
                continue;
            }
            let ended = *on_its_way.keys().nth(rng.usize(..on_its_way.len())).unwrap();
            let (admission, since) = on_its_way.remove(&ended).unwrap();
            let report = match rng.u8(..11) {
                10 => ServiceReport::Nothing,
                n if n < health => ServiceReport::Works,
                _ => FAILS,
            };
            let change = circuit.report(&BANK, admission, report, now);
            assert_eq!(change, plain.report(ended, since, report, now), "seed {seed}, attempt {ended}");
            openings += u32::from(change == Some(CircuitChange::Opened));
            closings += u32::from(change == Some(CircuitChange::Closed));
        }
    }
    assert!(openings > 1000 && closings > 1000 && probes > 1000, "{openings} {closings} {probes}");
}
