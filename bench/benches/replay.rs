//! Measures a replay and the encoding of a payload, without a database.
//!
//! Run it with `cargo bench -p workflow-bench`.

#![expect(clippy::expect_used, reason = "a benchmark that cannot continue may panic")]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use workflow_sdk::internal::{Entry, dry_replay};
use workflow_sdk::prelude::*;
use workflow_sdk::testing::replay;
use workflow_sdk::{DEFAULT_PAYLOAD_LIMIT, Replayed, RunHistory, RunsWith};

#[workflow]
async fn steps_in_a_row(ctx: &Ctx, steps: u32) -> Result<u64> {
    let mut total = 0;
    for _ in 0..steps {
        total += ctx.step("step", async || Ok::<_, Error>(String::new())).await?.len() as u64;
    }
    Ok(total)
}

fn entry_of<W: RunsWith<()>>(_: W) -> Entry {
    Entry::new::<(), W>(&Arc::new(()))
}

/// Builds the export of a run of `steps` steps, each with an output of about 100 bytes.
fn export(steps: u32) -> String {
    let output = json!("x".repeat(96)).to_string();
    let row = |step: u32| {
        json!({
            "step_key": if step == 0 { "step".into() } else { format!("step:{step}") },
            "attempt": 1, "kind": "step", "status": "succeeded", "position": step + 1, "output": output, "error": null,
            "epoch": 1, "started_at": 1_700_000_000_000_000_u64, "completed_at": 1_700_000_000_001_000_u64,
        })
    };
    let rows: Vec<Value> = (0..steps).map(row).collect();
    let run = json!({
        "id": "018f0000-0000-7000-8000-000000000001", "queue": "default", "workflow": "steps_in_a_row", "version": "1",
        "status": "succeeded", "input": steps.to_string(), "output": (u64::from(steps) * 96).to_string(),
        "started_at": 1_700_000_000_000_000_u64,
    });
    json!({ "format": 1, "run": run, "steps": rows }).to_string()
}

/// Measures the replay machine alone: from rows that are already read to the end of the function.
fn replays(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replay");
    let entry = entry_of(steps_in_a_row);
    for steps in [100, 1_000, 10_000] {
        let text = export(steps);
        // `replay` is what authors call; it also checks how the run ended.
        assert!(
            matches!(replay(steps_in_a_row, (), &text), Ok(Replayed::Ended(Ok(_)))),
            "the workflow does not match the history"
        );
        let history = RunHistory::from_json(&text).expect("the text is a valid export");
        group.throughput(Throughput::Elements(u64::from(steps))).sample_size(20);
        group.bench_function(BenchmarkId::from_parameter(steps), |bench| {
            bench.iter(|| dry_replay(&entry, black_box(&history), DEFAULT_PAYLOAD_LIMIT).expect("the code matches"));
        });
    }
}

/// Measures what happens to a step's output: it is encoded as JSON text and decoded again, because
/// the engine refuses an output that cannot be decoded.
fn outputs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("output");
    for bytes in [100, 10_000, 1_000_000] {
        let lines: Vec<String> = (0..bytes / 100).map(|line| format!("{line:0>96}")).collect();
        group.throughput(Throughput::Bytes(bytes)).sample_size(20);
        group.bench_function(BenchmarkId::new("write and read back", bytes), |bench| {
            bench.iter(|| {
                let text = serde_json::to_string(black_box(&lines)).expect("the lines can be encoded");
                serde_json::from_str::<Vec<String>>(&text).expect("the text can be decoded")
            });
        });
    }
}

criterion_group!(benches, replays, outputs);
criterion_main!(benches);
