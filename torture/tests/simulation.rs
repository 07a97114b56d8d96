//! Runs a small number of seeds of the simulated cluster. See `workflow_torture::simulation`.

use workflow_tests::log_capture::LogCapture;
use workflow_tests::log_secrets::assert_no_secret;
use workflow_torture::simulation::{Case, Figures, Planted, run, run_case, trace, violation};

/// The number of seeds. `WORKFLOW_SIMULATION_SEEDS` overrides it.
const SEEDS: u64 = 300;

fn seeds() -> u64 {
    std::env::var("WORKFLOW_SIMULATION_SEEDS").map_or(SEEDS, |seeds| seeds.parse().expect("a number"))
}

#[test]
fn no_seed_finds_a_violation() {
    let mut all = Figures::default();
    for seed in 0..seeds() {
        let captured = LogCapture::start();
        match run(seed) {
            Ok(figures) => all.add(figures),
            Err(failure) => panic!("{failure}"),
        }
        let values = Case::random(seed).runs.into_iter().flat_map(|run| [run.program.sum, run.program.answer()]);
        assert!(!captured.text().contains("does not fit"), "seed {seed}: unchanged code has diverged");
        assert_no_secret(&values.map(|value| value.to_string()).collect(), &captured.text());
    }
    println!("{all}");
    assert!(all.faults > seeds(), "too few faults happened: {all}");
}

#[test]
fn equal_seeds_produce_equal_traces() {
    for seed in 0..40 {
        let case = Case::random(seed);
        let (first, second) = (trace(&case), trace(&case));
        let differs = first.iter().zip(&second).position(|(first, second)| first != second);
        if let Some(at) = differs {
            panic!("seed {seed}, line {at}:\n{}\n{}", first[at], second[at]);
        }
        assert_eq!(first.len(), second.len(), "seed {seed}");
    }
}

/// Returns the first seed that finds the planted bug, and the violation.
fn found_by(planted: Planted) -> Option<(u64, String)> {
    (0..2000).find_map(|seed| {
        let case = Case { planted: Some(planted), ..Case::random(seed) };
        violation(&case).map(|violation| (seed, violation))
    })
}

#[test]
fn planted_bugs_are_found() {
    for planted in [Planted::NoFence, Planted::LostRow, Planted::SignalTwice] {
        let (seed, violation) = found_by(planted).unwrap_or_else(|| panic!("no seed finds {planted:?}"));
        println!("{planted:?} is found by seed {seed}: {violation}");
    }
}

#[test]
fn a_failure_is_reduced_to_a_minimal_case() {
    let seed = found_by(Planted::LostRow).expect("a seed finds the bug").0;
    let case = Case { planted: Some(Planted::LostRow), ..Case::random(seed) };
    let failure = run_case(case.clone()).expect_err("the seed finds the bug");
    assert_eq!(failure.seed, seed);
    assert!(failure.case.smaller().iter().all(|smaller| violation(smaller).is_none()), "{failure}");
    assert!(failure.to_string().contains(&failure.what));
}
