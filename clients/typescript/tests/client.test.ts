import assert from "node:assert/strict";
import { test } from "node:test";
import { type RunEvent, WorkflowError, Workflows } from "../src/index.js";

const url = process.env["WORKFLOW_TEST_SERVER"] ?? assert.fail("scripts/typescript sets WORKFLOW_TEST_SERVER");
const token = process.env["WORKFLOW_TEST_TOKEN"];
const workflows = new Workflows(url, token);

test("a program starts a run, follows it, signals it and reads its result", { timeout: 60_000 }, async () => {
  const run = await workflows.start("greets", { name: "Ada" }, { key: "typescript-1", tags: { by: "typescript" } });
  assert.equal(await workflows.start("greets", { name: "Ada" }, { key: "typescript-1" }), run);

  const states: string[] = [];
  for await (const detail of workflows.follow(run)) {
    states.push(detail.status);
    if (detail.status === "parked") await workflows.signal(run, "greeting", "hello", "once");
  }
  assert.ok(states.includes("parked"), states.join());
  assert.equal(states.at(-1), "succeeded");
  assert.equal(await workflows.result<string>(run), "hello, Ada");
});

test("a program gets the events of a run up to its end", { timeout: 60_000 }, async () => {
  const run = await workflows.start("greets", { name: "Grace" });
  const events: RunEvent[] = [];
  for await (const event of workflows.events(run)) {
    events.push(event);
    if (event.event === "run" && event.status === "parked") await workflows.signal(run, "greeting", "hi", "once");
  }
  assert.deepEqual(events.at(-1), { event: "end", run, status: "succeeded" });
  assert.ok(events.some((event) => event.event === "step"), JSON.stringify(events));
  await assert.rejects(async () => {
    for await (const _ of workflows.events("01900000-0000-7000-8000-000000000000")) assert.fail("an event of no run");
  }, (error) => error instanceof WorkflowError && error.problem.status === 404);
});

test("a large output arrives whole", { timeout: 60_000 }, async () => {
  const name = "a".repeat(100_000);
  const run = await workflows.start("greets", { name });
  await workflows.signal(run, "greeting", "hello", "once");
  assert.equal(await workflows.result<string>(run), `hello, ${name}`);
});

test("a run that fails is an error", { timeout: 60_000 }, async () => {
  const run = await workflows.start("fails", null);
  await assert.rejects(workflows.result(run), /the card was declined/);
});

test("a refusal says how to go on", async () => {
  const failed = workflows.api.GET("/runs", { params: { query: { query: "status:faild" } } });
  assert.equal((await failed).error?.code, "bad_query");
  await assert.rejects(workflows.start("", null), (error) => error instanceof WorkflowError && error.problem.status === 400);
  const stranger = new Workflows(url, "wrong");
  await assert.rejects(stranger.start("greets", {}), (error) => error instanceof WorkflowError && error.problem.status === 401);
});
