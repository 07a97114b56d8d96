use super::*;

const TICK: Duration = Duration::from_secs(10);

#[test]
fn a_beat_ages_by_the_ticks_of_the_lease_thread() {
    let clock = AwakeClock::default();
    let pulse = Pulse::new(clock.clone());
    assert_eq!(pulse.age(), None);
    pulse.beat();
    assert_eq!(pulse.age(), Some(Duration::ZERO));
    clock.advance(TICK, 2 * TICK);
    clock.advance(TICK, 2 * TICK);
    assert_eq!(pulse.age(), Some(2 * TICK));
    pulse.beat();
    assert_eq!(pulse.age(), Some(Duration::ZERO));
    pulse.stop();
    assert_eq!(pulse.age(), None);
}

#[test]
fn a_stop_of_the_process_ages_no_beat_beyond_its_limit() {
    let clock = AwakeClock::default();
    let pulse = Pulse::new(clock.clone());
    pulse.beat();
    clock.advance(1000 * TICK, 2 * TICK);
    assert_eq!(pulse.age(), Some(2 * TICK));
}
