//! Functions of the author that are named like disallowed functions are accepted.
#![deny(warnings)]
#![allow(dead_code, reason = "the test is that this module compiles")]

use workflow_sdk::prelude::*;

mod time {
    pub async fn sleep(_seconds: u64) {}
}

mod task {
    pub fn spawn() {}
}

mod simulated {
    pub struct SystemTime;

    impl SystemTime {
        pub fn now() -> u64 {
            0
        }
    }
}

struct Clock;

impl Clock {
    fn now(&self) -> u64 {
        0
    }
}

fn random() -> u64 {
    4
}

#[workflow]
async fn own_names(_ctx: &Ctx) -> Result<u64> {
    use simulated::SystemTime as Simulated;

    time::sleep(1).await;
    task::spawn();
    let address = std::net::Ipv4Addr::new(127, 0, 0, 1);
    let limit = tokio::time::Duration::from_secs(1);
    let mut seeded = fastrand::Rng::with_seed(random());
    let _ = (address, limit, seeded.u8(..), std::env::consts::OS);
    Ok(Clock.now() + crate::lint_names::simulated::SystemTime::now() + Simulated::now())
}
