//! Simulates the cases of many seeds: `simulate --seeds 100000 --first 0 --threads 2`. It prints
//! figures. At the first seed that finds a violation it prints the seed, the violation, the
//! smallest case and its trace, and exits with 1.
//!
//! `simulate --cells 64 --workers 1000` simulates cells instead, each with a database and workers
//! of its own: one cell, eight cells and all. `--runs`, `--kills`, `--seconds` and `--first` (the
//! seed) change the plan.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use workflow_torture::simulation::cells::{Plan, compare};
use workflow_torture::simulation::{Figures, run};

fn main() -> ExitCode {
    match argument("--cells", 0) {
        0 => simulate_seeds(),
        cells => simulate_cells(cells),
    }
}

/// Simulates the first cell, the first eight and all, and compares them.
fn simulate_cells(cells: u64) -> ExitCode {
    let size = |number: u64| usize::try_from(number).expect("a number of this machine's size");
    let usual = Plan::of_size(size(cells), size(argument("--workers", cells * 16)));
    let plan = Plan {
        seed: argument("--first", usual.seed),
        runs: size(argument("--runs", usual.runs as u64)),
        kills: size(argument("--kills", usual.kills as u64)),
        load_seconds: argument("--seconds", usual.load_seconds),
        ..usual
    };
    let mut sizes = vec![1, plan.cells.min(8), plan.cells];
    sizes.dedup();
    let begun = Instant::now();
    match compare(&plan, &sizes) {
        Ok(all) => {
            all.iter().for_each(|figures| println!("{figures}"));
            println!("{:.0} s, violations: 0", begun.elapsed().as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(violation) => {
            println!("{violation}\n{plan:#?}");
            ExitCode::FAILURE
        }
    }
}

fn simulate_seeds() -> ExitCode {
    let (seeds, first, threads) = (argument("--seeds", 1000), argument("--first", 0), argument("--threads", 2));
    let (begun, next, failed) = (Instant::now(), AtomicU64::new(first), AtomicBool::new(false));
    let all = Mutex::new(Figures::default());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        return;
                    }
                    match run(seed) {
                        Ok(figures) => all.lock().expect("figures").add(figures),
                        Err(failure) => {
                            failed.store(true, Ordering::Relaxed);
                            println!("{failure}");
                        }
                    }
                }
            });
        }
    });
    let (all, took) = (all.into_inner().expect("figures"), begun.elapsed());
    let rate = all.seeds as f64 / took.as_secs_f64();
    let failed = failed.into_inner();
    println!("{all}; {:.0} s, {rate:.0} seeds/s, violations: {}", took.as_secs_f64(), u8::from(failed));
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Returns the number after this argument, or the default.
fn argument(name: &str, otherwise: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    match arguments.nth(1) {
        Some(number) => number.parse().unwrap_or_else(|_| panic!("{name} takes a number, not {number:?}")),
        None => otherwise,
    }
}
