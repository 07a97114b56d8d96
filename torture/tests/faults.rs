//! Short versions of the campaigns whose faults are outside of the processes: the network, the
//! disk, power, clocks and releases. The program `campaign` runs the long versions.
//!
//! Also tests a campaign's own server, and the checks that a campaign makes there.

use std::process::{Command, Stdio};
use std::time::Duration;

use workflow_tests::{Database, RawConnection, until};
use workflow_torture::campaign::{self, Cluster, Plan};
use workflow_torture::checker::Evidence;
use workflow_torture::testbed::{Testbed, TestbedOptions};

/// The fixed seed of all campaigns in this file.
const SEED: u64 = 5;

async fn slice(kind: &str, database: Database, count: usize) {
    let kind = campaign::kind(kind).expect("a kind");
    if let Some(why) = campaign::refusal(kind) {
        eprintln!("{} is not tested here: {why}", kind.name);
        return;
    }
    let report = campaign::run(kind, Plan::new(SEED, count, database)).await;
    println!("{report}");
    // So few faults do not show which share of them hits work, but at least one must.
    assert!(report.violations.is_empty() && report.done == count && report.delivered > 0, "{report}");
    assert_eq!(report.ended, report.runs, "{report}");
}

#[test]
fn the_script_runs_every_kind_on_each_of_its_databases() {
    let script = include_str!("../../scripts/campaign");
    for kind in campaign::KINDS {
        for database in kind.databases {
            let command = format!("\nrun {} {} ", kind.name, database.name());
            assert!(script.contains(&command), "scripts/campaign lacks {command:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_connection_loses_nothing() {
    slice("wire", Database::Postgres, 16).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_loses_nothing() {
    slice("disk", Database::Sqlite, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_loses_nothing_on_sqlite() {
    slice("power", Database::Sqlite, 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_loses_nothing_on_postgres() {
    slice("power", Database::Postgres, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_ignores_the_clocks_of_workers() {
    slice("skew", Database::Postgres, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_and_forth_loses_nothing_on_sqlite() {
    slice("skew", Database::Sqlite, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_releases_work_side_by_side_on_sqlite() {
    slice("rolling", Database::Sqlite, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_releases_work_side_by_side_on_postgres() {
    slice("rolling", Database::Postgres, 3).await;
}

/// Creates an index that is corrupt because the function that it is built on is replaced
/// afterwards.
const CORRUPT: &str = "
    CREATE FUNCTION turned(n integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT n';
    CREATE TABLE numbers AS SELECT generate_series(1, 1000) AS n;
    CREATE INDEX numbers_turned ON numbers (turned(n));
    CREATE OR REPLACE FUNCTION turned(n integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT -n'";

#[tokio::test(flavor = "multi_thread")]
async fn a_leaked_session_and_a_corrupt_index_are_found() {
    let cluster = Cluster::start(None).await;
    let mut options = TestbedOptions::new(Database::Postgres);
    options.server = Some(cluster.url());
    let testbed = Testbed::with(options).await;
    assert_eq!(Evidence::of(&testbed).await.damage, [] as [String; 0]);
    testbed.raw().await.execute(CORRUPT).await;
    let damage = Evidence::of(&testbed).await.damage;
    assert!(damage.iter().any(|line| line.contains("numbers_turned")), "{damage:?}");
    drop(testbed);

    let session = RawConnection::open(&cluster.url(), Some("public")).await;
    let left = cluster.sessions_left(Duration::from_millis(100)).await;
    assert!(left.iter().any(|line| line.contains("search_path")), "{left:?}");
    drop(session);
    assert_eq!(cluster.sessions_left(Duration::from_secs(10)).await, [] as [String; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_campaign_stops_its_server() {
    let directory = tempfile::tempdir().expect("a directory");
    // The user that PostgreSQL runs as must be able to enter the directory.
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("set permissions");
    // A shell also ignores SIGQUIT for the processes that it starts in the background.
    let mut campaign = Command::new("env");
    campaign.args(["--ignore-signal=QUIT", env!("CARGO_BIN_EXE_campaign")]);
    campaign.args(["kill", "--database", "postgres", "--count", "1000", "--directory"]).arg(directory.path());
    let mut campaign = campaign.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start a campaign");
    let servers = || {
        let pattern = format!("^[^ ]*postgres -D {}", directory.path().display());
        let found = Command::new("pgrep").args(["-f", &pattern]).output();
        String::from_utf8_lossy(&found.expect("run pgrep").stdout).lines().count()
    };
    until("the campaign's server runs", async || (servers() > 0).then_some(())).await;
    campaign.kill().expect("kill the campaign");
    campaign.wait().expect("reap the campaign");
    until("the campaign's server has stopped", async || (servers() == 0).then_some(())).await;
}

#[test]
fn a_server_whose_address_is_never_read_is_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("set permissions");
    let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/postgres"));
    let script =
        script.env("TMPDIR", directory.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut script = script.spawn().expect("start a server");
    // Only the output is closed. The input stays open, as that of a slow reader does.
    drop(script.stdout.take());
    script.wait().expect("reap the script");
    assert_eq!(std::fs::read_dir(directory.path()).expect("list the directory").count(), 0);
}
