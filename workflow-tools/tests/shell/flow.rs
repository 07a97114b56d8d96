//! A flow that runs programs, for actors that may and may not.

use serde_json::{Value, json};
use workflow_flows::check::{Options, check};
use workflow_flows::{FlowClient, FlowRuntime, FlowStart, Policy, flow};
use workflow_sdk::Client;
use workflow_worker::Worker;

use crate::{block_on, directory, shell};

const FLOW: &str = "
flow: 1
name: count
do:
  - id: count
    tool: shell.run
    args: { program: sh, args: [-c, 'read a b; echo $((a + b))'], stdin: '{{input.numbers}}' }
output: { sum: '{{steps.count.stdout}}' }
";

struct OnlyOps;

impl Policy for OnlyOps {
    fn may(&self, actor: &str, tool: &str, args: &Value) -> bool {
        actor == "ops" && tool == "shell.run" && args["program"] == "sh"
    }
}

pub(crate) fn a_flow_runs_a_program_for_an_actor_that_may() {
    let root = directory();
    let definition = check(FLOW, &Options::default()).flow.unwrap();
    block_on(async {
        let client = Client::connect("sqlite::memory:").await.unwrap();
        let runtime = FlowRuntime::builder().custom_tool(shell(root.path())).policy(OnlyOps).build();
        let worker = Worker::new(client.clone(), runtime).register(flow);
        let start = async |actor: &str| {
            let start = FlowStart::new(definition.clone()).input(json!({ "numbers": "40 2\n" })).actor(actor);
            client.start_definition(start).await.unwrap().result().await
        };
        tokio::select! {
            biased;
            ended = worker.run() => panic!("the worker has ended: {ended:?}"),
            () = async {
                assert_eq!(start("ops").await.unwrap(), json!({ "sum": "42\n" }));
                assert!(start("ann").await.is_err(), "the policy is asked");
            } => {}
        }
    });
}
