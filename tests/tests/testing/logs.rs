//! Checks that the values of an author's tests are never logged.

use workflow_testing::{TestEnv, replay};
use workflow_tests::Probe;
use workflow_tests::log_capture::{LogCapture, log_lines};
use workflow_tests::secret_values::{MARK, marked, marked_child, marked_failure, marked_panic, secret};

use crate::HOUR;

#[tokio::test]
async fn no_value_of_a_test_is_logged() {
    let _captured = LogCapture::start();
    let env = TestEnv::with_state(Probe::new).register(marked).register(marked_child);
    let env = env.register(marked_failure).register(marked_panic).await.unwrap();
    let run = env.start(marked, secret("input")).await.unwrap();
    for _generation in 0..2 {
        env.advance(HOUR).await.unwrap();
        env.crash().await.unwrap();
        env.restart().await.unwrap();
        run.signal("tell", &secret("told")).await.unwrap();
        env.settle().await.unwrap();
        let client = env.client().await.unwrap();
        let approval = client.approvals_of(run.id()).await.unwrap().remove(0);
        client.approve(run.id(), &approval.key, secret("ann")).note(secret("note")).await.unwrap();
    }
    run.finish().await.unwrap();
    let history = run.export().await.unwrap().to_json();
    assert!(history.contains(MARK));
    replay(marked, Probe::new(), &history).unwrap();
    replay(marked, Probe::new(), &history.replace("flaky", "steady")).unwrap_err();
    env.start(marked_panic, secret("input")).await.unwrap().finish().await.unwrap_err();
    env.crash_everywhere(marked_failure, secret("input")).await.unwrap();
    env.crash_everywhere(marked_child, secret("fail")).await.unwrap();
    env.interleave(marked_child, secret("fail"), 0..5).await.unwrap();

    assert!(!log_lines(&["TRACE workflow: batch committed"]).is_empty(), "everything is logged");
    assert_eq!(log_lines(&[MARK]), [] as [String; 0]);
}
