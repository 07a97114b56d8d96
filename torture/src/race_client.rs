//! A client process that races with other ones. It reads each race from its standard input and
//! writes the replies that it receives to the ledger.

use std::io::BufRead;
use std::time::{Duration, SystemTime};

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use workflow_sdk::{CancelOutcome, Client, ClientError, RunId, SignalOutcome};

use crate::ledger::{Fact, Ledger};
use crate::program::{Program, Shape, generate_closed, program};

/// The number of concurrent calls per process and race.
pub const TASKS: usize = 3;

/// One race: the call that all clients make at the same time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Race {
    /// The number of the race.
    pub number: usize,
    /// The seed of the inputs.
    pub seed: u64,
    /// The call.
    pub call: Call,
}

/// A call that clients race for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Call {
    /// A start with this key and one of two inputs.
    Start {
        /// The key.
        key: String,
    },
    /// A signal to a run that is about to end.
    Signal {
        /// The run.
        run: String,
    },
    /// A cancel of a run that is about to end.
    Cancel {
        /// The run.
        run: String,
    },
    /// A wait for the result of a run.
    Result {
        /// The run.
        run: String,
    },
}

/// A reply to a caller. Times are in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The time of the call.
    pub began: i64,
    /// The time of the reply.
    pub replied: i64,
    /// The reply in one word.
    pub answer: String,
}

impl Reply {
    /// Parses the value of a ledger line.
    ///
    /// # Panics
    /// If the value is not a reply.
    #[must_use]
    pub fn parse(value: &str) -> Self {
        let mut words = value.splitn(3, ':');
        let mut word = || words.next().expect("a reply has three words");
        let (began, replied, answer) = (word(), word(), word());
        Self {
            began: began.parse().expect("a time"),
            replied: replied.parse().expect("a time"),
            answer: answer.to_owned(),
        }
    }
}

/// Returns the program that a caller starts with this input, `a` or `b`.
#[must_use]
pub fn wanted(seed: u64, input: &str) -> Program {
    let seed = if input == "a" { seed } else { seed ^ 1 };
    generate_closed(&mut Rng::with_seed(seed), Shape { length: 2, depth: 0, nap: 5, ..Shape::default() })
}

/// Takes part in races until the standard input ends.
///
/// # Errors
/// Never.
pub async fn race(client: Client, ledger: Ledger) -> Result<(), Box<dyn std::error::Error>> {
    let (sender, mut races) = tokio::sync::mpsc::unbounded_channel::<Race>();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if let Ok(race) = serde_json::from_str(&line)
                && sender.send(race).is_err()
            {
                return;
            }
        }
    });
    while let Some(race) = races.recv().await {
        for task in 0..TASKS {
            let (client, ledger, race) = (client.clone(), ledger.clone(), race.clone());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_micros(fastrand::u64(0..12_000))).await;
                let began = now();
                let answer = call(&client, &ledger, &race, task)
                    .await
                    .unwrap_or_else(|error| format!("error={error}").replace([' ', '\n'], "_"));
                let value = format!("{began}:{}:{answer}", now());
                ledger.append_value(Fact::Raced, &race.number.to_string(), 0, &value);
            });
        }
    }
    Ok(())
}

async fn call(client: &Client, ledger: &Ledger, race: &Race, task: usize) -> Result<String, ClientError> {
    let me = std::process::id();
    match &race.call {
        Call::Start { key } => {
            let input = if (task + me as usize).is_multiple_of(2) { "a" } else { "b" };
            match client.start(program, wanted(race.seed, input)).key(key).await {
                Ok(run) => {
                    ledger.append(Fact::Started, &run.id().to_string(), 0);
                    Ok(format!("started-{input}={}", run.id()))
                }
                Err(ClientError::KeyConflict { run_id, .. }) => Ok(format!("refused-{input}={run_id}")),
                Err(other) => Err(other),
            }
        }
        Call::Signal { run } => {
            let name = format!("x{me}-{task}");
            match client.signal(id(run), name.as_str(), &1_u64).await? {
                SignalOutcome::Accepted => {
                    ledger.append_value(Fact::Signaled, run, 0, &format!("{name}=1"));
                    Ok("accepted".into())
                }
                SignalOutcome::Finished => Ok("finished".into()),
                other => Ok(format!("{other:?}")),
            }
        }
        Call::Cancel { run } => {
            let word = match client.cancel(id(run)).await? {
                CancelOutcome::Canceled => "canceled".to_owned(),
                CancelOutcome::Requested => "requested".to_owned(),
                CancelOutcome::Ended(status) => status.to_string(),
                other => format!("{other:?}"),
            };
            ledger.append_value(Fact::Canceled, run, 0, &word);
            Ok(word)
        }
        Call::Result { run } => {
            let value: Value = client.handle(id(run)).await?.result().await?;
            ledger.append_value(Fact::Answered, run, 0, &value.to_string());
            Ok(value.to_string())
        }
    }
}

fn id(run: &str) -> RunId {
    run.parse().expect("a run id")
}

fn now() -> i64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_micros();
    i64::try_from(now).expect("a time before the year 294247")
}
