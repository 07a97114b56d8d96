//! A small slice of each campaign of faults around processes: the wire, the disk, the power, clocks, releases. The long ones
//! are run by the program `campaign`. And what a campaign does for itself: its server, and what it looks for there.

use std::process::{Command, Stdio};
use std::time::Duration;

use workflow_tests::campaign::{self, Cluster, Plan};
use workflow_tests::checker::Evidence;
use workflow_tests::scene::{Scene, SceneOptions};
use workflow_tests::{Database, RawConnection, until};

/// The same in every run of the suite.
const SEED: u64 = 5;

async fn slice(kind: &str, database: Database, count: usize) {
    let kind = campaign::kind(kind).expect("a kind");
    if let Some(why) = campaign::refusal(kind) {
        eprintln!("{} is not tested here: {why}", kind.name);
        return;
    }
    let report = campaign::run(kind, Plan::new(SEED, count, database)).await;
    println!("{report}");
    // So few faults say nothing about how many hit work; that any did must be so.
    assert!(report.violations.is_empty() && report.done == count && report.delivered > 0, "{report}");
    assert_eq!(report.ended, report.runs, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wire_that_is_cut_loses_nothing() {
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
async fn clocks_of_workers_do_not_matter_to_postgres() {
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

/// An index whose order is not that of its table any more: the function that it is made with gives something else now.
const CORRUPT: &str = "
    CREATE FUNCTION turned(n integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT n';
    CREATE TABLE numbers AS SELECT generate_series(1, 1000) AS n;
    CREATE INDEX numbers_turned ON numbers (turned(n));
    CREATE OR REPLACE FUNCTION turned(n integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT -n'";

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_left_and_an_index_that_is_broken_are_found() {
    let cluster = Cluster::start(None).await;
    let mut options = SceneOptions::new(Database::Postgres);
    options.server = Some(cluster.url());
    let scene = Scene::with(options).await;
    assert_eq!(Evidence::of(&scene).await.damage, [] as [String; 0]);
    scene.raw().await.execute(CORRUPT).await;
    let damage = Evidence::of(&scene).await.damage;
    assert!(damage.iter().any(|line| line.contains("numbers_turned")), "{damage:?}");
    drop(scene);

    let session = RawConnection::open(&cluster.url(), Some("public")).await;
    let left = cluster.sessions_left(Duration::from_millis(100)).await;
    assert!(left.iter().any(|line| line.contains("search_path")), "{left:?}");
    drop(session);
    assert_eq!(cluster.sessions_left(Duration::from_secs(10)).await, [] as [String; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_campaign_that_is_killed_takes_its_server_along() {
    let directory = tempfile::tempdir().expect("a directory");
    // Whoever PostgreSQL runs as must be able to enter it.
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("open it");
    // As a shell does with what it starts in the background.
    let mut campaign = Command::new("env");
    campaign.args(["--ignore-signal=QUIT", env!("CARGO_BIN_EXE_campaign")]);
    campaign.args(["kill", "--database", "postgres", "--count", "1000", "--directory"]).arg(directory.path());
    let mut campaign = campaign.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("start a campaign");
    let servers = || {
        let pattern = format!("^[^ ]*postgres -D {}", directory.path().display());
        let found = Command::new("pgrep").args(["-f", &pattern]).output();
        String::from_utf8_lossy(&found.expect("run pgrep").stdout).lines().count()
    };
    until("its server runs", async || (servers() > 0).then_some(())).await;
    campaign.kill().expect("kill it");
    campaign.wait().expect("reap it");
    until("its server has gone", async || (servers() == 0).then_some(())).await;
}

#[test]
fn a_server_whose_address_nobody_reads_is_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("open it");
    let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/postgres"));
    let script =
        script.env("TMPDIR", directory.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut script = script.spawn().expect("start a server");
    // Its input stays open, as if the one who holds it were only slow.
    drop(script.stdout.take());
    script.wait().expect("reap it");
    assert_eq!(std::fs::read_dir(directory.path()).expect("look").count(), 0);
}
